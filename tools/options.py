#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what src/loader/options.def says of a loader's options into the places that have to repeat it.

    tools/options.py           rewrite them
    tools/options.py --check   exit 1 when one is not current

They are the signature and the arguments in the docstring of stoker.Loader (python/stoker/loader.py), which
editors and help() read, and the reference page docs/loader.md.  The library itself and the command line
include options.def.
"""

import pathlib
import re
import sys
import textwrap
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "loader" / "options.def"
LOADER = ROOT / "python" / "stoker" / "loader.py"
PAGE = ROOT / "docs" / "loader.md"
COLUMNS = 110

# A row is NAME(word, ..., "text" "text", ...); a comment with rules is the heading of the rows after it.
_TOKEN = re.compile(r'/\*(.*?)\*/|"((?:\\.|[^"\\])*)"|(\w+)|([(),])', re.S)
_HEADING = re.compile(r"\s*-+ (.+?) -+\s*")
_INIT = re.compile(r"    def __init__\(self, data: .*?\*\*unknown: Any\) -> None:\n", re.S)
_ARGUMENTS = re.compile(r"    data: .*?\n(?=    \"\"\"\n)", re.S)


class Row(NamedTuple):
    kind: str           # STK_OPTION, STK_ARGUMENT or STK_FIELD
    group: str
    name: str
    type: str = ""      # how text becomes a value; of STK_OPTION
    values: str = ""
    fallback: str = ""
    python: str = ""    # "type = default"
    help: str = ""
    python_help: str = ""

    @property
    def annotation(self):
        return self.python.split(" = ")[0]

    @property
    def default(self):
        return (self.python.split(" = ") + [None])[1]


_FIELDS = {"STK_OPTION": ("name", "type", "values", "fallback", "python", "help", "python_help"),
           "STK_ARGUMENT": ("name", "python", "help"), "STK_FIELD": ("name", "help")}


def read_rows(text):
    """The rows of options.def, in order."""
    rows, group, kind, args, inside = [], "", "", [], False
    for comment, string, word, mark in _TOKEN.findall(text):
        if comment:
            heading = _HEADING.fullmatch(comment)
            group = heading[1] if heading else group
        elif mark == "(":
            args, inside = [""], True
        elif mark == ",":
            args.append("")
        elif mark == ")":
            names = _FIELDS[kind]
            if len(args) != len(names):
                sys.exit(f"options.def: {kind}({args[0]}) has {len(args)} columns, not {len(names)}")
            rows.append(Row(kind=kind, group=group, **dict(zip(names, args))))
            inside = False
        elif inside:
            args[-1] += word or re.sub(r"\\(.)", r"\1", string)
        else:
            kind = word
    return rows


def arguments(rows):
    """Rows that are arguments of Loader; data and fields come first, by place."""
    return [r for r in rows if r.python]


def signature(rows):
    parts = []
    for row in arguments(rows):
        parts.append(f"{row.name}: {row.annotation}" + (f" = {row.default}" if row.default else ""))
        if row.name == "fields":
            parts.append("*")
    lines, line = [], "    def __init__(self, "
    for part in [*parts, "**unknown: Any) -> None:"]:
        if len(line) + len(part) + 1 > COLUMNS:
            lines.append(line.rstrip())
            line = " " * 17
        line += part + ("" if part.endswith(":") else ", ")
    return "\n".join([*lines, line]) + "\n"


def docstring(rows):
    return "".join(
        textwrap.fill(f"{row.name}: {row.python_help or row.help}", COLUMNS, initial_indent="    ",
                      subsequent_indent="        ", break_long_words=False, break_on_hyphens=False,
                      fix_sentence_endings=True) + "\n"
        for row in arguments(rows))


def flag(row):
    """How the command line spells it."""
    return "--" + ("workers" if row.name == "num_workers" else row.name.replace("_", "-"))


def entry(row):
    about = row.python_help or row.help
    lines = [f"### `{row.name}`" if row.python else f"### `{flag(row)}`", "", about[0].upper() + about[1:] + ".", ""]
    if row.python:
        default = row.default and row.default.removeprefix("_options.Left(").rstrip(")")
        lines.append(f"- Python: `{row.annotation}`" + (f", default `{default}`" if default else ", required"))
    if row.kind == "STK_OPTION":
        takes = row.values if ".." in row.values else row.values.replace(" ", ", ").replace(", or, ", " or ")
        lines.append(f"- Command line: `{flag(row)}`, {takes}; default {row.fallback}")
        lines.append(f"- C: `stk_loader_options.{row.name}`")
    return [*lines, ""]


def reference(rows):
    lines = ["# Options of a loader", "",
             "Written by `tools/options.py` from `src/loader/options.def`; a test compares.", "",
             "`stoker.Loader(data, fields, ...)` takes everything after `fields` by name. `stoker bench` takes the",
             "options that can be written as text, with the same names. In C they are fields of",
             "`stk_loader_options`, where 0 or NULL is the default.", "",
             "A size is a number of bytes or a text: `2GB` is 2,000,000,000 (KB, MB, GB, TB are powers of 1,000),",
             "`2GiB` is 2,147,483,648 (KiB, MiB, GiB, TiB are powers of 1,024). The B may be left out. This holds for",
             "Python, the command line and `stk_size_parse()`.", "",
             "A value outside its range is refused when the loader is opened; the error names the option, the value",
             "and the range.", ""]
    group = None
    for row in rows:
        if row.kind == "STK_FIELD":
            continue
        if row.group != group:
            lines += [f"## {row.group[0].upper()}{row.group[1:]}", ""]
            group = row.group
        lines += entry(row)
    return "\n".join(lines).rstrip("\n") + "\n"


def replaced(pattern, text, new, what):
    done, n = pattern.subn(lambda _: new, text)
    if n != 1:
        sys.exit(f"{LOADER.name}: {what} was found {n} times, not once")
    return done


def outputs():
    """path -> text of everything that is written from the table."""
    rows = read_rows(TABLE.read_text())
    loader = replaced(_INIT, LOADER.read_text(), signature(rows), "the signature of Loader")
    loader = replaced(_ARGUMENTS, loader, docstring(rows), "the list of arguments")
    return {LOADER: loader, PAGE: reference(rows)}


def main():
    stale = [path for path, text in outputs().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"{', '.join(str(p.relative_to(ROOT)) for p in stale)} not current: run tools/options.py")
        return
    for path in stale:
        path.write_text(outputs()[path])


if __name__ == "__main__":
    main()
