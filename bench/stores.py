# SPDX-License-Identifier: Apache-2.0
"""make bench-stores: random ranges from nginx on loopback, by ours and by a bare libcurl loop, in turns.

Signed requests cost nginx nothing: it does not look.  Both sides get the same file, ranges and number in flight;
the best of each counts (CONTRIBUTING.md).  ROUNDS=7."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "stores"))
import servers  # noqa: E402

SIZE = 64 << 20
CASES = [("100 KB, 16 in flight", 100_000, 16, 4000), ("100 KB, 64 in flight", 100_000, 64, 4000),
         ("8 MiB, 4 in flight", 8 << 20, 4, 60)]


def measure(command, env=None):
    out = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}).stdout
    rate, cpu = re.findall(r"([\d.]+) (?:requests|us)", out)
    return float(rate), float(cpu)


def main():
    rounds, bench = int(os.environ.get("ROUNDS", "7")), ROOT / "build" / "bench"
    if not servers.nginx_program() or not (bench / "bench_stores").exists():
        sys.exit("bench-stores needs nginx and libcurl: run tools/setup.sh")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root", "bucket")
        root.mkdir(parents=True)
        (root / "file").write_bytes(os.urandom(SIZE))
        port, _, group = servers.start_nginx(folder, root.parent)
        keys = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        try:
            for name, length, flight, count in CASES:
                bare, ours = [], []
                for _ in range(rounds):
                    bare.append(measure([bench / "limit_curl", f"http://127.0.0.1:{port}/bucket/file", str(SIZE),
                                         str(length), str(flight), str(count)]))
                    ours.append(measure([bench / "bench_stores", "s3://bucket/file", str(length), str(flight),
                                         str(count)], keys))
                (br, bc), (our_rate, oc) = [(max(r for r, _ in x), min(c for _, c in x)) for x in (bare, ours)]
                print(f"{name}: bare libcurl {br:,.0f}/s {bc:.1f} us CPU; stoker, signed {our_rate:,.0f}/s {oc:.1f} us CPU; "
                      f"rate {our_rate / br:.2f}x, CPU {oc / bc:.2f}x")
        finally:
            group.stop()


if __name__ == "__main__":
    main()
