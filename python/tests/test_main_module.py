# SPDX-License-Identifier: Apache-2.0
"""Scripts without a guard, notebooks and `python -c`: workers are forked where a fresh process would not find the
data set's class, or would run the script again."""

import os
import subprocess
import sys
import types

import pytest
import stoker
from stoker import _main

HEAD = """
import sys; sys.modules["torch"] = None        # two seconds per process
import stoker
class Numbers:
    def __len__(self): return 20
    def __getitem__(self, i): return i
print("run", flush=True)
files = stoker.Loader(DATA, batch_size=4)
for batch in files: break
"""                                             # the loader of arrays has threads by now
USE = """
loader = stoker.Loader(Numbers(), batch_size=5, num_workers=2, worker_type={kind!r})
print(sum(int(b.sum()) for b in loader), flush=True)
"""


def run(args, text=None):
    paths = [os.path.dirname(os.path.dirname(stoker.__file__)), os.environ.get("PYTHONPATH", "")]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in paths if p))
    return subprocess.run([sys.executable, *args], input=text, capture_output=True, text=True, timeout=180, env=env)


@pytest.fixture
def data(tmp_path):
    import numpy
    numpy.save(tmp_path / "x.npy", numpy.arange(8))
    return HEAD.replace("DATA", repr(str(tmp_path / "x.npy")))


@pytest.mark.parametrize("how", ["script", "-c", "stdin"])
def test_a_script_without_a_guard_runs_once(tmp_path, data, how):
    script = tmp_path / "train.py"
    script.write_text(data + USE.format(kind=None))
    done = {"script": lambda: run([str(script)]), "-c": lambda: run(["-c", script.read_text()]),
            "stdin": lambda: run(["-"], script.read_text())}[how]()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["run", "190"]


def test_a_guarded_script_is_imported_by_fresh_processes(tmp_path, data):
    script = tmp_path / "train.py"
    script.write_text(data.replace("files =", "if __name__ == '__main__':\n  files =").replace("\nfor", "\n  for")
                      + USE.format(kind="forkserver").replace("\n", "\n  "))
    done = run([str(script)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["run", "run", "190"]


def test_spawn_says_what_a_script_lacks(tmp_path, data):
    script = tmp_path / "train.py"
    script.write_text(data + USE.format(kind="spawn"))
    done = run([str(script)])
    assert done.stdout.split() == ["run"]
    assert "UnsupportedError" in done.stderr and "would run it once more" in done.stderr and "worker_type" in done.stderr
    done = run(["-c", script.read_text()])
    assert "UnsupportedError" in done.stderr and "define it in a module" in done.stderr


def test_what_does_not_name_the_script_does_not_import_it(tmp_path, data):
    (tmp_path / "numbers_set.py").write_text("import sys; sys.modules['torch'] = None\nclass" + data.partition("class")[2].partition("print")[0])
    script = tmp_path / "train.py"
    script.write_text("from numbers_set import Numbers\nimport stoker\nprint('run', flush=True)\n" + USE.format(kind="spawn"))
    done = run([str(script)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["run", "190"]


def test_guards(tmp_path):
    def main(text):
        path = tmp_path / "m.py"
        path.write_text(text)
        return types.SimpleNamespace(__file__=str(path), __spec__=None)

    _main.check(main("def f(): pass\nif __name__ == '__main__':\n    f()\n"))
    _main.check(main("if '__main__' == __name__: pass\n"))
    for text in ("print(1)\n", "def f():\n    if __name__ == '__main__': pass\n", "if name == '__main__': pass\n"):
        with pytest.raises(_main.NoMain, match="would run it once more"):
            _main.check(main(text))
    with pytest.raises(_main.NoMain, match="notebook"):
        _main.check(types.SimpleNamespace())
