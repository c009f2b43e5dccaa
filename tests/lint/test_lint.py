# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/lint.py fails on a tree that breaks it and is silent on one that does not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import cscan  # noqa: E402
import lint  # noqa: E402

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
GUARDED = SPDX + "#ifndef G\n#define G\n{}\n#endif\n"


def c(*lines):
    return SPDX + "\n".join(lines) + "\n"


def body(n):
    return "int f(void)\n{\n" + "    f();\n" * n + "}\n"


GOOD = {
    "include/stoker/base.h": GUARDED.format("int stk_f(int a);"),
    "src/base/err.c": c('#include "base/err.h"', "#include <stdio.h>",
                        "/* printf( in a comment is no call */",
                        'int f(char *s, int n) { return snprintf(s, n, "exit(1)"); }'),
    "src/base/err.h": GUARDED.format("int f(void);"),
    "src/base/thread.c": c("int t(void) { return pthread_create(0); }"),
    "src/base/lock.h": (TOOLS.parent / "src/base/lock.h").read_text(),
    "src/pipe/pool.c": c('#include "base/err.h"', "int g(void) { return 0; }",
                         "int stk_pool_run(void) { return g(); }"),
    "src/pipe/pool.h": GUARDED.format("int stk_pool_run(void);"),
    **{f"src/top{i}.c": c("int x;") for i in range(3)},
    "src/order/queue.c": c('#include "base/lock.h"', "typedef struct queue { stk_mutex lock; int n; } queue;",
                           "static int pop_locked(queue *q) STK_REQUIRES(q->lock)", "{", "    return q->n--;", "}",
                           "int pop(queue *q)", "{", "    int n;", "    stk_mutex_lock(&q->lock);",
                           "    n = pop_locked(q);", "    stk_mutex_unlock(&q->lock);", "    return n;", "}"),
    "src/codec/jpeg_turbo.c": c("#include <jpeglib.h>"),
    "src/codec/jpeg_turbo_test.c": c("#include <jpeglib.h>", 'int h(void) { printf("x"); }'),
    "src/loader.c": c('#include "pipe/pool.h"'),
    "src/order/slot.h": GUARDED.format("typedef struct stk_queue { int n, most; } stk_queue; /* order/queue.c, err.h, llm.c's, a.b.c */\n"
                                       "typedef struct stk_queue stk_other;"),
    "src/order/rows.c": c("struct slot { int so_far, near, far; }; /* as far as is kept; in", " * flight, on a board */"),
    "src/order/steps.c": c("struct slot { int in_flight, kept_shards; };", 'const char *x = "landed";'),
    "src/order/rows_test.c": c("struct stk_queue { int kept; };"),
    "include/stoker/old.h": GUARDED.format("#define STK_REPLACED_BY(x)\nstruct s {\n    int gpu_mended STK_REPLACED_BY(\"x\");\n};"),
    "python/stoker/a.py": '# SPDX-License-Identifier: Apache-2.0\n"""What has landed."""\n\n\nclass Known:\n    in_flight = "far"\n',
    "src/order/meson.build": "# SPDX-License-Identifier: Apache-2.0\n",
    "src/base/meson.build": "# SPDX-License-Identifier: Apache-2.0\n",
    "cli/main.c": c("#include <stoker/base.h>", '#include "cli.h"', 'int main(void) { exit(0); }'),
    "cli/cli.h": GUARDED.format("int run(void);"),
    "python/stoker/_epochs.py": "# SPDX-License-Identifier: Apache-2.0\nclass Epoch:\n    pass\n",
    "src/chain/tidy.c": c("int stk_half(int a)", "{", "    return a / 2;", "}"),
    ".clang-tidy": (TOOLS.parent / ".clang-tidy").read_text(),
    "build/compile_commands.json": '[{"directory": "@ROOT@/build", "command": "cc -c ../src/chain/tidy.c", "file": "../src/chain/tidy.c"}]',
    "pyproject.toml": '[tool.ruff.lint]\nselect = ["F"]\n',
    "docs/page.md": "# Page\n\n" + "one two " * 17 + "three. " + "Four `" + "x " * 40 + "`: " + "five " * 34 + "six\n\n```\n" + "x " * 40 + "x\n```\n",
    "Makefile": "# SPDX-License-Identifier: Apache-2.0\nx:\n\ttrue\n",
}

QUEUE = ('#include "base/lock.h"', "typedef struct queue { stk_mutex lock; int n; } queue;")
POP = "static int pop_locked(queue *q) STK_REQUIRES(q->lock) { return q->n--; }"

BAD = [
    ("function-size", "src/base/a.c", SPDX + body(78)),
    ("function-size", "cli/a.c", SPDX + body(98)),
    ("defined-where-declared", "src/base/a.h", GUARDED.format("int stk_pool_run(void);")),
    ("top-files", "src/top3.c", c("int x;")),
    ("struct-size", "src/base/a.h", GUARDED.format(
        "struct big { " + "int a, b[3];\n" * 15 + "union { int d; int e; } c; int (*f)(int, int); };")),
    ("parameters", "src/base/a.c", c("int h(int a, int b, int c, int d, int e, int f, int (*g)(int, int)) { return a; }")),
    ("struct-tags", "src/base/a.h", GUARDED.format("typedef struct stk_queue { int n; } stk_queue;\n")),
    ("file-names", "src/order/err.c", c("int x;")),
    ("words", "src/gpu/a.c", c("int far_bytes;")),
    ("words", "src/gpu/a.c", c("int x; /* of all", " * batches on board */")),
    ("words", "include/stoker/a.h", GUARDED.format("int stk_kept(void);")),
    ("clang-tidy", "src/chain/tidy.c", c("double stk_half(int a)", "{", "    return (double)(a / 2);", "}")),
    ("sentences", "docs/a.md", "# Page\n\n- [So](x.md) " + "many " * 35 + "all\n"),
    ("words", "python/stoker/b.py", "# SPDX-License-Identifier: Apache-2.0\nmended = 1\n"),
    ("words", "python/ext/a.c", c("/* a flight */")),
    ("named-files", "src/base/a.c", c("/* see", " * base/gone.h */")),
    ("named-files", "include/stoker/a.h", GUARDED.format("int f(void); /* (gone.c) */")),
    ("named-files", "docs/a.md", "The rows of `base/gone.c`.\n"),
    ("words", "docs/a.md", "A batch has landed.\n"),
    ("locks", "src/base/a.c", c("#include <pthread.h>", "static pthread_mutex_t lock;")),
    ("locks", "src/base/a.c", c(*QUEUE, "static int pop_locked(queue *q) { return q->n--; }")),
    ("thread-safety", "src/base/a.c", c(*QUEUE, POP, "int h(queue *q) { return pop_locked(q); }")),
    ("thread-safety", "src/base/a.c", c(*QUEUE, "int h(queue *q)", "{", "    stk_mutex_lock(&q->lock);",
                                        "    if (q->n)", "        return 1;", "    stk_mutex_unlock(&q->lock);",
                                        "    return 0;", "}")),
    ("file-size", "src/base/a.c", SPDX + "int x;\n" * 801),
    ("include-direction", "src/base/a.c", c('#include "pipe/pool.h"')),
    ("include-direction", "src/op/op.h", c('#include "batch/stack.h"')),
    ("include-direction", "src/base/a.c", c('#include "../base/err.h"')),
    ("rows-name-no-coding", "src/row/row_gpu.c", c("int stk_jpeg_peek(void);")),
    ("public-headers", "cli/cmd_a.c", c('#include "base/err.h"')),
    ("public-headers", "python/a.c", c('#include "../src/base/err.h"')),
    ("python-names", "python/stoker/loader.py", "# SPDX-License-Identifier: Apache-2.0\nclass Epoch(int):\n    pass\n"),
    ("python-names", "python/stoker/seeing.py", "# SPDX-License-Identifier: Apache-2.0\n"),
    ("ruff", "tools/a.py", "# SPDX-License-Identifier: Apache-2.0\nimport os\n"),
    ("spdx", "src/base/a.c", "int x;\n"),
    ("spdx", "tools/a.sh", "#!/bin/sh\ntrue\n"),
    ("threads", "src/pipe/a.c", c("int f(void) { return pthread_create(0); }")),
    ("threads", "src/fetch/a.c", c("int f(void) { return pthread_create(0); }")),
    ("threads", "cli/a.c", c("int f(void) { return thrd_create(0); }")),
    ("forbidden-call", "src/base/a.c", c('int f(void) { printf("x"); }')),
    ("forbidden-call", "src/pipe/a.c", c("int f(void) { abort(); }")),
    ("forbidden-call", "src/pipe/a.c", c("int f(void) { exit(1); }")),
    ("one-file-per-library", "src/codec/other.c", c("#include <jpeglib.h>")),
    ("white-space", "src/base/a.c", c("int x; ")),
    ("white-space", "src/base/a.c", c("\tint x;")),
    ("white-space", "src/base/a.c", SPDX + "int x;"),
    ("columns", "src/base/a.c", c(f"/* {'x' * 95} */")),
    ("machine-path", "docs/a.md", "run " + "/home" + "/someone/x\n"),
    ("machine-path", "bench/results/a.json", '{"path": "' + "/home" + '/someone/x"}\n'),
    ("header-alone", "include/stoker/a.h", GUARDED.format("int f(size_t n);")),
    ("header-alone", "include/stoker/a.h", GUARDED.format("int f(int class);")),
]


def make(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.replace("@ROOT@", str(root)))
    return root


def rules_broken(root):
    return {p.rule for p in lint.lint(root)[1]}


def test_good_tree_has_no_problem(tmp_path):
    _, problems = lint.lint(make(tmp_path, GOOD))
    assert [str(p) for p in problems] == []


@pytest.mark.parametrize("rule,path,text", BAD, ids=[f"{r}-{i}" for i, (r, *_) in enumerate(BAD)])
def test_rule_can_fail(tmp_path, rule, path, text):
    if rule == "header-alone" and not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    if rule == "thread-safety" and not any(map(shutil.which, ("clang", *(f"clang-{v}" for v in range(14, 21))))):
        pytest.skip("no clang")
    if rule == "ruff" and not Path(sys.executable).with_name("ruff").exists() and not shutil.which("ruff"):
        pytest.skip("no ruff")
    if rule == "clang-tidy" and not any(map(shutil.which, ("clang-tidy", *(f"clang-tidy-{v}" for v in range(14, 21))))):
        pytest.skip("no clang-tidy")
    assert rules_broken(make(tmp_path, {**GOOD, path: text})) == {rule}


def test_every_rule_is_shown_to_fail():
    assert len({rule for rule, *_ in BAD}) == len(lint.RULES)


def test_limits_are_allowed(tmp_path):
    files = {"src/base/a.c": SPDX + body(77), "cli/a.c": SPDX + body(97),
             "src/base/a.h": GUARDED.format("struct big { " + "int a;\n" * 30 + "};\n"
                                            "struct big_options { " + "int a;\n" * 90 + "};"), "src/base/b_table.c": SPDX + "int x;\n" * 900}
    assert rules_broken(make(tmp_path, {**GOOD, **files})) == set()


def test_exit_status(tmp_path):
    command = [sys.executable, TOOLS / "lint.py", "--root", make(tmp_path, GOOD)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    make(tmp_path, {"src/base/a.c": "int x;\n"})
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "src/base/a.c:1: spdx:" in done.stdout


def test_scanner_sees_functions_as_written():
    text = c(
        'extern "C" {',
        "#if A",
        "static STK_MUST_CHECK int one(int a, int (*cb)(int, int)) STK_REQUIRES(a)",
        "{",
        "#else",
        "static int one(int a) {",
        "#endif",
        "    if (a) { return '{'; }",
        "}",
        "struct s { int x; };",
        "static const op table = { .f = one };",
        "int two(void) { return 0; }",
        "}",
    )
    assert [(f.name, f.line, f.lines, f.params) for f in cscan.functions(text)] == [
        ("one", 4, 7, 2), ("two", 13, 1, 0)]


def test_what_is_pending_is_allowed_and_warned_of_when_it_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(lint, "PENDING", {"top-files": ("src/top3.c", "src/top4.c"), "locks": ("src/pipe/", "src/gone.c")})
    files = {"src/top3.c": c("int x;"), "src/top4.c": c("int x;"), "src/pipe/a.c": c("static pthread_mutex_t lock;"), "tools/lint.py": "#\n"}
    tree, problems = lint.lint(make(tmp_path, {**GOOD, **files}), [lint.rule_top_files, lint.rule_locks])
    assert problems == []
    assert tree.warnings == ["PENDING of tools/lint.py: locks: src/gone.c is not needed any more"]


def test_scanner_sees_prototypes_and_structs():
    text = c('extern "C" {', "int stk_a(int x,", "          int y);", "static inline int stk_b(void) { return stk_c(1); }",
             "typedef int (*stk_d)(int);", "STK_API STK_MUST_CHECK int stk_e(void) STK_REQUIRES(lock);",
             "struct s { int a, b[2]; struct { int x; } c; int (*f)(int, int (*g)(int, int), int); };", "}")
    assert [name for name, _ in cscan.prototypes(text)] == ["stk_a", "stk_e"]
    assert [(s.name, s.fields) for s in cscan.structs(text)] == [("s", 4)]


def test_what_is_skipped_is_said(tmp_path):
    """Tools that are absent: without them lint still says what it did not look at."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    files = {"pyproject.toml": "", ".clang-tidy": "", ".clang-format": "", "python/a.py": "# SPDX-License-Identifier: Apache-2.0\n",
             "src/base/b.c": c("int f(stk_mutex *m) { return stk_mutex_lock(m); }")}
    program = f"import sys\nsys.path.insert(0, {str(TOOLS)!r})\nimport lint\nsys.executable = '/nowhere/python'\nsys.argv = ['lint.py', '--root', {str(make(tmp_path / 'tree', {**GOOD, **files}))!r}]\nlint.main()"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": str(tmp_path / "bin")}).stdout
    skipped = [line for line in said.splitlines() if line.startswith("skipped: ")]
    for what in ("ruff", "clang-tidy", "clang-format", "locks", "public headers as c99"):
        assert any(what in line for line in skipped), (what, said)


def test_mypy_is_skipped_with_a_line(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/lint.sh").write_text((TOOLS / "lint.sh").read_text())
    (tmp_path / "tools/lint.py").write_text("")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')     # without packages
    (tmp_path / "bin/python3").chmod(0o755)
    done = subprocess.run(["bash", tmp_path / "tools/lint.sh"], capture_output=True, text=True, env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    assert done.returncode == 0 and "skipped: mypy (mypy is not installed)" in done.stdout, done
