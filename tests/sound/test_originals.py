# SPDX-License-Identifier: Apache-2.0
"""Features and the resampler beside the packages that presets are named after (originals.py): not our reading of them, but their code."""

import functools
import shutil
import subprocess

import numpy as np
import originals
import pytest
import stoker
import test_features as definitions
import torch
from sounds import RATE, integers, tone

# Nearly all values are within 1e-4.  Others are off from the definition in double precision by as much in the originals, which are f32
# (test_what_is_left_is_the_originals_rounding): torchaudio and kaldi-native-fbank round the weights of narrow bands (2.8e-4), and
# transforms in f32 lose bands 70 dB below their frame's loudest (6e-4).
NARROW = 1.5e-3
CASES = [
    ("pad_to(30.0) | log_mel(80)", functools.partial(originals.whisper, 80), 1e-4),
    ("pad_to(30.0) | log_mel(128)", functools.partial(originals.whisper, 128), 1e-4),
    ("log_mel(80)", functools.partial(originals.whisper, 80, padding="do_not_pad"), 1e-4),
    ("log_mel(80, preset=nemo)", functools.partial(originals.nemo, 80), 5e-4),
    ("log_mel(128, preset=nemo)", functools.partial(originals.nemo, 128), 5e-4),
    ("log_mel(80, preset=torchaudio)", functools.partial(originals.torchaudio_mel, 80), NARROW),
    ("log_mel(128, preset=torchaudio)", functools.partial(originals.torchaudio_mel, 128), NARROW),
    ("fbank(80)", functools.partial(originals.torchaudio_kaldi, "fbank", num_mel_bins=80), NARROW),
    ("fbank(80, scale=32768)", functools.partial(originals.torchaudio_kaldi, "fbank", 32768, num_mel_bins=80), NARROW),
    ("fbank(80, snip_edges=false, high=-400)", functools.partial(originals.torchaudio_kaldi, "fbank", num_mel_bins=80, snip_edges=False, high_freq=-400.0), NARROW),
    ("fbank(40, frame=32, hop=8)", functools.partial(originals.torchaudio_kaldi, "fbank", num_mel_bins=40, frame_length=32.0, frame_shift=8.0), NARROW),
    ("mfcc", functools.partial(originals.torchaudio_kaldi, "mfcc"), 4e-4),
    ("mfcc(20, bins=40, lifter=0)", functools.partial(originals.torchaudio_kaldi, "mfcc", num_ceps=20, num_mel_bins=40, cepstral_lifter=0.0), 4e-4),
    ("fbank(80)", functools.partial(originals.native, "fbank", 80), NARROW),
    ("fbank(40, snip_edges=false, high=-400)", functools.partial(originals.native, "fbank", 40, False, -400.0), NARROW),
    ("mfcc", functools.partial(originals.native, "mfcc", 23), 4e-4),
    ("fbank(80, snip_edges=false, high=-400)", originals.lhotse, NARROW),
]


@pytest.fixture(scope="module")
def sounds():
    return [(integers(tone(s, seed=i), 16)[:, 0] / 32768).astype("f4") for i, s in enumerate((2.0, 1.3, 3.21, 0.7))]


def ours(chain, x):
    return stoker.Transform(chain, rate=RATE)(x).numpy()


def name_of(case):
    make = case[1]
    return f"{getattr(make, 'func', make).__name__}-{case[0]}"


@pytest.mark.parametrize("steps, make, most", CASES, ids=map(name_of, CASES))
def test_features(sounds, steps, make, most):
    original, off = make(), []
    for x in sounds:
        got, want = ours("sound(rate=16000) | " + steps, x), original(x)
        assert got.shape == want.shape
        off.append(abs(got - want).ravel())
    off = np.concatenate(off)
    assert off.max() < most
    assert np.quantile(off, 0.995 if "mfcc" not in steps else 0.98) < 1e-4


PRESETS = [
    ("log_mel(80)", lambda x: definitions.whisper(x, 80), functools.partial(originals.whisper, 80, padding="do_not_pad")),
    ("log_mel(80, preset=nemo)", lambda x: definitions.nemo(x, 80), functools.partial(originals.nemo, 80)),
    ("log_mel(80, preset=torchaudio)", lambda x: definitions.torchaudio_mel(x, 80), functools.partial(originals.torchaudio_mel, 80)),
    ("fbank(80)", lambda x: definitions.kaldi(x, 80), functools.partial(originals.torchaudio_kaldi, "fbank", num_mel_bins=80)),
    ("fbank(80)", lambda x: definitions.kaldi(x, 80), functools.partial(originals.native, "fbank", 80)),
    ("fbank(80, snip_edges=false, high=-400)", lambda x: definitions.kaldi(x, 80, False, 7600.0), originals.lhotse),
    ("mfcc", definitions.mfcc, functools.partial(originals.torchaudio_kaldi, "mfcc"))]


def spoken():
    """Speech by espeak-ng: between words its samples are 0, and its bands are 80 dB apart."""
    if not shutil.which("espeak-ng") or not shutil.which("ffmpeg"):
        pytest.skip("espeak-ng and ffmpeg make the speech")
    said = subprocess.run(["espeak-ng", "--stdout", "the quick brown fox jumps over the lazy dog, and sixteen more words follow it at once"], check=True, capture_output=True).stdout
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-ar", str(RATE), "-f", "s16le", "-"], input=said, check=True, capture_output=True).stdout
    return np.frombuffer(raw, "<i2").astype("f4") / 32768


@pytest.mark.parametrize("steps, exact, make", PRESETS, ids=[f"{getattr(p[2], 'func', p[2]).__name__}-{p[0]}" for p in PRESETS])
def test_what_is_left_is_the_originals_rounding(sounds, steps, exact, make):
    """Ours are within 1e-4 of the definition in double precision, each value.  Shown beside it (pytest -s): the original, which is f32."""
    original = make()
    for kind, recordings in ("tones", sounds), ("speech", [spoken()]):
        off = np.zeros(3)
        for x in recordings:
            got, want, real = ours("sound(rate=16000) | " + steps, x), exact(x.astype("f8")), original(x)
            off = np.maximum(off, [abs(got - want).max(), abs(real - want).max(), abs(got - real).max()])
        print(f"{steps:<40} {make.__name__ if hasattr(make, '__name__') else make.func.__name__:<18} {kind:<7} ours-double {off[0]:.1e}  original-double {off[1]:.1e}  ours-original {off[2]:.1e}")
        assert off[0] < 1e-4


def test_spectrogram(sounds):
    original = originals.torchaudio_power(480, 100)
    for x in sounds:
        got, want = ours("sound(rate=16000) | spectrogram(fft=480, hop=100)", x), original(x)
        assert got.shape == want.shape and abs(got - want).max() < 1e-6 * want.max()


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100])
def test_resampler(sounds, rate):
    """Within 1e-6 of torchaudio's filter in double precision; its f32 one is off by 4.5e-6 itself, as it rounds times to f32."""
    resample = originals.torchaudio().transforms.Resample
    exact, common = resample(RATE, rate, dtype=torch.float64), resample(RATE, rate)
    for x in sounds:
        got = ours(f"sound(rate={rate}, filter=torchaudio)", x)
        assert abs(got - exact(torch.tensor(x).double()).numpy()).max() < 1e-6
        assert abs(got - common(torch.tensor(x)).numpy()).max() < 1e-5
