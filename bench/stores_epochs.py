# SPDX-License-Identifier: Apache-2.0
"""make bench-stores, second part: photos from remote shards, latency, hedging, other clients.

nginx and a proxy that delays answers, on loopback; each measurement is a process of its own, rounds in turns, and
the best of each counts (CONTRIBUTING.md).  Clients of others are in an environment of their own (.venvs-peers), where
the package index has them; what cannot be installed is said.  ROUNDS=3, SCALE=1 (photos: 1,200 x SCALE)."""
import contextlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "stores"), str(ROOT / "bench" / "peers")]
import faults  # noqa: E402
import made_mds  # noqa: E402
import servers  # noqa: E402
import venvs  # noqa: E402

ROUNDS, SCALE = int(os.environ.get("ROUNDS", "3")), float(os.environ.get("SCALE", "1"))
SHARDS, EACH = 4, int(300 * SCALE)
FILE = 64 << 20
PEERS = {"obstore": ("obstore",), "s3fs": ("s3fs",), "boto3": ("boto3",), "webdataset": ("webdataset==1.0.2",),
         "s3torchconnector": ("--no-deps", "s3torchconnectorclient==1.5.0"),    # the part that reads: the rest is for torch
         "mosaicml-streaming": ("--no-deps", "mosaicml-streaming==0.13.0", "boto3", "botocore", "s3transfer", "jmespath",
                                "python-dateutil", "urllib3", "six", "xxhash", "catalogue", "tqdm")}
RESULT = ROOT / "bench" / "results" / "stores-0.2.txt"
lines = []


def say(text):
    lines.append(text)
    print(text, flush=True)


def photo(rng):
    import numpy as np
    from PIL import Image
    coarse = Image.fromarray(np.frombuffer(rng.randbytes(24 * 18 * 3), np.uint8).reshape(18, 24, 3))
    picture = coarse.resize((500, 375), Image.Resampling.BICUBIC)
    noise = np.frombuffer(rng.randbytes(500 * 375), np.uint8).reshape(375, 500, 1) // 12
    out = io.BytesIO()
    Image.fromarray((np.asarray(picture) // 2 + noise).astype(np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def make_photos(folder):
    rng, total = random.Random(1), 0
    some = [photo(rng) for _ in range(60)]
    made_mds.write(folder / "mds", {"jpg": "bytes"}, [{"jpg": some[i % 60]} for i in range(SHARDS * EACH)], per_shard=EACH)
    for s in range(SHARDS):
        with tarfile.open(folder / f"p-{s}.tar", "w") as tar:
            for i in range(EACH):
                for ext, data in (("jpg", some[(s * EACH + i) % 60]), ("cls", str(i).encode())):
                    info = tarfile.TarInfo(f"{s:02}-{i:05}.{ext}")
                    info.size = len(data)
                    total += len(data)
                    tar.addfile(info, io.BytesIO(data))
    return total


def child(what, python=sys.executable, **arguments):
    done = subprocess.run([python, ROOT / "bench" / "stores_child.py", json.dumps({"what": what, **arguments})],
                          capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise RuntimeError(venvs.short_reason(done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def best(runs):
    return {"s": min(r["s"] for r in runs), "cpu_s": min(r["cpu_s"] for r in runs), "n": runs[0]["n"]}


def curl_cpu(port, length, count):
    out = subprocess.run([ROOT / "build" / "bench" / "limit_curl", f"http://127.0.0.1:{port}/bucket/file", str(FILE),
                          str(length), "16", str(count)], capture_output=True, text=True, check=True).stdout
    return float(re.findall(r"([\d.]+) us", out)[0]) * 1e-6 * count


def photos(folder, port, size):
    """Local files, remote without a cache, and from the cache."""
    local, cold, cached, bare = [], [], [], []
    url = f"http://127.0.0.1:{port}/photos/p-{{0..{SHARDS - 1}}}.tar"
    for r in range(ROUNDS):
        cache = pathlib.Path(folder, f"cache-{r}")
        cache.mkdir()
        local += child("epochs", url=str(folder / "root/photos/p-*.tar"), epochs=2)[1:]
        cold += child("epochs", url=url, epochs=2)[1:]
        cached += child("epochs", url=url, cache=str(cache), epochs=3)[2:]
        bare.append(curl_cpu(port, size // (SHARDS * EACH), SHARDS * EACH))
    a, b, c, curl = best(local), best(cold), best(cached), min(bare)
    say(f"{a['n']:,} photos of {size / a['n'] / 1e3:.0f} KB: CPU local {a['cpu_s']:.2f} s, cold {b['cpu_s']:.2f} s, from the "
        f"cache {c['cpu_s']:.2f} s; libcurl alone {curl:.2f} s")
    say(f"  cold at most local + 1.25x libcurl: {b['cpu_s'] / (a['cpu_s'] + 1.25 * curl):.2f} of that (limit 1); cached "
        f"{c['cpu_s'] / a['cpu_s']:.2f}x CPU, {a['s'] / c['s']:.2f}x rate of local (limits 1.10, 0.90)")


def latency(port):
    """50 ms added to each answer, through the same proxy as without; the order alone hides them.

    Counted from the first next() of a loader whose index is there, in epochs of 20,000 photos together: new connections
    and the first round trips are in it."""
    plain, late, first = [], [], []
    epochs = -(-20000 // (SHARDS * EACH))
    for _ in range(ROUNDS):
        for delay, to in ((0, plain), (0.05, late)):
            with faults.Proxy(port, rate=1 if delay else 0, limit=10**9, delay=delay, faults=("delay",)) as proxy:
                runs = child("epochs", url=f"http://127.0.0.1:{proxy.port}/photos/p-{{0..{SHARDS - 1}}}.tar",
                             epochs=epochs, shuffle=True)
            to.append({key: sum(r[key] for r in runs) for key in ("s", "cpu_s", "n")})
            if delay:
                first.append(runs[0]["first_s"])
    a, b = best(plain), best(late)
    say(f"50 ms added to each answer: {b['n'] / b['s']:,.0f} photos/s, {a['n'] / a['s']:,.0f} without: "
        f"{a['s'] / b['s']:.2f}x (limit 0.90); {b['n']:,} photos from the first next() on, the first batch after {min(first):.2f} s")


def hedging(port):
    """1 % of answers late by 2 s, a consumer of 50 ms a step."""
    times = {}
    for name, rate, hedge in (("no delays", 0, False), ("delays", 0.01, False), ("delays, hedged", 0.01, True)):
        with faults.Proxy(port, seed=4, rate=rate, limit=10**9, delay=2, faults=("delay",)) as proxy:
            url = f"http://127.0.0.1:{proxy.port}/photos/p-{{0..{SHARDS - 1}}}.tar"
            runs = child("epochs", url=url, epochs=2, shuffle=True, batch=12, step_s=0.05, raw=True, hedge=hedge)
            times[name] = runs[1]["s"]
    base = times["no delays"]
    say("1 % of answers late by 2 s, 50 ms a step: "
        + ", ".join(f"{name} {s:.1f} s ({s / base:.2f}x)" for name, s in times.items()) + "; hedged: limit 1.10x")


def peer_python(name):
    python, why = venvs.ensure(name, PEERS[name], say)
    if python is None:
        raise RuntimeError(why)
    return python


def ranges(name, command, env=None):
    """One line of the table of clients, of a program that says its rate and CPU."""
    runs = [re.findall(r"([\d.]+) (?:requests|us)", subprocess.run(command, capture_output=True, text=True, check=True,
                                                                   env={**os.environ, **(env or {})}).stdout)
            for _ in range(ROUNDS)]
    say(f"{name}: 100 KB, 16 in flight: {max(float(r) for r, _ in runs):,.0f}/s, {min(float(c) for _, c in runs):.0f} us CPU")


def peers(folder, port, size):
    endpoint = f"http://127.0.0.1:{port}"
    programs = ROOT / "build" / "bench"
    ranges("bare libcurl", [programs / "limit_curl", f"{endpoint}/bucket/file", str(FILE), "100000", "16", "1000"])
    ranges("stoker, signed", [programs / "bench_stores", "s3://bucket/file", "100000", "16", "1000"],
           {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"})
    for name in ("obstore", "s3torchconnector", "s3fs", "boto3"):
        try:
            runs = [r for _ in range(ROUNDS) for r in
                    child("ranges", peer_python(name), client=name, endpoint=endpoint, size=FILE, length=100_000, flight=16,
                          count=1000)]
            r = best(runs)
            say(f"{name}: 100 KB, 16 in flight: {r['n'] / r['s']:,.0f}/s, {r['cpu_s'] / r['n'] * 1e6:.0f} us CPU")
        except (RuntimeError, OSError, subprocess.SubprocessError) as why:
            say(f"{name}: {why}")
    urls = [f"{endpoint}/photos/p-{s}.tar" for s in range(SHARDS)]
    try:
        python = peer_python("webdataset")
        for raw in (True, False):
            wds = best([child("webdataset", python, urls=urls, raw=raw)[0] for _ in range(ROUNDS)])
            ours = best(child("epochs", url=f"{endpoint}/photos/p-{{0..{SHARDS - 1}}}.tar", epochs=1 + ROUNDS, raw=raw)[1:])
            say(f"{'bytes' if raw else 'photos'}, one process: WebDataset (pipe:curl) {wds['n'] / wds['s']:,.0f}/s, "
                f"{wds['cpu_s'] / wds['n'] * 1e6:.0f} us CPU each; stoker {ours['n'] / ours['s']:,.0f}/s, "
                f"{ours['cpu_s'] / ours['n'] * 1e6:.0f} us")
    except (RuntimeError, OSError, subprocess.SubprocessError) as why:
        say(f"webdataset: {why}")
    try:
        python = peer_python("mosaicml-streaming")
        runs = best([child("mosaic", python, endpoint=endpoint)[0] for _ in range(ROUNDS)])
        say(f"bytes, one process: mosaicml-streaming {runs['n'] / runs['s']:,.0f}/s, {runs['cpu_s'] / runs['n'] * 1e6:.0f} us CPU each, "
            "from an empty folder")
    except (RuntimeError, OSError, subprocess.SubprocessError) as why:
        say(f"mosaicml-streaming: {why}")


def main():
    if not servers.nginx_program() or not (ROOT / "build/bench/limit_curl").exists():
        sys.exit("bench-stores needs nginx and libcurl: run tools/setup.sh")
    os.environ["PYTHONPATH"] = str(ROOT / "build" / "python")
    parts, load = sys.argv[1:] or ["photos", "latency", "hedging", "peers"], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["STOKER_CACHE"] = str(folder / "index")
        for sub in ("photos", "bucket"):
            (folder / "root" / sub).mkdir(parents=True)
        size = make_photos(folder / "root/photos")
        (folder / "root/bucket/file").write_bytes(os.urandom(FILE))
        port, _, group = servers.start_nginx(folder, folder / "root")
        with contextlib.ExitStack() as stack:
            stack.callback(group.stop)
            for part in parts:
                {"photos": lambda: photos(folder, port, size), "latency": lambda: latency(port),
                 "hedging": lambda: hedging(port), "peers": lambda: peers(folder, port, size)}[part]()
    if not sys.argv[1:]:
        cpus = len(os.sched_getaffinity(0))
        RESULT.write_text(f"bench/stores_epochs.py, ROUNDS={ROUNDS} SCALE={SCALE:g}, {cpus} CPUs, load {load:.0f} before\n"
                          + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
