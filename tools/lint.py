# SPDX-License-Identifier: Apache-2.0
"""make lint: the rules of CONTRIBUTING.md that a program can check.

Prints how large files and functions are against what we aim at (that only informs), then every
violation as `path:line: rule: what is wrong`, and exits with 1 if there is one.  A rule is a function
from a Tree to problems, listed in RULES; tests/lint shows for each that it can fail.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import cscan

# A folder of src/ includes only those before it; files right under src/ may include all.
FOLDERS = ("base kern sound source store compress format codec video index data array table fetch column indexer dataset order op chain batch cuda gpu "
           "row ledger pipe loader tools").split()
# Folders that stand on the public headers only.
OUTSIDE = ("cli", "python")
MAX_FUNCTION, MAX_FILE, MAX_PARAMS, MAX_COLUMNS = 100, 800, 6, 100
MAX_LIBRARY_FUNCTION = 80       # in src/
MAX_FIELDS, MAX_TOP_FILES = 30, 4
MAX_WORDS = 35                  # of a sentence in the docs
FIGURES = ("_options", "_stats", "_report", "_info")    # structs that are lists by nature

# What broke a rule when the rule came, and is on its way: rule -> paths, or "path: name".  An entry that is not
# needed any more is warned of; nothing is to be added.
PENDING = {
    "include-direction": (),
    "defined-where-declared": (),
    "top-files": (),
    "struct-size": (),
    "parameters": (),
    "locks": (),
}

# Words that readers had to decode, and what to write.  In names they are the parts between underscores.
OLD_WORDS = {
    "board": "queue", "boards": "queues", "depart": "start", "departs": "starts", "disembark": "report", "lander": "completion thread",
    "land": "finish", "lands": "finishes", "landed": "done", "landing": "completing", "flight": "transfer, or in flight",
    "flights": "transfers", "flying": "copying", "shelf": "cache", "mend": "repair", "mended": "redecoded", "far": "gpu, or remote",
    "kept": "cached",
}
OLD_IN_COMMENTS = re.compile(r"\b(on board|departs?|disembark\w*|lander|landed|shel(?:f|ves)|mended|(?<!in )flights?)\b", re.I)
# `far` may stand for the opposite of `near` (rows of pixels); these are what users read, or plain English.
OLD_ALLOWED = re.compile(r"(^|_)(in_flight|so_far|kept_shards)(_|$)", re.I)

# Files that comments name and that are not in the tree: other projects', and what the build makes.
OTHER_FILES = ("llm.c", "config.h", "jpeglib.h")
MADE_UP_FILES = ("CONTRIBUTING.md", "docs/adding.md")       # they show how a new file is called
FILE_NAME = re.compile(r"(?<![\w./\"<-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cu|cuh|def))(?![\w/(])")

# Libraries that one file each may know (tests, benches and fuzzers may look too).
LIBRARIES = {
    "libjpeg-turbo": r"jpeglib\.h|jerror\.h|turbojpeg\.h", "libspng": r"spng\.h",
    "libwebp": r"webp/.*", "zstd": r"zstd.*\.h", "lz4": r"lz4.*\.h",
    "libdeflate": r"libdeflate\.h", "brotli": r"brotli/.*", "bzip2": r"bzlib\.h", "libaec": r"szlib\.h|libaec\.h", "snappy": r"snappy-c\.h",
    "xxhash": r"xxhash\.h", "lzf": r"lzf\.h", "libcurl": r"curl/.*", "OpenSSL": r"openssl/.*", "expat": r"expat\.h",
    "liburing": r"liburing.*\.h", "libhdf5": r"hdf5.*\.h", "cJSON": r"(cjson/)?cJSON\.h",
}
SPDX = "SPDX-License-Identifier: Apache-2.0"
SPDX_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".def", ".py", ".pyi", ".sh")
TEXT_SUFFIXES = SPDX_SUFFIXES + (".md", ".build", ".options", ".txt", ".toml", ".ini", ".yml")
TABS_ALLOWED = ("Makefile",)
RAW_MUTEX = re.compile(r"\b(pthread_mutex_\w+|PTHREAD_MUTEX_INITIALIZER)")
THREADS = re.compile(r"\b(pthread_create|thrd_create)\s*\(")
FORBIDDEN = re.compile(r"\b(v?f?printf|puts|fputs|putchar|perror|abort|_?exit|quick_exit)\s*\(")
MACHINE_PATH = re.compile(r"(?<![\w.}-])/(?:home|root|Users|work)/[\w.]")


class Problem(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class File:
    def __init__(self, root, path):
        self.path = path
        self.parts = PurePosixPath(path).parts
        self.text = (root / path).read_text(errors="replace")

    @cached_property
    def lines(self):
        return self.text.split("\n")

    @cached_property
    def code(self):
        return cscan.strip(self.text)

    @cached_property
    def comments(self):
        """(line, text) of each comment, on one line and without what begins its lines."""
        if self.is_c:
            found = [(m.start(), m.group()) for m in re.finditer(r"//[^\n]*|/\*.*?\*/", self.text, re.S)]
        else:
            found = [(m.start(1), m.group(1)) for m in re.finditer(r"(?:^|\s)(#[^\n]*)", self.text)]
        return [(self.text.count("\n", 0, at) + 1, re.sub(r"\n\s*\*?\s*", " ", text)) for at, text in found]

    @cached_property
    def functions(self):
        return cscan.functions(self.text)

    @cached_property
    def includes(self):
        return cscan.includes(self.text)

    @property
    def is_c(self):
        return self.path.endswith((".c", ".h", ".cu", ".cuh"))

    @property
    def is_test(self):
        return self.parts[0] == "tests" or self.path.startswith("python/tests/") or self.path.endswith(("_test.c", "_test.h"))

    @property
    def is_table(self):
        return self.path.endswith(("_table.c", "_tables.c"))

    def matches(self, pattern):
        """(line, word) for each match of `pattern` in the code."""
        for m in pattern.finditer(self.code):
            yield self.code.count("\n", 0, m.start()) + 1, m.group(1)


class Tree:
    def __init__(self, root, only=()):
        self.root = Path(root)
        self.only = set(only)           # what is compiled and reported; empty: all
        self.paths = sorted(p for p in list_paths(self.root) if is_text(p))
        self.files = [File(self.root, p) for p in self.paths]
        self.c_files = [f for f in self.files if f.is_c]
        self.warnings = []
        self.skipped = set()        # what a tool that is absent would have done
        self.used = set()

    def pending(self, rule, entry):
        """Is this allowed for now?  An entry that ends in / is a folder."""
        for allowed in PENDING.get(rule, ()):
            if entry == allowed or allowed.endswith("/") and entry.startswith(allowed):
                self.used.add((rule, allowed))
                return True
        return False

    def wanted(self, path):
        return not self.only or path in self.only

    def prototype_heads(self, name):
        return self._prototype_heads.get(name, ())

    @cached_property
    def _prototype_heads(self):
        """Name of a _locked function -> the declarations of it, in headers and before their definition."""
        found = defaultdict(list)
        for f in self.c_files:
            for m in re.finditer(r"\b(\w+_locked)\s*\([^;{}]*;", f.code):
                found[m.group(1)].append(m.group())
        return found

    def has(self, path):
        return os.path.normpath(path) in self._path_set

    @cached_property
    def _path_set(self):
        return set(self.paths)


def list_paths(root):
    """What git tracks or would; without git, all but hidden and built folders."""
    if (root / ".git").exists() and shutil.which("git"):
        out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root,
                             capture_output=True, text=True, check=True).stdout
        return [p for p in out.split("\0") if p and (root / p).is_file()]
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [d for d in folders if not d.startswith((".", "build", "__pycache__"))]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return found


def is_text(path):
    name = os.path.basename(path)
    if any(part in f"/{path}" for part in ("/corpus/", "/bench/results/")):
        return False
    if "/golden/" in f"/{path}" and not name.endswith((".c", ".build")):
        return False
    return name.endswith(TEXT_SUFFIXES) or name == "Makefile" or path.startswith(".ci/")


# ---- rules --------------------------------------------------------------------------------------

def rule_function_size(tree):
    for f in tree.c_files:
        for fn in f.functions:
            limit = MAX_LIBRARY_FUNCTION if f.parts[0] == "src" and not f.is_test else MAX_FUNCTION
            if fn.lines > limit:
                yield Problem(f.path, fn.line, "function-size",
                              f"{fn.name} has {fn.lines} lines, the limit is {limit}")


def rule_file_size(tree):
    for f in tree.c_files:
        lines = f.text.count("\n")
        if f.path.endswith(".c") and lines > MAX_FILE and not f.is_table:
            yield Problem(f.path, 1, "file-size", f"{lines} lines, the limit is {MAX_FILE}"
                          " (tables go into a file called *_table.c)")


def rule_include_direction(tree):
    for f in tree.c_files:
        if f.parts[0] != "src" or len(f.parts) < 3 or f.parts[1] not in FOLDERS:
            continue
        own = f.parts[1]
        for inc in f.includes:
            target = inc.path.split("/")[0]
            if inc.path.endswith(".def"):  # a list of names, expanded by whoever declares them
                continue
            if inc.path.startswith(".."):
                reason = "write it from src/ on, as folder/name.h"
            elif target in FOLDERS and FOLDERS.index(target) > FOLDERS.index(own):
                reason = f"{own}/ may not know {target}/"
            elif "/" not in inc.path and not inc.angle and tree.has(f"src/{inc.path}"):
                reason = f"{own}/ may not know what stands above all folders"
            else:
                continue
            if not tree.pending("include-direction", f"{f.path}: {inc.path}"):
                yield Problem(f.path, inc.line, "include-direction", f'"{inc.path}": {reason}')


def rule_rows_name_no_coding(tree):
    """What a GPU decodes is a table (gpu/coded.h): the code that leaves pictures to it names none of its entries."""
    for f in tree.c_files:
        if not re.match(r"src/row/row_gpu(_pictures)?\.c$", f.path):
            continue
        for n, line in enumerate(f.text.splitlines(), 1):
            found = re.search(r"\bstk_(?:pic_)?(jpeg|png|webp|nv12)_?\w*", line)
            if found:
                yield Problem(f.path, n, "rows-name-no-coding", f"{found.group(0)}: goes into gpu/coded_{found.group(1)}.c")


def library_folder(f):
    """The folder of src/ that a file of the library is in; "" right under src/; None: it is not of the library."""
    if f.parts[0] != "src" or f.is_test or f.path.endswith("_model.h"):
        return None
    return f.parts[1] if len(f.parts) > 2 else ""


def rule_defined_where_declared(tree):
    """What a folder's header declares is defined in that folder."""
    library = [(f, library_folder(f)) for f in tree.c_files if library_folder(f) is not None]
    homes = defaultdict(set)
    for f, folder in library:
        for fn in f.functions:
            homes[fn.name].add(folder)
    for f, folder in library:
        for name, line in cscan.prototypes(f.text) if f.path.endswith(".h") else ():
            elsewhere = sorted(homes[name] - {folder})
            if name.startswith("stk_") and elsewhere and folder not in homes[name] and not tree.pending(
                    "defined-where-declared", f"{f.path}: {name}"):
                yield Problem(f.path, line, "defined-where-declared",
                              f"{name} is defined in src/{elsewhere[0]}: declare it there")


def rule_top_files(tree):
    top = [f.path for f in tree.c_files if f.parts[0] == "src" and len(f.parts) == 2
           and not tree.pending("top-files", f.path)]
    if len(top) > MAX_TOP_FILES:
        yield Problem(top[-1], 1, "top-files", f"{len(top)} files right under src/, the limit is {MAX_TOP_FILES}: "
                      "each belongs into a folder")


def rule_struct_size(tree):
    for f in tree.c_files:
        if f.parts[0] not in ("src", "include", *OUTSIDE) or f.is_test:
            continue
        for s in cscan.structs(f.text):
            if s.fields > MAX_FIELDS and not s.name.endswith(FIGURES) and not tree.pending(
                    "struct-size", f"{f.path}: {s.name}"):
                yield Problem(f.path, s.line, "struct-size",
                              f"{s.name} has {s.fields} fields, the limit is {MAX_FIELDS}")


def rule_parameters(tree):
    for f in tree.c_files:
        if f.parts[0] not in ("src", "include", *OUTSIDE) or f.is_test:
            continue
        for fn in f.functions:
            if fn.params > MAX_PARAMS and "STK_REPLACED_BY" not in fn.head and not tree.pending("parameters", f"{f.path}: {fn.name}"):
                yield Problem(f.path, fn.line, "parameters",
                              f"{fn.name} has {fn.params} parameters, the limit is {MAX_PARAMS}: pass a struct")


def twice(tree, rule, what, found):
    """Problems of names that stand for two things; found: (name, file, line)."""
    first = {}
    for name, path, line in found:
        if name in first and first[name] != path and not tree.pending(rule, name):
            yield Problem(path, line, rule, f"{what} {name} is also in {first[name]}: one name, one thing")
        first.setdefault(name, path)


def rule_struct_tags(tree):
    """A tag that begins with stk_ is of the whole library; those of one .c file are its own."""
    tag = re.compile(r"\b(?:struct|union|enum)\s+(stk_\w+)\s*\{")
    yield from twice(tree, "struct-tags", "struct", (
        (name, f.path, line) for f in tree.c_files if f.parts[0] in ("src", "include", *OUTSIDE) and not f.is_test
        for line, name in f.matches(tag)))


def rule_file_names(tree):
    yield from twice(tree, "file-names", "file", (
        (f.parts[-1], f.path, 1) for f in tree.files if f.parts[0] == "src" and f.parts[-1] != "meson.build"))


def names_in(f):
    """The code of a C or Python file, without comments, strings and docstrings."""
    if f.is_c:
        return f.code
    return re.sub(r'"""(?:.|\n)*?"""|"[^"\n]*"|#[^\n]*', lambda m: "\n" * m.group().count("\n"), f.text)


def old_words_of(f):
    """(line, name, old word) of identifiers; names that work for one more version are left out."""
    text = names_in(f)
    near, lines = re.search(r"\bnear\b", text), text.split("\n")
    for m in re.finditer(r"[A-Za-z_]\w*", text):
        word = next((w for w in m.group().lower().split("_") if w in OLD_WORDS), None)
        if not word or OLD_ALLOWED.search(m.group()) or word == "far" and near:
            continue
        line = text.count("\n", 0, m.start()) + 1
        if "STK_REPLACED_BY" not in lines[line - 1]:
            yield line, m.group(), word


def rule_words(tree):
    for f in documents(tree):
        for line, text in enumerate(f.lines, 1):
            m = OLD_IN_COMMENTS.search(text)
            if m and "--in-flight" not in text:
                yield Problem(f.path, line, "words", f"'{m.group()}': write the usual word (OLD_WORDS)")
    for f in tree.files:
        python = f.parts[0] == "python" and f.path.endswith((".py", ".pyi"))
        if f.is_test or not (python or f.is_c and f.parts[0] in ("src", "include", *OUTSIDE)):
            continue
        for line, name, word in old_words_of(f):
            yield Problem(f.path, line, "words", f"{name}: not {word} but {OLD_WORDS[word]}")
        for line, text in f.comments:
            m = OLD_IN_COMMENTS.search(text)
            if m:
                yield Problem(f.path, line, "words", f"'{m.group()}' in a comment: write the usual word (OLD_WORDS)")


def documents(tree):
    """Pages for readers; CHANGELOG.md speaks of names that are gone."""
    return [f for f in tree.files if f.path.endswith(".md") and (f.parts[0] == "docs" or f.path in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]


def rule_named_files(tree):
    """What a comment, or a page, calls name.h or folder/name.h is there."""
    names = {p.rsplit("/", 1)[-1] for p in tree.paths}
    for f in documents(tree):
        if f.path in MADE_UP_FILES:
            continue
        for line, text in enumerate(f.lines, 1):
            for name in FILE_NAME.findall(text):
                if not any(p == name or p.endswith("/" + name) for p in tree.paths) and name not in OTHER_FILES:
                    yield Problem(f.path, line, "named-files", f"the page names {name}, which is not in the tree")
    comments = [(f, line, text) for f in tree.c_files if f.parts[0] in ("src", "include") for line, text in f.comments]
    python = [(f, line, text) for f in tree.files if f.parts[0] == "python" and f.path.endswith((".py", ".pyi")) and not f.is_test
              for line, text in enumerate(f.lines, 1)]
    for f, line, text in comments + python:
        for m in FILE_NAME.finditer(text):
            name = m.group(1)
            there = name in names if "/" not in name else any(p == name or p.endswith("/" + name) for p in tree.paths)
            if not there and name not in OTHER_FILES:
                yield Problem(f.path, line, "named-files", f"a comment names {name}, which is not in the tree")


def rule_locks(tree):
    """Mutexes are those that the analysis knows, and a function for holders of one says which."""
    for f in tree.c_files:
        if library_folder(f) is None or f.path == "src/base/lock.h" or tree.pending("locks", f.path):
            continue
        for line, word in f.matches(RAW_MUTEX):
            yield Problem(f.path, line, "locks", f"{word}: use stk_mutex of base/lock.h")
        for fn in f.functions:
            if fn.name.endswith("_locked") and "STK_REQUIRES" not in fn.head and not any(
                    "STK_REQUIRES" in h for h in tree.prototype_heads(fn.name)):
                yield Problem(f.path, fn.line, "locks", f"{fn.name} does not say STK_REQUIRES(which lock)")


def rule_thread_safety(tree):
    """Clang's analysis of who holds which lock, over the files that lock."""
    clang = next(filter(shutil.which, ("clang", *(f"clang-{v}" for v in range(20, 13, -1)))), None)
    sources = [f for f in tree.c_files if tree.wanted(f.path) and library_folder(f) is not None and f.path.endswith(".c")
               and re.search(r"\bstk_mutex_|\bstk_cond_|STK_REQUIRES|_locked\(", f.code)]
    if not clang:
        if sources:
            tree.skipped.add("locks (clang is not installed)")
        return
    with ThreadPoolExecutor() as pool:
        for problems in pool.map(lambda f: analyse_locks(tree, clang, f), sources):
            yield from problems


def analyse_locks(tree, clang, f):
    includes = [a for d in ("include", "src", "build", ".") for a in ("-I", str(tree.root / d))]
    done = subprocess.run(
        [clang, "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wno-everything", "-Wthread-safety",
         "-Werror=thread-safety", *includes, tree.root / f.path], capture_output=True, text=True)
    for line, kind, text in re.findall(r"^[^\n:]*:(\d+):\d+: (fatal error|error|warning): (.*)$", done.stderr, re.M):
        if "thread-safety" in text:
            yield Problem(f.path, int(line), "thread-safety", text)
        elif kind != "warning":
            tree.warnings.append(f"{f.path} was not analysed for locks: {text}")


def rule_public_headers_only(tree):
    for f in tree.c_files:
        if f.parts[0] not in OUTSIDE or f.is_test:
            continue
        for inc in f.includes:
            beside = os.path.normpath(os.path.join(os.path.dirname(f.path), inc.path))
            if tree.has(beside) and beside.startswith(f.parts[0] + "/"):
                continue
            if tree.has(f"src/{inc.path}") or inc.path.split("/")[0] in ("..", "src"):
                yield Problem(f.path, inc.line, "public-headers",
                              f'"{inc.path}": {f.parts[0]}/ stands on include/stoker/ only')


def rule_spdx(tree):
    for f in tree.files:
        if not f.path.endswith(SPDX_SUFFIXES) and f.parts[-1] not in ("Makefile", "meson.build"):
            continue
        first = f.lines[1] if f.lines[0].startswith("#!") and len(f.lines) > 1 else f.lines[0]
        if SPDX not in first and f.text:
            yield Problem(f.path, 1, "spdx", f"the first line is not '{SPDX}'")


def rule_threads(tree):
    for f in tree.c_files:
        if f.parts[0] in ("src", *OUTSIDE) and f.path != "src/base/thread.c" and not f.is_test:
            for line, word in f.matches(THREADS):
                yield Problem(f.path, line, "threads",
                              f"{word}: only src/base/thread.c makes threads: stk_thread_start()")


def rule_forbidden_calls(tree):
    for f in tree.c_files:
        if f.parts[0] == "src" and not f.is_test:
            for line, word in f.matches(FORBIDDEN):
                yield Problem(f.path, line, "forbidden-call",
                              f"{word}: the library neither prints nor ends the process")


def rule_one_file_per_library(tree):
    users = defaultdict(list)
    for f in tree.c_files:
        if f.parts[0] not in ("src", "include", *OUTSIDE) or f.is_test:
            continue
        for inc in f.includes:
            for library, pattern in LIBRARIES.items():
                if inc.angle and re.fullmatch(pattern, inc.path):
                    writes = f.parts[-1].startswith("encode_")     # a file that reads, and one that writes
                    users[library + (" for writing" if writes else "")].append((f.path, inc.line))
    for library, places in users.items():
        first = places[0][0]
        for path, line in places:
            if path != first:
                yield Problem(path, line, "one-file-per-library",
                              f"{library} is already known to {first}")


def rule_white_space(tree):
    for f in tree.files:
        for number, line in enumerate(f.lines, 1):
            if line != line.rstrip():
                yield Problem(f.path, number, "white-space", "trailing white space")
            elif "\t" in line and f.parts[-1] not in TABS_ALLOWED:
                yield Problem(f.path, number, "white-space", "a tab")
        if f.text and not f.text.endswith("\n"):
            yield Problem(f.path, len(f.lines), "white-space", "no newline at the end")


def rule_columns(tree):
    for f in tree.c_files:
        for number, line in enumerate(f.lines, 1):
            if len(line) > MAX_COLUMNS:
                yield Problem(f.path, number, "columns", f"{len(line)} columns, at most {MAX_COLUMNS}: run clang-format, break comments")


def sentences_of(text):
    """(line, words) of the sentences of a page: not of code, tables and headings; what stands in `marks` has no length."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", lambda m: "\n" * m.group().count("\n"), text)
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ))", text):
        if not block.lstrip("\n").startswith(("    ", "|", "#", "<")):
            plain = re.sub(r"`[^`]*`", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block))
            for sentence in re.split(r"(?<=[.!?:;])\s+", plain):
                yield line, re.findall(r"[\w'-]+", sentence)
        line += block.count("\n")


def rule_sentences(tree):
    for f in documents(tree):
        for line, words in sentences_of(f.text):
            if len(words) > MAX_WORDS:
                yield Problem(f.path, line, "sentences", f"a sentence of {len(words)} words, at most {MAX_WORDS}: '{' '.join(words[:6])} ...'")


def rule_machine_paths(tree):
    kept = [File(tree.root, p) for p in list_paths(tree.root) if str(p).startswith("bench/results/")]
    for f in tree.files + kept:         # what programs printed is kept as it is, but for this
        for number, line in enumerate(f.lines, 1):
            m = MACHINE_PATH.search(line)
            if m:
                yield Problem(f.path, number, "machine-path", f"'{m.group()}...' is of one machine")


def rule_headers_compile_alone(tree):
    headers = [f for f in tree.files if tree.wanted(f.path) and f.path.startswith("include/") and f.path.endswith(".h")]
    languages = [("cc", "c", "c99"), ("cc", "c", "c11"), ("cc", "c", "c17"), ("c++", "c++", "c++11"),
                 ("c++", "c++", "c++17")]
    jobs = [(h, *language) for h in headers for language in languages]
    with ThreadPoolExecutor() as pool:
        for problem in pool.map(lambda job: compile_header(tree, *job), jobs):
            if problem:
                yield problem


def compile_header(tree, header, compiler, language, standard):
    if not shutil.which(compiler):
        tree.skipped.add(f"public headers as {standard} ({compiler} is not installed)")
        return None
    name = header.path.removeprefix("include/")
    done = subprocess.run(
        [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror",
         "-I", tree.root / "include", "-I", tree.root / "build/include", "-x", language, "-"],
        input=f"#include <{name}>\n", capture_output=True, text=True)
    if done.returncode == 0:
        return None
    first = next((li for li in done.stderr.splitlines() if "error" in li), "does not compile")
    return Problem(header.path, 1, "header-alone", f"as {standard}: {first.strip()}")


def rule_python_names(tree):
    """A class has a name of its own in the package, and a module that looks public is called by a noun."""
    first = {}
    for f in tree.files:
        if f.parts[:2] != ("python", "stoker") or not f.path.endswith(".py"):
            continue
        if re.fullmatch(r"[a-z]\w*ing\.py", f.parts[-1]):
            yield Problem(f.path, 1, "python-names", "a module is called by a noun, or its name begins with _")
        for node in ast.parse(f.text).body:
            if isinstance(node, ast.ClassDef) and first.setdefault(node.name, f.path) != f.path:
                yield Problem(f.path, node.lineno, "python-names", f"{first[node.name]} has a class {node.name} already")


def rule_ruff(tree):
    """Ruff's rules that pyproject.toml selects."""
    beside = Path(sys.executable).with_name("ruff")
    tool = str(beside) if beside.exists() else shutil.which("ruff")
    sources = [tree.root / f.path for f in tree.files if tree.wanted(f.path) and f.path.endswith(".py")]
    if not sources or not tree.has("pyproject.toml"):
        return
    if not tool:
        tree.skipped.add("ruff (not installed)")
        return
    done = subprocess.run([tool, "check", "--no-cache", "--output-format=concise", "--config", tree.root / "pyproject.toml", *sources],
                          capture_output=True, text=True, cwd=tree.root)
    if done.returncode > 1:
        tree.warnings.append(f"ruff did not run: {done.stderr.strip()[:200]}")
    for path, line, text in re.findall(r"^(.+?):(\d+):\d+: (.*)$", done.stdout, re.M):
        yield Problem(path, int(line), "ruff", text)


def tidy_some(tool, root, files):
    done = subprocess.run([tool, "-p", root / "build", "--quiet", *(root / f.path for f in files)], capture_output=True, text=True, cwd=root)
    for path, line, text in re.findall(r"^(.+?):(\d+):\d+: (?:warning|error): (.*)$", done.stdout, re.M):
        path = Path(os.path.normpath(path))
        yield Problem(str(path.relative_to(root) if path.is_relative_to(root) else path), int(line), "clang-tidy", text)


def rule_clang_tidy(tree):
    """The checks of .clang-tidy, on what the build compiles."""
    tool = next((t for t in ("clang-tidy", *(f"clang-tidy-{v}" for v in range(20, 13, -1))) if shutil.which(t)), None)
    built = tree.root / "build/compile_commands.json"
    if not (tree.root / ".clang-tidy").exists():
        return
    if not tool or not built.exists():
        tree.skipped.add(f"clang-tidy ({'not installed' if not tool else 'nothing is built'})")
        return
    known = built.read_text()
    files = [f for f in tree.c_files if f.path.endswith(".c") and f.parts[0] in ("src", "cli") and not f.is_test
             and tree.wanted(f.path) and f"/{f.path}\"" in known]
    parts = [files[i::os.cpu_count() or 1] for i in range(os.cpu_count() or 1)]
    with ThreadPoolExecutor() as pool:
        for problems in pool.map(lambda part: list(tidy_some(tool, tree.root.resolve(), part)) if part else [], parts):
            yield from set(problems)


RULES = (
    rule_function_size, rule_file_size, rule_include_direction, rule_defined_where_declared,
    rule_top_files, rule_struct_size, rule_parameters, rule_struct_tags, rule_file_names,
    rule_words, rule_named_files, rule_locks, rule_thread_safety, rule_public_headers_only,
    rule_spdx, rule_threads, rule_forbidden_calls, rule_one_file_per_library, rule_white_space,
    rule_columns, rule_sentences, rule_machine_paths, rule_headers_compile_alone, rule_python_names,
    rule_rows_name_no_coding, rule_ruff, rule_clang_tidy,
)


# ---- sizes and style: they inform, they do not fail -----------------------------------------------

def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))] if values else 0


def print_sizes(tree):
    sources = [f for f in tree.c_files if f.parts[0] in ("src", *OUTSIDE) and not f.is_test]
    files = [f.text.count("\n") for f in sources if f.path.endswith(".c") and not f.is_table]
    functions = [(fn, f) for f in sources for fn in f.functions]
    lines = [fn.lines for fn, _ in functions]
    params = [fn.params for fn, _ in functions]
    many = [f"{fn.name}/{fn.params}" for fn, _ in functions if fn.params > MAX_PARAMS]
    print(f"{len(files)} .c files: lines median {percentile(files, .5)} (aim 300), "
          f"p90 {percentile(files, .9)}, max {max(files, default=0)} (limit {MAX_FILE})")
    print(f"{len(lines)} functions: lines median {percentile(lines, .5)} (aim 15), "
          f"p95 {percentile(lines, .95)} (aim 60), max {max(lines, default=0)} "
          f"(limit {MAX_FUNCTION})")
    print(f"parameters: max {max(params, default=0)} (aim {MAX_PARAMS})"
          + (f"; over it: {' '.join(many)}" if many else ""))


def warn_format(tree):
    tool = shutil.which("clang-format") or shutil.which("clang-format-14")
    style = tree.root / ".clang-format"
    sources = [tree.root / f.path for f in tree.c_files if tree.wanted(f.path)]
    if not sources or not style.exists():
        return
    if not tool:
        tree.skipped.add("clang-format (not installed)")
        return
    done = subprocess.run([tool, "--dry-run", "--style=file", *sources], capture_output=True,
                          text=True)
    places = re.findall(r"^(.+?):\d+:\d+: warning:", done.stderr, re.M)
    if places:
        print(f"warning: clang-format would change {len(places)} places in {len(set(places))} "
              "files")


def lint(root, rules=RULES, only=()):
    """All problems of the tree at `root`, or of the files `only`, and the warnings that came with them."""
    tree = Tree(root, only)
    problems = [problem for rule in rules for problem in rule(tree) if tree.wanted(problem.path)]
    if not only and (tree.root / "tools/lint.py").exists():
        tree.warnings += [f"PENDING of tools/lint.py: {rule}: {entry} is not needed any more"
                          for rule, entries in PENDING.items() for entry in entries
                          if (rule, entry) not in tree.used]
    return tree, problems


def main():
    parser = argparse.ArgumentParser(description="check the rules of CONTRIBUTING.md")
    parser.add_argument("--root", default=Path(__file__).resolve().parent.parent)
    parser.add_argument("only", nargs="*", help="files to look at; all without")
    args = parser.parse_args()
    tree, problems = lint(args.root, only=args.only)
    if not args.only:
        print_sizes(tree)
    warn_format(tree)
    for warning in sorted(set(tree.warnings)):
        print(f"warning: {warning}")
    for what in sorted(tree.skipped):
        print(f"skipped: {what}")
    for problem in sorted(problems):
        print(problem)
    print(f"lint: {len(args.only or tree.files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
