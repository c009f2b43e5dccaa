# SPDX-License-Identifier: Apache-2.0
"""describe, check and plan on sound: figures as NumPy has them, every recording is decoded, seconds of sound per second."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from sounds import RATE, integers, tar_of, tone, tool, wav, wav16

CLI = os.environ.get("STOKER_CLI") or str(pathlib.Path(__file__).parents[2] / "build" / "cli" / "stoker")


def stoker(*args, cwd, code=0):
    done = subprocess.run([CLI, *map(str, args)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def recordings():
    """Of 1 to 2 seconds: one clipped, one with a silent half, one silent, one of another rate with two channels."""
    x = [integers(tone(1 + 0.25 * i, seed=i), 16)[:, 0] / 32768 for i in range(5)]
    x[0] = np.clip(x[0] * 8, -1, 32767 / 32768)
    x[1][:len(x[1]) // 2] = 0
    x[2][:] = 0
    return x


@pytest.fixture
def tar(tmp_path):
    x = recordings()
    other = integers(tone(1.5, rate=8000, channels=2), 16) / 32768
    return tar_of(tmp_path / "a.tar", [("wav", wav16(v[:, None])) for v in x] + [("wav", wav16(other, 8000))]), [*x, other]


def test_describe(tar, tmp_path):
    source, x = tar
    got = json.loads(stoker("describe", source, cwd=tmp_path))
    assert (got["samples"], got["bad"]) == (6, 0)
    f = got["features"]
    rates = [RATE] * 5 + [8000]
    assert f["wav.seconds"]["mean"] == pytest.approx(np.mean([len(v) / r for v, r in zip(x, rates)]))
    assert (f["wav.rate"]["quantiles"][0], f["wav.rate"]["quantiles"][-1]) == (8000, RATE)
    assert f["wav.channels"]["mean"] == pytest.approx(7 / 6)
    db = [10 * np.log10(np.mean(v * v)) if v.any() else -200 for v in x]
    assert f["wav.loudness"]["mean"] == pytest.approx(np.mean(db), abs=1e-3)
    clipped = [np.mean(abs(v) >= 32766.5 / 32768) for v in x]
    assert clipped[0] > 0.2 and f["wav.clipped"]["mean"] == pytest.approx(np.mean(clipped), abs=1e-6)
    silent = []
    for v, r in zip(x, rates):
        v = v if v.ndim == 2 else v[:, None]
        pieces = [v[i:i + r // 50] for i in range(0, len(v), r // 50)]
        silent.append(np.mean([abs(p).max() <= 0.001 for p in pieces]))
    assert silent[2] == 1 and f["wav.silent"]["mean"] == pytest.approx(np.mean(silent), abs=1e-6)


def test_drift_sees_another_rate(tmp_path):
    for name, rate in (("a", 16000), ("b", 8000)):
        tar_of(tmp_path / f"{name}.tar", [("wav", wav16(integers(tone(0.1, rate=rate, seed=i), 16) / 32768, rate)) for i in range(40)])
    (tmp_path / "a.json").write_text(stoker("describe", "a.tar", cwd=tmp_path))
    assert "wav.rate" in stoker("drift", "a.json", "b.tar", cwd=tmp_path, code=1)


def test_check_decodes(tar, tmp_path):
    source, _ = tar
    assert "6" in stoker("check", source, cwd=tmp_path)
    nan = np.ones(500, "<f4")
    nan[400] = np.nan
    good = wav16(tone(0.5))
    files = [("wav", wav(nan.tobytes(), RATE, 1, 3, 32)), ("wav", good[:2000]), ("flac", b"no sound at all"), ("wav", good)]
    bad = tar_of(tmp_path / "bad.tar", files)
    told = stoker("check", bad, cwd=tmp_path, code=1)
    assert "sample 400" in told and "truncated" in told and "not sound" in told and told.count("0003") == 0
    assert json.loads(stoker("describe", bad, cwd=tmp_path))["bad"] == 3


def test_tracks(tmp_path):
    """Files with sound alone, and with sound and video."""
    tool("ffmpeg")
    (tmp_path / "x.wav").write_bytes(wav16(tone(2.0)))
    for name, args in (("a.m4a", ["-c:a", "aac"]), ("b.mka", ["-c:a", "flac"])):
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", tmp_path / "x.wav", *args, tmp_path / name], check=True)
    data = [("m4a", (tmp_path / "a.m4a").read_bytes()), ("mka", (tmp_path / "b.mka").read_bytes())]
    source = tar_of(tmp_path / "a.tar", data)
    stoker("check", source, cwd=tmp_path)
    got = json.loads(stoker("describe", source, cwd=tmp_path))
    assert got["bad"] == 0 and got["features"]["m4a.seconds"]["mean"] == pytest.approx(2, abs=0.03) and got["features"]["mka.rate"]["mean"] == RATE
    torn = tar_of(tmp_path / "b.tar", [("m4a", data[0][1][:len(data[0][1]) // 2])])
    stoker("check", torn, cwd=tmp_path, code=1)


def test_plan_counts_seconds(tar, tmp_path):
    source, x = tar
    seconds = sum(len(v) for v in x[:5]) / RATE + len(x[5]) / 8000
    got = json.loads(stoker("plan", source, "--rate", "100", "--loader-rate", "50", "--json", cwd=tmp_path))
    assert got["sound_per_s"] == pytest.approx(100 * seconds / 6, rel=1e-3) and got["sound_s"] == pytest.approx(seconds, rel=1e-3)
    assert got["sound_loaded_per_s"] == pytest.approx(50 * seconds / 6, rel=1e-3)
    assert "s/s" in stoker("plan", "--rate", "100", "--samples", "1000", "--sample-seconds", "12", cwd=tmp_path)
    alone = json.loads(stoker("plan", "--rate", "100", "--samples", "1000", "--json", cwd=tmp_path))
    assert alone["sound_per_s"] is None
