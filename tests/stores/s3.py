# SPDX-License-Identifier: Apache-2.0
"""A small S3 client for tests: buckets and objects by signed requests, in the standard library alone.

It is written apart from the C one, so that both would have to be wrong in the same way."""
import datetime
import hashlib
import hmac
import http.client
import urllib.parse


class S3:
    def __init__(self, port, key="test:tester", secret="testing", region="us-east-1"):
        self.port, self.key, self.secret, self.region = port, key, secret, region

    def _sign(self, method, path, query, headers, body):
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        digest = hashlib.sha256(body).hexdigest()
        headers.update({"host": f"127.0.0.1:{self.port}", "x-amz-date": stamp, "x-amz-content-sha256": digest})
        names = sorted(headers)
        canonical = "\n".join([method, path, query, *(f"{n}:{headers[n]}" for n in names), "", ";".join(names), digest])
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, "
                                    f"SignedHeaders={';'.join(names)}, Signature={signature}")
        return headers

    def request(self, method, path, query="", body=b""):
        path = urllib.parse.quote(path, safe="/-_.~")
        headers = self._sign(method, path, query, {}, body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path + ("?" + query if query else ""), body=body, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, (method, path, answer.status, data[:300])
        return data

    def make_bucket(self, bucket):
        self.request("PUT", f"/{bucket}")

    def put(self, bucket, key, data):
        self.request("PUT", f"/{bucket}/{key}", body=data)

    def get(self, bucket, key):
        return self.request("GET", f"/{bucket}/{key}")

    def keys(self, bucket):
        import re
        return re.findall(r"<Key>(.*?)</Key>", self.request("GET", f"/{bucket}", "list-type=2").decode())
