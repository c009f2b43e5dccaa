# SPDX-License-Identifier: Apache-2.0
"""States that were changed in any way: one is taken, or refused by a StokerError in one line.  The loader goes on
where it stood after one that was refused.

STOKER_ATTACKS and STOKER_SEED say how many and which; `make soak` tries many more.
"""

import pytest
from attack import EXAMPLES, SEED, Victim, write_shard
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

JUNK = ["None", "True", "-1", "0", "1", "3", "7", "2**31", "2**32", "2**32-1", "2**40", "2**63-1", "2**63", "2**64", "10**30", "-10**30",
        "10**5000", "1.0", "1.5", "float('nan')", "float('inf')", "''", "'x'", "'0' * 16", "b''", "b'x'", "[]", "[1]", "[1, 2]",
        "[0, 0]", "[2**33, 2**33]", "[[0, [1], [2]]]", "[[0, [2**20], [0]]]", "{}", "{1: 2}", "{'a': {'b': []}}", "{None: None}",
        "()", "set()", "object()", "np.int64(3)", "np.arange(3)", "10j", "'ab' * 10000", "nested(500)", "range(3)", "Odd()"]
STRIDE = 20 if EXAMPLES < 1000 else 1           # of the junk, at one place
LOADERS = {"labels": "Loader(URLS, {'label': 'from(cls) | int'}, batch_size=4, shuffle=True)",
           "block": "Loader(URLS, {'label': 'from(cls) | int'}, batch_size=4, shuffle='block')",
           "budget": "Loader(URLS, {'x': 'from(npy) | npy'}, collate='pad', max_tokens=20, shuffle=True)",
           "packed": "Loader(URLS, {'x': 'from(npy) | npy | pack(32)'}, batch_size=2, shuffle=True)",
           "mix": "Loader(stoker.mix({'a': (URLS, 1), 'b': (URLS, 2)}), {'label': 'from(cls) | int'}, batch_size=4)",
           "weights": "Loader(URLS, {'label': 'from(cls) | int'}, batch_size=4, weights=np.arange(40.0))"}


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    shard = write_shard(folder, pictures=False)
    made = Victim(f"""
import copy
import numpy as np
import stoker
from stoker import Loader
URLS = {shard!r}

class Odd(dict):
    def __eq__(self, other): raise ArithmeticError("not to be compared")
    __hash__ = None

def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value

def places(value, path=()):
    "Every path into a state."
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(inner):
        yield from places(below, (*path, key))

def changed(state, path, how, junk):
    if not path:
        return junk
    at = state
    for key in path[:-1]:
        at = at[key]
    if how == "drop":
        del at[path[-1]]
    elif how == "add" and isinstance(at, dict):
        at[junk if isinstance(junk, (int, float, bytes, str, tuple, type(None))) else 5] = junk
    else:
        at[path[-1]] = junk
    return state

loaders = {{}}

def attack(make, changes, strict):
    if make not in loaders:
        loaders[make] = eval(make, globals())
    loader = loaders[make]
    loader.set_epoch(loader.epoch + 1)
    next(iter(loader))
    state = copy.deepcopy(loader.state_dict())
    for number, how, junk in changes:
        found = list(places(state)) if isinstance(state, dict) else [()]
        state = changed(state, found[number % len(found)], how, junk)
    before = loader.state_dict()
    try:
        loader.load_state_dict(state, strict=strict)
    except BaseException:
        assert loader.state_dict() == before, "a refused state moved the loader"
        next(iter(loader))
        raise
    try:
        for batch in loader:
            break
        loader.state_dict()
    finally:
        loaders.pop(make).close()               # its generation, streams or weights are others now
""")
    yield made
    made.close()


attack = settings(max_examples=EXAMPLES, deadline=None, derandomize=SEED == 0, database=None,
                  suppress_health_check=list(HealthCheck))
changes = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["set", "set", "add", "drop"]),
                             st.one_of(st.sampled_from(JUNK), st.integers(-2**70, 2**70).map(str))), min_size=1, max_size=3)


@seed(SEED)
@attack
@given(st.sampled_from(sorted(LOADERS)), changes, st.booleans())
def test_any_state(victim, kind, what, strict):
    made = ", ".join(f"({n}, {how!r}, {junk})" for n, how, junk in what)
    code = f"attack({LOADERS[kind]!r}, [{made}], {strict})"
    told = victim.try_case(code)
    if told["error"] is not None:
        assert "StokerError" in told["kinds"] and told["error"] != "OutOfMemoryError", f"{code}: {told}"
        assert "\n" not in told["text"] and 0 < len(told["text"]) < 1000, f"{code}: {told}"


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("strict", [True, False])
def test_each_place_with_each_junk(victim, kind, strict):
    """Every path of a state, each with some of the junk, the same every time."""
    for number in range(36):
        for junk in JUNK[number % STRIDE::STRIDE]:
            code = f"attack({LOADERS[kind]!r}, [({number}, 'set', {junk})], {strict})"
            told = victim.try_case(code)
            assert told["error"] is None or "StokerError" in told["kinds"], f"{code}: {told}"
