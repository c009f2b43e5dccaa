# SPDX-License-Identifier: Apache-2.0
"""make bench-sound: Stoker beside soundfile, torchcodec, torchaudio, soxr, lhotse and kaldi-native-fbank.

All run in one process, in turns, in CPU seconds of one thread (time.process_time); the best of the rounds counts.  Peers that
are not installed are left out by name.  Recordings are speech of espeak-ng with a little noise, 12 s at 16 kHz.

    python bench/sound.py [--rounds 5] [--only flac,parts,resample,features,loader,plan] [--save bench/results/sound-0.3.txt]
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import importlib
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stoker

RATE, SECONDS, FILES = 16000, 12, 48
LINES: list[str] = []


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def peer(name: str) -> Any:
    with contextlib.suppress(Exception):
        return importlib.import_module(name)
    return None


sf, soxr, knf, torch = peer("soundfile"), peer("soxr"), peer("kaldi_native_fbank"), peer("torch")
torchcodec, torchaudio, lhotse = peer("torchcodec.decoders"), peer("torchaudio"), peer("lhotse")


# ---- recordings ----

def speech(seed: int) -> np.ndarray:
    """12 seconds that espeak-ng speaks, as 16-bit numbers at 16 kHz."""
    words = "the quick brown fox jumps over a lazy dog while seven ships sail past old stone towers at noon"
    rng = np.random.default_rng(seed)
    text = " ".join(rng.permutation(words.split() * 4))
    raw = subprocess.run(["espeak-ng", "-v", f"en+{'mf'[seed % 2]}{seed % 3 + 1}", "-s", str(150 + seed), "--stdout", text],
                         check=True, capture_output=True).stdout
    x = np.frombuffer(raw[44:], "<i2").astype("f8")[:22050 * SECONDS]
    x = np.interp(np.arange(RATE * SECONDS) * 22050 / RATE, np.arange(len(x)), x)
    return np.clip(x * 0.5 + rng.normal(0, 20, len(x)), -32768, 32767).astype("<i2")


def write_wav(path: Path, x: np.ndarray, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(rate)
        w.writeframes(x.tobytes())
    return path


def made(folder: Path) -> dict[str, Any]:
    """Recordings in files, and one tar of each kind with points."""
    x = [speech(i) for i in range(FILES)]
    files: dict[str, list[Path]] = {"wav": [write_wav(folder / f"{i:03}.wav", v) for i, v in enumerate(x)]}
    subprocess.run(["flac", "-s", "-f", *map(str, files["wav"])], check=True)
    files["flac"] = [p.with_suffix(".flac") for p in files["wav"]]
    up = [np.interp(np.arange(3 * len(v)) / 3, np.arange(len(v)), v).astype("<i2") for v in x[:16]]
    files["wav48"] = [write_wav(folder / f"{i:03}-48.wav", v, 48000) for i, v in enumerate(up)]
    long = write_wav(folder / "long.wav", np.concatenate(x * (30 * 60 // (FILES * SECONDS) + 1))[:30 * 60 * RATE])
    subprocess.run(["lame", "--quiet", "-b", "64", str(long), str(folder / "long.mp3")], check=True)
    files["mp3"] = [folder / "long.mp3"]
    tars = {}
    for kind, paths in files.items():
        tars[kind] = str(folder / f"{kind}.tar")
        with tarfile.open(tars[kind], "w") as t:
            for p in paths:
                t.add(p, p.name.replace("-48", ""))
        stoker.open(tars[kind], jpeg=True)
    return {"files": files, "tars": tars, "x": x}


# ---- clocks ----

def race(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """CPU seconds for each unit of every run, the best of the rounds; runs take turns.  A run answers how many units it did."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            units = run()
            best[name] = min(best[name], (time.process_time() - start) / units)
    return best


def show(title: str, best: dict[str, float], unit: str, per: float = 1.0, invert: bool = False) -> None:
    say(f"\n{title}")
    ours = best.get("stoker")
    for name, cost in best.items():
        value = per / cost if invert else cost * per
        ratio = f"   stoker is {cost / ours:.2f}x" if ours and name != "stoker" else ""
        say(f"  {name:<34} {value:>12,.3f} {unit}{ratio}" if not invert else f"  {name:<34} {value:>12,.0f} {unit}{ratio}")


def epoch(source: str, chain: str, **options: Any) -> Callable[[], float]:
    """A loader that stays open; each run is an epoch."""
    loader = stoker.Loader(source, {"x": chain}, **{"batch_size": 16, "num_workers": 0, "shuffle": False, "collate": "list", **options})

    def run() -> float:
        n = 0
        for batch in loader:
            n += len(batch["x"])
        return n
    run()
    return run


# ---- what is measured ----

def bare_flac(paths: list[Path]) -> Callable[[], float] | None:
    """libFLAC alone, which gives its samples to nobody: pthread_equal() answers 0, "go on"."""
    name = ctypes.util.find_library("FLAC")
    if not name:
        return None
    lib, libc = ctypes.CDLL(name), ctypes.CDLL(None)
    lib.FLAC__stream_decoder_new.restype = ctypes.c_void_p
    go_on = ctypes.cast(libc.pthread_equal, ctypes.c_void_p)

    def run() -> float:
        for p in paths:
            d = ctypes.c_void_p(lib.FLAC__stream_decoder_new())
            assert lib.FLAC__stream_decoder_init_file(d, str(p).encode(), go_on, None, go_on, None) == 0
            assert lib.FLAC__stream_decoder_process_until_end_of_stream(d)
            lib.FLAC__stream_decoder_delete(d)
        return len(paths)
    return run


def each(paths: list[Path], do: Callable[[Path], Any]) -> Callable[[], float]:
    def run() -> float:
        for p in paths:
            do(p)
        return len(paths)
    return run


def known(runs: dict[str, Any]) -> dict[str, Any]:
    for name in [n for n, r in runs.items() if r is None]:
        say(f"  ({name} is not installed)")
    return {n: r for n, r in runs.items() if r is not None}


def bench_whole(data: dict[str, Any], rounds: int) -> None:
    for kind in ("flac", "wav"):
        paths = data["files"][kind]
        runs = {"stoker": epoch(data["tars"][kind], f"from({kind}) | sound"),
                "soundfile": sf and each(paths, lambda p: sf.read(str(p), dtype="float32")),
                "torchcodec": torchcodec and each(paths, lambda p: torchcodec.AudioDecoder(str(p)).get_all_samples())}
        if kind == "flac":
            runs["libFLAC, bare"] = bare_flac(paths)
        show(f"{kind.upper()}, 12 s, whole", race(known(runs), rounds), "ms", 1e3)


def bench_parts(data: dict[str, Any], rounds: int) -> None:
    def cut(p: Path) -> None:
        with sf.SoundFile(str(p)) as f:
            f.seek(int(rng.integers(0, f.frames - 2 * RATE)))
            f.read(2 * RATE, dtype="float32")

    rng = np.random.default_rng(0)
    for kind, repeat in (("flac", 4), ("wav", 16), ("mp3", 64)):
        paths = data["files"][kind] * repeat
        length = 30 * 60 if kind == "mp3" else SECONDS
        starts = iter(lambda: float(rng.uniform(0, length - 2)), None)
        runs = {"stoker": epoch(data["tars"][kind], f"from({kind}) | sound | random_part(2.0)", repeat=repeat,
                                batch_size=min(64, len(paths))),
                "soundfile": sf and each(paths, cut),
                "torchcodec": torchcodec and each(paths, lambda p: torchcodec.AudioDecoder(str(p)).get_samples_played_in_range(
                    s := next(starts), s + 2.0))}
        show(f"{kind.upper()}, 2 s of {'30 min' if kind == 'mp3' else '12 s'}", race(known(runs), rounds), "ms", 1e3)


def bench_resample(data: dict[str, Any], rounds: int) -> None:
    wavs = [np.frombuffer(p.read_bytes()[44:], "<i2").astype("f4") / 32768 for p in data["files"]["wav48"]]
    runs: dict[str, Any] = {"stoker": epoch(data["tars"]["wav48"], "from(wav) | sound(rate=16000)")}
    if soxr:
        for q in ("VHQ", "HQ", "MQ", "QQ"):
            runs[f"soxr {q}"] = lambda q=q: [soxr.resample(x, 48000, 16000, q) for x in wavs] and len(wavs)
    if torchaudio:
        t = [torch.from_numpy(x) for x in wavs]
        r = torchaudio.transforms.Resample(48000, 16000)
        runs["torchaudio"] = lambda: [r(x) for x in t] and len(t)
    best = race(runs, rounds)
    show("resample 12 s, 48 to 16 kHz; stoker reads WAV files too, the others have floats in memory", best, "s of sound per CPU s", SECONDS, invert=True)
    quality()


def quality() -> None:
    """Sines through the resamplers: what the pass band loses, and what is left of frequencies above half of 16 kHz."""
    t = np.arange(48000) / 48000
    passed, stopped = np.array([100, 1000, 3000, 5000, 7000, 7250, 7300]), np.array([8700, 9000, 10000, 12000, 15000, 20000, 23900])

    def level(y: np.ndarray, f: float | None) -> float:
        y = y[2000:-2000].astype("f8")
        if f is None:
            return 20 * np.log10(np.sqrt(2 * np.mean(y * y)) + 1e-12)
        k = np.exp(-2j * np.pi * f * (np.arange(len(y))) / 16000) * np.blackman(len(y))
        return 20 * np.log10(2 * abs(np.sum(y * k)) / np.blackman(len(y)).sum())

    with tempfile.TemporaryDirectory() as d, tarfile.open(Path(d) / "q.tar", "w") as tar:
        sines = [np.sin(2 * np.pi * f * t) for f in (*passed, *stopped)]
        for i, x in enumerate(sines):       # floats, so that nothing is rounded before the filter
            p = Path(d) / f"{i:02}.wav"
            raw = x.astype("<f4").tobytes()
            head = b"RIFF" + (36 + len(raw)).to_bytes(4, "little") + b"WAVEfmt " + bytes([16, 0, 0, 0, 3, 0, 1, 0])
            head += (48000).to_bytes(4, "little") + (192000).to_bytes(4, "little") + bytes([4, 0, 32, 0]) + b"data"
            p.write_bytes(head + len(raw).to_bytes(4, "little") + raw)
            tar.add(p, p.name)
        tar.close()
        with stoker.Loader(str(Path(d) / "q.tar"), {"x": "from(wav) | sound(rate=16000)"}, batch_size=1, num_workers=1) as loader:
            ours = [np.array(b["x"][0]) for b in loader]
    for name, out in (("stoker", ours), ("soxr HQ", [soxr.resample(x.astype("f4"), 48000, 16000, "HQ") for x in sines] if soxr else [])):
        if out:
            ripple = max(abs(level(y, f)) for y, f in zip(out, passed))
            stop = max(level(y, None) for y in out[len(passed):])
            say(f"  {name:<10} pass band to 7.3 kHz within {ripple:.4f} dB, stop band from 8.7 kHz at {stop:.1f} dB")


def bench_features(data: dict[str, Any], rounds: int) -> None:
    x = [v.astype("f4") / 32768 for v in data["x"]]
    t = [torch.from_numpy(v) for v in x] if torch else []
    tar = data["tars"]["wav"]
    runs: dict[str, Any] = {}
    for name, step in (("fbank", "fbank(80)"), ("whisper", "log_mel(80, preset=whisper)"), ("nemo", "log_mel(80, preset=nemo)"),
                       ("torchaudio's", "log_mel(80, preset=torchaudio)")):
        runs[f"stoker {name}"] = epoch(tar, f"from(wav) | sound(rate=16000) | {step}")
    if torchaudio:
        mel = torchaudio.transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80)
        runs["torchaudio MelSpectrogram"] = lambda: [mel(v).clamp(min=1e-10).log() for v in t] and len(t)
        runs["torchaudio kaldi.fbank"] = lambda: [torchaudio.compliance.kaldi.fbank(v[None], num_mel_bins=80) for v in t] and len(t)
    if lhotse:
        fb = lhotse.Fbank()
        runs["lhotse Fbank"] = lambda: [fb.extract(v, RATE) for v in x] and len(x)
    if knf:
        def kaldi() -> float:
            for v in x:
                o = knf.FbankOptions()
                o.mel_opts.num_bins, o.frame_opts.dither = 80, 0
                f = knf.OnlineFbank(o)
                f.accept_waveform(RATE, v)
                f.input_finished()
                np.stack([f.get_frame(i) for i in range(f.num_frames_ready)])
            return len(x)
        runs["kaldi-native-fbank"] = kaldi
    best = race(runs, rounds)
    show("80 features of 12 s; stoker reads WAV files too, the others have floats in memory", best, "s of sound per CPU s", SECONDS,
         invert=True)
    ours, theirs = [[c for n, c in best.items() if n.startswith("stoker") == mine] for mine in (True, False)]
    if theirs:
        say(f"  our slowest is {min(theirs) / max(ours):.2f}x the best peer, our fastest {min(theirs) / min(ours):.2f}x")


def bench_loader(data: dict[str, Any], rounds: int) -> None:
    """FLAC to speed to fbank on two cores, by the clock on the wall: epochs of 4 x 48 recordings."""
    repeat = 4

    def ours() -> float:
        """Opened for each epoch, as theirs is: a loader that stays open makes batches of the next epoch in the meantime."""
        with stoker.Loader(data["tars"]["flac"], {"x": "from(flac) | sound(rate=16000) | speed(0.9, 1.1) | fbank(80)"}, max_seconds=200,
                           collate="pad", shuffle=True, repeat=repeat, num_workers=2) as loader:
            return sum(len(b["x"]) for b in loader)
    ways: dict[str, Callable[[], float]] = {"stoker": ours}
    if lhotse and torch:
        from lhotse.dataset import DynamicBucketingSampler, K2SpeechRecognitionDataset, OnTheFlyFeatures
        cuts = []
        for r in range(repeat):
            for p in data["files"]["flac"]:
                rec = lhotse.Recording.from_file(p, recording_id=f"{p.stem}-{r}")
                sup = lhotse.SupervisionSegment(id=rec.id, recording_id=rec.id, start=0, duration=rec.duration, text="a")
                cut = lhotse.MonoCut(id=rec.id, start=0, duration=rec.duration, channel=0, recording=rec, supervisions=[sup])
                cuts.append(cut.perturb_speed((0.9, 1.1)[r % 2]) if r % 3 else cut)
        cuts = lhotse.CutSet.from_cuts(cuts)
        dataset = K2SpeechRecognitionDataset(input_strategy=OnTheFlyFeatures(lhotse.Fbank()))

        def theirs() -> float:
            sampler = DynamicBucketingSampler(cuts, max_duration=200, shuffle=True, num_buckets=2)
            return sum(len(b["supervisions"]["text"]) for b in torch.utils.data.DataLoader(dataset, sampler=sampler, batch_size=None,
                                                                                           num_workers=2))
        ways["lhotse, DataLoader of 2 workers"] = theirs
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(max(2, rounds // 2)):
        for name, run in ways.items():
            start = time.perf_counter()
            n = run()
            best[name] = min(best[name], (time.perf_counter() - start) / n)
    show("FLAC to speed to fbank, whole loader, two cores, by the wall", best, "s of sound per s", SECONDS, invert=True)


def bench_plan(data: dict[str, Any], rounds: int) -> None:
    """10 million utterances of a table: opened and planned."""
    pa, pq = peer("pyarrow"), peer("pyarrow.parquet")
    if not pa:
        say("\n10 M utterances: pyarrow is not installed")
        return
    n = 10_000_000
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "utterances.parquet"
        names = pa.array([data["files"]["wav"][i].read_bytes()[:1000] for i in range(8)])      # planning reads none of them
        which = pa.array(np.arange(n, dtype="i4") % len(names))
        seconds = np.random.default_rng(0).gamma(4, 3, n).astype("f4").clip(0.5, 30)
        pq.write_table(pa.table({"wav": pa.DictionaryArray.from_arrays(which, names), "duration": seconds}), path)
        best = float("inf")
        for _ in range(rounds):
            start = time.process_time()
            loader = stoker.Loader(str(path), {"x": "from(wav) | sound(rate=16000)"}, max_seconds=600, lengths="duration",
                                   collate="pad", shuffle=True, num_workers=1)
            steps = len(loader)
            best = min(best, time.process_time() - start)
            loader.close()
    say(f"\n10 M utterances of a Parquet table opened and planned by buckets: {best:.3f} CPU s ({steps:,} batches)")


def machine() -> str:
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


PARTS = {"whole": bench_whole, "parts": bench_parts, "resample": bench_resample, "features": bench_features, "loader": bench_loader,
         "plan": bench_plan}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--rounds", type=int, default=7)
    args.add_argument("--only", default=",".join(PARTS))
    args.add_argument("--save", type=Path)
    o = args.parse_args()
    if torch:
        torch.set_num_threads(1)
    versions = [f"{m.__name__.split('.')[0]} {getattr(sys.modules[m.__name__.split('.')[0]], '__version__', '')}"
                for m in (sf, soxr, knf, torch, torchcodec, torchaudio, lhotse) if m]
    say(f"make bench-sound ROUNDS={o.rounds}\n{machine()}; stoker {stoker.__version__}; {', '.join(versions)}")
    with tempfile.TemporaryDirectory() as d:
        data = made(Path(d))
        for name in o.only.split(","):
            PARTS[name](data, o.rounds)
    if o.save:
        o.save.write_text("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
