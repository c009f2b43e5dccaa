# SPDX-License-Identifier: Apache-2.0
"""make docs: gathers the pages of the site in build/pages, then MkDocs makes build/site of them (mkdocs.yml).

Pages are those of docs/ and the three that are made here, of public headers, of the Python package and of the command's own help.
Links to files of the tree that are not pages become plain text.  A link or an anchor that leads nowhere is an error.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/pages"
FROM_ELSEWHERE = {ROOT / "bench/results/all-kept.md": "comparisons.md", **{ROOT / name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HEADERS = ("stoker", "base", "dataset", "batch", "tools", "transform", "stream", "arrow", "store", "sampler", "stats", "ledger", "seeing",
           "own_op", "plugin", "plugin_codec", "plugin_decoder", "plugin_op", "plugin_data", "plugin_loader")


def place_of(source):
    """Where a file of the tree is among the pages; None: it is not one of them."""
    if source.is_relative_to(ROOT / "docs") and source.is_file():
        return PAGES / source.relative_to(ROOT / "docs")
    return PAGES / FROM_ELSEWHERE[source] if source in FROM_ELSEWHERE else None


def with_links(text, source, page):
    def one(match):
        picture, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        found = (source.parent / path).resolve()
        to = place_of(found)
        if picture and found.is_file() and not to:
            to = PAGES / "img" / found.name
            to.parent.mkdir(exist_ok=True)
            shutil.copy(found, to)
        if not to:
            return words
        return f"{picture}[{words}]({os.path.relpath(to, page.parent)}{'#' + anchor if anchor else ''})"
    return LINK.sub(one, text)


def copy_pages():
    for source in sorted([*(ROOT / "docs").rglob("*"), *FROM_ELSEWHERE]):
        if not source.is_file():
            continue
        page = place_of(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            page.write_text(with_links(source.read_text(), source, page))
        else:
            shutil.copy(source, page)


# ---- the C library --------------------------------------------------------------------------------

def prose(comment):
    lines = [re.sub(r"^\s*(/\*+|\*/|\*)? ?", "", line) for line in comment.replace("*/", "").splitlines()]
    return "\n".join(lines).strip()


def declarations(text):
    """Comment and code of each block of a header, in order."""
    body = text.split('extern "C" {\n#endif\n', 1)[-1]
    body = re.split(r"\n#ifdef __cplusplus\n\}", body)[0]
    for block in re.split(r"\n{2,}", body):
        block = block.strip("\n")
        match = re.match(r"(/\*.*?\*/)\n(?=\S)", block, re.S)
        comment, code = (match[1], block[match.end():]) if match else ("", block)
        if re.match(r"/\* -+ (.*?) -+ \*/$", block):
            yield "### " + re.match(r"/\* -+ (.*?) -+ \*/$", block)[1], ""
        elif code.strip() and not code.startswith("#if"):
            yield prose(comment), code


def c_page():
    out = ["# The C library", "Generated from `include/stoker/`. Begin with `stoker.h`. Plug-ins include `plugin.h`, whose parts may change with each version. "
           "What stays as it is for how long: [versions](../versions.md).", ""]
    for name in HEADERS:
        text = (ROOT / f"include/stoker/{name}.h").read_text()
        opening = re.findall(r"/\*.*?\*/", text, re.S)[1]
        out += [f"## {name}.h", "", prose(opening), ""]
        for said, code in declarations(text):
            out += [said, ""] if said else []
            out += ["```c", code, "```", ""] if code else []
    return "\n".join(out)


# ---- the Python package ---------------------------------------------------------------------------

def signature(thing):
    try:
        return re.sub(r"'([^']*)'", r"\1", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return "(...)"


def members(thing):
    for name, member in vars(thing).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield f"`{name}`", inspect.getdoc(member)
        elif callable(member) or isinstance(member, (classmethod, staticmethod)):
            yield f"`{name}{signature(getattr(thing, name))}`", inspect.getdoc(member)


def entry(name, thing):
    out = [f"## {name}", ""]
    if callable(thing):
        out += ["```python", f"stoker.{name}{signature(thing)}", "```", ""]
    out += ["```text", inspect.getdoc(thing) or "", "```", ""]
    if inspect.isclass(thing):
        for title, said in members(thing):
            out += [f"**{title}**", "", "```text", said, "```", ""]
    return out


def python_page():
    sys.path.insert(0, str(ROOT / "build/python"))
    import stoker
    out = ["# The Python package", "Generated from docstrings. Steps of chains are on [their own page](../chains.md), options of `Loader` on [theirs](../loader.md).", ""]
    for name in stoker.__all__:
        try:
            thing = getattr(stoker, name)
        except ImportError:     # DataLoader, where torch is absent
            continue
        if not isinstance(thing, str) and not inspect.ismodule(thing):
            out += entry(name, thing)
    return "\n".join(out)


# ---- the command ----------------------------------------------------------------------------------

def cli_page():
    def said(*words):
        return subprocess.run([ROOT / "build/cli/stoker", *words], capture_output=True, text=True, check=True).stdout
    first = said("--help")
    commands = re.findall(r"^  (\w+) ", first.split("Commands:")[1].split("\n\n")[0], re.M)
    out = ["# The command line", "Generated from `stoker COMMAND --help`.", "", "```text", first, "```", ""]
    for name in commands:
        out += [f"## stoker {name}", "", "```text", said(name, "--help"), "```", ""]
    return "\n".join(out)


def main():
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages()
    (PAGES / "api").mkdir()
    for name, make in (("c", c_page), ("python", python_page), ("cli", cli_page)):
        (PAGES / "api" / f"{name}.md").write_text(make())
    if "--pages" not in sys.argv:
        sys.exit(subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", ROOT / "mkdocs.yml"]).returncode)


if __name__ == "__main__":
    main()
