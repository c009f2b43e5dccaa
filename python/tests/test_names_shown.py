# SPDX-License-Identifier: Apache-2.0
"""Names that hold escape sequences: messages and reprs show them, attributes keep them."""

import pickle
import re

import pytest
from conftest import write_tar

import stoker
from stoker.errors import printable

pytestmark = pytest.mark.asan
KEY, FIELD = "k\x1b[2J\u202ex", "f\x1b]0;owned\x07\u200b"
HARM = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


@pytest.fixture
def named(tmp_path):
    return str(write_tar(tmp_path / "a\x1b[1A.tar", [(f"{KEY}.{FIELD}", b"no number")]))


def test_shown():
    assert printable("é 日 \u3000") == "é 日 \u3000"
    assert printable("\x1b\n\x9b\u202e\udcff\U000e0041") == "\\x1b\\n\\x9b\\u202e\\xff\\U000e0041"


def test_errors(named):
    with pytest.raises(stoker.StokerError) as caught, \
            stoker.Loader(named, fields={"x": f'from("{FIELD}") | int'}) as loader:
        next(iter(loader))
    error = caught.value
    for text in (str(error), repr(error), str(pickle.loads(pickle.dumps(error)))):
        assert not HARM.search(text), text
    assert "k\\x1b[2J\\u202ex" in str(error)
    assert error.key == KEY and error.shard.endswith("a\x1b[1A.tar")
    with pytest.raises(stoker.StokerError) as caught:
        stoker.Loader(named, fields={"x": f'from("{FIELD}2") | int'})
    assert not HARM.search(str(caught.value))
    with pytest.raises(stoker.StokerError) as caught:
        stoker.open(named + "\x1b[2Jnone")
    assert not HARM.search(str(caught.value))


def test_reprs(named):
    data = stoker.open(named)
    assert not HARM.search(repr(data)), repr(data)
    with stoker.Loader(data, fields={FIELD: f'from("{FIELD}") | bytes'}) as loader:
        batch = next(iter(loader))
    assert batch.sample_keys == [KEY]
    for thing in (batch, loader, stoker.mix({"a\x1b[1m": (data, 1)}), stoker.from_(FIELD)):
        assert not HARM.search(repr(thing)), repr(thing)
