# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md against the library: every message on it is provoked here and compared."""

import os
import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from made import jpeg, write_tar  # noqa: E402

if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import stoker  # noqa: E402

IMAGE = {"image": "from(jpg) | image | resize((8, 8))"}
LABEL = {"label": "from(cls) | int"}


def shard(d):
    return write_tar(d / "a.tar", [
        (f"{i:04d}.{name}", raw) for i in range(20)
        for name, raw in (("jpg", jpeg(i)), ("cls", b"%d" % i))])


def labels(d):
    """Without pictures: its size is the same for any JPEG encoder."""
    return write_tar(d / "a.tar", [(f"{i:04d}.cls", b"%d" % i) for i in range(20)])


def load(data, fields, **options):
    with stoker.Loader(data, fields, **{"num_workers": 0, **options}) as loader:
        return list(loader)


def unknown_step(d):
    load(shard(d), {"image": "from(jpg) | image | resise(8)"})


def unknown_argument(d):
    load(shard(d), IMAGE, batchsize=8)


def unknown_field(d):
    load(shard(d), {"image": "from(png) | image | resize((8, 8))"})


def ragged(d):
    load(shard(d), {"image": "from(jpg) | image"}, batch_size=8)


def too_few(d):
    load(shard(d), LABEL, batch_size=64, drop_last=True)


def bad_picture(d):
    write_tar(d / "a.tar", [("0.jpg", b"\xff\xd8\xff garbage" * 9)])
    load(d / "a.tar", IMAGE)


def bad_label(d):
    write_tar(d / "a.tar", [("0.cls", b"cat")])
    load(d / "a.tar", LABEL)


def torn_shard(d):
    os.truncate(labels(d), 10_000)
    stoker.open(d / "a.tar")


def cut_in_sample(d):
    write_tar(d / "a.tar", [(f"{i:04}.{f}", b"1") for i in range(10) for f in ("cls", "txt")])
    os.truncate(d / "a.tar", 19 * 1024)
    stoker.open(d / "a.tar")


def not_found(d):
    stoker.open(str(d / "train-{000..002}.tar"))


def no_column(d):
    stoker.open(labels(d)).column("cls")


def empty_column(d):
    stoker.open(labels(d), columns=["json.width"])


def changed(d):
    stoker.open(labels(d))
    write_tar(d / "a.tar", [("0.cls", b"1")])
    stoker.open(d / "a.tar")


def rewritten(d):
    stoker.open(write_tar(d / "a.tar", [(f"{i:04d}.cls", b"1") for i in range(40)]))
    write_tar(d / "a.tar", [(f"{i:04d}{'x' * (i in (8, 9))}.cls", b"1") for i in range(40)])
    os.utime(d / "a.tar", ns=(1, 1))
    load(d / "a.tar", {"x": "from(cls) | int"})


def shorter(d):
    np.save(d / "a.npy", np.zeros((1000, 8), "f4"))
    data = stoker.open(d / "a.npy")
    os.truncate(d / "a.npy", 4096)
    data[999]


def too_large(d):
    load(shard(d), IMAGE, max_pixels=100)


def held(d):
    fields = {"image": "from(jpg) | image | resize((256, 256)) | to(f32)"}
    with stoker.Loader(shard(d), fields, batch_size=4, memory_limit="16MB", prefetch=1,
                       num_workers=0) as loader:
        kept = [b for _ in range(20) for b in loader]
        assert kept


def no_cuda(d):
    with mock.patch.dict(os.environ, STK_CUDA_LIB=f"{d}/none.so"):
        load(shard(d), IMAGE, device="cuda")


def closed(d):
    loader = stoker.Loader(shard(d), LABEL)
    loader.close()
    next(iter(loader))


def too_many_bad(d):
    write_tar(d / "a.tar", [(f"{i}.cls", b"x" if i < 3 else b"1") for i in range(20)])
    load(d / "a.tar", LABEL, on_error={"skip": 2}, batch_size=20)


CASES = [unknown_step, unknown_argument, unknown_field, ragged, too_few, bad_picture, bad_label,
         torn_shard, cut_in_sample, not_found, no_column, empty_column, changed, rewritten,
         shorter, too_large, held, no_cuda, closed, too_many_bad]


def message(case, folder):
    with pytest.raises(stoker.StokerError) as caught:
        case(folder)
    text = str(caught.value).replace(str(folder), "DIR")
    return caught.value.code, re.sub(r"\d+ MB", "N MB", text)


def on_page():
    """name -> (code of its section, message)."""
    found, code = {}, None
    text = (ROOT / "docs/errors.md").read_text()
    for m in re.finditer(r"^## .*?`(E[A-Z]+)`|^<!-- provoked: (\w+) -->\n```text\n(.*?)\n```", text,
                         re.M | re.S):
        code = m[1] or code
        if m[2]:
            found[m[2]] = code, m[3]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_message_is_as_on_the_page(case, tmp_path):
    assert message(case, tmp_path) == on_page()[case.__name__]


def test_page_has_every_family():
    page = on_page()
    assert set(page) == {c.__name__ for c in CASES}
    text = (ROOT / "docs/errors.md").read_text()
    for code in re.findall(r"\bSTK_(E[A-Z]+) = -", (ROOT / "include/stoker/base.h").read_text()):
        assert f"`{code}`" in text, f"errors.md says nothing of {code}"
