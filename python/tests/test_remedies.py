# SPDX-License-Identifier: Apache-2.0
"""What people try first, and what the error tells them to do."""

import numpy as np
import pytest
from PIL import Image

import stoker

IMAGE = {"image": "image | resize((8, 8))"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("remedies") / "photos"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(root / name / "1.jpg")
    return root


class Compose:
    transforms = ()

    def __call__(self, x):
        return x


@pytest.mark.parametrize(("value", "remedy"), [
    (lambda x: x, r"stoker\.image\(\)\.call\(function\)"), (Compose(), r"stoker\.Chain\.from_transform"), (3, r"not 3$")])
def test_a_value_in_place_of_a_chain(photos, tmp_path, value, remedy):
    for take in (lambda: stoker.Loader(photos, {"image": value}), lambda: stoker.open(photos, {"image": value}),
                 lambda: stoker.pack(photos, tmp_path / "out", fields={"jpg": value}), lambda: stoker.Transform(value)):
        with pytest.raises(stoker.StokerError, match=remedy):
            take()


def test_files_that_are_no_shards(photos, tmp_path):
    paths = sorted(map(str, photos.rglob("*.jpg")))
    with pytest.raises(stoker.StokerError, match=r"pictures are no shards: open the folder, or a manifest.*from\(path\) \| open \| image"):
        stoker.Loader(paths, IMAGE)
    with pytest.raises(stoker.StokerError, match="a picture is no shard"):
        stoker.open(paths[0])
    (tmp_path / "x.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    with pytest.raises(stoker.StokerError, match=r"a video is no shard: open the folder, or a manifest.*from\(path\) \| open \| video"):
        stoker.open(tmp_path / "x.mp4")
    for end, head in (("dcm", bytes(128) + b"DICM"), ("weird", b"?")):
        path = tmp_path / f"x.{end}"
        path.write_bytes(head + bytes(100))
        with pytest.raises(stoker.StokerError, match=rf"\.{end} files are no shards.*a manifest.*from\(path\) \| open \| bytes.*\.call\(function\)"):
            stoker.open(path)
    (tmp_path / "list.csv").write_text("path\n" + "".join(f"{p}\n" for p in ("x.mp4", "x.dcm")))      # and what it says works
    chain = stoker.Chain("from(path) | open | bytes").call(len, dtype="i64", shape=0)
    assert [int(v) for b in stoker.Loader(tmp_path / "list.csv", {"x": chain}, batch_size=2) for v in b["x"]] == [112, 232]


def test_a_loader_as_the_data_set_of_a_data_loader(photos):
    data = pytest.importorskip("torch.utils.data")
    loader = stoker.Loader(photos, IMAGE, batch_size=1)
    for one in (loader, loader.as_tuples("image"), stoker.to_device(loader, "cpu")):
        with pytest.raises(TypeError, match=r"makes batches by itself.*in place of a DataLoader.*stoker\.open"):
            one[0]
    with pytest.raises(TypeError, match=r"in place of a DataLoader"):
        list(data.DataLoader(loader))
    assert len(list(data.DataLoader(stoker.open(photos, {**IMAGE, "y": "from(cls) | int"}), batch_size=2))) == 1
    assert len(list(stoker.Loader(loader, batch_size=1, num_workers=0))) == 2           # as an iterable it is taken as ever


@pytest.mark.parametrize(("chain", "remedy"), [
    ("image | resize(8)", r"resize\(8\) \| encode\(jpeg, 90\)"), ("from(cls) | int", r"int \| encode\(text\)"), ("from(cls) | text", r"encode\(text\)"),
    ("from(cls) | ints", r"encode\(json\)"), ("from(cls) | bytes", "a field that no chain makes is kept.*encode.raw"), ("from(cls)", "encode.raw")])
def test_encode_is_missing(photos, tmp_path, chain, remedy):
    with pytest.raises(stoker.StokerError, match=remedy):
        stoker.pack(photos, tmp_path / "out", fields={"x": chain})
    if "bytes" in chain:                        # what it proposes works
        stoker.pack(photos, tmp_path / "out", fields={"x": f"{chain} | encode(raw)"})
        assert stoker.open(tmp_path / "out")[1]["x"] == b"1"
