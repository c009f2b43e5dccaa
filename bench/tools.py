# SPDX-License-Identifier: Apache-2.0
"""pack, check and ls against what they should keep up with.

    .venv/bin/python bench/tools.py --data FOLDER_OF_JPEGS [--rounds 5] [--name tools]

`stoker pack` of a folder against `tar cf` of the same files, `stoker check` against the loader decoding
whole pictures, `stoker ls` of a million samples. Rounds are interleaved, the best of each side counts.
"""

import argparse
import json
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/bench-data"
CLI = ROOT / "build/cli/stoker"
CHAIN = "image=from(image) | image | resize((224, 224)) | to(u8)"


def seconds(*command):
    start = time.perf_counter()
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def copies(data, times=12):
    folder = WORK / "many"
    files = sorted(p for p in Path(data).iterdir() if p.suffix.lower() in (".jpg", ".jpeg"))
    for n in range(times):
        part = folder / f"class{n:02d}"
        if not part.exists():
            part.mkdir(parents=True)
            for path in files:
                shutil.copyfile(path, part / path.name)
    return folder, len(files) * times


def rate(shards):
    out = subprocess.run([CLI, "bench", shards, "--field", CHAIN, "--batch-size", "64", "--epochs", "2", "--json"],
                         check=True, capture_output=True, text=True).stdout
    return max(e["samples"] / e["seconds"] for e in json.loads(out)["epochs"])


def first_line(shards):
    start = time.perf_counter()
    with subprocess.Popen([CLI, "ls", shards], stdout=subprocess.PIPE) as p:
        p.stdout.readline()
        first = time.perf_counter() - start
        p.stdout.close()
        p.terminate()
    return first


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="tools")
    args = parser.parse_args()
    folder, count = copies(args.data)
    packed, tar = WORK / "packed", WORK / "plain.tar"
    best = {"pack": 1e9, "tar": 1e9, "check": 0.0, "loader": 0.0}
    seconds(CLI, "index", folder)
    for _ in range(args.rounds):
        shutil.rmtree(packed, ignore_errors=True)
        best["pack"] = min(best["pack"], seconds(CLI, "pack", folder, packed))
        tar.unlink(missing_ok=True)
        best["tar"] = min(best["tar"], seconds("tar", "cf", tar, "-C", folder.parent, folder.name))
    tar.unlink(missing_ok=True)
    shards = f"{packed}/*.tar"
    for _ in range(args.rounds):
        best["check"] = max(best["check"], count / seconds(CLI, "check", shards))
        best["loader"] = max(best["loader"], rate(shards))
    lines = [f"{count} JPEGs, {sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 1e6:.0f} MB, "
             f"{args.rounds} rounds, best of each",
             f"pack {best['pack']:.2f} s, tar cf {best['tar']:.2f} s: {best['tar'] / best['pack']:.2f}x (>= 0.7x)",
             f"check {best['check']:.0f}/s, loader {best['loader']:.0f}/s: "
             f"{best['check'] / best['loader']:.2f}x (>= 0.9x)"]
    million = sorted(WORK.glob("million-*.tar"))
    if million:
        lines.append(f"ls of 1,000,000 samples: first line after {first_line(f'{WORK}/million-*.tar') * 1e3:.0f} ms, "
                     f"all after {seconds(CLI, 'ls', f'{WORK}/million-*.tar'):.2f} s")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    (ROOT / "bench/results" / f"{args.name}.txt").write_text(text)


if __name__ == "__main__":
    main()
