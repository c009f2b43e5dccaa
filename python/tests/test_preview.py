# SPDX-License-Identifier: Apache-2.0
"""loader.preview(): the pictures that the next loop gives, and a loader that stays where it is."""

import io

import numpy as np
import pytest
from conftest import FIELDS, IMAGE, as_numpy, check_python, ids_of
from PIL import Image

import stoker

RAW = "from(jpg) | image | random_resized_crop(32) | hflip | to(u8, layout=hwc)"


def pixels(p):
    return np.frombuffer(p.rgb, np.uint8).reshape(p.height, p.width, 3)


@pytest.mark.parametrize("batch_size", [4, 64])
@pytest.mark.parametrize("workers", [0, 2])
def test_it_shows_what_comes(urls, batch_size, workers):
    options = {"batch_size": batch_size, "shuffle": True, "seed": 3, "num_workers": workers}
    with stoker.Loader(urls, fields={"image": RAW}, **options) as loader:
        want = [(k, as_numpy(row).copy()) for b in loader for k, row in zip(b.sample_keys, b["image"])]
    with stoker.Loader(urls, fields={"label": "from(cls) | int", "image": IMAGE}, **options) as loader:
        assert loader.preview(3).keys == [k for k, _ in want[:3]]
    with stoker.Loader(urls, fields=FIELDS, **options) as loader:
        shown = loader.preview()
        assert len(shown) == 16 and shown.keys == [k for k, _ in want[:16]]
        for p, (_, row) in zip(shown.pictures, want):
            np.testing.assert_array_equal(pixels(p), row)
        assert [k for b in loader for k in b.sample_keys] == [k for k, _ in want]


def test_it_is_the_normalized_picture(urls):
    """Turning normalize back by hand gives the same bytes."""
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    with stoker.Loader(urls, fields=FIELDS, batch_size=5) as loader:
        shown = loader.preview(5)
        batch = next(iter(loader))
    back = as_numpy(batch["image"]).transpose(0, 2, 3, 1) * std + mean
    for p, row in zip(shown.pictures, back):
        np.testing.assert_array_equal(pixels(p), np.rint(row * 255).astype(np.uint8))


def test_the_loader_does_not_move(urls):
    with stoker.Loader(urls, fields=FIELDS, batch_size=7, shuffle=True) as loader:
        first = ids_of(loader)
        running = iter(loader)
        second = [int(i) for i in next(running).sample_ids]
        before = loader.state_dict()
        coming = loader.preview(4).keys             # of the epoch after the running one
        assert loader.state_dict() == before
        second += [int(i) for b in running for i in b.sample_ids]
        assert sorted(first) == sorted(second) and first != second
        assert coming == [k for k in next(iter(loader)).sample_keys[:4]]
        loader.set_epoch(0)
        assert loader.preview(2).keys == [f"{i:06d}" for i in first[:2]]


def test_grid_png_and_html(urls, tmp_path):
    with stoker.Loader(urls, fields={"image": "from(jpg) | image"}, collate="list", batch_size=4) as loader:
        shown = loader.preview(5)                   # pictures of different sizes
    grid = np.asarray(shown.image)
    assert np.asarray(Image.open(io.BytesIO(shown._repr_png_()))).tolist() == grid.tolist()
    p = shown.pictures[1]
    left = max(q.width for q in shown.pictures) + 2
    np.testing.assert_array_equal(grid[:p.height, left:left + p.width], pixels(p))
    shown.save(tmp_path / "grid.png")
    shown.save(tmp_path / "grid.jpg")
    assert Image.open(tmp_path / "grid.png").size == Image.open(tmp_path / "grid.jpg").size == grid.shape[1::-1]
    text = shown._repr_html_()
    assert text.count("data:image/png;base64,") == 5 and 'title="000003"' in text
    assert "5 pictures" in repr(shown)


def test_keys_are_escaped():
    from stoker.preview import Picture, Preview

    assert "<b>" not in Preview([Picture('<b>"x', 1, 1, b"abc")])._repr_html_()


def test_more_than_there_is_and_excluded(urls):
    with stoker.Loader(urls, fields=FIELDS, exclude=(k for k in ["000000", "000002"])) as loader:
        assert loader.preview(2).keys == ["000001", "000003"]
        assert len(loader.preview(4000)) == len(loader) == 98


def test_what_is_refused(urls):
    with stoker.Loader(urls, fields={"label": "from(cls) | int"}) as loader:
        with pytest.raises(stoker.StokerError, match="no output of this loader is one"):
            loader.preview()
    with stoker.Loader(urls, fields=FIELDS) as loader:
        with pytest.raises(stoker.StokerError, match="image, not 'label'"):
            loader.preview(output="label")
        with pytest.raises(stoker.StokerError, match="at least 1"):
            loader.preview(0)


def test_without_pillow(urls, tmp_path):
    check_python("""
        import sys
        sys.modules["PIL"] = sys.modules["numpy"] = None
        import stoker
        loader = stoker.Loader(sys.argv[1], fields={"image": "from(jpg) | image | resize(16)"}, collate="list")
        shown = loader.preview(4)
        shown.save(sys.argv[2])
        try:
            shown.image
        except stoker.StokerError as e:
            assert "Pillow" in str(e)
        else:
            raise SystemExit("no error")
    """, urls, tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").mode == "RGB"
