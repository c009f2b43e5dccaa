# SPDX-License-Identifier: Apache-2.0
"""make check: for the minute between two edits.  It builds, runs the C unit tests, the Python tests of what changed, and lints
what changed.  `make check BASE=main` counts what a branch changed as well; else it is what is not committed yet.

Which tests belong to a file is guessed: by its name, by who imports it, and by AREAS below.  A wrong guess costs time or a later
surprise, never a check: `make test` runs all.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import run_tests
from run_tests import BESIDE, BIN, NOT_TIMING, ROOT

# The tests of a folder as a whole: few and short.
AREAS = {
    "src/base": "test_errors test_loader", "src/kern": "test_augment test_geometry", "src/sound": "test_features test_decoders", "src/source": "test_loader test_side_files",
    "src/store": "test_answers test_listing", "src/format": "test_tar_oracle test_npy_numpy", "src/codec": "test_bad_pictures test_npy_numpy", "src/compress": "test_compressed", "src/video": "test_video_frames",
    "src/index": "test_dataset test_seek", "src/data": "test_dataset", "src/array": "test_arrays", "src/table": "test_parquet test_arrow_tables",
    "src/column": "test_columns test_where", "src/fetch": "test_loader test_seek", "src/dataset": "test_dataset test_select",
    "src/order": "test_block test_resume test_ranks", "src/op": "test_augment test_chains", "src/chain": "test_chains test_transform",
    "src/batch": "test_batch test_odd_batches", "src/gpu": "test_gather test_to_device", "src/cuda": "test_gather", "src/indexer": "test_dataset test_seek",
    "src/row": "test_ragged test_pad test_packing_documents", "src/ledger": "test_ledger", "src/pipe": "test_loader test_failed test_waits",
    "src/loader": "test_loader test_options_table", "src/tools": "test_check test_cli", "cli": "test_cli test_names", "include": "test_names",
    "python/ext": "test_batch test_loader test_dlpack", "python/stoker": "test_loader", "docs": "test_chains_page test_errors_page",
    "tools": "test_runner test_lint",
}
DULL = {"test", "data", "file", "list", "open", "read", "write", "plan", "made", "table", "init", "main", "c", "h", "py"}


def changed(base):
    """Paths that differ since the branch left `base`, deleted ones too, and those that git does not know yet."""
    def git(*args):
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    left = git("merge-base", base, "HEAD").strip()
    return sorted({p for p in [*git("diff", "--name-only", "-z", left).split("\0"),
                               *git("ls-files", "-o", "--exclude-standard", "-z").split("\0")] if p})


def words(path):
    return {w for w in re.split(r"[_\W\d]+", Path(path).stem) if len(w) > 1} - DULL


def of_same_name(path, tests):
    """Test files whose names share the most words with the file's."""
    score = {t: len(words(t) & words(path)) for t in tests}
    most = max(score.values(), default=0)
    return {t for t in tests if most and score[t] == most}


def of_importers(path, tests):
    """Test files that name this module of the package."""
    if not path.startswith("python/stoker/"):
        return set()
    name = re.compile(rf"\bstoker\.{Path(path).stem}\b|from stoker import .*\b{Path(path).stem}\b")
    return {t for t in tests if name.search((ROOT / t).read_text())}


def of_area(path, tests):
    names = next((AREAS[str(folder)] for folder in Path(path).parents if str(folder) in AREAS), "").split()
    return {t for t in tests if Path(t).stem in names}


def tests_of(paths):
    tests = [str(p.relative_to(ROOT)) for folder in run_tests.TEST_FOLDERS for p in (ROOT / folder).rglob("test_*.py")
             if "gpu/real" not in str(p)]
    found = {p for p in paths if p in tests}
    for p in paths:
        if p not in found and p.endswith((".c", ".h", ".cu", ".cuh", ".def", ".py", ".pyi", ".md")):
            found |= of_same_name(p, tests) | of_importers(p, tests) | of_area(p, tests)
    return sorted(found)


def suites_of(paths):
    """Units, and the seams where they or what only they run changed."""
    seams = any(p.startswith(("tests/seams/", "tests/gpu/host/", "src/row/", "src/pipe/", "src/gpu/")) for p in paths)
    return ["--suite", "unit", *(["--suite", "seams"] if seams else [])]


def pytest_of(log, tests):
    """Those tests; all of them may need services, which take longer than a minute to start."""
    status, counts = run_tests.run_pytest(log, env=run_tests.python_env(), mark="not slow and not services", files=tests)
    if status == run_tests.NO_TESTS_COLLECTED:
        raise run_tests.Skip("they need services: make test")
    return status, counts


def main(base="HEAD"):
    run_tests.LOGS.mkdir(parents=True, exist_ok=True)
    paths = changed(base)
    tests = tests_of(paths)
    print(f"{len(paths)} files changed since {base}; their tests: {' '.join(Path(t).stem for t in tests) or 'none'}", flush=True)
    steps = {
        "build": run_tests.step_build,
        "units": lambda log: run_tests.meson_test(log, "build", *suites_of(paths), *NOT_TIMING, BESIDE),
        "pytest": lambda log: pytest_of(log, tests),
        "lint": lambda log: (log.run(BIN / "python", "tools/lint.py", *(p for p in paths if (ROOT / p).is_file())), None),
    }
    totals, start = run_tests.Totals(), time.monotonic()
    for name, step in steps.items():
        if paths and (tests or name != "pytest"):
            run_tests.run_step(f"check-{name}", step, totals)
    return run_tests.summary(totals, start)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
