# SPDX-License-Identifier: Apache-2.0
"""Columns of recordings as Hugging Face writes them (a struct of bytes and path), in Parquet files and folders of save_to_disk()."""
import io
import wave

import numpy as np
import pytest

import stoker

datasets = pytest.importorskip("datasets")
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
RATE = 16000
LENGTHS = [4800, 6400, 8000, 9600, 11200, 12800, 14400, 16000, 17600, 19200, 20800, 22400]


def wav(values):
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        w.writeframes(values.astype("<i2").tobytes())
    return out.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder with a.parquet and saved/, and the recordings as numbers; b.parquet has paths and no bytes."""
    folder = tmp_path_factory.mktemp("hf_audio")
    rng = np.random.default_rng(1)
    recordings = [(rng.standard_normal(n) * 3000).astype(np.int16) for n in LENGTHS]
    rows = {"audio": [{"bytes": wav(x), "path": f"{k}.wav"} for k, x in enumerate(recordings)], "text": [str(k) for k in range(len(recordings))]}
    ds = datasets.Dataset.from_dict(rows).cast_column("audio", datasets.Audio(sampling_rate=RATE))
    ds.to_parquet(folder / "a.parquet")
    ds.save_to_disk(folder / "saved")
    for k, x in enumerate(recordings):
        (folder / f"{k}.wav").write_bytes(wav(x))
    bare = datasets.Dataset.from_dict({**rows, "audio": [{"bytes": None, "path": f"{k}.wav"} for k in range(len(recordings))]})
    bare.to_parquet(folder / "b.parquet")
    return folder, recordings


@pytest.mark.parametrize("chain", ["from(audio)", "from(audio.bytes)"])
@pytest.mark.parametrize("name", ["a.parquet", "saved"])
def test_recordings(made, name, chain):
    folder, recordings = made
    with stoker.Loader(str(folder / name), {"audio": f"{chain} | sound(rate={RATE})", "text": "from(text) | text"}, batch_size=4, collate="list", shuffle=True) as loader:
        got = {int(t): np.asarray(a) for b in loader for a, t in zip(b["audio"], b["text"], strict=True)}
    assert len(got) == len(recordings) and all((got[k] * 32768 == x).all() for k, x in enumerate(recordings))


@pytest.mark.parametrize("chain", ["from(audio)", "from(audio.bytes)"])
@pytest.mark.parametrize("name", ["a.parquet", "saved"])
def test_batches_by_seconds(made, name, chain):
    folder, recordings = made
    with stoker.Loader(str(folder / name), {"audio": f"{chain} | sound(rate={RATE})", "text": "from(text) | text"}, max_seconds=3, collate="pad", shuffle=True) as loader:
        batches = [(b["audio"].shape, [int(t) for t in b["text"]], b.lengths["audio"].tolist()) for b in loader]
    assert sorted(k for _, rows, _ in batches for k in rows) == list(range(len(recordings)))
    assert max(len(rows) for _, rows, _ in batches) > 1
    for shape, rows, lengths in batches:
        assert lengths == [LENGTHS[k] for k in rows] and shape[0] * shape[1] <= 3 * RATE


def test_rows_of_paths_alone(made):
    folder, recordings = made
    table = pyarrow.parquet.read_table(folder / "b.parquet").flatten()     # audio.bytes, audio.path, text
    with stoker.Loader(table, {"audio": f'from(audio.path) | open(root="{folder}") | sound(rate={RATE})', "text": "from(text) | text"},
                       batch_size=4, collate="list") as loader:
        got = {int(t): np.asarray(a) for b in loader for a, t in zip(b["audio"], b["text"], strict=True)}
    assert all((got[k] * 32768 == x).all() for k, x in enumerate(recordings))
    chain = f'from(audio.path) | open(root="{folder}") | sound(rate={RATE})'        # in the file as in memory
    with stoker.Loader(str(folder / "b.parquet"), {"audio": chain, "text": "from(text) | text"}, batch_size=4, collate="list") as loader:
        for b in loader:
            assert all((np.asarray(a) == got[int(t)]).all() for a, t in zip(b["audio"], b["text"], strict=True))
    for chain, words in (("from(audio) | sound", "audio"), ('from(audio.path) | open(root="/") | sound', r"no such file \[shard /0.wav")):
        with pytest.raises(stoker.StokerError, match=words), stoker.Loader(str(folder / "b.parquet"), {"audio": chain}, batch_size=4, collate="list") as loader:
            list(loader)
