# SPDX-License-Identifier: Apache-2.0
"""What `meson install` gives a C program: headers, pkg-config, a shared library, examples that run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests"))
from made import jpeg, write_tar  # noqa: E402

STANDARDS = [("cc", "c99"), ("cc", "c11"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++17")]


def run(*command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120,
                          **kwargs)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """An installed tree and the environment in which pkg-config and the loader find it."""
    meson = shutil.which("meson") or Path(sys.executable).with_name("meson")
    if not (BUILD / "build.ninja").exists() or not Path(meson).exists() or not shutil.which("cc"):
        pytest.skip("needs a build folder, meson and a C compiler")
    root = tmp_path_factory.mktemp("install")
    run(meson, "install", "-C", BUILD, "--no-rebuild", "--tags", "devel,runtime,cli",
        "--destdir", root)
    pc = next(root.rglob("stoker.pc"))
    text = pc.read_text()
    prefix = re.search(r"^prefix=(.*)$", text, re.M)[1]
    pc.write_text(text.replace(f"prefix={prefix}", f"prefix={root}{prefix}", 1))
    lib = next(root.rglob("libstoker.so")).parent
    return root, lib, {**os.environ, "PKG_CONFIG_PATH": str(pc.parent),
                       "LD_LIBRARY_PATH": str(lib)}


def test_the_build_folder_serves_too(tmp_path):
    """stoker-uninstalled.pc names the headers of the source tree."""
    if not (BUILD / "meson-uninstalled").exists() or not shutil.which("pkg-config") or not shutil.which("cc"):
        pytest.skip("needs a build folder, pkg-config and a C compiler")
    env = {**os.environ, "PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled")}
    (tmp_path / "a.c").write_text("#include <stoker/stoker.h>\nint main(void) { return !stk_version(); }\n")
    run("cc", tmp_path / "a.c", *flags(env, "--cflags", "--libs"), "-o", tmp_path / "a", env=env)
    run(tmp_path / "a", env={**env, "LD_LIBRARY_PATH": str(BUILD / "src")})


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for s in range(2):
        write_tar(folder / f"{s}.tar", [
            (f"{s}{i:02d}.{field}", raw) for i in range(40)
            for field, raw in (("JPEG" if s else "jpg", jpeg(s * 40 + i)), ("cls", str(i % 4).encode()))])
    return str(folder / "{0,1}.tar")


def flags(env, *what):
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    return run("pkg-config", *what, "stoker", env=env).split()


def build(tree, tmp_path, name):
    env = tree[2]
    program = tmp_path / name
    run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", ROOT / f"examples/{name}.c",
        *flags(env, "--cflags", "--libs"), "-o", program, env=env)
    return program


def test_pkg_config_asks_for_nothing_else(tree):
    env = {**tree[2], "PKG_CONFIG_LIBDIR": tree[2]["PKG_CONFIG_PATH"]}
    assert flags(env, "--libs")[-1] == "-lstoker"
    assert any(f.startswith("-I") for f in flags(env, "--cflags"))
    assert flags(env, "--modversion") == [re.search(
        r'STK_VERSION "(.*)"', (ROOT / "include/stoker/base.h").read_text())[1]]


def soname():
    """docs/versions.md: of the minor version until 1.0, then of the major one."""
    major, minor = re.search(r'STK_VERSION "(\d+)\.(\d+)\.', (ROOT / "include/stoker/base.h").read_text()).groups()
    return f"libstoker.so.{major}" if major != "0" else f"libstoker.so.0.{minor}"


def test_soname_and_symbols(tree):
    library = (tree[1] / "libstoker.so").resolve()
    assert (tree[1] / soname()).resolve() == library
    assert f"[{soname()}]" in run("readelf", "-d", library)
    rows = run("nm", "-D", "--defined-only", library).splitlines()
    found = {row.split()[-1].split("@")[0] for row in rows}
    declared = set()
    for header in (ROOT / "include/stoker").glob("*.h"):
        code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        declared |= set(re.findall(r"STK_API[^;]*?\b(stk_\w+)\(", code))
    assert found == declared


@pytest.mark.parametrize("compiler, standard", STANDARDS)
@pytest.mark.parametrize("header", ["base", "batch", "dataset", "plugin", "stoker", "tools"])
def test_headers_compile_alone(tree, header, compiler, standard):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    language = "c" if compiler == "cc" else "c++"
    run(compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror",
        *flags(tree[2], "--cflags"), "-x", language, "-", input=f"#include <stoker/{header}.h>\n")


def test_headers_are_short_and_documented():
    for header in (ROOT / "include/stoker").glob("*.h"):
        text = header.read_text()
        assert text.count("\n") <= 400, header
        undocumented = [m[1] for m in re.finditer(
            r"^STK_API[^;]*?\b(stk_\w+)\([^;]*;(?! */\*)", text, re.M)
            if not text[:m.start()].rstrip(" ").endswith("*/\n")]
        assert not undocumented, f"{header.name}: {undocumented} say nothing"


def test_load(tree, shards, tmp_path):
    program = build(tree, tmp_path, "load")
    out = run(program, shards, env=tree[2]).splitlines()
    assert len(out) == 4 and out[0].startswith("step 0: 32 x 3 x 64 x 64, from ")
    assert out[2].startswith("step 2: 16 x 3") and out[3].startswith("80 samples, ")
    done = subprocess.run([program, "/nonexistent.tar"], capture_output=True, text=True, env=tree[2])
    assert done.returncode == 1 and done.stderr.startswith("ENOTFOUND: ")
    assert len((ROOT / "examples/load.c").read_text().splitlines()) <= 50


def test_plugin(tree, shards, tmp_path):
    out = run(build(tree, tmp_path, "plugin"), shards, env=tree[2]).split()
    assert len(out) == 8 and all(0 < float(v) < 255 for v in out)


def test_train(shards):
    pytest.importorskip("torch")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(BUILD / "python"), os.environ.get("PYTHONPATH", "")])}
    out = run(sys.executable, ROOT / "examples/train.py", shards, "4", env=env)
    assert out.count("loss") == 3


def test_installed_command(tree):
    cli = next(p for p in tree[0].rglob("bin/stoker"))
    assert "stoker" in run(cli, "--version", env=tree[2])


def test_exported_symbols_are_those_of_the_list():
    """A symbol that goes away breaks programs; one that appears has to be meant (symbols.txt, one per line)."""
    library = BUILD / "src/libstoker.so"
    if not library.exists() or not shutil.which("nm"):
        pytest.skip("needs libstoker.so and nm")
    shown = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    listed = set((Path(__file__).parent / "symbols.txt").read_text().split())
    assert shown - listed == set(), "not in tests/install/symbols.txt"
    assert listed - shown == set(), "in tests/install/symbols.txt, and gone"


def fixed_structs():
    """Structs of public headers, but for plug-ins', that do not begin with `size`; (header, name)."""
    for header in sorted((ROOT / "include/stoker").glob("*.h")):
        if header.name.startswith(("plugin", "own_op")):
            continue
        code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name in re.findall(r"^typedef struct (\w+) \{(?!\s*uint32_t size;)", code, re.M):
            yield header.name, name


def test_structs_without_size_stay_as_they_are(tree, tmp_path):
    """Programs are compiled with their sizes: another one wants another soname (docs/versions.md)."""
    found = list(fixed_structs())
    lines = "".join(f'    printf("%s %zu\\n", "{name}", sizeof({name}));\n' for _, name in found)
    includes = "".join(f"#include <stoker/{header}>\n" for header in sorted({h for h, _ in found}))
    (tmp_path / "a.c").write_text(f"#include <stdio.h>\n{includes}int main(void) {{\n{lines}    return 0;\n}}\n")
    run("cc", "-std=c99", *flags(tree[2], "--cflags"), tmp_path / "a.c", "-o", tmp_path / "a")
    head, *listed = (Path(__file__).parent / "structs.txt").read_text().splitlines()
    shown = run(tmp_path / "a").splitlines()
    assert head == f"{soname()}, 64 bits", "a new soname: make the list again"
    assert set(listed) - set(shown) == set(), "changed or gone: the soname has to change too, or before a release this line of structs.txt"
    assert set(shown) - set(listed) == set(), "not in tests/install/structs.txt"


def test_the_policy_names_structs_as_they_are():
    fixed = {name for _, name in fixed_structs()}
    page = (ROOT / "docs/versions.md").read_text()
    named = re.search(r"\*\*All other structs are fixed\*\*(.*?)Their sizes", page, re.S)[1]
    assert set(re.findall(r"`(stk_\w+)`", named)) <= fixed and len(fixed) > 20


def test_man_pages_and_completion_have_every_option(tree):
    root = tree[0]
    page = next(Path(root).rglob("man1/stoker-index.1")).read_text()
    said = run(BUILD / "cli/stoker", "index", "--help")
    options = re.findall(r"^  --([a-z-]+)", said, re.M)
    assert len(options) > 5
    for name in options:
        assert r"\-\-" + name.replace("-", r"\-") in page
    for file in ("stoker.bash", "_stoker", "stoker.fish"):
        text = next(Path(root).rglob(file)).read_text()
        assert all(name in text for name in options)
    run("bash", "-nc", next(Path(root).rglob("stoker.bash")).read_text())
