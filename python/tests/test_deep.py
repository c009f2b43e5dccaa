# SPDX-License-Identifier: Apache-2.0
"""load_state_dict() at position 900 million of a billion: at once, with the right rows behind it."""

import time

import pytest

import stoker
from conftest import LABEL, SAMPLES, as_numpy

BILLION = 1_000_000_000


@pytest.mark.parametrize("order", [{"shuffle": False}, {"shuffle": True}, {"shuffle": "block", "streams": 4}])
def test_deep_in_a_billion(urls, order):
    times = []
    with stoker.Loader(urls, LABEL, batch_size=16, repeat=BILLION // SAMPLES, seed=3, **order) as loader:
        assert len(loader) == BILLION // 16
        state = loader.state_dict()
        for i in range(5):
            state["position"] = 900_000_000 + 1000 * i
            start = time.thread_time()          # not the clock: the machine may have other work
            loader.load_state_dict(state)
            running = iter(loader)
            times.append(time.thread_time() - start)
            ids = as_numpy(next(running).sample_ids)
            assert loader.state_dict()["position"] == 900_000_016 + 1000 * i
            if order["shuffle"] is False:
                assert ids.tolist() == [(1000 * i + k) % SAMPLES for k in range(16)]
    print(f"{order}: {min(times) * 1e3:.3f} ms")
    assert min(times) < 0.010
