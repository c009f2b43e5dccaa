# SPDX-License-Identifier: Apache-2.0
"""Libraries of other majors give the same planes; unknown ones, and ones that decode wrong, are refused before the first frame.

$STOKER_LIBAVS names more libraries (libavcodec files, with those they need beside them), parted by colons: `make soak` installs PyAV's
of majors 60, 61 and 62.  The suite runs with the system's alone."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from made_video import decoded, dump, make, needs_ffmpeg

pytestmark = needs_ffmpeg
LIBRARIES = [p for p in os.environ.get("STOKER_LIBAVS", "").split(":") if p]
SOURCE = (pathlib.Path(__file__).parents[2] / "src/video/libav_load.c").read_text()
OWN = {"avcodec_version", "avutil_version", "avcodec_receive_frame"}        # of each body below
NAMES = [n for n in re.findall(r"\bX\((\w+)\)", SOURCE) if n not in OWN]  # what else a library must have


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return tmp_path_factory.mktemp("majors")


@pytest.mark.skipif(not LIBRARIES, reason="$STOKER_LIBAVS names no libraries: make soak")
@pytest.mark.parametrize("name", ["gop12.mp4", "open.mkv", "422.mp4", "ten.mp4", "odd.mp4", "full.mp4", "hevc.mp4", "hevc10.mkv", "vp9.webm", "vp8.webm", "asp.mp4",
                                  "interlaced.mp4", "refresh.mp4"])
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: ".".join(pathlib.Path(p).name.split(".")[1:]))
def test_each_library_gives_the_same_planes(videos, library, name, monkeypatch):
    path = make(videos, name)
    theirs = decoded(path)
    monkeypatch.setenv("STOKER_LIBAVCODEC", library)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(pathlib.Path(library).parent))
    if name == "asp.mp4":  # no standard says how MPEG-4 rounds its IDCT, and FFmpeg's changed: the same library's whole decode is compared
        theirs = [(t, crc) for _, t, crc in dump(path, [("whole", list(range(len(theirs))))])[2][0]]
    asked = [("whole", list(range(len(theirs)))), ("whole", [len(theirs) // 2]), ("whole", [3, len(theirs) - 1])]
    for (_, clip), got in zip(asked, dump(path, asked)[2], strict=True):
        assert not isinstance(got, str), got
        assert [(f, crc) for f, _, crc in got] == [(k, theirs[k][1]) for k in clip]


def library_with(folder, body):
    """A library that hands all calls on to the system's libavcodec, but those of `body`."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    real = next((p for d in ("/usr/lib", "/usr/local/lib") for p in pathlib.Path(d).rglob("libavcodec.so.[0-9][0-9]")), None)
    if not real:
        pytest.skip("there is no libavcodec of the system's")
    source, out = folder / "other.c", folder / "libavcodec-other.so"
    calls = "".join(f'long {n}(long a, long b, long c, long d) {{ return ((long (*)(long, long, long, long))get("{n}"))(a, b, c, d); }}\n'
                    for n in NAMES)
    source.write_text("#include <dlfcn.h>\n#include <string.h>\nstatic void *get(const char *name)\n{\n    static void *l;\n"
                      f'    if (!l)\n        l = dlopen("{real}", RTLD_NOW);\n    return dlsym(l, name);\n}}\n{calls}{body}')
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", out, source, "-ldl"], check=True)
    return str(out)


PASS_ON = """unsigned avcodec_version(void) { return ((unsigned (*)(void))get("avcodec_version"))(); }
unsigned avutil_version(void) { return ((unsigned (*)(void))get("avutil_version"))(); }
"""
RECEIVE = 'int avcodec_receive_frame(void *c, void *f)\n{\n    int rc = ((int (*)(void *, void *))get("avcodec_receive_frame"))(c, f);\n    %s\n    return rc;\n}\n'


@pytest.mark.parametrize("body, why", [
    ("unsigned avcodec_version(void) { return 99 << 16; }\nunsigned avutil_version(void) { return 99 << 16; }\n" + RECEIVE % "", "is libavcodec 99"),
    (PASS_ON + RECEIVE % "if (!rc)\n        (*(unsigned char **)f)[3] ^= 1;", "did not decode the three frames"),
    (PASS_ON + RECEIVE % "if (!rc)\n        memmove(f, (char *)f + 8, 64);", "did not decode the three frames"),
    (PASS_ON.replace("get(\"avutil_version\"))()", "get(\"avutil_version\"))() + (1 << 16)") + RECEIVE % "", "does not know"),
    (PASS_ON, "has no avcodec_receive_frame"),
    (PASS_ON + RECEIVE % "", None),
])
def test_what_does_not_fit_is_refused(videos, tmp_path, monkeypatch, body, why):
    path = make(videos, "422.mp4")
    monkeypatch.setenv("STOKER_LIBAVCODEC", library_with(tmp_path, body))
    [got] = dump(path, [("whole", [0])])[2]
    assert why in got if why else got[0][2] == decoded(path)[0][1]
