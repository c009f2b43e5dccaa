# SPDX-License-Identifier: Apache-2.0
"""make bench-ranges: crops of pictures on a store that answers 20 ms late, read whole and in parts, in turns.

Before `stoker index --points` pictures are read whole, after it only the rows that a crop sees.  A proxy adds the 20 ms and counts requests and
bytes; behind it is nginx, which does not look at signatures, or with SERVER=swift OpenStack Swift, which checks them.
DATA=folder of JPEGs (else they are made), ROUNDS=5, EPOCHS=2."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "stores"), str(ROOT / "bench")]
DELAY = 0.02
FIELDS = {"image": "from(jpg) | image | random_resized_crop(224) | hflip | to(u8)", "label": "from(cls) | int"}


COUNTED = {"batch_size": 1, "prefetch": 1, "num_workers": 0}     # reads next to nothing ahead, so that what is read was for what was made
USUAL = {"batch_size": 32, "num_workers": 2}


def child(url, options, epochs):
    """In a process of its own: seconds until the first batch and of all, samples that were made."""
    import stoker
    with stoker.Loader(url, FIELDS, seed=3, **options) as loader:
        print("open", flush=True)
        sys.stdin.readline()
        begin, first = time.perf_counter(), None
        for _ in range(epochs):
            for _ in loader:
                first = first or time.perf_counter() - begin
        took, stats = time.perf_counter() - begin, loader.stats()
    print(json.dumps({"first": first, "rate": stats["handed_out"] / took, "made": stats["samples"]}), flush=True)


def measure(proxy, env, options, epochs):
    """Requests and bytes that the store saw for each sample that was made; the index is read before."""
    run = subprocess.Popen([sys.executable, __file__, "s3://photos/photos.tar", json.dumps(options), str(epochs)], env=env, text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    run.stdout.readline()
    requests, size = len(proxy.requests), sum(proxy.sizes)
    run.stdin.write("go\n")
    run.stdin.flush()
    got = json.loads(run.stdout.readline())
    got["requests"], got["bytes"] = (len(proxy.requests) - requests) / got["made"], (sum(proxy.sizes) - size) / got["made"]
    if run.wait():
        raise SystemExit("ranges: the loader failed")
    return got


def pack(folder, files):
    path = folder / "photos.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, file in enumerate(files):
            label = folder / "label"
            label.write_text(str(i % 1000))
            tar.add(label, f"{i:05}.cls")
            tar.add(file, f"{i:05}.jpg")
    return path


def serve(folder, path):
    """A port of a server that has the file as s3://photos/photos.tar, and what stops it."""
    import s3
    import servers
    if os.environ.get("SERVER") != "swift":
        (folder / "root" / "photos").mkdir(parents=True)
        path.rename(folder / "root" / "photos" / path.name)
        port, _, group = servers.start_nginx(folder, folder / "root")
        return port, group
    (folder / "swift").mkdir()
    port, group = servers.start_swift(folder / "swift")
    client = s3.S3(port)
    client.make_bucket("photos")
    client.put("photos", "photos.tar", path.read_bytes())
    return port, group


def main():
    import data
    import faults
    rounds, epochs, group = int(os.environ.get("ROUNDS", "5")), int(os.environ.get("EPOCHS", "2")), None
    with tempfile.TemporaryDirectory() as made:
        folder, work = pathlib.Path(made), ROOT / "build" / "bench-data"
        work.mkdir(parents=True, exist_ok=True)
        path = pack(folder, data.find_photos(work, os.environ.get("DATA")))
        try:
            port, group = serve(folder, path)
            with faults.Proxy(port, rate=1, limit=10**9, delay=DELAY, faults=("delay",)) as proxy:
                compare(proxy, folder, rounds, epochs)
        finally:
            if group:
                group.stop()


def indexed(proxy, folder, name, *options):
    """An environment in which the file is indexed, with points or without."""
    env = {**os.environ, "STOKER_CACHE": str(folder / name), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
           "AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    cli = os.environ.get("STOKER_CLI", str(ROOT / "build" / "cli" / "stoker"))
    subprocess.run([cli, "index", *options, "s3://photos/photos.tar"], env=env, check=True, stdout=subprocess.DEVNULL)
    return env


def compare(proxy, folder, rounds, epochs):
    whole, parts = indexed(proxy, folder, "whole"), indexed(proxy, folder, "parts", "--points")
    print(f"bench/ranges.py, ROUNDS={rounds} EPOCHS={epochs}, {os.cpu_count()} CPUs, {os.environ.get('SERVER', 'nginx')}; each answer "
          f"{DELAY * 1e3:.0f} ms late")
    for name, shuffle in (("exact shuffle", True), ("block order", "block")):
        a, b = (measure(proxy, env, {**COUNTED, "shuffle": shuffle}, epochs) for env in (whole, parts))
        print(f"{name}: bytes a sample {a['bytes']:,.0f} whole, {b['bytes']:,.0f} with points: {b['bytes'] / a['bytes']:.3f}x; "
              f"requests a sample {a['requests']:.3f}, {b['requests']:.3f}: {b['requests'] / a['requests']:.3f}x", flush=True)
        runs = [[measure(proxy, env, {**USUAL, "shuffle": shuffle}, epochs) for env in (whole, parts)] for _ in range(rounds)]
        first = [min(pair[i]["first"] for pair in runs) for i in (0, 1)]
        rate = [max(pair[i]["rate"] for pair in runs) for i in (0, 1)]
        print(f"{name}: first batch of 32 after {first[0]:.3f} s whole, {first[1]:.3f} s with points: {first[1] / first[0]:.2f}x; "
              f"{rate[0]:,.0f} samples/s, {rate[1]:,.0f}: {rate[1] / rate[0]:.2f}x (best of each)", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
