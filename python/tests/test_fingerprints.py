# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of functions and values: another meaning is another fingerprint, or an error that asks for stoker_version.

PAIRS has values that differ in one thing that a result may depend on.  SCRIPTS has modules in two versions, each loaded in
a folder of its own: what a function reaches through an import, a package, a closure, a default, a class or a metaclass.
"""

import array
import collections
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import operator
import os
import pathlib
import random
import re
import sys
import threading
import types
import typing
import uuid
import weakref

import numpy as np
import pytest

from stoker._fingerprint import function_fingerprint, value_fingerprint

ASKS = "stoker_version"


class Hides:
    """Gives pickle nothing of what it uses."""

    def __init__(self, table, lock=None):
        self.table, self.lock = table, lock

    def __getstate__(self):
        return {}

    def __call__(self, sample):
        return self.table[sample]


class Reduces(Hides):
    def __reduce__(self):
        return Reduces, (None,)


class Slots:
    __slots__ = ("__hidden", "table")

    def __init__(self, table, hidden=0):
        self.table, self.__hidden = table, hidden


class MyDict(dict):
    pass


class MySet(set):
    pass


class MyPartial(functools.partial):
    pass


class Array(np.ndarray):
    pass


class Point(typing.NamedTuple):
    x: int
    y: object


@dataclasses.dataclass
class Config:
    size: int
    names: list = dataclasses.field(default_factory=list)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


def add(a, b):
    return a + b


def take(a, b):
    return a - b


def scripted(a: int) -> int:
    return a + 1


def holder(value):
    def uses(sample):
        return sample, value
    return uses


def cycle(*values):
    made = list(values)
    made.append(made)
    return made


def dispatch(function):
    @functools.singledispatch
    def made(x):
        return 1
    made.register(int, function)
    return made


def two_classes(text_a, text_b, name="Made"):
    made = []
    for text in (text_a, text_b):
        space = {"__name__": "__main__"}
        exec(text, space)
        made.append(space[name])
    return made


PAIRS = [
    (0, 1), (0, False), (0, 0.0), (0.0, -0.0), (1, 1.0), (1, "1"), ("a", b"a"), (b"a", bytearray(b"a")), (None, ...), (1j, 2j),
    ("", None), (float("nan"), float("inf")), (2**70, 2**71), ("\ud800", "\ud801"), (NotImplemented, ...),
    ([1, 2], [2, 1]), ([1], (1,)), ((1, (2,)), (1, 2)), ({1: 2}, {2: 1}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1, 2}, {1, 3}),
    ({1}, frozenset({1})), (range(3), range(4)), (slice(1), slice(2)), (MyDict(a=1), MyDict(a=2)), (MyDict(a=1), {"a": 1}),
    (MySet({1}), MySet({2})), (MySet({1}), {1}), (collections.OrderedDict(a=1), collections.OrderedDict(a=2)),
    (collections.defaultdict(int), collections.defaultdict(list)), (collections.Counter("aab"), collections.Counter("abb")),
    (collections.deque([1], 2), collections.deque([1], 3)), (collections.ChainMap({1: 2}), collections.ChainMap({1: 3})),
    (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})), (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    (memoryview(b"ab"), memoryview(b"ac")), (memoryview(b"abcd"), memoryview(b"abcd").cast("B", (2, 2))),
    (memoryview(bytes(4)).cast("i"), memoryview(bytes(4)).cast("f")), (array.array("i", [1]), array.array("i", [2])),
    (array.array("i", [1]), array.array("l", [1])), (re.compile("a"), re.compile("b")), (re.compile("a"), re.compile("a", re.I)),
    (re.compile("a"), re.compile(b"a")), (np.add, np.subtract), (np.arange(3), np.arange(4)), (np.arange(3), np.arange(3.0)),
    (np.arange(4), np.arange(4).reshape(2, 2)), (np.float32(1), np.float64(1)), (np.dtype("i4"), np.dtype("i8")),
    (np.arange(3).view(Array), np.arange(1, 4).view(Array)), (np.array([{1: 2}], object), np.array([{1: 3}], object)),
    (np.vectorize(add), np.vectorize(take)), (np.datetime64("2020"), np.datetime64("2021")),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")), (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)), (uuid.UUID(int=1), uuid.UUID(int=2)),
    (pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")), (Point(1, 2), Point(1, 3)), (Point(1, 2), (1, 2)),
    (Config(1), Config(2)), (Config(1, ["a"]), Config(1, ["b"])), (Color.RED, Color.BLUE), (Flags.A, Flags.A | Flags.B),
    (Hides({"a": 1}), Hides({"a": 2})), (Reduces({"a": 1}), Reduces({"a": 2})), (Hides(1), Reduces(1)),
    (Slots(1), Slots(2)), (Slots(1, 5), Slots(1, 6)), (Hides(1).__call__, Hides(2).__call__),
    (functools.partial(add, 1), functools.partial(add, 2)), (functools.partial(add, 1), functools.partial(take, 1)),
    (functools.partial(add, b=1), functools.partial(add, b=2)), (MyPartial(add, 1), MyPartial(take, 1)),
    (functools.cache(add), functools.cache(take)), (dispatch(add), dispatch(take)),
    (operator.itemgetter("a"), operator.itemgetter("b")), (operator.attrgetter("a"), operator.attrgetter("b")),
    (operator.methodcaller("a", 1), operator.methodcaller("a", 2)), ("a".upper, "b".upper), (str.upper, str.lower), (len, max),
    (cycle(1), cycle(2)), (cycle(cycle(1)), cycle(cycle(2))), (os.path.join, os.path.split), (list[int], list[str]),
    (types.MethodType(add, 1), types.MethodType(add, 2)), (lambda: 1, lambda: 2), (lambda x=1: x, lambda x=2: x),
    two_classes("class Made:\n def f(self): return 1", "class Made:\n def f(self): return 2"),
    two_classes("class Made:\n x = 1", "class Made:\n x = 2"),
    two_classes("class B:\n x = 1\nclass Made(B): pass", "class B:\n x = 2\nclass Made(B): pass"),
    two_classes("class Made:\n @property\n def x(self): return 1", "class Made:\n @property\n def x(self): return 2"),
    two_classes("class Made:\n @staticmethod\n def x(): return 1", "class Made:\n @staticmethod\n def x(): return 2"),
    two_classes("class M(type):\n def __call__(self, *a): return 1\nclass Made(metaclass=M): pass",
                "class M(type):\n def __call__(self, *a): return 2\nclass Made(metaclass=M): pass"),
    two_classes("from dataclasses import *\n@dataclass\nclass Made:\n x: int = 1", "from dataclasses import *\n@dataclass\nclass Made:\n x: int = 2"),
    two_classes("from functools import *\nclass Made:\n @cached_property\n def x(self): return 1",
                "from functools import *\nclass Made:\n @cached_property\n def x(self): return 2"),
    two_classes("def made(s):\n try: a(); b()\n except E: c()", "def made(s):\n try: a()\n except E: c()\n b()", "made"),
    two_classes("x = 1\ndef made(): return [y for y in (x,)]", "x = 2\ndef made(): return [y for y in (x,)]", "made"),
    two_classes("x = 1\ndef made():\n class A:\n  y = x\n return A", "x = 2\ndef made():\n class A:\n  y = x\n return A", "made"),
    two_classes("x = 1\ndef made():\n def inner(): return x\n return inner", "x = 2\ndef made():\n def inner(): return x\n return inner", "made"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=[str(k) for k in range(len(PAIRS))])     # reprs have addresses
def test_pairs_differ_and_each_equals_its_copy(pair):
    one, two = (value_fingerprint(v) for v in pair)
    assert one != two
    assert function_fingerprint(holder(pair[0])) != function_fingerprint(holder(pair[1]))
    for value, seen in zip(pair, (one, two), strict=True):
        try:
            again = copy.deepcopy(value)
        except TypeError:
            again = value
        if not isinstance(getattr(value, "__self__", value), Hides):        # its copy is empty
            assert value_fingerprint(again) == seen


def torch_pairs():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    lines = [torch.nn.Linear(2, 2) for _ in range(2)]
    return [(torch.tensor([1]), torch.tensor([2])), (torch.tensor([1]), torch.tensor([1.0])), (torch.zeros(4), torch.zeros(2, 2)),
            (torch.tensor([1], dtype=torch.int32), torch.tensor([1])), (torch.float16, torch.bfloat16), lines,
            (torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.ones(1))), (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse()),
            (torch.nn.Dropout(0.1), torch.nn.Dropout(0.2)), (torch.zeros(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16))]


def test_values_of_torch():
    for one, two in torch_pairs():
        assert value_fingerprint(one) != value_fingerprint(two), one
        assert value_fingerprint(one) == value_fingerprint(copy.deepcopy(one)), one


def test_what_is_not_certain_asks_for_a_version(tmp_path):
    torch = pytest.importorskip("torch")
    values = [open(os.devnull), (x for x in ()), random.Random(1), np.random.default_rng(1), np.random.RandomState(1),
              torch.Generator(), np.frompyfunc(add, 2, 1), ctypes.CDLL(None).abs, threading.local(), sys.stdout.write,
              Hides(open(os.devnull)), torch.jit.script(torch.nn.Linear(2, 2)), torch.jit.script(scripted), weakref.ref(add)]
    for value in values:
        with pytest.raises(ValueError, match=f"its value.* is of type .*{ASKS}"):
            pytest.fail(f"{value!r}: {function_fingerprint(holder(value))}")
        function = holder(value)
        function.stoker_version = 1
        assert function_fingerprint(function)
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ValueError, match=ASKS):
        function_fingerprint(holder(deep))


def test_what_changes_nothing_does_not_count():
    assert value_fingerprint(Hides(1, threading.Lock())) == value_fingerprint(Hides(1, threading.Lock()))
    assert function_fingerprint(holder(threading.RLock())) == function_fingerprint(holder(threading.RLock()))
    assert function_fingerprint(holder(random.random)) == function_fingerprint(holder(random.random))
    assert function_fingerprint(holder(np.random.rand)) == function_fingerprint(holder(np.random.rand))


# Name, the files of a version (a tuple: of both versions), and the expression that is compared.
SCRIPTS = {
    "import inside": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "def f(s):\n import tool\n return tool.g()"}, "main.f"),
    "import inside, renamed": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "def f(s):\n import tool as t\n return t.g()"}, "main.f"),
    "from inside": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "def f(s):\n from tool import g\n return g()"}, "main.f"),
    "star of a value": ({"tool": ("X = 1", "X = 2"), "main": "from tool import *\ndef f(s): return X"}, "main.f"),
    "relative inside": ({"pack/__init__": "", "pack/tool": ("X = 1", "X = 2"), "pack/main": "def f(s):\n from . import tool\n return tool.X"}, "pack.main.f"),
    "relative name inside": ({"pack/__init__": "", "pack/tool": ("X = 1", "X = 2"), "pack/main": "def f(s):\n from .tool import X\n return X"}, "pack.main.f"),
    "package.sub.g()": ({"pack/__init__": "", "pack/sub": ("def g(): return 1", "def g(): return 2"), "main": "import pack.sub\ndef f(s): return pack.sub.g()"}, "main.f"),
    "package.sub inside": ({"pack/__init__": "", "pack/sub": ("X = 1", "X = 2"), "main": "def f(s):\n import pack.sub\n return pack.sub.X"}, "main.f"),
    "package.a.b.g()": ({"p/__init__": "", "p/a/__init__": "", "p/a/b": ("X = 1", "X = 2"), "main": "import p.a.b\ndef f(s): return p.a.b.X + 1"}, "main.f"),
    "package that re-exports": ({"pack/__init__": "from .sub import g", "pack/sub": ("def g(): return 1", "def g(): return 2"), "main": "import pack\ndef f(s): return pack.g()"}, "main.f"),
    "module": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "import tool\ndef f(s): return tool.g()"}, "main.f"),
    "module by getattr": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "import tool\ndef f(s): return getattr(tool, 'g')()"}, "main.f"),
    "module handed on": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "import tool\ndef h(m): return m.g()\ndef f(s): return h(tool)"}, "main.f"),
    "module in a list": ({"tool": ("def g(): return 1", "def g(): return 2"), "main": "import tool\nALL = [tool]\ndef f(s): return ALL[0].g()"}, "main.f"),
    "module in a closure": ({"tool": ("X = 1", "X = 2"), "main": "import tool\ndef make(m):\n def f(s): return m.X\n return f\nf = make(tool)"}, "main.f"),
    "module in an inner closure": ({"tool": ("X = 1", "X = 2"), "main": "import tool\ndef make(m):\n def f(s): return (lambda: m.X)()\n return f\nf = make(tool)"}, "main.f"),
    "module in a default": ({"tool": ("X = 1", "X = 2"), "main": "import tool\ndef f(s, m=tool): return m.X"}, "main.f"),
    "module in a keyword's default": ({"tool": ("X = 1", "X = 2"), "main": "import tool\ndef f(s, *, m=tool): return m.X"}, "main.f"),
    "module as a class attribute": ({"tool": ("X = 1", "X = 2"), "main": "import tool\nclass C:\n m = tool\n def __call__(self, s): return self.m.X\nf = C()"}, "main.f"),
    "module as an object's attribute": ({"tool": ("X = 1", "X = 2"), "main": "import tool\nclass C:\n def __init__(self): self.m = tool\n def __call__(self, s): return self.m.X\nf = C()"}, "main.f"),
    "module in a partial": ({"tool": ("X = 1", "X = 2"), "main": "import tool, functools\ndef g(m, s): return m.X\nf = functools.partial(g, tool)"}, "main.f"),
    "metaclass": ({"tool": ("class M(type):\n def __call__(c, *a): return 1", "class M(type):\n def __call__(c, *a): return 2"),
                   "main": "from tool import M\nclass C(metaclass=M): pass\ndef f(s): return C(s)"}, "main.f"),
    "base class": ({"tool": ("class B:\n def g(self): return 1", "class B:\n def g(self): return 2"), "main": "from tool import B\nclass C(B):\n def __call__(self, s): return self.g()\nf = C()"}, "main.f"),
    "class made inside": ({"tool": ("class B:\n x = 1", "class B:\n x = 2"), "main": "import tool\ndef f(s):\n class C(tool.B): pass\n return C.x"}, "main.f"),
    "decorator": ({"tool": ("def d(f):\n def w(s): return f(s) + 1\n return w", "def d(f):\n def w(s): return f(s) + 2\n return w"), "main": "from tool import d\n@d\ndef f(s): return s"}, "main.f"),
    "decorated": ({"tool": "import functools\ndef d(f):\n @functools.wraps(f)\n def w(s): return f(s)\n return w", "main": ("from tool import d\n@d\ndef f(s): return 1", "from tool import d\n@d\ndef f(s): return 2")}, "main.f"),
    "constant": ({"main": ("X = 1\ndef f(s): return X", "X = 2\ndef f(s): return X")}, "main.f"),
    "constant two calls away": ({"tool": ("X = 1\ndef g(): return X\ndef h(): return g()", "X = 2\ndef g(): return X\ndef h(): return g()"), "main": "from tool import h\ndef f(s): return h()"}, "main.f"),
    "pattern": ({"main": ("import re\nP = re.compile('a')\ndef f(s): return P.sub('', s)", "import re\nP = re.compile('b')\ndef f(s): return P.sub('', s)")}, "main.f"),
    "descriptor": ({"main": ("class D:\n def __get__(self, o, c): return 1\nclass C:\n x = D()\ndef f(s): return C().x", "class D:\n def __get__(self, o, c): return 2\nclass C:\n x = D()\ndef f(s): return C().x")}, "main.f"),
    "method of an object": ({"main": ("class C:\n def g(self, s): return 1\nf = C().g", "class C:\n def g(self, s): return 2\nf = C().g")}, "main.f"),
    "generator expression": ({"tool": ("X = 1", "X = 2"), "main": "import tool\ndef f(s): return sum(tool.X for _ in s)"}, "main.f"),
    "lambda in a table": ({"main": ("T = {'a': lambda s: 1}\ndef f(s): return T['a'](s)", "T = {'a': lambda s: 2}\ndef f(s): return T['a'](s)")}, "main.f"),
    "conditional import": ({"tool": ("X = 1", "X = 2"), "main": "def f(s):\n try:\n  import nowhere_at_all\n except ImportError:\n  import tool as nowhere_at_all\n return nowhere_at_all.X"}, "main.f"),
    "mutual recursion": ({"main": ("def g(s): return f(s) + 1\ndef f(s): return g(s)", "def g(s): return f(s) + 2\ndef f(s): return g(s)")}, "main.f"),
    "namespace package": ({"space/sub": ("X = 1", "X = 2"), "main": "import space.sub\ndef f(s): return space.sub.X"}, "main.f"),
}


def loaded(folder, files, which, expression):
    """The fingerprint of an expression, in the modules of one version."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else text[which])
    names = {n.partition("/")[0] for n in files}
    others = {m: sys.modules.pop(m) for m in list(sys.modules) if m.partition(".")[0] in names}     # other tests' modules
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        module, _, name = expression.rpartition(".")
        return function_fingerprint(getattr(importlib.import_module(module), name))
    finally:
        sys.path.remove(str(folder))
        for m in [m for m in sys.modules if m.partition(".")[0] in names]:
            del sys.modules[m]
        sys.modules.update(others)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_in_two_versions(tmp_path, name):
    files, expression = SCRIPTS[name]
    seen = [loaded(tmp_path / str(k), files, which, expression) for k, which in enumerate((0, 1, 0))]
    assert seen[0] != seen[1]
    assert seen[0] == seen[2]


def test_what_a_function_does_not_use_does_not_count(tmp_path):
    files = {"tool": ("X = 1\nY = 1", "X = 1\nY = 2"), "main": "import tool\nLOG = open('/dev/null')\ndef f(s): return tool.X"}
    assert loaded(tmp_path / "a", files, 0, "main.f") == loaded(tmp_path / "b", files, 1, "main.f")
