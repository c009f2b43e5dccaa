# SPDX-License-Identifier: Apache-2.0
"""src/loader/options.def is the one table of options: every place that repeats it says the same."""

import inspect
import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import options as table  # noqa: E402
import stoker  # noqa: E402
from stoker import _options, _stoker  # noqa: E402

ROWS = table.read_rows(table.TABLE.read_text())
ARGUMENTS = {r.name: r for r in ROWS if r.python}
OPTIONS = {r.name: r for r in ROWS if r.kind == "STK_OPTION"}
NUMBERS = [name for name, r in OPTIONS.items() if ".." in r.values]


def struct_fields(header, name):
    """Names of a struct's fields; one declaration may have several."""
    body = header.split(f"typedef struct {name} {{")[1].split(f"}} {name};")[0]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return [part.split()[-1].strip("*") for declaration in body.split(";") if declaration.strip()
            for part in declaration.split(",")]


@pytest.mark.parametrize("path", [table.LOADER, table.PAGE], ids=lambda p: p.name)
def test_what_is_generated_is_current(path):
    assert path.read_text() == table.outputs()[path], "run tools/options.py"


def test_every_field_has_one_row():
    fields = struct_fields((ROOT / "include/stoker/stoker.h").read_text(), "stk_loader_options")
    rows = [r.name for r in ROWS if r.kind in ("STK_OPTION", "STK_FIELD")]
    assert sorted(fields) == sorted(rows)


def test_every_argument_has_a_row_and_its_default():
    """The signature that runs, not the text of the file."""
    taken = {p.name: p for p in inspect.signature(stoker.Loader).parameters.values() if p.name != "unknown"}
    assert list(taken) == list(ARGUMENTS) and len(taken) == 54
    for name, parameter in taken.items():
        row = ARGUMENTS[name]
        assert parameter.annotation == row.annotation
        if row.default is None:
            assert parameter.default is inspect.Parameter.empty
        else:
            assert parameter.default == eval(row.default, {"_options": _options}), name
    assert [p.kind.name for p in taken.values()][:3] == ["POSITIONAL_OR_KEYWORD"] * 2 + ["KEYWORD_ONLY"]


def test_every_argument_is_in_help():
    said = inspect.getdoc(stoker.Loader)
    for name in ARGUMENTS:
        assert re.search(rf"^{name}: ", said, re.M), name


def test_the_library_has_the_same_rows():
    assert [r[:3] for r in _stoker.options()] == [(r.name, r.values, r.fallback) for r in OPTIONS.values()]


@pytest.mark.parametrize("name", NUMBERS)
def test_python_and_c_have_one_range(name):
    """What Python refuses and accepts is what the library does."""
    low, high = _options._RANGES[name]
    assert 0 <= low < high < 2**64
    for value in {low, high}:
        assert _options.whole(name, value, low, high) == value
        if value or low:
            _try(name, value)
    for value in (high + 1, low - 1):
        if value >= 0:
            with pytest.raises(stoker.StokerError, match=rf"{name} must be at (least|most) \d+, not {value}$"):
                _options.whole(name, value, low, high)
            with pytest.raises(stoker.StokerError, match=f"{name} is .*{re.escape(OPTIONS[name].values)}.*, not"):
                _try(name, value)


def _try(name, value):
    """Give the library one option; what comes after the check of its range is another matter."""
    try:
        _stoker.Loader((), (), {name: str(value)})
    except stoker.StokerError as e:
        if name in str(e):
            raise
