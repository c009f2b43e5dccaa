# SPDX-License-Identifier: Apache-2.0
"""What the tests of packing to a store share: the command line, local shards, and a pack that is killed in the middle."""
import os
import pathlib
import subprocess
import threading

CLI = os.environ.get("STOKER_CLI") or str(pathlib.Path(__file__).parents[2] / "build/cli/stoker")


def command(*words):
    return [CLI, *map(str, words)]


def cli(*words, fails=False):
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=180)
    assert bool(done.returncode) == fails, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def local_shards(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.tar"))}


def killed(proxy, words, late):
    """Runs a pack by way of `proxy`, and kills it while the first request for which late(path) is true is held.
    It stays held until the caller sets proxy.hold to None."""
    stuck = threading.Event()

    def hold(count):
        if late(proxy.requests[-1][1]):
            stuck.set()
            return True
        return False

    proxy.hold = hold
    child = subprocess.Popen(command(*words))
    assert stuck.wait(120)
    child.kill()
    child.wait(60)
