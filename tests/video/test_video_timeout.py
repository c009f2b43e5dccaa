# SPDX-License-Identifier: Apache-2.0
"""A decoder that does not come to an end: the clip is a bad sample after so much CPU time, and the next one is decoded."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import make, needs_ffmpeg  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg

# libavcodec itself, but for a decoder that gives its tenth frame again and again
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <errno.h>
extern void *av_frame_clone(const void *f);
extern int av_frame_ref(void *to, const void *from);
int avcodec_receive_frame(void *ctx, void *frame)
{
    static int (*real)(void *, void *);
    static __thread void *saved, *of;
    static __thread int n;
    int rc;

    if (ctx != of)
        n = 0, saved = NULL, of = ctx;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "avcodec_receive_frame");
    rc = real(ctx, frame);
    if (rc == 0 && ++n == 10)
        saved = av_frame_clone(frame);
    return saved && rc == -EAGAIN ? av_frame_ref(frame, saved) : rc;
}
"""


# ... but for the tenth frame of a thread, for which it never comes back
STAYS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int avcodec_receive_frame(void *ctx, void *frame)
{
    static int (*real)(void *, void *);
    static __thread int n;
    int rc;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "avcodec_receive_frame");
    rc = real(ctx, frame);
    while (rc == 0 && ++n >= 10)
        pause();
    return rc;
}
"""


def shim_of(folder, text):
    if not shutil.which("gcc"):
        pytest.skip("gcc makes the decoder that hangs")
    library = next((p for d in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64") for p in sorted(pathlib.Path(d).glob("libavcodec.so.*.*.*"))), None)
    if library is None:
        pytest.skip("no libavcodec is where distributions have it")
    (folder / "shim.c").write_text(text)
    shim = folder / library.name
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, folder / "shim.c", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}"], check=True, capture_output=True)
    return shim


def test_closing_does_not_wait_for_a_decoder_that_never_comes_back(tmp_path):
    """Before, close() and the end of the program waited without limit, and Ctrl-C led there."""
    made.write_tar(tmp_path / "a.tar", [(f"{i}.mp4", make(tmp_path, "gop12.mp4").read_bytes()) for i in range(4)])
    code = f"""
import logging, signal, stoker, sys, time
logging.basicConfig(format="%(message)s")
loader = stoker.Loader({str(tmp_path / "a.tar")!r}, {{"video": "from(mp4) | video(frames=20, start=0) | center_crop((96, 160)) | to(u8)"}}, num_workers=2)
signal.alarm(1)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    next(iter(loader))
except KeyboardInterrupt:
    begin = time.monotonic()
    loader.close()
    print(time.monotonic() - begin)
"""
    p = subprocess.run([sys.executable, "-c", code], env=os.environ | {"STOKER_LIBAVCODEC": str(shim_of(tmp_path, STAYS))}, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0 and 9 < float(p.stdout) < 40, (p.returncode, p.stdout, p.stderr)
    assert "closing gave up worker 0, which has been in a decoder for over 10 s: its thread and the loader's memory stay until the process ends" in p.stderr


def test_a_clip_that_takes_too_long(tmp_path):
    tar = str(made.write_tar(tmp_path / "a.tar", [(f"{i}.mp4", make(tmp_path, "gop250.mp4").read_bytes()) for i in range(2)]))
    fields = {"video": "from(mp4) | video(frames=8, stride=10, start=0, timeout={}) | center_crop((96, 160)) | to(u8)"}
    with stoker.Loader(tar, {"video": fields["video"].format(60)}) as loader:
        assert len(list(loader)) == 2
    with stoker.Loader(tar, {"video": fields["video"].format(1e-6)}) as loader:
        with pytest.raises(stoker.StokerError, match=r"track 1: the clip took more than 1e-06 s of CPU time to decode, which video\(timeout=1e-06\) allows \(H.264 by libavcodec\)"):
            next(iter(loader))
    with pytest.raises(stoker.StokerError, match="timeout=-1 is not a number of seconds"):
        stoker.Loader(tar, {"video": fields["video"].format(-1)})


@pytest.mark.parametrize("windows", [False, True])
def test_a_decoder_that_never_ends(tmp_path, windows):
    shim = shim_of(tmp_path, SHIM)
    (tmp_path / "videos").mkdir()
    data = make(tmp_path, "gop12.mp4").read_bytes()
    made.write_tar(tmp_path / "videos" / "a.tar", [(f"{i}.mp4", data) for i in range(2)])
    for i in range(2):
        (tmp_path / "videos" / f"{i}.mp4").write_bytes(data)
    video = ("from(path) | open(root='/') | video(frames=20, stride=2, first=first, step=20, timeout=0.5)" if windows else
             "from(mp4) | video(frames=20, start=0, timeout=0.5)")
    code = f"""
import stoker, sys
windows, folder = {windows}, {str(tmp_path / "videos")!r}
fields = {{"video": {video!r} + " | center_crop((96, 160)) | to(u8)"}} | ({{"first": "from(first) | int"}} if windows else {{}})
with stoker.Loader(stoker.open(folder + "/*.mp4", windows=stoker.Windows(frames=20, stride=2, step=20)) if windows else folder + "/a.tar", fields) as loader:
    try:
        next(iter(loader))
    except stoker.StokerError as e:
        sys.exit(0 if "the clip took more than 0.5 s of CPU time" in str(e) else str(e))
sys.exit("no error")
"""
    p = subprocess.run([sys.executable, "-c", code], env=os.environ | {"STOKER_LIBAVCODEC": str(shim)}, capture_output=True, text=True, timeout=240)
    assert p.returncode == 0, p.stderr
