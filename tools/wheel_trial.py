# SPDX-License-Identifier: Apache-2.0
"""Run by tools/wheel.sh in a fresh venv: the wheel imports, decodes, loads; its command works."""

import io
import subprocess
import sys
import tarfile
import zlib

import stoker

# A grey 8 x 8 JPEG, packed: the venv has no library that could make one.
JPEG = bytes.fromhex(
    "78dafb7fe3ff0306012f374f370646460606462064f87f9bc19941809b878f874b808f974f4850405842434a42"
    "4c4cc250595556c3cad8d6c6d2d8c2dcc123c6cfc125dcd5dc222037303c3e293d23ddceb7b0b220a52226353d"
    "f9ff01066e0e062064641464f87f84410464322a00890a608ade02e96160b067b0ff7f13009f5e1f5d")


def write(path, n):
    with tarfile.open(path, "w") as tar:
        for i in range(n):
            for name, raw in (("jpg", zlib.decompress(JPEG)), ("cls", b"%d" % i)):
                info = tarfile.TarInfo(f"{i:04d}.{name}")
                info.size = len(raw)
                tar.addfile(info, io.BytesIO(raw))


def main():
    write("a.tar", 10)
    fields = {"image": "from(jpg) | image | resize((4, 4))", "label": "from(cls) | int"}
    with stoker.Loader("a.tar", fields, batch_size=4, shuffle=True) as loader:
        batches = list(loader)
    labels = sorted(int(v) for b in batches for v in b["label"])
    assert labels == list(range(10)), labels
    assert batches[0]["image"].shape == (4, 3, 4, 4), batches[0]["image"].shape
    assert batches[0]["image"].min() > 100, "the picture is grey"
    for command in (["--version"], ["ops"], ["index", "a.tar"]):
        done = subprocess.run(["stoker", *command], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout, (command, done)
    done = subprocess.run([sys.executable, "-I", "-m", "stoker", "--version"], capture_output=True)
    assert done.returncode == 0, done
    print(f"tried: stoker {stoker.__version__}, {stoker.build_info()}")


if __name__ == "__main__":
    main()
