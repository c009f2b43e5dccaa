# SPDX-License-Identifier: Apache-2.0
"""One measurement of bench/stores_epochs.py in a process of its own: a JSON object of arguments in, one of figures out."""
import json
import resource
import sys
import time

from unused import Unused


def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def loader(a):
    import stoker
    store = stoker.Store(cache=a.get("cache"), hedge=a.get("hedge", False)) if a.get("cache") or a.get("hedge") else None
    fields = {"image": "image | random_resized_crop(224) | hflip | to(f32)", "label": "from(cls) | int"}
    if a.get("raw"):
        fields = {"image": "from(jpg) | bytes"}
    return stoker.Loader(a["url"], fields, batch_size=a.get("batch", 32), shuffle=a.get("shuffle", "block"), seed=1,
                         num_workers=a.get("workers", 2), store=store)


def epochs(a):
    """Each epoch of a loader: seconds, CPU seconds, samples; `step_s` is what the consumer takes for a batch."""
    data, out = loader(a), []
    for _ in range(a.get("epochs", 1)):
        begin, used, n, first = time.perf_counter(), cpu(), 0, None
        for batch in data:
            first = first or time.perf_counter() - begin
            n += len(batch.sample_ids)
            time.sleep(a.get("step_s", 0))
        out.append({"s": time.perf_counter() - begin, "cpu_s": cpu() - used, "n": n, "first_s": first})
    return out


def webdataset(a):
    """WebDataset through `pipe:curl`, its samples decoded and cropped by Pillow."""
    import io

    import numpy
    import webdataset as wds
    from PIL import Image

    def decoded(sample):
        image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB").resize((224, 224))
        return numpy.asarray(image, numpy.float32)

    urls = [f"pipe:curl -s -f {url}" for url in a["urls"]]
    begin, used = time.perf_counter(), cpu()
    data = wds.WebDataset(urls, shardshuffle=False, empty_check=False).shuffle(1000)
    data = data.map((lambda s: s["jpg"]) if a.get("raw") else decoded)
    n = sum(1 for _ in data)
    return [{"s": time.perf_counter() - begin, "cpu_s": cpu() - used, "n": n}]


UNUSED = ("torchvision", "transformers", "snappy", "brotli", "zstd", "matplotlib", "paramiko", "oci")     # by reading plain shards


def mosaic(a):
    """mosaicml-streaming: shards are downloaded by boto3 as they are needed, then read; bytes of the photos."""
    import os
    import tempfile
    sys.meta_path.append(Unused(UNUSED))
    os.environ.update(S3_ENDPOINT_URL=a["endpoint"], AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s",
                      AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
    from streaming import StreamingDataset
    with tempfile.TemporaryDirectory() as local:
        begin, used = time.perf_counter(), cpu()
        data = StreamingDataset(remote="s3://photos/mds", local=local, shuffle=True, batch_size=32, predownload=1000)
        n = sum(1 for _ in data)
        return [{"s": time.perf_counter() - begin, "cpu_s": cpu() - used, "n": n}]


def reader(a):
    """A function of an offset that reads one range, of a client of S3."""
    keys, length = {"k": "k", "s": "s"}, a["length"]
    if a["client"] == "boto3":
        import boto3
        from botocore.config import Config
        s3 = boto3.client("s3", endpoint_url=a["endpoint"], aws_access_key_id=keys["k"], aws_secret_access_key=keys["s"],
                          region_name="us-east-1", config=Config(max_pool_connections=64, s3={"addressing_style": "path"}))
        return lambda at: s3.get_object(Bucket="bucket", Key="file", Range=f"bytes={at}-{at + length - 1}")["Body"].read()
    if a["client"] == "s3fs":
        import s3fs
        fs = s3fs.S3FileSystem(key="k", secret="s", endpoint_url=a["endpoint"], client_kwargs={"region_name": "us-east-1"})
        return lambda at: fs.cat_file("bucket/file", start=at, end=at + length)
    if a["client"] == "s3torchconnector":
        import os
        from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client
        os.environ.update(AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s", AWS_EC2_METADATA_DISABLED="true")
        crt = MountpointS3Client("us-east-1", endpoint=a["endpoint"], force_path_style=True)
        return lambda at: b"".join(crt.get_object("bucket", "file", start=at, end=at + length))
    from obstore.store import S3Store
    store = S3Store("bucket", endpoint=a["endpoint"], access_key_id="k", secret_access_key="s", region="us-east-1",
                    virtual_hosted_style_request=False, client_options={"allow_http": True})
    import obstore
    return lambda at: bytes(obstore.get_range(store, "file", start=at, end=at + length))


def ranges(a):
    """Random ranges, so many in flight by threads."""
    import random
    from concurrent.futures import ThreadPoolExecutor
    read, rng = reader(a), random.Random(1)
    places = [rng.randrange(a["size"] - a["length"]) for _ in range(a["count"])]
    with ThreadPoolExecutor(a["flight"]) as pool:
        list(pool.map(read, places[:32]))
        begin, used = time.perf_counter(), cpu()
        got = sum(map(len, pool.map(read, places)))
        out = {"s": time.perf_counter() - begin, "cpu_s": cpu() - used, "n": a["count"]}
    assert got == a["count"] * a["length"], got
    return [out]


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    print(json.dumps({"epochs": epochs, "webdataset": webdataset, "mosaic": mosaic, "ranges": ranges}[arguments.pop("what")](arguments)))
