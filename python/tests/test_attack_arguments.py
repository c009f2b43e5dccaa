# SPDX-License-Identifier: Apache-2.0
"""Arguments of any type and size: a Loader says what is wrong, by name, or gives a batch.

STOKER_ATTACKS and STOKER_SEED say how many and which; `make soak` tries many more.
"""

import inspect

import pytest
from attack import EXAMPLES, SEED, Victim, check, write_shard
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import stoker

KWARGS = sorted(set(inspect.signature(stoker.Loader).parameters) - {"data", "fields", "unknown"})
NUMBERS = ["-1", "0", "1", "2", "3", "7", "-2**31", "2**31-1", "2**31", "2**32-1", "2**32", "2**32+1", "2**40",
           "2**48", "2**48+1", "2**63-1", "2**63", "2**64", "10**30", "-10**30"]
ODD = ["True", "False", "None", "1.0", "1.5", "-1.0", "float('nan')", "float('inf')", "''", "'1'", "'x'", "b''", "b'x'", "[]",
       "[1]", "{}", "{1: 2}", "()", "('pad', 10**30)", "('pad', float('nan'), 3)", "object()", "np.int64(3)", "np.uint64(2**64-1)",
       "np.float32(2)", "np.array(3)", "np.arange(3)", "'\\0'", "'cuda:99999999999999999999'", "range(5)", "10j", "'9' * 5000",
       "'block'", "'exact'", "'megatron'", "'list'", "'pad'", "'skip'", "'100KB'", "'1e30TB'", "['k'] * 3", "{'skip': 2**64}", "type",
       "10**5000", "-10**5000"]
LOADERS = {"labels": "Loader(URLS, {'label': 'from(cls) | int'}, %s)",
           "pictures": "Loader(URLS, {'image': 'from(jpg) | image | resize((16, 16))'}, %s)",
           "rows": "Loader(URLS, {'x': 'from(npy) | npy'}, collate='pad', %s)",
           "packed": "Loader(URLS, {'x': 'from(npy) | npy | pack(32)'}, %s)",
           "arrays": "Loader({'x': np.zeros((50, 3))}, %s)",
           "mix": "Loader(stoker.mix({'a': (URLS, 1), 'b': (URLS, 2)}), {'label': 'from(cls) | int'}, %s)"}
CALLS = {"set_epoch": "epoch", "set_workers": "workers", "preview": "pictures", "explain": "sample", "ledger": "ledger",
         "set_weights": "weights", "load_state_dict": "state"}


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attack")
    shard = write_shard(folder, pictures=True)
    made = Victim(f"""
import os
import numpy as np
import stoker
from stoker import Loader
os.chdir({str(folder)!r})
URLS = {shard!r}
def one(loader):
    with loader:
        for batch in loader:
            return
""")
    yield made
    made.close()


values = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(ODD),
                   st.integers(-2**70, 2**70).map(str), st.floats().map(lambda f: f"float('{f}')"))
attack = settings(max_examples=EXAMPLES, deadline=None, derandomize=SEED == 0, database=None,
                  suppress_health_check=list(HealthCheck))


def attacked(victim, code, names):
    told = victim.try_case(code)
    try:
        check(told, names)
    except AssertionError as e:
        raise AssertionError(f"{code}: {e}") from None


@seed(SEED)
@attack
@given(st.sampled_from(sorted(LOADERS)), st.dictionaries(st.sampled_from(KWARGS), values, min_size=1, max_size=3))
def test_any_argument(victim, kind, given_):
    given_ = {k: v for k, v in given_.items() if not (kind == "rows" and k == "collate")}
    text = ", ".join(f"{k}={v}" for k, v in given_.items())
    arrays = {"arrays"} if {"dtype", "shape"} & set(given_) else set()   # as which they have data read
    attacked(victim, f"one({LOADERS[kind] % text})", {*given_, *arrays})


@pytest.mark.parametrize("name", KWARGS)
@pytest.mark.parametrize("value", ["-1", "0", "2**31", "2**32", "2**32+1", "2**40", "2**63", "2**64", "10**30", "True", "1.0", "1.5",
                                   "float('nan')", "''", "b''", "[]", "10**5000"])
def test_each_argument(victim, name, value):
    kind = "packed" if name == "epoch_size" else "labels"
    attacked(victim, f"one({LOADERS[kind] % f'{name}={value}'})", [name])


@pytest.mark.parametrize("name", ["rank", "world_size"])
def test_ranks(victim, name):
    for value in NUMBERS + ODD:
        pair = {"rank": "0", "world_size": "2", name: value}
        attacked(victim, f"one({LOADERS['labels'] % ', '.join(f'{k}={v}' for k, v in pair.items())})", pair)


@seed(SEED)
@attack
@given(st.sampled_from(sorted(CALLS)), values, st.sampled_from(["labels", "pictures", "mix"]))
def test_any_call(victim, name, value, kind):
    loader = LOADERS[kind] % "batch_size=4"
    attacked(victim, f"l = {loader}\ntry:\n    l.{name}({value})\n    next(iter(l))\nfinally:\n    l.close()",
             [CALLS[name], name, "mix", "output", "epoch", "key", "folder"])


@seed(SEED)
@attack
@given(values, st.sampled_from(["stoker.mix({'a': (URLS, %s)})", "stoker.mix({'a': (URLS, 1)}, %s)", "stoker.mix(%s)",
                                "stoker.to_device([], 'cpu', %s)", "stoker.open(URLS)[%s]", "stoker.open(%s)"]))
def test_other_entries(victim, value, code):
    told = victim.try_case("import stoker\n" + code % value)
    assert told["error"] in (None, "IndexError") or {"StokerError", "TypeError"} & set(told["kinds"]), f"{code % value}: {told}"
    assert "\n" not in told.get("text", ""), told


def test_a_crash_is_seen(victim):
    with pytest.raises(AssertionError, match="ended the process"):
        victim.try_case("os.abort()")
    with pytest.raises(AssertionError, match="OverflowError"):
        check(victim.try_case("raise OverflowError('x')"), ["x"])

