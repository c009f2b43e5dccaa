# SPDX-License-Identifier: Apache-2.0
"""loader.ledger(): a file for each rank and life, written before a batch is handed out."""

import os
import signal

import pytest

import stoker
from conftest import FIELDS, LABEL, SAMPLES, ids_of, run_python


def names(folder):
    return sorted(n for n in os.listdir(folder) if n != ".turn")


def test_a_generation_a_life(urls, tmp_path):
    folder = tmp_path / "a/b"
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, num_workers=1) as loader:
        assert loader.state_dict()["generation"] == 0
        loader.ledger(folder)
        assert names(folder) == []
        running = iter(loader)
        next(running)
        assert names(folder) == ["rank00000-gen0000.stkl"]
        size = os.path.getsize(folder / "rank00000-gen0000.stkl")
        state = loader.state_dict()
        loader.ledger(folder)                   # it is on already: nothing changes
        next(running)
        assert os.path.getsize(folder / "rank00000-gen0000.stkl") > size
        loader.load_state_dict(state)
        assert loader.state_dict() == state     # a life begins with its first loop
        next(iter(loader))
        assert loader.state_dict()["generation"] == 1
        assert names(folder) == ["rank00000-gen0000.stkl", "rank00000-gen0001.stkl"]
        loader.load_state_dict(state)           # the same checkpoint, the same number
        next(iter(loader))
        assert loader.state_dict()["generation"] == 1
        assert os.path.getsize(folder / "rank00000-gen0001.stkl") == size
        loader.load_state_dict(loader.state_dict())
        iter(loader)
        assert loader.state_dict()["generation"] == 2
        loader.ledger(None)
        next(iter(loader))
        assert len(names(folder)) == 2
        del state["generation"]                 # a state from before there were any
        loader.load_state_dict(state)
        iter(loader)
        assert loader.state_dict()["generation"] == 1


def test_batches_are_the_same(urls, tmp_path):
    with stoker.Loader(urls, LABEL, batch_size=7, shuffle=True) as plain, \
            stoker.Loader(urls, LABEL, batch_size=7, shuffle=True) as kept:
        kept.ledger(tmp_path / "led")
        assert [ids_of(plain) for _ in range(2)] == [ids_of(kept) for _ in range(2)]


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_handed_out_that_is_not_written(urls, tmp_path, workers):
    folder = tmp_path / "led"
    with stoker.Loader(urls, LABEL, batch_size=10, num_workers=workers) as loader:
        loader.ledger(folder)
        running = iter(loader)
        seen = list(next(running).sample_ids)
        kept = (folder / "rank00000-gen0000.stkl").rename(tmp_path / "aside")
        kept.unlink()
        for _ in range(2):                      # again and again, and no step is lost
            with pytest.raises(stoker.StokerError, match="was replaced or removed"):
                next(running)
        assert loader.state_dict()["position"] == 10
        loader.ledger(None)
        seen += [i for batch in running for i in batch.sample_ids]
        assert [int(i) for i in seen] == list(range(SAMPLES))


def test_wrong_folders(urls, data, tmp_path):
    with stoker.Loader(urls, LABEL, batch_size=10) as loader:
        with pytest.raises(stoker.StokerError, match="a ledger is a folder, and .* is a file"):
            loader.ledger(data / "train-000.tar")
        with pytest.raises(stoker.StokerError, match="a ledger is written to a folder, not 7"):
            loader.ledger(7)
        with pytest.raises(stoker.StokerError, match="null character"):
            loader.ledger("a\0b")
        with pytest.raises(stoker.StokerError, match="needs the name of a folder"):
            loader.ledger("")
        assert ids_of(loader) == list(range(SAMPLES))
    with pytest.raises(stoker.StokerError, match="closed"):
        loader.ledger(tmp_path)


def test_a_killed_process_has_written_what_it_was_handed(urls, tmp_path):
    done = run_python("""
        import os, signal, sys
        import stoker
        loader = stoker.Loader(sys.argv[1], {"label": "from(cls) | int"}, batch_size=9, shuffle=True)
        loader.ledger(sys.argv[2])
        for k, batch in enumerate(loader):
            print(*[int(i) for i in batch.sample_ids], flush=True)
            if k == 4:
                os.kill(os.getpid(), signal.SIGKILL)
    """, urls, tmp_path / "led")
    assert done.returncode == -signal.SIGKILL
    told = [[int(i) for i in line.split()] for line in done.stdout.splitlines()]
    data = (tmp_path / "led/rank00000-gen0000.stkl").read_bytes()
    found = [[int.from_bytes(data[at + 40 + 4 * i:at + 44 + 4 * i], "little") for i in range(9)]
             for at in range(144, len(data), 40 + (9 * 4 + 2 + 7) // 8 * 8)]
    assert found == told and len(found) == 5


@pytest.mark.asan
def test_pictures_and_ranks(urls, tmp_path):
    for rank in range(3):
        with stoker.Loader(urls, FIELDS, batch_size=5, rank=rank, world_size=3) as loader:
            loader.ledger(tmp_path)
            for _ in loader:
                pass
    assert names(tmp_path) == [f"rank{r:05d}-gen0000.stkl" for r in range(3)]
