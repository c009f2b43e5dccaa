# SPDX-License-Identifier: Apache-2.0
"""docs/chains.md is what tools/ops_doc.py writes, and every example on it can be opened."""

import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
CLI = os.environ.get("STOKER_CLI", str(BUILD / "cli" / "stoker"))
sys.path[:0] = [str(ROOT / "tools"), str(BUILD.resolve() / "python")]

import ops_doc  # noqa: E402
import page_pictures  # noqa: E402

if not os.path.exists(CLI):
    pytest.skip(f"{CLI} is not built", allow_module_level=True)


def test_the_page_is_current():
    run = subprocess.run([sys.executable, ROOT / "tools" / "ops_doc.py", "--check"], env=os.environ | {"STOKER_CLI": CLI},
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_op_of_pictures_is_shown():
    """Those that need more than a picture, or give no picture, are the exceptions."""
    others = {"like", "iou_crop", "normalize", "to", "patches", "call"}
    ops = {name for name, chain in ops_doc.EXAMPLES.items() if "| image |" in chain} - others
    assert ops == set(page_pictures.SHOWN) == {p.stem for p in (ROOT / "docs/img/ops").glob("*.jpg")}


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    (folder / "names.txt").write_text("cat\ndog\n")
    (folder / "photos").mkdir()
    (folder / "a.jsonl").write_text('{"path": "1.jpg"}\n')
    (folder / "a.bin").write_bytes(bytes(4096))
    with tarfile.open(folder / "a.tar", "w") as tar:
        for field in ("jpg", "mp4", "flac", "cls", "json", "txt", "npy", "txt.gz", "txt.zst", "txt.lz4", "bin", "masks"):
            info = tarfile.TarInfo(f"0.{field}")
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    for name in ("musan", "rirs"):      # what noise() mixes in, what reverb() takes
        (folder / name).mkdir()
        shutil.copy(folder / "a.tar", folder / name / "0.tar")
    return folder / "a.tar"


@pytest.mark.parametrize("name", ops_doc.EXAMPLES)
def test_the_example_can_be_opened(name, shard, monkeypatch):
    import stoker

    monkeypatch.chdir(shard.parent)
    data = {"open": shard.with_suffix(".jsonl"), "tokens": shard.with_suffix(".bin")}.get(name, shard)
    known = {"lengths": [9]} if name == "pack" else {}          # else they are read
    beside = {"like": {"image": "from(jpg) | image"}, "image_tokens": {"pixel_values": ops_doc.EXAMPLES["pictures"]}, "iou_crop": {"boxes": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(x)"}}
    fields = {"x": ops_doc.EXAMPLES[name], **beside.get(name, {})}
    if name == "call":              # its function comes with a chain that is built
        def function(image):
            return image

        function.__module__, function.__qualname__ = "mymodule", "myfunction"
        built = stoker.from_("jpg").image().resize(256).call(function).to("f32")
        assert str(built) == fields["x"]
        fields = {"x": built}
        known = {"worker_type": "fork"}
    stoker.Loader(str(data), fields=fields, collate="list", **known).close()
