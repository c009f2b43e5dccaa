# SPDX-License-Identifier: Apache-2.0
"""Figures, reports and diagnoses of our loaders; the rules by figures that are written down here."""

import re
import threading
import time
import urllib.error
import urllib.request

import pytest
import stoker
from conftest import FIELDS
from stoker import _diagnosis, _stoker


def sight(**given):
    """A loop of 100 steps in 10 s on 8 cores that never waits."""
    busy = given.pop("busy", {"decode": 8.0})
    return {"at_s": 10.0, "steps": 100.0, "samples": 6400.0, "wait_s": 0.0, "start_s": 0.0, "consumer_cpu_s": 0.5,
            "idle_s": 72.0, "workers": 8.0, "cores": 8.0, "slots": 4.0, "others_s": 0.0, "busy_s": busy, **given}


def found(**given):
    zero = {"others_s": 0.0}
    return _diagnosis.diagnose([zero], [sight(**given)], "photos")


@pytest.mark.parametrize("cause, given", [
    ("model", {}),
    ("model", {"wait_s": 0.4, "busy": {"decode": 60.0}, "idle_s": 20.0}),
    ("consumer", {"consumer_cpu_s": 9.0}),
    ("start", {"wait_s": 6.0, "start_s": 6.0}),
    ("storage", {"wait_s": 6.0, "busy": {"storage": 70.0, "decode": 10.0}, "idle_s": 0.0}),
    ("network", {"wait_s": 6.0, "busy": {"network": 70.0, "decode": 10.0}, "idle_s": 0.0}),
    ("decode", {"wait_s": 6.0, "busy": {"storage": 5.0, "decode": 75.0}, "idle_s": 0.0}),
    ("augmentation", {"wait_s": 6.0, "busy": {"augmentation": 75.0}, "idle_s": 5.0}),
    ("python", {"wait_s": 6.0, "busy": {"python": 75.0}, "idle_s": 5.0}),
    ("collate", {"wait_s": 6.0, "busy": {"collate": 75.0}, "idle_s": 5.0}),
    ("copy", {"wait_s": 6.0, "copy_s": 9.0, "gpu": 1.0}),
    ("workers", {"wait_s": 6.0, "busy": {"decode": 20.0}, "idle_s": 0.0, "workers": 2.0}),
    ("workers", {"wait_s": 6.0, "busy": {"decode": 6.0}, "idle_s": 4.0, "workers": 0.0}),
    ("ring", {"wait_s": 3.0}),
    ("memory", {"wait_s": 3.0, "slots_short": 1.0}),
    ("neighbour", {"wait_s": 6.0, "busy": {"decode": 78.0}, "idle_s": 2.0, "delay_s": 40.0, "others_s": 40.0}),
    ("none", {"steps": 0.0, "at_s": 0.0}),
])
def test_rules(cause, given):
    d = found(**given)
    assert d.cause == cause, d
    assert d.gain >= 1 and d.sentence.endswith(".") and "\n" not in d.sentence
    assert bool(d.remedy) == (cause != "none")


def test_video_decoders_are_named():
    """Workers rest and clips wait: the engines of the GPU are the limit, unless workers are busy."""
    slow = found(wait_s=6.0, gpu=1.0, clip_queue_s=9.5)
    assert slow.cause == "decode" and slow.sentence.startswith("bound by the GPU's video decoders: clips wait for NVDEC 95 %"), slow
    assert "decode=None" in slow.remedy
    busy = found(wait_s=6.0, gpu=1.0, clip_queue_s=9.5, busy={"decode": 75.0}, idle_s=5.0)
    assert busy.cause == "decode" and "NVDEC" not in busy.sentence, busy
    assert found(wait_s=3.0, gpu=1.0, clip_queue_s=1.0).cause == "ring"


def test_gains_follow_from_the_figures():
    """10 s, of them 6 waiting: a loop that never waits takes 4."""
    assert found(wait_s=6.0, busy={"decode": 80.0}, idle_s=0.0).gain == pytest.approx(2.5)
    half = found(wait_s=6.0, busy={"decode": 44.0, "storage": 36.0}, idle_s=0.0)     # reading still takes 36 / 8 s
    assert half.gain == pytest.approx(10 / 4.5)
    assert found(wait_s=6.0, start_s=6.0).gain == pytest.approx(2.5)
    assert found(wait_s=6.0, busy={"decode": 20.0}, idle_s=0.0, workers=2.0).gain == pytest.approx(2.5)


def test_the_model_is_not_blamed_on_the_loader():
    for share in (0.0, 0.01, 0.03, 0.049):
        assert found(wait_s=10 * share, busy={"decode": 79.0}, idle_s=0.1, delay_s=60.0, others_s=60.0).cause == "model"


def test_slow_rank_is_named():
    quick, slow = sight(), sight(wait_s=6.0, busy={"storage": 79.0}, idle_s=1.0)
    d = _diagnosis.Diagnosis(_stoker.diagnose([], [quick, quick, slow, quick], None, False))
    assert d.cause == "rank" and d.rank == 2
    assert d.sentence.startswith("rank 2 of 4 holds the others up: storage-bound")
    same = _diagnosis.Diagnosis(_stoker.diagnose([], [slow, slow, slow], None, False))
    assert same.cause == "storage"


def test_thresholds_stand_beside_figures():
    d = found(wait_s=6.0, busy={"decode": 80.0}, idle_s=0.0, cache_hits=90.0, cache_misses=10.0, sm_share=0.3,
              gpu_memory_share=0.7)
    got = {name: (round(value), rule, good) for name, value, _, rule, good in d.checks}
    assert got["batch wait"] == (60, "under 1", False)
    assert got["batch fetch"] == (800, "under 50", False)
    assert got["wait in next()"] == (60000, "under 50", False)
    assert got["workers"] == (100, "at most 80", False)
    assert got["reads"] == (0, "at most 70", True)
    assert got["cache hits"] == (90, "at least 95", False)
    assert got["GPU"] == (30, "at least 80", False)
    assert got["GPU memory"] == (70, "at least 60", True)
    assert got["epoch time"] == (250, "at most 105", False)        # 4 s of 10 are steps
    assert "!!  batch wait" in d.table()


def test_loader_diagnoses_itself(urls):
    """The step is long beside all else, so that the machine's other work does not matter."""
    with stoker.Loader(urls, FIELDS, batch_size=16, num_workers=2) as loader:
        before = loader.diagnose()
        assert before.cause in ("none", "start")
        d, end = before, time.monotonic() + 120
        while d.cause != "model" and time.monotonic() < end:       # a machine that is too busy for an epoch is not for all
            for _ in range(2):
                for _ in loader:
                    time.sleep(0.05)
            d = loader.diagnose()
        assert d.cause == "model" and str(d) == d.sentence
        again = loader.diagnose()               # nothing happened since
        assert again.cause in ("none", "model")


def test_diagnose_from_another_thread(urls):
    with stoker.Loader(urls, FIELDS, batch_size=4) as loader:
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(loader.diagnose() for _ in range(20)))
        thread.start()
        for _ in loader:
            pass
        thread.join()
        assert len(seen) == 20
    with pytest.raises(stoker.StokerError, match="closed"):
        loader.diagnose()


def test_report_has_every_part(urls):
    with stoker.Loader(urls, FIELDS, batch_size=16, num_workers=2) as loader:
        assert loader.report().splitlines()[-1].startswith("nothing was seen")
        for _ in loader:
            pass
        lines = loader.report().splitlines()
    assert [line.split(":")[0] for line in lines[1:6]] == ["loop", "ring", "workers", "memory", "reads"]
    assert " samples in 7 batches, " in lines[0]


def parse(text):
    """OpenMetrics, as far as it goes: {name with labels: value}; every family has a type before its first row."""
    rows, families = {}, set()
    assert text.endswith("# EOF\n")
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            families.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            base = re.sub(r"(_total|_bucket|_count|_sum)?(\{.*\})?$", "", name)
            assert base in families or base + "_seconds" in families, line
            assert name not in rows, line
            rows[name] = float(value)
    return rows


def test_metrics_are_the_figures(urls, tmp_path):
    with stoker.Loader(urls, FIELDS, batch_size=16, num_workers=2) as loader:
        for _ in loader:
            pass
        path = tmp_path / "stoker.prom"
        text = loader.metrics(path)
        assert path.read_text() == text and len(list(tmp_path.iterdir())) == 1
        rows, stats = parse(text), loader.stats()
        assert rows["stoker_batches_total"] == 7 == stats["batches"]
        assert rows['stoker_ring{state="slots"}'] == stats["ring"]["slots"]
        n = rows['stoker_row_seconds_count{stage="decode"}']
        assert n >= 100 and n == rows['stoker_row_seconds_bucket{stage="decode",le="+Inf"}']
        with pytest.raises(stoker.StokerError, match="could not be written"):
            loader.metrics(tmp_path / "no" / "such.prom")


_COUNTERS = (("samples", "Rows made"), ("handed_out", "Rows of batches handed out"), ("batches", "Batches handed out"), ("bytes", "Bytes read from shards"),
             ("skipped", "Bad samples left out"), ("retried_reads", "Reads that failed and were tried again"),
             ("cold_reads", "Reads that had to be waited for"), ("remote_reads", "Of them, from far away"),
             ("jpeg_seek", "JPEGs decoded from seek points"), ("jpeg_fallback", "JPEGs that libjpeg-turbo decoded"))
_GAUGES = (("workers", "Worker threads"), ("memory", "Bytes that memory_limit counts"), ("memory_peak", "Their peak"),
           ("memory_limit", "Their bound"), ("held", "Batches that the consumer holds"))


def family(name, kind, help_text, rows):
    end = "_total" if kind == "counter" else ""
    return [f"# TYPE stoker_{name} {kind}", f"# HELP stoker_{name} {help_text}.",
            *(f"stoker_{name}{end}{labels} {value!r}" for labels, value in rows)]


def as_python_writes_it(s):
    """The text that 0.2 made in Python: the reference of stk_stats_metrics()."""
    lines = []
    for name, text in _COUNTERS:
        lines += family(name, "counter", text, [("", s[name])])
    for name, text in _GAUGES:
        lines += family(name, "gauge", text, [("", s[name])])
    lines += family("stage_seconds", "counter", "Time of all workers by stage", [(f'{{stage="{k}"}}', v) for k, v in s["stages"].items()])
    lines += family("wait_seconds", "counter", "Time of the consumer in next(), and of workers until reads came",
                    [(f'{{for="{k.removesuffix("_s")}"}}', v) for k, v in s["wait"].items() if k not in ("now_s", "for")])
    lines += family("ring", "gauge", "Batches", [(f'{{state="{k}"}}', v) for k, v in s["ring"].items()])
    lines += family("memory_of", "gauge", "Bytes by owner", [(f'{{owner="{k}"}}', v) for k, v in s["memory_of"].items()])
    lines += ["# TYPE stoker_row_seconds histogram", "# HELP stoker_row_seconds Rows that were timed, by stage."]
    for stage, buckets in s["histograms"].items():
        seen, total = 0, 0.0
        for least, n in buckets:
            seen, total = seen + n, total + 1.5 * least * n
            lines.append(f'stoker_row_seconds_bucket{{stage="{stage}",le="{2 * least:.9g}"}} {seen}')
        lines += [f'stoker_row_seconds_bucket{{stage="{stage}",le="+Inf"}} {seen}', f'stoker_row_seconds_count{{stage="{stage}"}} {seen}',
                  f'stoker_row_seconds_sum{{stage="{stage}"}} {total:.9g}']
    return [*lines, "# EOF"]


def test_metrics_are_as_python_wrote_them(urls):
    """Line by line.  Ticks are measured against the clock, so a time may differ in its later digits."""
    number = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w.])")
    with stoker.Loader(urls, FIELDS, batch_size=16, num_workers=0) as loader:
        for _ in loader:
            pass
        wanted, found = as_python_writes_it(loader.stats()), loader.metrics().splitlines()
    assert [number.sub("N", line) for line in found] == [number.sub("N", line) for line in wanted]
    for line, other in zip(found, wanted, strict=True):
        assert [float(n) for n in number.findall(line)] == pytest.approx([float(n) for n in number.findall(other)], rel=0.05, abs=1e-6)
        if "seconds" not in line:
            assert line == other


def test_metrics_over_http(urls):
    with stoker.Loader(urls, FIELDS, batch_size=16) as loader:
        address = loader.serve_metrics()
        assert loader.serve_metrics() == address and address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert parse(answer.read().decode())["stoker_batches_total"] == 0
        other = stoker.Loader(urls, FIELDS)
        port = int(address.split(":")[2].split("/")[0])
        with pytest.raises(stoker.StokerError, match=f"port {port} of 127.0.0.1 cannot be served"):
            other.serve_metrics(port)
        other.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60)


def test_full_disk(urls):
    with stoker.Loader(urls, FIELDS) as loader, pytest.raises(stoker.StokerError, match="could not be written"):
        loader.metrics("/dev/full/x")


def test_a_consumer_that_stops(urls, tmp_path):
    """In the middle of an epoch, for good or for a while: figures stay, and no one blames the loader."""
    with stoker.Loader(urls, FIELDS, batch_size=10) as loader, loader.trace(tmp_path / "t.json"):
        for _ in loader:
            break
        end = time.monotonic() + 60
        while loader.stats()["ring"]["ready"] == 0 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        found = loader.diagnose()
        assert found.cause in ("model", "consumer", "start", "none"), found     # start: it was short
        assert "in 1 batches" in loader.report() and "stoker_batches_total 1" in loader.metrics()
        stats = loader.stats()
        assert stats["batches"] == 1 and stats["wait"]["now_s"] == 0 and stats["ring"]["ready"] > 0
        loader.diagnose()                       # since then nothing happened
        for _ in loader:                        # and it goes on
            pass
        assert loader.stats()["batches"] == 1 + len(loader)


# ---- plan ---------------------------------------------------------------------------------------

def test_worked_examples():
    """The numbers of docs/seeing.md."""
    need = _stoker.plan_need
    slow = need({"step_s": 0.4, "loader_rate": 1 / 0.6})
    assert slow["use_serial"] == pytest.approx(0.40) and slow["use_overlapped"] == pytest.approx(0.667, abs=1e-3)
    for link, ms in ((8e9, 4.75), (28e9, 1.357)):
        assert need({"step_s": 1, "row_bytes": 38e6, "link_rate": link})["link_s"] * 1e3 == pytest.approx(ms, abs=1e-3)
    assert need({"rate": 500e3, "samples": 100e9})["epoch_s"] / 86400 == pytest.approx(2.3, abs=0.05)
    assert need({"step_s": 1, "loader_rate": 0.3, "gpu_hour": 3})["idle_cost_month"] == pytest.approx(1512)
    large = need({"step_s": 0.2, "batch": 32, "sample_bytes": 50e6, "storage_rate": 100e6})
    assert large["storage_rate"] == pytest.approx(8e9) and large["use_overlapped"] == pytest.approx(0.0125)
    assert need({"step_s": 0.2, "batch": 32})["storage_rate"] < 0      # nothing is known of it
    with pytest.raises(stoker.StokerError, match="how fast is the model"):
        need({})
    with pytest.raises(TypeError):
        need({"step_s": "soon"})
