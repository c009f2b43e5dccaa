# SPDX-License-Identifier: Apache-2.0
"""Chains as objects say what the grammar says."""

import ast
import inspect
import types
from pathlib import Path

import numpy as np
import pytest
from conftest import as_numpy

import stoker
from stoker import _stub

pytestmark = pytest.mark.asan


def test_text():
    chain = stoker.from_("jpg", "png").image().random_resized_crop(224, scale=(0.5, 1.0)).hflip()
    assert str(chain) == ("from(jpg, png) | image | random_resized_crop(224, scale=(0.5, 1.0)) "
                          "| hflip")
    assert str(stoker.image().resize((2, 3)).to("f32", scale=False)) == (
        "image | resize((2, 3)) | to(f32, scale=false)")
    assert str(stoker.json("a b.c")) == 'json("a b.c")'
    assert str(stoker.json('say "x"')) == "json('say \"x\"')"
    assert str(stoker.from_("cls").int()) == "from(cls) | int"
    assert str(stoker.image().resize(np.int64(4))) == "image | resize(4)"
    assert str(stoker.image().hflip(p=None)) == "image | hflip"


def test_chains_are_values():
    base = stoker.image().resize(32)
    assert base.hflip() == base.hflip() != base and len({base.hflip(), base.hflip()}) == 1
    assert str(base) == "image | resize(32)"            # not changed by hflip()
    assert "hflip" in repr(base.hflip())


def test_bad_values():
    for bad in (object(), {}, [], "both ' and \""):
        with pytest.raises(stoker.StokerError):
            stoker.image().resize(bad)
    with pytest.raises(AttributeError):
        stoker.image().hflop()
    with pytest.raises(AttributeError):
        stoker.imge()


def test_objects_and_text_load_the_same(urls):
    chain = stoker.from_("jpg").image().random_resized_crop(16, ratio=(1, 1)).hflip(0.3).to("f32")
    found = []
    for fields in ({"x": chain}, {"x": str(chain)}):
        with stoker.Loader(urls, fields, batch_size=20) as loader:
            found.append(as_numpy(next(iter(loader))["x"]).copy())
    assert (found[0] == found[1]).all()


def test_chains_that_are_not_whole_yet(urls):
    """A step is not refused for what only a loader knows or a later step says."""
    views = stoker.from_("jpg").image().views(2)
    assert str(views.random_resized_crop(8).to("u8")) == "from(jpg) | image | views(2) | random_resized_crop(8) | to(u8)"
    mask = stoker.from_("jpg").image().like("x").to("u8")
    with stoker.Loader(urls, {"x": stoker.from_("jpg").image().resize((8, 8)).hflip().to("u8"), "m": mask}, batch_size=4,
                       num_workers=0) as loader:
        batch = next(iter(loader))
        assert np.array_equal(as_numpy(batch["x"]), as_numpy(batch["m"]))
    with pytest.raises(ValueError, match="views have one size"):
        stoker.Loader(urls, {"x": views}, batch_size=1)
    with pytest.raises(ValueError, match="names no output"):
        stoker.Loader(urls, {"m": mask}, batch_size=1)


def test_made_from_the_registry():
    names = {name for name, _, _ in stoker.chains.steps}
    assert {"image", "int", "float", "text", "bytes", "json", "resize", "center_crop",
            "random_resized_crop", "hflip", "normalize", "to"} <= names
    assert names <= set(dir(stoker.Chain))
    assert "size" in inspect.signature(stoker.Chain.resize).parameters
    assert "how often" in stoker.Chain.hflip.__doc__
    assert set(stoker.chains.codecs) <= set(dir(stoker))


def test_stubs_are_up_to_date():
    for name, text in _stub.stubs().items():
        assert Path(stoker.__file__).with_name(name).read_text() == text, "python -m stoker._stub python/stoker"


def test_type_checkers_see_every_codec_and_op():
    """In the stubs as they are installed, each with its parameters; and codecs begin chains."""
    def tree(name):
        return ast.parse(Path(stoker.__file__).with_name(name).read_text())

    chain = next(node for node in tree("chains.pyi").body if isinstance(node, ast.ClassDef) and node.name == "Chain")
    methods = {node.name: node.args for node in chain.body if isinstance(node, ast.FunctionDef)}
    for step, _, _ in stoker.chains.steps:
        name = stoker.chains.python_name(step)
        args = methods[name]
        seen = [a.arg for a in (*args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs)]
        assert seen == list(inspect.signature(getattr(stoker.Chain, name)).parameters), name
    begin = {target.id for node in tree("_codecs.pyi").body if isinstance(node, ast.Assign) for target in node.targets}
    assert begin == set(stoker.chains.codecs) - {"open"}
    assert all(isinstance(getattr(stoker, name), types.FunctionType) for name in begin)


def test_chains_as_arguments():
    from stoker.chains import Chain, _call

    flip, both = Chain().hflip(), Chain().hflip(0.5).resize(8)
    assert _call("random_apply", (both,), {"p": 0.8}) == "random_apply(hflip(0.5) | resize(8), p=0.8)"
    assert _call("one_of", (flip, both), {}) == "one_of(hflip(), hflip(0.5) | resize(8))"
    assert _call("f", ([flip, flip],), {}) == "f((hflip(), hflip()))"
    with pytest.raises(stoker.StokerError, match="needs a step"):
        _call("f", (Chain(),), {})
    with pytest.raises(stoker.StokerError, match="`p` must be a number"):  # the grammar reads it
        stoker.Transform(f"hflip(p={both})")
