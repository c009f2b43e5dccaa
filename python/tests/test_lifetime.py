# SPDX-License-Identifier: Apache-2.0
"""Exit, fork, Ctrl-C, DataLoader workers, memory: mostly in processes of their own."""

import io
import logging
import pickle
import re
import tarfile
import textwrap

import pytest
from conftest import FIELDS, LABEL, SAMPLES, check_python, ids_of, run_python, torch, write_tar

import stoker

MAKE = """
import os, sys, stoker
fields = {"image": "from(jpg) | image | random_resized_crop(64) | to(f32)", "label": "from(cls) | int"}
loader = stoker.Loader(sys.argv[1], fields, batch_size=8, shuffle=True, num_workers=2)
"""
needs_torch = pytest.mark.skipif(torch is None, reason="without torch")


def python(body, urls, **kwargs):
    return check_python(MAKE + textwrap.dedent(body), urls, **kwargs)


def sanitized(end):
    return pytest.param(end, marks=pytest.mark.asan)


# Under ASan those whose batches, loader or threads are left to the end; it takes two seconds to start.
@pytest.mark.parametrize("end", [
    sanitized("pass"), "sys.exit(0)", "loader.close()", "del loader",
    "keep = [b for b in loader]", sanitized("keep = [b for b in loader]; loader.close()"),
    sanitized("import builtins; builtins.keep = loader; builtins.running = running"),
    "import threading; threading.Thread(target=lambda: [b for _ in range(50) for b in loader], "
    "daemon=True).start(); import time; time.sleep(0.05)"])
def test_exit_with_a_running_loader(urls, end):
    python(f"running = iter(loader)\nbatch = next(running)\n{end}\n", urls)


def test_exit_by_exception(urls):
    done = run_python(MAKE + "next(iter(loader)); raise SystemExit(3)", urls)
    assert done.returncode == 3 and done.stderr == ""


def test_fork_with_a_running_loader(urls):
    """Not with ASan: tests/support/sanitized.h says why."""
    out = python("""
        running = iter(loader)
        batch = next(running)
        total = float(batch["image"].sum())
        pid = os.fork()
        if pid == 0:
            try:
                assert float(batch["image"].sum()) == total     # memory is copied
                for use in (lambda: next(running), lambda: next(iter(loader)), loader.stats):
                    try:
                        use()
                    except stoker.StokerError as e:
                        assert "fork" in str(e), e
                    else:
                        os._exit(4)
                mine = stoker.Loader(sys.argv[1], fields, batch_size=8, num_workers=2)
                n = sum(len(b["label"]) for b in mine)
                mine.close()
                loader.close()
                del batch, running, loader
                import gc; gc.collect()
                os._exit(0 if n == 100 else 5)
            except BaseException as e:
                print(repr(e)); sys.stdout.flush()
                os._exit(6)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        print(sum(len(b["label"]) for b in running))
        """, urls)
    assert out.split()[-1] == "92"


def test_forked_child_exits_normally(urls):
    """Finalisation, with atexit handlers, in a child that inherited the loader."""
    python("""
        running = iter(loader); next(running)
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        sum(1 for b in running)
        """, urls)


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c(urls, workers):
    """SIGINT ends a loop at once, and the loader closes as always."""
    code = """
    import os, sys, threading, time, signal, stoker
    fields = {"image": "from(jpg) | image | resize((1200, 1200)) | to(f32)"}
    loader = stoker.Loader(sys.argv[1], fields, batch_size=20, num_workers=int(sys.argv[2]))
    seen, at = 0, []

    def interrupt():
        at.append(seen)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Timer(0.3, interrupt).start()
        while seen < 100_000:                   # many minutes
            for batch in loader:
                seen += 1
                del batch
    except KeyboardInterrupt:
        print("stopped", loader.epoch)
        loader.close()
        sys.exit(0 if seen - at[0] <= 20 else f"{seen - at[0]} batches after the signal")
    """
    assert "stopped" in check_python(code, urls, workers)


def test_ctrl_c_while_waiting_for_a_slow_batch(urls):
    """One batch that takes long: next() waits in slices and looks at signals between them."""
    code = """
    import os, sys, threading, time, signal, stoker
    fields = {"image": "from(jpg) | image | resize((3600, 3600)) | to(u8)"}
    loader = stoker.Loader(sys.argv[1], fields, batch_size=100, num_workers=1, prefetch=1,
                           memory_limit="16GB")

    def interrupt():
        while loader.stats()["samples"] == 0:   # it is at work, and has most of the batch before it
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt).start()
        next(iter(loader))
    except KeyboardInterrupt:
        print(loader.stats()["samples"], flush=True)
        os._exit(0)
    print("whole batch")
    """
    assert int(check_python(code, urls)) < 50   # rows made by then: a load slows them as it does the signal


@pytest.fixture(scope="module")
def long_to_index(tmp_path_factory):
    """Shards of many small members: their index takes a tenth of a second or more."""
    folder = tmp_path_factory.mktemp("long")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(4_000):
            tar.addfile(tarfile.TarInfo(f"{i:06d}.cls"))
    members = raw.getvalue()[:4_000 * 512]
    for shard in range(2):
        with open(folder / f"{shard}.tar", "wb") as f:
            for _ in range(60):
                f.write(members)
            f.write(bytes(1024))
    return folder


@pytest.mark.parametrize("pattern", ["0.tar", "{0,1}.tar"])
def test_ctrl_c_while_indexing(long_to_index, pattern):
    """One shard is indexed on the main thread, several on others: both stop at once.  Time is that of the process's
    threads, which other processes do not change, and is compared with that of a whole index."""
    code = """
    import os, shutil, sys, threading, time, signal, stoker
    made = os.path.join(os.path.dirname(sys.argv[1]), ".stoker")
    start = time.process_time()
    stoker.open(sys.argv[1])
    whole, at = time.process_time() - start, 0
    shutil.rmtree(made)

    def interrupt():
        global at
        while time.process_time() - start < whole / 8:
            time.sleep(0.001)
        at = time.process_time()
        os.kill(os.getpid(), signal.SIGINT)

    def once():
        "The share of the work that was done after the signal, or None: the signal came too late."
        global start
        opened, start = None, time.process_time()
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            opened = stoker.open(sys.argv[1])
            thread.join()
        except KeyboardInterrupt:
            pass
        return None if opened else (time.process_time() - at) / whole

    for attempt in range(30):
        share = once()
        if share is not None:
            print(share, os.path.exists(made), whole, attempt)
            break
        shutil.rmtree(made)
    """
    out = check_python(code, long_to_index / pattern)
    print(out)
    share, made = out.split()[:2]
    assert float(share) < 0.5 and made == "False"       # seven eighths were to do


def test_log_lines_go_to_logging(tmp_path, caplog):
    write_tar(tmp_path / "a.tar", [("a.cls", b"1")])
    with caplog.at_level(logging.INFO, logger="stoker"):
        stoker.open(tmp_path / "a.tar")
    assert [(r.name, r.levelname) for r in caplog.records] == [("stoker", "INFO")]
    assert caplog.messages[0].startswith("building the index of 1 shards")
    with caplog.at_level(logging.INFO, logger="stoker"):
        stoker.open(tmp_path / "a.tar")
    assert len(caplog.records) == 1         # the index is there


def test_a_handler_that_raises_is_no_reason_to_fail(tmp_path):
    write_tar(tmp_path / "a.tar", [("a.cls", b"1")])
    done = run_python("""
        import logging, sys, stoker
        class Broken(logging.Handler):
            def emit(self, record):
                raise RuntimeError("broken handler")
        logging.getLogger("stoker").addHandler(Broken())
        logging.getLogger("stoker").setLevel(logging.INFO)
        assert len(stoker.open(sys.argv[1])) == 1
        """, tmp_path / "a.tar")
    assert done.returncode == 0 and "broken handler" in done.stderr


def test_torch_is_not_imported_before_a_batch(urls):
    check_python("""
        import sys, time
        start = time.process_time()             # not the clock: other tests run beside this one
        import stoker
        seconds = time.process_time() - start
        assert "torch" not in sys.modules and "numpy" not in sys.modules
        assert seconds < 0.5, seconds           # it takes 0.03
        """, torch_too=True)


def test_without_torch_batches_are_arrays(urls):
    python("""
        import numpy
        b = next(iter(loader))
        assert isinstance(b["image"], numpy.ndarray) and b["image"].dtype == numpy.float32
        assert isinstance(b.valid, numpy.ndarray) and b.valid.all()
        import pickle
        again = pickle.loads(pickle.dumps(b))
        assert (again["image"] == b["image"]).all() and again.sample_keys == b.sample_keys
        assert b.to("cpu") is not b
        """, urls)


def test_loader_does_not_pickle(urls):
    with stoker.Loader(urls, LABEL) as loader, pytest.raises(stoker.StokerError, match="pickle"):
        pickle.dumps(loader)


class LoaderInside:
    def __init__(self, urls):
        self.urls = urls

    def __len__(self):
        return 4

    def __getitem__(self, i):
        with stoker.Loader(self.urls, LABEL, batch_size=4) as loader:
            return next(iter(loader))["label"]


@needs_torch
def test_a_loader_in_a_dataloader_worker_is_refused(urls):
    data = torch.utils.data.DataLoader(LoaderInside(urls), num_workers=1,
                                       multiprocessing_context="fork")
    with pytest.raises(Exception, match="inside a DataLoader worker"):
        list(data)
    assert len(list(torch.utils.data.DataLoader(LoaderInside(urls), num_workers=0))) == 4


@needs_torch
@pytest.mark.parametrize("how, workers", [("fork", 2), ("spawn", 1)])   # a spawned one imports torch: three seconds
def test_open_in_dataloader_workers(urls, how, workers):
    both = [stoker.open(urls, fields) for fields in (None, {"image": "from(jpg) | image | resize((8, 8))"})]
    for ds in both:
        ds[3]
    loader = torch.utils.data.DataLoader(torch.utils.data.ConcatDataset(both), batch_size=10, num_workers=workers, collate_fn=list,
                                         multiprocessing_context=how)
    rows = [row for batch in loader for row in batch]
    assert [r["__key__"] for r in rows] == [f"{i:06d}" for i in range(SAMPLES)] * 2
    for k, ds in enumerate(both):
        for i in (0, 50, 99):
            for name, value in ds[i].items():
                same = rows[k * SAMPLES + i][name] == value
                assert same if isinstance(same, bool) else same.all()


# ---- memory --------------------------------------------------------------------------------------

@pytest.mark.asan
def test_a_thousand_batches_held(urls):
    fields = {"image": "from(jpg) | image | resize((128, 128)) | to(f32)"}
    with stoker.Loader(urls, fields, batch_size=10, memory_limit="40MB", prefetch=2) as loader:
        held = []
        with pytest.raises(stoker.StokerError, match="you hold") as caught:
            while len(held) < 1000:
                for batch in loader:
                    held.append(batch)
        assert caught.value.code == "ELIMIT" and isinstance(caught.value, ValueError)
        number = int(re.search(r"you hold (\d+)", str(caught.value))[1])
        assert number == len(held) == loader.stats()["held"] and 10 <= number <= 20
        assert loader.stats()["memory"] <= 40_000_000
        del held[:], batch, caught
        assert len(ids_of(loader)) == -10 * number % SAMPLES        # the epoch goes on once they are let go
        assert len(ids_of(loader)) == SAMPLES


def test_labels_alone_do_not_hold_pictures(urls):
    with stoker.Loader(urls, FIELDS, batch_size=20, memory_limit="16MB", prefetch=1) as loader:
        labels = [b["label"] for _ in range(40) for b in loader]
    assert len(labels) == 200


def test_resident_memory_is_flat(urls):
    """A leak shows in every window of 30 epochs; how soon each thread has touched its memory depends on the machine."""
    out = check_python("""
        import sys, stoker
        fields = {"image": "from(jpg) | image | random_resized_crop(96) | to(f32)", "t": "from(txt) | text",
                  "raw": "from(jpg) | bytes"}
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        with stoker.Loader(sys.argv[1], fields, batch_size=16, shuffle=True, num_workers=2,
                           prefetch=3) as loader:
            for window in range(6):
                before = rss()
                for epoch in range(2 if window == 0 else 30):
                    for batch in loader:
                        pass
                grown = rss() - before
                if window and grown < 2_000_000:
                    break
            print(grown)
        """, urls)
    assert int(out) < 2_000_000, f"{int(out) / 1e6:.1f} MB more after 30 epochs, and after those before"
