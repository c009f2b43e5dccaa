# SPDX-License-Identifier: Apache-2.0
"""pack(engine="ray") on a real Ray on this machine: the bytes of threads and processes, also when workers or the driver are killed and tasks
are run again.  STOKER_RAY_KILLS drivers are killed, at places that STOKER_SEED chooses."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.services        # Ray gives up where it takes 30 s to start
FOLDER = Path(sys.prefix) / "ray"       # tools/requirements/ray.txt, by make setup

DRIVER = textwrap.dedent("""
    import glob, json, os, random, shutil, signal, subprocess, sys, tempfile, threading, time
    import ray, stoker
    from pack_functions import letters, odd, shout, slowly, stumble, twice

    src, out = sys.argv[1:3]
    kills, seed = map(int, sys.argv[3:])
    chain = {"jpg": "image | resize(360) | encode(png)"}
    how = {"fields": chain, "samples": 3, "shuffle": 3, "select": range(48)}

    def shards(name):
        found = {}
        for path in sorted(glob.glob(os.path.join(out, name, "*.*"))):
            with open(path, "rb") as f:
                found[os.path.basename(path)] = f.read()
        return found

    def kill_some(folder, over, killed, title=b"ray::_write"):
        "One worker after the first shard is there, and one a little later."
        for least in (1, 6):
            while len(glob.glob(os.path.join(folder, "*.tar"))) < least and not over.is_set():
                time.sleep(0.002)
            for pid in mine(title):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break

    def mine(which):
        "Workers of this test's Ray alone: they are the children of its raylet."
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    title = f.read()
                if which not in title:
                    continue
                with open(f"/proc/{pid}/stat") as f:
                    parent = f.read().rpartition(")")[2].split()[1]
                with open(f"/proc/{parent}/cmdline", "rb") as f:
                    if home.encode() in f.read():
                        yield int(pid)
            except OSError:
                pass

    def start():
        for attempt in range(3):
            try:
                return ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=80 << 20,
                                _temp_dir=home)
            except Exception as e:
                if "timed out during startup" not in str(e):
                    raise
                ray.shutdown()
        print(json.dumps({"not_started": True}))
        sys.exit()

    def by_functions():
        "The same bytes by processes and by Ray; a worker is killed on the way."
        for name, given in {"map": {"map": shout}, "flat": {"filter": odd, "flat_map": twice}, "tokens": {"tokenize": letters},
                            "slow": {"map": slowly, "samples": 6}}.items():
            more = {"samples": 16, "shuffle": 5, "num_proc": 2, "timeout": 60, **given}
            stoker.pack(src, os.path.join(out, "p" + name), **more)
            over, some = threading.Event(), []
            killer = threading.Thread(target=kill_some, args=(os.path.join(out, "r" + name), over, some, b"ray::_run"))
            if name == "slow":
                killer.start()
            done = stoker.pack(src, os.path.join(out, "r" + name), engine="ray", **more)
            over.set()
            if name == "slow":
                killer.join()
            yield shards("p" + name) == shards("r" + name) and len(shards("r" + name)) >= done["shards"] > 1
        try:
            stoker.pack(src, os.path.join(out, "rfail"), engine="ray", map=stumble)
        except stoker.StokerError as e:
            yield "no such thing" in str(e) and e.key.endswith("42")

    VICTIM = '''
    import sys, ray, stoker
    from pack_functions import slowly
    ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
    how = {"fields": {"jpg": "image | resize(360) | encode(png)"}} if sys.argv[4] == "chain" else {"map": slowly}
    stoker.pack(sys.argv[2], sys.argv[3], engine="ray", samples=3, shuffle=3, select=range(48), **how)
    '''

    def kill_drivers():
        "Killed after some shard; the next run makes the rest, leaves what is there, and all is as if nothing had happened."
        at = random.Random(seed)
        for i in range(kills):
            kind, least = ("chain", "map")[i % 2], at.randrange(1, 15)
            name = f"driver-{i}"
            target = os.path.join(out, name)
            code = "\\n".join(line.strip() for line in VICTIM.splitlines())
            one = subprocess.Popen([sys.executable, "-c", code, ray.get_runtime_context().gcs_address, src, target, kind])
            while len(glob.glob(os.path.join(target, "*.tar"))) < least and one.poll() is None:
                time.sleep(0.002)
            one.kill()
            one.wait()
            before = {p: (os.stat(p).st_ino, os.stat(p).st_mtime_ns) for p in glob.glob(os.path.join(target, "*.tar"))}
            how_now = {**how, "fields": chain} if kind == "chain" else {**{k: v for k, v in how.items() if k != "fields"}, "map": slowly}
            done = stoker.pack(src, target, engine="ray", **how_now)
            after = {p: (os.stat(p).st_ino, os.stat(p).st_mtime_ns) for p in before}
            if kind == "map" and "pmapped" not in os.listdir(out):
                stoker.pack(src, os.path.join(out, "pmapped"), **how_now)
            good = shards(name) == shards("threads" if kind == "chain" else "pmapped")
            yield good and before == after and done["kept_shards"] >= len(before) >= least and done["samples"] == 48
            shutil.rmtree(target)

    home = tempfile.mkdtemp(prefix="sray")      # short: Ray's sockets are in it
    said, killed = {}, []
    try:
        start()
        stoker.pack(src, os.path.join(out, "threads"), num_proc=2, **how)
        want = shards("threads")
        one = stoker.pack(src, os.path.join(out, "ray"), engine="ray", **how)
        said["equal"] = shards("ray") == want and one["shards"] == len(want) and one["kept_shards"] == 0

        for attempt in range(5):            # a pack may be done before a worker is found
            shutil.rmtree(os.path.join(out, "killed"), ignore_errors=True)
            over = threading.Event()
            killer = threading.Thread(target=kill_some, args=(os.path.join(out, "killed"), over, killed))
            killer.start()
            two = stoker.pack(src, os.path.join(out, "killed"), engine="ray", **how)
            over.set()
            killer.join()
            if killed:
                break
        said["killed"], said["equal_after_kills"] = len(killed), shards("killed") == want
        said["samples"] = two["samples"]
        said["left"] = [n for n in os.listdir(os.path.join(out, "killed")) if n.startswith(".") and n != ".stoker"]
        said["parts_left"] = [n for n in os.listdir(os.path.join(out, "killed", ".stoker")) if "part-" in n]

        again = stoker.pack(src, os.path.join(out, "killed"), engine="ray", **how)
        said["kept"] = again["kept_shards"] == len(want)
        for name in list(want)[::5]:
            os.unlink(os.path.join(out, "killed", name))
        stoker.pack(src, os.path.join(out, "killed"), engine="ray", **how)
        said["equal_again"] = shards("killed") == want
        try:
            stoker.pack(src, os.path.join(out, "bad"), engine="ray", fields={"jpg": "image | to(f32) | encode(jpeg)"}, select=[0])
        except stoker.StokerError as e:
            said["failure"] = str(e)
        said["functions"] = list(by_functions())
        said["drivers"] = list(kill_drivers())
    finally:
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(said))
""")


def test_ray(urls, tmp_path):
    if not (FOLDER / "ray").is_dir():
        pytest.skip("Ray is not installed in .venv/ray: make setup does it where it can be had")
    seed, kills = os.environ.get("STOKER_SEED", "7"), int(os.environ.get("STOKER_RAY_KILLS", "2"))
    print("seed", seed)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path), str(FOLDER)]), "RAY_USAGE_STATS_ENABLED": "0",
           "RAY_DEDUP_LOGS": "0",
           "RAY_worker_niceness": "0"}  # Ray's is 15: beside tests of niceness 0 a worker gets a thirtieth of a core
    done = subprocess.run([sys.executable, "-c", DRIVER, urls, str(tmp_path), str(kills), seed], env=env, capture_output=True, text=True,
                          timeout=500 + 120 * kills)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    print(said)
    if "not_started" in said:
        pytest.skip("Ray did not start in the 30 s that it gives itself, three times: the machine is loaded")
    assert "encode: a picture is u8" in said.pop("failure")
    assert said.pop("killed") >= 1
    assert said.pop("functions") == [True] * 5
    assert said.pop("drivers") == [True] * kills
    assert said == {"equal": True, "equal_after_kills": True, "samples": 48, "left": [], "parts_left": [], "kept": True,
                    "equal_again": True}
