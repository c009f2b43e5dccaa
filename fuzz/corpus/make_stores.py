# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_stores: one of each kind that it reads, and what is meant to break them."""
import pathlib

SEEDS = {
    "listing": b"0<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents>"
               b"<Key>a&amp;b.tar</Key><Size>7</Size><ETag>&quot;x&quot;</ETag></Contents></ListBucketResult>",
    "blobs": b"0<EnumerationResults><Blobs><Blob><Name>a&amp;b</Name><Properties><Content-Length>7</Content-Length><Etag>0x8D</Etag>"
             b"</Properties></Blob></Blobs><NextMarker>2!76</NextMarker></EnumerationResults>",
    "entities": b"0<!DOCTYPE a [<!ENTITY e \"xx\"><!ENTITY f \"&e;&e;\">]><a><Contents><Key>&f;</Key></Contents></a>",
    "error": b"1<Error><Code>SlowDown</Code><Message>x</Message></Error>",
    "headers": b"2HTTP/1.1 206\r\nContent-Range: bytes 5-9/100\r\nETag: W/\"a\"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
               b"Retry-After: 3\r\nContent-Length: 99999999999999999999\r\nx-linked-size: 5\r\n",
    "profile": b"3[default]\nregion = a\n[profile  x ]\nregion=b # c\ns3 =\n  region = n\n[profile x]\n=\n",
    "json": b'4{"AccessKeyId":"i","SecretAccessKey":"s","Token":"t","Expiration":"1994-11-06T08:49:37Z"}',
    "sts": b"5<R><AccessKeyId>i</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></R>",
}
folder = pathlib.Path(__file__).parent / "stores"
folder.mkdir(exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
