# SPDX-License-Identifier: Apache-2.0
"""make bench-video: clips of videos beside a bare loop over libavcodec, torchcodec, PyAV and decord2.

Processor seconds of one process with one decoding thread; contenders take turns, and the best of each one's rounds counts.  All get the
same files and the same starts.  The peers have an environment of their own (peers/venvs.py), as torchcodec 0.17 wants torch 2.15;
PEERS= names the Python of one that is there.  ROUNDS=3, CLIPS=24, PARTS=clips,single,order,new,work."""
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import venvs  # noqa: E402

FOLDER = ROOT / "build" / "bench-video"
LIMIT = ROOT / "build" / "bench" / "limit_video"
RATE = 30
X264 = "-c:v libx264 -preset veryfast -crf 27 -bf 2 -sc_threshold 0"
FILES = {  # name: (size, seconds, options)
    "360p GOP 250": ((360, 640), 30, f"{X264} -g 250 -keyint_min 250"),
    "360p GOP 12": ((360, 640), 30, f"{X264} -g 12 -keyint_min 12"),
    "720p GOP 250": ((720, 1280), 12, f"{X264} -g 250 -keyint_min 250"),
    "720p GOP 12": ((720, 1280), 12, f"{X264} -g 12 -keyint_min 12"),
    "480p AV1 GOP 2": ((480, 640), 10, "-c:v libsvtav1 -preset 12 -crf 30 -g 2"),
    "480p H.264 GOP 2": ((480, 640), 10, "-c:v libx264 -preset veryfast -crf 27 -g 2"),
}
CLIPS = ("stoker", "torchcodec, per clip", "torchcodec, approximate", "torchcodec, kept open", "PyAV, per clip", "decord2, per clip", "decord2, kept open")
WORK = "resize(256) | center_crop(224) | normalize(imagenet) | to(f32)"
PEERS = ("torch==2.15.*", "torchcodec==0.17.*", "av==18.1.*", "decord2==3.4.*", "numpy")


class Side:
    """A process that answers jobs: Stoker's Python, or the peers'."""

    def __init__(self, python, env=None):
        self.process = subprocess.Popen([python, ROOT / "bench" / "peers" / "video_clips.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})

    def ask(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"error": "it ended"}')

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def make(name):
    (height, width), seconds, options = FILES[name]
    path = FOLDER / (name.replace(" ", "-").lower() + ".mp4")
    if not path.exists():
        print(f"-- making {path.name}", file=sys.stderr, flush=True)
        part = path.with_suffix(".part.mp4")
        subprocess.run([shutil.which("ffmpeg") or "ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i",
                        f"testsrc2=size={width}x{height}:rate={RATE},noise=alls=12:allf=t:all_seed=7", "-t", str(seconds), "-pix_fmt", "yuv420p",
                        *options.split(), part], check=True, stdin=subprocess.DEVNULL)
        part.rename(path)
    return path


def limit(path, *args):
    """Frames per processor second of the bare loop."""
    out = subprocess.run([LIMIT, path, *map(str, args)], check=True, capture_output=True, text=True).stdout
    return 1e6 / json.loads(out)["cpu_us_per_sample"]


def rate_of(answer):
    return answer["frames"] / answer["cpu"] if "cpu" in answer else None


def line(name, rate, base=None, error=""):
    return f"  {name:32}" + (f"{rate:9,.0f} frames/s" + (f"  {base:5.2f}x the bare loop" if base else "") if rate else f"        - {error}")


class Bench:
    def __init__(self):
        self.rounds, self.clips = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("CLIPS", "24"))
        self.ours = Side(sys.executable)
        peers, why = (os.environ.get("PEERS"), None) if os.environ.get("PEERS") else venvs.ensure("video", PEERS, print, constraints=())
        self.peers, self.why = Side(peers) if peers else None, why

    def side(self, who):
        return self.ours if who.startswith("stoker") else self.peers

    def turns(self, jobs, bare):
        """Best rates: of the bare loop, and by contender (None with its error)."""
        best, errors, checks = dict.fromkeys(jobs), {}, {}
        best["bare"] = None
        for _ in range(self.rounds):
            best["bare"] = max(bare(), best["bare"] or 0)
            for who, job in jobs.items():
                answer = self.side(who).ask({**job, "who": who}) if self.side(who) else {"error": self.why}
                rate = rate_of(answer)
                if rate:
                    best[who] = max(rate, best[who] or 0)
                    checks[who] = answer["checks"]
                else:
                    errors[who] = answer["error"]
        return best, errors, checks

    def compare(self, title, name, frames, starts):
        path = make(name)
        jobs = {who: {"file": str(path), "starts": starts, "frames": frames, "rate": RATE, "size": FILES[name][0]} for who in CLIPS}
        best, errors, checks = self.turns(jobs, lambda: limit(path, frames, 1, *starts))
        print(f"{title}, {name}\n{line('bare loop', best['bare'])}")
        for who in CLIPS:
            other = "" if who == "stoker" or not best[who] else f"; stoker {(best['stoker'] or 0) / best[who]:.2f}x"
            far = max((abs(a - b) for a, b in zip(checks.get(who, []), checks.get("stoker", []), strict=False)), default=0)
            print(line(who, best[who], best[who] and best[who] / best["bare"], errors.get(who, "")) + other + (f"  OTHER FRAMES: means differ by {far:.1f}" if far > 1.5 else ""), flush=True)

    def random_clips(self):
        rng = random.Random(29)
        for name in list(FILES)[:4]:
            self.compare("random clips of 16 frames", name, 16, [rng.randrange(FILES[name][1] * RATE - 16) for _ in range(self.clips)])

    def single(self):
        rng = random.Random(30)
        for name in list(FILES)[4:]:
            self.compare("one random frame", name, 1, [rng.randrange(FILES[name][1] * RATE - 1) for _ in range(self.clips * 8)])

    def order(self):
        for name in ("360p GOP 250", "360p GOP 12"):
            path, n = make(name), FILES[name][1] * RATE // 16 * 16
            copies = [FOLDER / f"copy{i}-{path.name}" for i in range(3)]
            for copy in copies:
                copy.exists() or shutil.copy(path, copy)
            one = {"file": str(path), "starts": [0], "frames": n, "rate": RATE, "size": FILES[name][0]}
            many = {"files": [str(c) for c in copies], "frames": 16, "size": FILES[name][0]}
            best, errors, _ = self.turns({"stoker": one, "stoker windows": many}, lambda p=path: limit(p, "order", 1, 2))
            print(f"all frames, {name}\n{line('bare loop, in order', best['bare'])}\n" + line("stoker, one clip of all", best["stoker"], best["stoker"] and best["stoker"] / best["bare"], errors.get("stoker", "")))
            print(line("stoker, windows, block order", best["stoker windows"], best["stoker windows"] and best["stoker windows"] / best["bare"], errors.get("stoker windows", "")), flush=True)

    def new(self):
        """Files that no one has seen, after rows of one that was: each row another one, its first frame."""
        path, n, cost = make("360p GOP 12"), 100, []
        short = FOLDER / "short.mp4"
        if not short.exists():
            subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, "-t", "10", "-c", "copy", short], check=True, stdin=subprocess.DEVNULL)
        folder = FOLDER / "new"
        folder.mkdir(exist_ok=True)
        for r in range(self.rounds):
            files = [folder / f"{r}-{i}.mp4" for i in range(n)]
            for file in files:
                shutil.copy(short, file)
            shutil.copy(short, folder / "seen.mp4")
            job = {"files": [str(folder / "seen.mp4")] * n + [str(f) for f in files], "starts": [0] * (2 * n), "frames": 1, "rate": RATE,
                   "size": FILES["360p GOP 12"][0], "fresh": True, "skip": n, "workers": 0}
            ours, bare = self.ours.ask({**job, "who": "stoker"}), 1 / limit(short, 1, 1, *[0] * n)
            cost.append((ours["cpu"] / n - bare) * 1e3)
        shutil.rmtree(folder)
        print(f"a file never seen before, above decoding and converting its first frame (300 frames in its tables): best {min(cost):.3f} ms, median "
              f"{statistics.median(cost):.3f} ms of processor time, with all else that a row costs", flush=True)

    def work(self):
        name = "720p GOP 12"
        path, n = make(name), FILES[name][1] * RATE
        job = {"file": str(path), "starts": [0], "frames": n, "rate": RATE, "size": FILES[name][0], "chain": WORK}
        best, errors, _ = self.turns({"stoker": job}, lambda: limit(path, "order", 0, 1))
        rgb = max(limit(path, "order", 1, 1) for _ in range(self.rounds))
        print(f"{WORK}, {name}\n{line('bare loop, planes only', best['bare'])}\n{line('bare loop, RGB by swscale', rgb)}")
        print(line("stoker, the whole chain", best["stoker"], None, errors.get("stoker", "")) + f": {best['bare'] / best['stoker']:.2f} times the decode", flush=True)


def main():
    if not LIMIT.exists() or not shutil.which("ffmpeg"):
        sys.exit("bench-video needs the ffmpeg program, libavformat-dev, libavcodec-dev and libswscale-dev; then run ninja -C build")
    FOLDER.mkdir(parents=True, exist_ok=True)
    bench = Bench()
    parts = {"clips": bench.random_clips, "single": bench.single, "order": bench.order, "new": bench.new, "work": bench.work}
    for part in os.environ.get("PARTS", ",".join(parts)).split(","):
        parts[part]()
    bench.ours.end()
    if bench.peers:
        bench.peers.end()


if __name__ == "__main__":
    main()
