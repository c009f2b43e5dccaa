# SPDX-License-Identifier: Apache-2.0
"""pictures: any number of them in a sample, each with the bits that it has alone; image_tokens: tokens, labels and M-RoPE positions that follow them."""

import io
import json
import tarfile

import numpy as np
import pytest
from pictures import picture
from PIL import Image

import stoker

QWEN = "resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=30000) | normalize(clip) | patches(qwen2_vl)"
TOKEN = 151655
COUNTS = [2, 0, 3, 1, 12, 1]          # pictures of each sample


def sizes(sample, k):
    rng = np.random.default_rng(100 * sample + k)
    return tuple(int(v) for v in rng.integers(40, 320, 2))


def encoded(sample, k, kind):
    out = io.BytesIO()
    picture(100 * sample + k, *sizes(sample, k)).save(out, kind)
    return out.getvalue()


def ids_of(sample, n):
    rng = np.random.default_rng(sample)
    row = []
    for _ in range(n):
        row += [*rng.integers(0, 1000, rng.integers(0, 5)), TOKEN]
    return [int(v) for v in [*row, *rng.integers(0, 1000, 4)]]


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """Fields 0.jpg, 1.png, ... and others between them; names.json lists some of them, in another order; every picture is a sample of alone.tar, too."""
    folder = tmp_path_factory.mktemp("pictures")
    with tarfile.open(folder / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar, tarfile.open(folder / "alone.tar", "w", format=tarfile.USTAR_FORMAT) as alone:
        for i, n in enumerate(COUNTS):
            names = []
            for k in reversed(range(n)):      # not stored in order
                kind = "PNG" if k % 3 == 1 else "JPEG"
                names.append(f"{k}.{'png' if kind == 'PNG' else 'jpg'}")
                add(tar, f"{i:03d}.{names[-1]}", encoded(i, k, kind))
                if k == 1:
                    add(tar, f"{i:03d}.cls", b"%d" % i)
            for k in range(n):
                kind = "PNG" if k % 3 == 1 else "JPEG"
                add(alone, f"{i:03d}-{k:02d}.jpg", encoded(i, k, kind))
            add(tar, f"{i:03d}.ids.json", json.dumps(ids_of(i, n)).encode())
            add(tar, f"{i:03d}.names.json", (" \n" * (i % 2) + json.dumps(names[::2])).encode())
    return str(folder)


def load(path, fields, **options):
    return stoker.Loader(path, fields, num_workers=2, seed=5, **options)


def numpy(x):
    return np.asarray(x.float() if hasattr(x, "float") else x)


@pytest.fixture(scope="module")
def alone(shard):
    """(patches, grid) of every picture, by itself."""
    loader = load(f"{shard}/alone.tar", {"x": f"from(jpg) | image | {QWEN} | to(f32)"}, batch_size=64, collate="list")
    batch = next(iter(loader))
    rows, at = [], 0
    for n in COUNTS:
        rows.append([(numpy(batch["x"][k]), batch.grid["x"][k].tolist()) for k in range(at, at + n)])
        at += n
    return rows


@pytest.mark.parametrize("collate", ["pack", "list", "pad"])
def test_each_has_the_bits_that_it_has_alone(shard, alone, collate):
    batch = next(iter(load(f"{shard}/a.tar", {"x": f"from(image) | pictures | {QWEN} | to(f32)"}, batch_size=len(COUNTS), collate=collate)))
    assert batch.pictures["x"].tolist() == np.cumsum([0, *COUNTS]).tolist() and "int32" in str(batch.pictures["x"].dtype)
    flat = [p for row in alone for p in row]
    assert batch.grid["x"].tolist() == [g for _, g in flat]
    assert batch.offsets["x"].tolist() == np.cumsum([0, *(len(p) for p, _ in flat)]).tolist()
    for i, row in enumerate(alone):
        want = np.concatenate([np.zeros((0, 1176), "f4"), *(p for p, _ in row)])
        first = sum(COUNTS[:i])
        begin, end = (int(batch.offsets["x"][k]) for k in (first, first + COUNTS[i]))
        got = numpy(batch["x"])[begin:end] if collate == "pack" else numpy(batch["x"][i])[:len(want)]
        assert got.shape == want.shape and (got == want).all(), i
    coords = batch.coords("x")
    if collate == "pack":
        assert len(coords) == len(batch["x"])
    if collate == "pad":
        assert batch.mask("x").sum() == batch.offsets["x"][-1] and coords.shape[:2] == batch["x"].shape[:2]


def test_a_list_names_fields_of_the_sample(shard, alone):
    batch = next(iter(load(f"{shard}/a.tar", {"x": f"from(names.json) | pictures | {QWEN} | to(f32)"}, batch_size=len(COUNTS), collate="list")))
    for i, row in enumerate(alone):
        want = [p for p, _ in reversed(row)][::2]
        assert (numpy(batch["x"][i]) == np.concatenate([np.zeros((0, 1176), "f4"), *want])).all()


def test_a_list_names_files(shard, alone, tmp_path):
    with tarfile.open(f"{shard}/alone.tar") as tar:
        tar.extractall(tmp_path / "files", filter="data")
    with tarfile.open(tmp_path / "b.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, n in enumerate(COUNTS):
            add(tar, f"{i:03d}.json", json.dumps([f"{i:03d}-{k:02d}.jpg" for k in range(n)]).encode())
        add(tar, "900.json", json.dumps(["../b.tar"]).encode())
    chain = f"from(json) | pictures(root=\"{tmp_path}/files\") | {QWEN} | to(f32)"
    batch = next(iter(load(str(tmp_path / "b.tar"), {"x": chain}, batch_size=len(COUNTS), collate="list")))
    for i, row in enumerate(alone):
        assert (numpy(batch["x"][i]) == np.concatenate([np.zeros((0, 1176), "f4"), *(p for p, _ in row)])).all()
    with pytest.raises(stoker.StokerError, match="leads out of its root"):
        next(iter(load(str(tmp_path / "b.tar"), {"x": chain}, batch_size=1, collate="list", skip=len(COUNTS))))


def test_files_that_a_list_names_count_towards_the_memory_limit(tmp_path):
    """150 times one file of a megabyte: a short list could name any number of large files."""
    picture(0, 600, 600).save(tmp_path / "big.ppm")
    picture(1, 60, 60).save(tmp_path / "small.ppm")
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar, "0.json", json.dumps(["big.ppm"] * 150).encode())
        add(tar, "1.json", json.dumps(["small.ppm", "big.ppm"] * 4).encode())
    fields = {"x": f"from(json) | pictures(root=\"{tmp_path}\") | resize((16, 16)) | patches(16) | to(u8)"}
    options = {"batch_size": 1, "collate": "list"}
    with pytest.raises(stoker.StokerError, match="memory"):
        list(load(str(tmp_path / "a.tar"), fields, memory_limit=64 << 20, **options))
    assert [b.pictures["x"].tolist()[-1] for b in load(str(tmp_path / "a.tar"), fields, memory_limit=2 << 30, **options)] == [150, 8]
    loader = load(str(tmp_path / "a.tar"), fields, memory_limit=64 << 20, on_error="skip", skip=1, **options)
    assert [b.pictures["x"].tolist()[-1] for b in loader] == [8] and loader.stats()["memory_of"]["scratch"] < 16 << 20


def test_fields_with_numbers_and_by_name_of_a_sample_with_many(tmp_path):
    """In the order of their numbers, or of the list; names with the sample's key, too."""
    n = 500
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        order = np.random.default_rng(5).permutation(n).tolist()
        for k in order:
            out = io.BytesIO()
            Image.fromarray(np.full((2, 2, 3), [k % 251, k // 251, 7], np.uint8)).save(out, "PPM")
            add(tar, f"one.{k}.png", out.getvalue())
        add(tar, "one.names.json", json.dumps([f"{k}.png" if k % 2 else f"one.{k}.png" for k in order]).encode())
    chain = "pictures | resize((2, 2), interpolation=nearest) | to(u8)"
    batch = next(iter(load(str(tmp_path / "a.tar"), {"x": f"from(image) | {chain}", "y": f"from(names.json) | {chain}"}, batch_size=1, collate="list")))
    want = [[k % 251, k // 251, 7] for k in range(n)]
    assert numpy(batch["x"][0])[:, :, 0, 0].tolist() == want and numpy(batch["y"][0])[:, :, 0, 0].tolist() == [want[k] for k in order]


@pytest.mark.parametrize("kind", ["struct", "binary"])
def test_a_list_column_of_parquet(shard, alone, tmp_path, kind):
    """Hugging Face's List(Image), with small pages, an empty list and a null one; tokens beside them."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [[encoded(i, k, "PNG" if k % 3 == 1 else "JPEG") for k in range(n)] for i, n in enumerate(COUNTS)]
    rows[1] = None
    if kind == "struct":
        rows = [r and [{"bytes": b, "path": None} for b in r] for r in rows]
        images = pa.array(rows, pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
    else:
        images = pa.array(rows, pa.list_(pa.binary()))
    table = pa.table({"images": images, "ids": pa.array([ids_of(i, n) for i, n in enumerate(COUNTS)], pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "a.parquet", data_page_size=30000, row_group_size=4)
    fields = {"x": f"from(images) | pictures | {QWEN} | to(f32)", "ids": "from(ids) | image_tokens(x)"}
    batch = next(iter(load(str(tmp_path / "a.parquet"), fields, batch_size=len(COUNTS), collate="list")))
    for i, row in enumerate(alone):
        assert (numpy(batch["x"][i]) == np.concatenate([np.zeros((0, 1176), "f4"), *(p for p, _ in row)])).all()
        assert batch["ids"][i].tolist() == expected(ids_of(i, COUNTS[i]), [g for _, g in row], "tokens")
    packed = load(str(tmp_path / "a.parquet"), fields, max_tokens=4000, collate="pack")
    assert sum(len(b.sample_ids) for b in packed) == len(COUNTS)
    with pytest.raises(stoker.StokerError, match="which `pictures` reads"):
        load(str(tmp_path / "a.parquet"), {"x": "from(images) | bytes"}, batch_size=1)


@pytest.mark.parametrize("kind", ["struct", "binary", "large", "view"])
@pytest.mark.parametrize("store", ["file", "stream", "compressed", "memory"])
def test_a_list_column_of_arrow(shard, alone, tmp_path, kind, store):
    """As datasets' save_to_disk writes List(Image): an empty list, a null one, several record batches; also packed, and a table in memory."""
    pa = pytest.importorskip("pyarrow")
    rows = [[encoded(i, k, "PNG" if k % 3 == 1 else "JPEG") for k in range(n)] for i, n in enumerate(COUNTS)]
    rows.append(None)
    of = {"struct": pa.binary(), "binary": pa.binary(), "large": pa.large_binary(), "view": pa.binary_view()}[kind]
    if kind == "struct":
        rows = [r and [{"bytes": b, "path": None} for b in r] for r in rows]
        of = pa.struct([("bytes", of), ("path", pa.string())])
    table = pa.table({"images": pa.array(rows, pa.list_(of)), "ids": pa.array([*(ids_of(i, n) for i, n in enumerate(COUNTS)), [7]], pa.list_(pa.int64()))})
    data = table
    if store != "memory":
        data = str(tmp_path / "a.arrow")
        options = pa.ipc.IpcWriteOptions(compression="zstd" if store == "compressed" else None)
        with (pa.ipc.new_stream if store == "stream" else pa.ipc.new_file)(data, table.schema, options=options) as out:
            out.write_table(table, max_chunksize=3)
    fields = {"x": f"from(images) | pictures | {QWEN} | to(f32)", "ids": "from(ids) | image_tokens(x)"}
    batch = next(iter(load(data, fields, batch_size=len(COUNTS) + 1, collate="list")))
    for i, row in enumerate([*alone, []]):
        assert (numpy(batch["x"][i]) == np.concatenate([np.zeros((0, 1176), "f4"), *(p for p, _ in row)])).all()
    assert batch["ids"][-1].tolist() == [7]
    with pytest.raises(stoker.StokerError, match="which `pictures` reads"):
        load(data, {"x": "from(images) | bytes"}, batch_size=1)


@pytest.mark.parametrize("store", ["arrow", "parquet"])
def test_pictures_that_a_list_column_has_by_their_paths(shard, alone, tmp_path, store):
    """datasets keeps a path in place of the bytes of a file that is not embedded."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    with tarfile.open(f"{shard}/alone.tar") as tar:
        tar.extractall(tmp_path / "files", filter="data")
    rows = [[{"bytes": None, "path": f"{i:03d}-{k:02d}.jpg"} for k in range(n)] for i, n in enumerate(COUNTS)]
    table = pa.table({"images": pa.array(rows, pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])))})
    data = str(tmp_path / f"a.{store}")
    if store == "parquet":
        pq.write_table(table, data)
    else:
        with pa.ipc.new_file(data, table.schema) as out:
            out.write_table(table)
    batch = next(iter(load(data, {"x": f"from(images.path) | pictures(root=\"{tmp_path}/files\") | {QWEN} | to(f32)"}, batch_size=len(COUNTS), collate="list")))
    for i, row in enumerate(alone):
        assert (numpy(batch["x"][i]) == np.concatenate([np.zeros((0, 1176), "f4"), *(p for p, _ in row)])).all()
    for root in ("", f"(root=\"{tmp_path}/files\")"):
        with pytest.raises(stoker.StokerError, match="picture 1 of its list has no bytes.*images.path"):
            next(iter(load(data, {"x": f"from(images) | pictures{root} | {QWEN} | to(f32)"}, batch_size=1, collate="list")))


def test_one_size_is_rows_of_pictures(shard):
    chain = "resize((32, 48)) | to(u8{})"
    one = numpy(next(iter(load(f"{shard}/alone.tar", {"x": "from(jpg) | image | " + chain.format("")}, batch_size=64)))["x"])
    for layout in ("", ", hwc"):
        batch = next(iter(load(f"{shard}/a.tar", {"x": "from(image) | pictures | " + chain.format(layout)}, batch_size=len(COUNTS), collate="list")))
        got = np.concatenate([numpy(r) for r in batch["x"]])
        assert (got == (one.transpose(0, 2, 3, 1) if layout else one)).all()
        assert [len(r) for r in batch["x"]] == COUNTS and batch.pictures["x"].tolist() == np.cumsum([0, *COUNTS]).tolist()


def test_draws_are_each_pictures_own_or_the_same(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for k in range(6):
            add(tar, f"0.{k}.jpg", encoded(0, 0, "JPEG"))
    chain = "pictures{} | random_resized_crop(64) | hflip | color_jitter(0.4, 0.4, 0.4) | to(u8)"
    for same in (False, True):
        loader = load(str(tmp_path / "a.tar"), {"x": "from(jpg) | " + chain.format("(same=true)" if same else "")}, batch_size=1)
        first = numpy(next(iter(loader))["x"])[0]
        assert len({p.tobytes() for p in first}) == (1 if same else 6)
        again = numpy(next(iter(load(str(tmp_path / "a.tar"), {"x": "from(jpg) | " + chain.format("(same=true)" if same else "")}, batch_size=1)))["x"])[0]
        assert (first == again).all()


def expected(ids, grids, give, merge=2):
    """The rule as transformers has it, written once more; test_as_transformers compares with its own code."""
    out, p, k = [], 0, 0
    for v in ids:
        if v != TOKEN:
            out.append([p] * 3 if give == "positions" else v)
            p += 1
            continue
        h, w = grids[k][-2] // merge, grids[k][-1] // merge
        k += 1
        if give == "positions":
            out += [[p, p + y, p + x] for y in range(h) for x in range(w)]
            p += max(h, w)
        else:
            out += [TOKEN if give == "tokens" else -100] * (h * w)
    return out


@pytest.mark.parametrize("rule", ["transformers", "torchtitan"])
def test_tokens_follow_their_pictures(shard, alone, rule):
    fields = {give: f"from(ids.json) | ints | image_tokens(x, token={TOKEN}, give={give}, rule={rule})" for give in ("labels", "positions")}
    fields |= {"tokens": "from(ids.json) | ints | image_tokens(x) | to(i32)", "x": f"from(image) | pictures | {QWEN} | to(bf16)"}
    for collate in ("list", "pack"):
        batch = next(iter(load(f"{shard}/a.tar", fields, batch_size=len(COUNTS), collate=collate)))
        for give in ("tokens", "labels", "positions"):
            want = [expected(ids_of(i, n), [g for _, g in alone[i]], give) for i, n in enumerate(COUNTS)]
            got = [r.tolist() for r in batch[give]] if collate == "list" else batch[give].tolist()
            assert got == (want if collate == "list" else [v for row in want for v in row])


@pytest.mark.parametrize("budget", [False, True])
def test_labels_without_placeholders_follow_the_tokens(tmp_path, budget):
    """As training sets have them: -100 where the prompt and its pictures are.  Their output may stand before that of the tokens."""
    ids, labels = {}, {}
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, n in enumerate(COUNTS):
            for k in range(n):
                add(tar, f"{i}.{k}.jpg", encoded(i, k, "JPEG"))
            ids[i] = ids_of(i, n)
            labels[i] = [-100 if v == TOKEN or k < len(ids[i]) // 2 else v for k, v in enumerate(ids[i])]
            add(tar, f"{i}.ids.json", json.dumps(ids[i]).encode())
            add(tar, f"{i}.labels.json", json.dumps(labels[i]).encode())
    with tarfile.open(tmp_path / "b.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar, "9.0.jpg", encoded(0, 0, "JPEG"))
        add(tar, "9.ids.json", json.dumps([1, TOKEN]).encode())
        add(tar, "9.labels.json", b"[-100, -100, 1]")         # another length
    fields = {"labels": "from(labels.json) | ints | image_tokens(x, give=labels)", "ids": "from(ids.json) | ints | image_tokens(x)", "x": f"from(image) | pictures | {QWEN} | to(f32)"}
    options = {"max_tokens": 4000, "collate": {"x": "pack", "ids": "list", "labels": "list"}} if budget else {"batch_size": 3, "collate": "list"}
    seen = 0
    for batch in load(str(tmp_path / "a.tar"), fields, **options):
        first = batch.pictures["x"].tolist()
        for row, key in enumerate(batch.sample_keys):
            at = [k for k, v in enumerate(ids[int(key)]) if v == TOKEN]
            want = []
            for k, v in enumerate(labels[int(key)]):
                _, h, w = batch.grid["x"][first[row] + at.index(k)].tolist() if k in at else (0, 2, 2)
                want += [v] * (h * w // 4)
            assert batch["labels"][row].tolist() == want and len(batch["ids"][row]) == len(want)
            seen += 1
    assert seen == len(COUNTS)
    with pytest.raises(stoker.StokerError, match="0 placeholders.*1 pictures.*same length.*9"):
        list(load(str(tmp_path / "b.tar"), fields, batch_size=1, collate="list"))
    with pytest.raises(stoker.StokerError, match="0 placeholders"):
        next(iter(load(str(tmp_path / "a.tar"), {k: fields[k] for k in ("labels", "x")}, batch_size=1, collate="list")))


@pytest.mark.parametrize("shuffle", [False, True])
def test_text_and_pictures_in_a_budget(shard, alone, shuffle):
    """A sample's pictures stay with its text, both count, and each sample comes once."""
    fields = {"ids": "from(ids.json) | ints | image_tokens(x)", "x": f"from(image) | pictures | {QWEN} | to(bf16)", "key": "from(cls, default=0) | int"}
    loader = load(f"{shard}/a.tar", fields, max_tokens=4000, collate={"ids": "pack", "x": "pack"}, shuffle=shuffle)
    seen = []
    for batch in loader:
        assert len(batch["x"]) + len(batch["ids"]) <= 4000
        for row, key in enumerate(batch.sample_keys):
            i = int(key)
            seen.append(i)
            a, b = batch.pictures["x"][row:row + 2].tolist()
            assert batch.grid["x"][a:b].tolist() == [g for _, g in alone[i]]
            a, b = batch.offsets["ids"][row:row + 2].tolist()
            assert batch["ids"][a:b].tolist() == expected(ids_of(i, COUNTS[i]), [g for _, g in alone[i]], "tokens")
    assert sorted(seen) == list(range(len(COUNTS)))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("collate", ["pack", "pad"])
def test_random_crops_count_as_many_as_their_rule_allows(shard, text, collate, on_error):
    """Each epoch draws other numbers of patches: none is refused, none is lost, and no batch is over its budget."""
    fields = {"x": "from(image) | pictures | random_resized_crop_to_patches(14, merge=2, max_patches=64) | hflip | patches(14, order=blocks) | to(u8)"}
    fields |= {"ids": "from(ids.json) | ints | image_tokens(x)"} if text else {}
    loader = load(f"{shard}/a.tar", fields, max_tokens=1300, collate=dict.fromkeys(fields, collate), shuffle=True, on_error=on_error)
    counts = set()
    for epoch in range(6):
        seen = []
        for batch in loader:
            assert sum(value.shape[0] * (value.shape[1] if collate == "pad" else 1) for value in batch.values()) <= 1300
            assert batch.valid is None or all(batch.valid.tolist())
            seen += map(int, batch.sample_keys)
            counts.add(tuple(batch.grid["x"].reshape(-1).tolist()))
        assert sorted(seen) == list(range(len(COUNTS)))
    assert len(counts) >= 6 and not loader.stats()["skipped"]


def test_random_sizes_without_a_limit_are_refused(shard):
    with pytest.raises(stoker.StokerError, match="random without a limit.*resize_to_patches"):
        load(f"{shard}/a.tar", {"x": "from(image) | pictures | resize_to_patches(14, max_patches=64) | zoom_out(p=0.02) | patches(14) | to(u8)"}, max_tokens=2600, collate="pack")


def test_a_state_goes_on_on_two_ranks(shard):
    fields = {"ids": "from(ids.json) | ints | image_tokens(x)", "x": f"from(image) | pictures | {QWEN} | to(bf16)"}
    options = {"max_tokens": 3000, "collate": {"ids": "pack", "x": "pack"}, "shuffle": True}
    first = load(f"{shard}/a.tar", fields, rank=0, world_size=1, **options)
    it = iter(first)
    seen = list(next(it).sample_keys)
    state = first.state_dict()
    for rank in (0, 1):
        rest = load(f"{shard}/a.tar", fields, rank=rank, world_size=2, **options)
        rest.load_state_dict(state)
        for batch in rest:
            valid = batch.valid.tolist() if batch.valid is not None else [True] * len(batch.sample_keys)
            seen += [key for key, ok in zip(batch.sample_keys, valid) if ok]
    assert sorted(map(int, seen)) == list(range(len(COUNTS)))


@pytest.mark.parametrize(("fields", "why"), [
    ({"x": "from(image) | pictures | to(f32)"}, "of any size make no row"),
    ({"x": "from(image) | pictures | resize((8, 8)) | views(2) | to(f32)"}, "for one picture"),
    ({"t": "from(ids.json) | ints | image_tokens(x)"}, "names no output of pictures"),
    ({"x": f"from(image) | pictures | {QWEN} | to(f32)", "t": "from(ids.json) | ints | truncate(9) | image_tokens(x)"}, "truncate"),
    ({"x": f"from(image) | pictures | {QWEN} | to(f32)", "t": "from(ids.json) | ints | image_tokens(x, give=all)"}, "tokens, labels or positions"),
    ({"x": f"from(image) | pictures | {QWEN} | to(f32)", "t": "from(ids.json) | ints | image_tokens(x, rule=mine)"}, "transformers, torchtitan"),
    ({"x": f"from(webp) | pictures | {QWEN} | to(f32)"}, "no sample has a field webp")])
def test_errors(shard, fields, why):
    with pytest.raises(stoker.StokerError, match=why) as e:
        load(f"{shard}/a.tar", fields, batch_size=2, collate="list")
    assert "\n" not in str(e.value)


def test_bad_samples_say_what_and_where(tmp_path):
    def write(name, fields):
        with tarfile.open(tmp_path / name, "w", format=tarfile.USTAR_FORMAT) as tar:
            for field, data in fields.items():
                add(tar, f"one.{field}", data)
        return str(tmp_path / name)
    jpg = encoded(0, 0, "JPEG")
    x = f"pictures | {QWEN} | to(f32)"
    cases = [(write("short.tar", {"0.jpg": jpg, "ids.json": b"[1, 2]"}), {"x": f"from(jpg) | {x}", "t": "from(ids.json) | ints | image_tokens(x)"}, "0 placeholders.*1 pictures.*one"),
             (write("bad.tar", {"0.jpg": jpg, "1.jpg": b"no picture"}), {"x": f"from(jpg) | {x}"}, "picture 2 of 2.*one"),
             (write("names.tar", {"0.jpg": jpg, "n.json": b'["7.jpg"]'}), {"x": f"from(n.json) | {x}"}, "7.jpg.*no field"),
             (write("odd.tar", {"0.jpg": jpg, "n.json": b"[7]"}), {"x": f"from(n.json) | {x}"}, "no name"),
             (write("merge.tar", {"0.jpg": jpg, "ids.json": b"[%d]" % TOKEN}), {"x": "from(jpg) | pictures | resize_to_patches(14, max_patches=9) | patches(14) | to(f32)",
                                                                              "t": "from(ids.json) | ints | image_tokens(x)"}, "merge")]
    for path, fields, why in cases:
        with pytest.raises(stoker.StokerError, match=why):
            next(iter(load(path, fields, batch_size=1, collate="list")))


def test_as_transformers(shard, alone):
    """get_rope_index of transformers' Qwen2-VL on the same tokens and grids."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers import Qwen2VLConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel
    config = Qwen2VLConfig(vision_config={"depth": 1, "embed_dim": 16, "num_heads": 1, "hidden_size": 16},
                           text_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 160000,
                                        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}, image_token_id=TOKEN)
    model = Qwen2VLModel(config)
    for i, n in enumerate(COUNTS):
        grids = [g for _, g in alone[i]]
        row = [v for t in ids_of(i, n) for v in ((7, t) if t == TOKEN else (t,))]      # a token before each picture: it takes two that touch for one
        ids = torch.tensor([expected(row, grids, "tokens")])
        kind = (ids == TOKEN).int()
        want, _ = model.get_rope_index(ids, mm_token_type_ids=kind, image_grid_thw=torch.tensor(grids) if n else None)
        assert want[:, 0].T.tolist() == expected(row, grids, "positions")


@pytest.mark.parametrize("collate", ["pack", "pad", "list"])
@pytest.mark.parametrize("ok", [[True, False, True, True, False, True], [False, True, False, False, True, False], [False] * 6])
def test_only_valid_keeps_the_rows_pictures_and_text(shard, collate, ok):
    fields = {"x": f"from(image) | pictures | {QWEN} | to(f32)", "ids": "from(ids.json) | ints | image_tokens(x)"}
    batch = next(iter(load(f"{shard}/a.tar", fields, batch_size=len(COUNTS), collate=collate)))
    whole, batch.valid = batch.copy(), np.array(ok)
    got = batch.only_valid()
    rows = [i for i, good in enumerate(ok) if good]
    assert len(got.valid) == len(rows) and got.sample_keys == [whole.sample_keys[i] for i in rows]
    assert got.pictures["x"].tolist() == np.cumsum([0, *(COUNTS[i] for i in rows)]).tolist()
    first = whole.pictures["x"].tolist()
    assert got.grid["x"].tolist() == [g for i in rows for g in whole.grid["x"][first[i]:first[i + 1]].tolist()]
    assert got.offsets["x"].tolist() == np.cumsum([0, *(h * w for _, h, w in got.grid["x"].tolist())]).tolist()
    assert collate != "pack" or got.offsets["ids"].tolist() == np.cumsum([0, *(len(part(whole, "ids", i)) for i in rows)]).tolist()
    for k, i in enumerate(rows):
        for name in fields:
            assert (part(got, name, k) == part(whole, name, i)).all()
    if collate == "pack":
        assert len(got["x"]) == len(got.coords("x")) == got.offsets["x"][-1]


def part(batch, name, row):
    """What a row of an output has, without padding."""
    value = batch[name]
    if isinstance(value, list):
        return numpy(value[row])
    if name not in batch.offsets:
        return numpy(value[row])[:int(batch.lengths[name][row])]
    at = batch.pictures[name] if name in batch.pictures else np.arange(len(batch.valid) + 1)
    a, b = (int(batch.offsets[name][int(k)]) for k in at[row:row + 2])
    return numpy(value)[a:b] if value.ndim == (2 if name == "x" else 1) else numpy(value[row])[:b - a]


def test_to_device_takes_all_that_is_beside_the_outputs(shard):
    from stoker._tree import rebuild
    batch = next(iter(load(f"{shard}/a.tar", {"x": f"from(image) | pictures | {QWEN} | to(f32)"}, batch_size=len(COUNTS), collate="pack")))
    made = rebuild({"nested": [batch]}, lambda value: ("moved", value))["nested"][0]
    for beside in ("offsets", "grid", "pictures"):
        assert getattr(made, beside)["x"][0] == "moved" and getattr(batch, beside)["x"][0] != "moved"


@pytest.mark.parametrize("collate", ["pack", "pad"])
def test_a_batch_without_any_picture(shard, collate):
    """Samples one at a time, and the second has none: its batch is one like the others."""
    fields = {"ids": "from(ids.json) | ints | image_tokens(x)", "x": f"from(jpg,png) | pictures | {QWEN} | to(f32)"}
    rows = []
    for batch in load(f"{shard}/a.tar", fields, batch_size=1, collate=collate):
        assert tuple(batch.grid["x"].shape) == (len(batch.grid["x"]), 3) and len(batch["ids"])
        rows.append((len(batch.grid["x"]), int(numpy(batch["x"]).size > 0)))
    assert rows == [(n, int(n > 0)) for n in COUNTS]


@pytest.fixture
def heads(tmp_path):
    """Large files with sizes, a turn and all that in their first bytes, and a list of them for each sample, in shards of two kinds."""
    counts = [2, 0, 3, 1]
    (tmp_path / "files").mkdir()
    with tarfile.open(tmp_path / "files.tar", "w", format=tarfile.USTAR_FORMAT) as far, tarfile.open(tmp_path / "fields.tar", "w", format=tarfile.USTAR_FORMAT) as near:
        for i, n in enumerate(counts):
            names = [f"{i}-{k}.jpg" for k in range(n)]
            for k, name in enumerate(names):
                exif = Image.Exif()
                exif[0x0112] = 6 if k % 2 else 1
                out = io.BytesIO()
                Image.fromarray(np.random.default_rng(i * 9 + k).integers(0, 256, (500 + 40 * k, 300), dtype=np.uint8)).convert("RGB").save(out, "JPEG", exif=exif)
                (tmp_path / "files" / name).write_bytes(out.getvalue())
                add(near, f"{i:03d}.{k}.jpg", out.getvalue())
            add(far, f"{i:03d}.json", json.dumps(names).encode())
            add(near, f"{i:03d}.json", json.dumps([f"{k}.jpg" for k in range(n)]).encode())
    return tmp_path


def read_bytes():
    with open("/proc/self/io") as lines:
        return int(next(lines).split()[1])


SIZED = "resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=40000) | patches(qwen2_vl) | to(u8)"


@pytest.mark.parametrize("data", ["files", "fields"])
def test_planning_reads_the_heads_of_listed_pictures(heads, data):
    root = f'(root="{heads}/files")' if data == "files" else ""
    chain = f"from(json) | pictures{root} | {SIZED}"
    with stoker.Loader(str(heads / f"{data}.tar"), {"x": chain}, num_workers=1, batch_size=1, collate="list") as loader:    # closed: it reads ahead
        plain = list(loader)
    want = [int(np.prod(b.grid["x"].numpy(), axis=1).sum()) for b in plain]
    whole = sum(p.stat().st_size for p in (heads / "files").iterdir())
    before = read_bytes()
    loader = stoker.Loader(str(heads / f"{data}.tar"), {"x": chain}, num_workers=0, max_tokens=700, collate="pack")     # workers would begin to read rows
    planned = read_bytes() - before
    assert planned < whole / 4, (planned, whole)
    got = [b for b in loader]
    assert all(b.offsets["x"][-1] <= 700 for b in got) and sum(int(b.offsets["x"][-1]) for b in got) == sum(want)
    assert len(got) < len(want)


def test_listed_pictures_that_say_their_size_late_or_never(heads):
    """A PNG may be turned by its last chunk, so it is read whole; what is no picture is a bad sample of this name, before it is made and when it is."""
    chain = f'from(json) | pictures(root="{heads}/files") | {SIZED}'
    turned = Image.Exif()
    turned[0x0112] = 8
    Image.fromarray(np.zeros((600, 200, 3), np.uint8)).save(heads / "files" / "2-1.jpg", "PNG", exif=turned)
    data = list(stoker.Loader(str(heads / "files.tar"), {"x": chain}, num_workers=1, max_tokens=700, collate="pack"))
    plain = list(stoker.Loader(str(heads / "files.tar"), {"x": chain}, num_workers=1, batch_size=1, collate="list"))
    assert sum(int(b.offsets["x"][-1]) for b in data) == sum(int(np.prod(b.grid["x"].numpy(), axis=1).sum()) for b in plain)
    (heads / "files" / "2-1.jpg").write_bytes(b"no picture" * 1000)
    with pytest.raises(stoker.StokerError, match="not a picture"):
        list(stoker.Loader(str(heads / "files.tar"), {"x": chain}, num_workers=1, max_tokens=701, collate="pack"))
