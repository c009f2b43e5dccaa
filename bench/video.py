# SPDX-License-Identifier: Apache-2.0
"""make bench-video: clips of videos beside a bare loop over libavcodec, torchcodec, PyAV and decord2.

Processor seconds of one process with one decoding thread; contenders take turns, and the best of each one's rounds counts.  All get the
same files and the same starts.  The peers have an environment of their own (peers/venvs.py), as torchcodec 0.17 wants torch 2.15;
PEERS= names the Python of one that is there.  ROUNDS=3, CLIPS=24, PARTS=clips,single,order,new,work,store,threads.  `store` needs nginx; it and
`threads` need no bare loop."""
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "peers"))
sys.path.insert(0, str(ROOT / "tests" / "stores"))
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


def packets_of(path):
    """[(time, first byte, end, is a keyframe)] in decode order, by ffprobe."""
    out = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts,pos,size,flags", "-of", "json", path], check=True,
                         capture_output=True).stdout
    return [(int(p["pts"]), int(p["pos"]), int(p["pos"]) + int(p["size"]), "K" in p["flags"]) for p in json.loads(out)["packets"]]


def span_of(packets, frames):
    """Bytes from the keyframe that these shown frames need to the end of the last packet among them."""
    order = sorted(range(len(packets)), key=lambda i: packets[i][0])
    wanted = [order[f] for f in frames]
    first = max(i for i in range(min(wanted) + 1) if packets[i][3] and packets[i][0] <= packets[order[frames[0]]][0])
    return max(packets[i][2] for i in wanted) - packets[first][1]


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
        """All frames of a file in order, as clips of 16, whose memory is used again: a row of them all, 216 MB, would be cleared by the kernel each time."""
        name = "720p GOP 12"
        path = make(name)
        job = {"files": [str(path)], "frames": 16, "shuffle": False, "size": FILES[name][0], "chain": WORK}
        best, errors, _ = self.turns({"stoker windows": job}, lambda: limit(path, "order", 0, 1))
        rgb = max(limit(path, "order", 1, 1) for _ in range(self.rounds))
        print(f"{WORK}, {name}\n{line('bare loop, planes only', best['bare'])}\n{line('bare loop, RGB by swscale', rgb)}")
        print(line("stoker, the whole chain", best["stoker windows"], None, errors.get("stoker windows", "")) + (f": {best['bare'] / best['stoker windows']:.2f} times the decode" if best["stoker windows"] else ""), flush=True)


    def store(self):
        """Random clips of an indexed tar on a store, on loopback: requests and bytes that the store saw for each."""
        import faults
        import servers
        import stoker
        if not servers.nginx_program():
            print("clips on a store: nginx is not installed")
            return
        for name in ("360p GOP 250", "360p GOP 12"):
            path = make(name)
            with tempfile.TemporaryDirectory() as made:
                folder = pathlib.Path(made)
                (folder / "root").mkdir()
                (folder / "cls").write_text("3")
                with tarfile.open(folder / "root" / "a.tar", "w") as tar:
                    tar.add(folder / "cls", "0.cls")
                    tar.add(path, "0.mp4")
                port, _, group = servers.start_nginx(folder, folder / "root")
                try:
                    with faults.Proxy(port) as proxy:
                        self.store_clips(stoker, proxy, folder, packets_of(path), name)
                finally:
                    group.stop()

    def store_clips(self, stoker, proxy, folder, packets, name):
        url, spans = f"http://127.0.0.1:{proxy.port}/a.tar", 0
        os.environ["STOKER_CACHE"] = str(folder / "cache")
        cli = os.environ.get("STOKER_CLI", str(ROOT / "build" / "cli" / "stoker"))
        subprocess.run([cli, "index", url], check=True, stdout=subprocess.DEVNULL)
        at = len(proxy.requests), sum(proxy.sizes)
        subprocess.run([cli, "index", "--points", url], check=True, stdout=subprocess.DEVNULL)
        points = len(proxy.requests) - at[0], sum(proxy.sizes) - at[1]
        fields = {"video": "from(mp4) | video(frames=16) | resize((64, 64)) | to(u8)", "label": "from(cls) | int"}
        with stoker.Loader(url, fields, batch_size=1, num_workers=0, prefetch=1, repeat=self.clips + 1, seed=29) as loader:
            for i, batch in enumerate(loader):
                if not i:
                    at = len(proxy.requests), sum(proxy.sizes)
                else:
                    spans += span_of(packets, batch.frames["video"].tolist()[0])
        requests, size = (len(proxy.requests) - at[0]) / self.clips, (sum(proxy.sizes) - at[1]) / self.clips
        print(f"random clips of 16 frames from a store, {name}: {requests:.2f} requests and {size / 1e6:.2f} MB a clip, {size * self.clips / spans:.2f} times the bytes "
              f"between its first and last packet; points of the file before: {points[0]} requests, {points[1] / 1e3:.0f} kB", flush=True)

    def threads(self):
        """Seconds by the clock, so only a machine without other work says much."""
        name = "360p GOP 12"
        path, cores = make(name), len(os.sched_getaffinity(0))
        rng = random.Random(31)
        job = {"file": str(path), "starts": [rng.randrange(FILES[name][1] * RATE - 16) for _ in range(self.clips * 4)], "frames": 16, "rate": RATE, "size": FILES[name][0]}
        best = {}
        for _ in range(self.rounds):
            for workers in {1, cores}:
                begin = time.perf_counter()
                self.ours.ask({**job, "who": "stoker", "workers": workers})
                best[workers] = min(time.perf_counter() - begin, best.get(workers, 1e9))
        print(f"random clips, {name}: {cores} threads on {cores} cores are {best[1] / best[cores]:.2f} times one (load {os.getloadavg()[0]:.1f} from other work too)", flush=True)


def main():
    parts = os.environ.get("PARTS", "clips,single,order,new,work,store,threads").split(",")
    if not shutil.which("ffmpeg") or (not LIMIT.exists() and set(parts) - {"store", "threads"}):
        sys.exit("bench-video needs the ffmpeg program, libavformat-dev, libavcodec-dev and libswscale-dev; then run ninja -C build")
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"{len(os.sched_getaffinity(0))} cores; load {os.getloadavg()[0]:.1f} when this began", flush=True)
    bench = Bench()
    of = {"clips": bench.random_clips, "single": bench.single, "order": bench.order, "new": bench.new, "work": bench.work, "store": bench.store,
          "threads": bench.threads}
    for part in parts:
        of[part]()
    bench.ours.end()
    if bench.peers:
        bench.peers.end()


if __name__ == "__main__":
    main()
