# SPDX-License-Identifier: Apache-2.0
"""Features against their definitions in double precision; the resampler by its bands, against torchaudio's kernel, and part by
part; random steps by address."""

import math

import numpy as np
import pytest
import stoker
import torch
from sounds import RATE, integers, rows, tar_of, tone, wav, wav16


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """Four recordings, 16 kHz, and their samples."""
    sounds = [integers(tone(s, seed=i), 16)[:, 0] / 32768 for i, s in enumerate((2.0, 1.3, 3.21, 0.7))]
    path = tmp_path_factory.mktemp("speech") / "a.tar"
    return tar_of(path, [("wav", wav16(x[:, None])) for x in sounds]), sounds


def slaney(bins, fft, rate):
    """librosa.filters.mel, as its documentation defines it."""
    def hz(m):
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    top = 15 + np.log(rate / 2 / 1000) * 27 / np.log(6.4)
    f = hz(np.linspace(0, top, bins + 2))
    k = np.arange(fft // 2 + 1) * rate / fft
    up, down = (k - f[:-2, None]) / (f[1:-1] - f[:-2])[:, None], (f[2:, None] - k) / (f[2:] - f[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (f[2:] - f[:-2]))[:, None]


def htk(bins, fft, rate):
    f = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), bins + 2) / 2595) - 1)
    k = np.arange(fft // 2 + 1) * rate / fft
    return np.maximum(0, np.minimum((k - f[:-2, None]) / (f[1:-1] - f[:-2])[:, None], (f[2:, None] - k) / (f[2:] - f[1:-1])[:, None]))


def power(x, fft, win, hop, window, pad):
    s = torch.stft(torch.tensor(x), fft, hop, win, window, center=True, pad_mode=pad, return_complex=True)
    return s.abs().numpy() ** 2


def whisper(x, bins):
    p = power(x, 400, 400, 160, torch.hann_window(400, dtype=torch.float64), "reflect")[:, :-1]
    m = np.log10(np.maximum(slaney(bins, 400, RATE) @ p, 1e-10))
    return ((np.maximum(m, m.max() - 8) + 4) / 4).T


def nemo(x, bins):
    x = np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]])
    p = power(x, 512, 400, 160, torch.hann_window(400, periodic=False, dtype=torch.float64), "constant")[:, :len(x) // 160]
    m = np.log(slaney(bins, 512, RATE) @ p + 2.0**-24)
    return ((m - m.mean(1, keepdims=True)) / (m.std(1, ddof=1, keepdims=True) + 1e-5)).T


def torchaudio_mel(x, bins):
    return np.log(np.maximum(htk(bins, 400, RATE) @ power(x, 400, 400, 160, torch.hann_window(400, dtype=torch.float64), "reflect"), 1e-10)).T


def kaldi(x, bins, snip=True, high=8000.0):
    if not snip:
        frames = (len(x) + 80) // 160
        at = np.arange(frames)[:, None] * 160 + 80 - 200 + np.arange(400)
        at = np.where(at < 0, -at - 1, at)
        at = np.where(at >= len(x), 2 * len(x) - 1 - at, at)
    else:
        at = np.arange(1 + (len(x) - 400) // 160)[:, None] * 160 + np.arange(400)
    f = x[at] - x[at].mean(1, keepdims=True)
    f = np.concatenate([f[:, :1] * 0.03, f[:, 1:] - 0.97 * f[:, :-1]], 1)
    p = abs(np.fft.rfft(f * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85, 512)) ** 2

    def mel(v):
        return 1127 * np.log(1 + v / 700)
    edge = np.linspace(mel(20.0), mel(high), bins + 2)
    k = mel(np.arange(256) * RATE / 512)
    w = np.maximum(0, np.minimum((k - edge[:-2, None]) / (edge[1:-1] - edge[:-2])[:, None], (edge[2:, None] - k) / (edge[2:] - edge[1:-1])[:, None]))
    return np.log(np.maximum(p[:, :256] @ w.T, np.finfo("f4").eps))


def mfcc(x, n=13, bins=23):
    j = np.arange(bins) + 0.5
    dct = np.stack([np.sqrt((1 if k == 0 else 2) / bins) * np.cos(np.pi / bins * j * k) * (1 + 11 * np.sin(np.pi * k / 22)) for k in range(n)])
    return kaldi(x, bins) @ dct.T


CASES = [("fbank(80)", lambda x: kaldi(x, 80)), ("fbank(40, snip_edges=false, high=-400)", lambda x: kaldi(x, 40, False, 7600.0)),
         ("log_mel(80)", lambda x: whisper(x, 80)), ("log_mel(128, preset=whisper)", lambda x: whisper(x, 128)),
         ("log_mel(80, preset=nemo)", lambda x: nemo(x, 80)), ("log_mel(80, preset=torchaudio)", lambda x: torchaudio_mel(x, 80)),
         ("mfcc", mfcc), ("spectrogram(fft=480, hop=100)",
                          lambda x: power(x, 480, 480, 100, torch.hann_window(480, dtype=torch.float64), "reflect").T)]


@pytest.mark.parametrize("step, want", CASES, ids=[c[0] for c in CASES])
def test_features(speech, step, want):
    source, sounds = speech
    for x, got in zip(sounds, rows(source, f"from(wav) | sound(rate=16000) | {step}")):
        ref = want(x)
        assert got.shape == ref.shape
        off = abs(got - ref)
        if "spectrogram" in step:
            assert off.max() < 1e-6 * ref.max()
        else:
            assert off.max() < 1e-4


@pytest.mark.parametrize("chain", ["fbank(80)", "log_mel(80)", "spectrogram(fft=300)"])
def test_every_level_has_the_same_bits(speech, chain, monkeypatch):
    source, _ = speech
    chain = f"from(wav) | sound(rate=11025) | {chain}" if "log_mel" not in chain else f"from(wav) | sound(rate=16000) | {chain}"
    best = rows(source, chain)
    monkeypatch.setenv("STK_CPU", "none")
    assert all(np.array_equal(a, b) for a, b in zip(best, rows(source, chain)))


# ---- resampling ----

def torchaudio_resample(x, orig, new):
    """torchaudio.functional.resample with its defaults (width 6, rolloff 0.99, Hann)."""
    common = math.gcd(orig, new)
    orig, new = orig // common, new // common
    base = min(orig, new) * 0.99
    width = math.ceil(6 * orig / base)
    t = torch.arange(0, -new, -1, dtype=torch.float64)[:, None, None] / new + torch.arange(-width, width + orig, dtype=torch.float64) / orig
    t = (t * base).clamp(-6, 6)
    window = torch.cos(t * math.pi / 12) ** 2
    kernel = torch.where(t == 0, 1.0, torch.sin(t * math.pi) / (t * math.pi)) * window * (base / orig)
    y = torch.nn.functional.conv1d(torch.nn.functional.pad(torch.tensor(x, dtype=torch.float32), (width, width + orig))[None, None], kernel.float(), stride=orig)
    return y[0].T.reshape(-1)[:math.ceil(new * len(x) / orig)].numpy()


@pytest.mark.parametrize("rate", [8000, 11025, 44100])
def test_torchaudio_resampler(speech, rate):
    source, sounds = speech
    for x, got in zip(sounds, rows(source, f"from(wav) | sound(rate={rate}, filter=torchaudio)")):
        want = torchaudio_resample(x.astype("f4"), RATE, rate)
        assert got.shape == want.shape and abs(got - want).max() < 1e-6


def level(x):
    return 20 * math.log10(np.sqrt(np.mean(np.square(x))) + 1e-20)


@pytest.mark.parametrize("old, new", [(48000, 16000), (44100, 16000), (16000, 22050), (47999, 16000)])
def test_quality(tmp_path, old, new):
    """A tone at 90 % of the lower band comes out as it is; one above it, 100 dB below or more."""
    t, band = np.arange(old) / old, min(old, new) / 2
    tones = [0.5 * np.sin(2 * np.pi * f * t) for f in (0.9 * band, 0.3 * band, 1.02 * band)]
    raw = [np.asarray(x, "<f4").tobytes() for x in tones]
    source = tar_of(tmp_path / "a.tar", [("wav", wav(r, old, 1, 3, 32)) for r in raw])
    made = rows(source, f"from(wav) | sound(rate={new})")
    out = np.arange(len(made[0])) / new
    middle = slice(2000, -2000)
    for k, f in enumerate((0.9 * band, 0.3 * band)):
        assert level(made[k][middle] - (0.5 * np.sin(2 * np.pi * f * out))[middle]) < -100
    if new < old:
        assert level(made[2][middle]) < -100


@pytest.mark.parametrize("rate", [8000, 22050, 15999])
def test_parts_of_a_resampled_recording(speech, rate):
    source, _ = speech
    whole = rows(source, f"from(wav) | sound(rate={rate})")
    for start, seconds in ((0, 0.3), (0.21, 0.25), (0.6, 5)):
        a = int(start * rate + 0.5)
        for w, got in zip(whole, rows(source, f"from(wav) | sound(rate={rate}) | part({start}, {seconds})")):
            assert np.array_equal(got, w[a:a + int(seconds * rate + 0.5)])


# ---- steps ----

def test_steps(speech):
    source, sounds = speech

    def of(chain):
        return rows(source, "from(wav) | sound(rate=16000) | " + chain)
    x = [s.astype("f4") for s in sounds]
    assert all(abs(g - a * 10 ** 0.3).max() < 1e-6 for g, a in zip(of("gain(6)"), x))
    assert all(abs(np.abs(g).max() - 0.5) < 1e-6 for g in of("normalize_peak(0.5)"))
    assert all(abs(g[1:] - (a[1:] - np.float32(0.97) * a[:-1])).max() < 1e-7 and g[0] == a[0] for g, a in zip(of("preemphasis"), x))
    for g, a in zip(of("part(0, 1) | pad_to(1.5)"), x):
        assert len(g) == 24000 and np.array_equal(g[:len(a[:16000])], a[:16000]) and not g[len(a[:16000]):].any()
    assert all(len(g) == math.ceil(len(a) / 1.1) for g, a in zip(of("speed(1.1)"), x))
    assert all(np.array_equal(a, b) for a, b in zip(of("resample(8000)"), rows(source, "from(wav) | sound(rate=8000)")))
    for g, a in zip(of("preemphasis(0) | part(0.1, 0.2)"), x):  # a part that comes later cuts the row
        assert np.array_equal(g, a[1600:4800])


def test_channels(tmp_path):
    x = tone(0.5, channels=3)
    v = (integers(x, 16) / 32768).astype("f4")
    source = tar_of(tmp_path / "a.tar", [("wav", wav16(x))] * 40)
    assert abs(rows(source, "from(wav) | sound")[0] - v.mean(1)).max() < 1e-7
    assert np.array_equal(rows(source, "from(wav) | sound(channel=2)")[0], v[:, 2])
    drawn = [next(c for c in range(3) if np.array_equal(g, v[:, c])) for g in rows(source, "from(wav) | sound(channel=random)", seed=1)]
    assert set(drawn) == {0, 1, 2}


RANDOM = "from(wav) | sound(rate=16000) | random_part(0.5) | speed(0.9, 1.1) | gain(-6, 6) | fbank(20) | spec_augment(time=10, freq=5)"


@pytest.mark.asan
def test_random_steps_are_addressed(speech):
    source, _ = speech
    one = rows(source, RANDOM, epochs=3, seed=7, shuffle=True)
    many = rows(source, RANDOM, epochs=3, seed=7, shuffle=True, num_workers=3)
    assert all(np.array_equal(a, b) for a, b in zip(one, many))
    with stoker.Loader(source, {"x": RANDOM}, batch_size=1, seed=7, shuffle=True) as loader:
        state = None
        for i, _ in enumerate(loader):
            if i == 1:
                state = loader.state_dict()
                break
    with stoker.Loader(source, {"x": RANDOM}, batch_size=1, seed=7, shuffle=True) as loader:
        loader.load_state_dict(state)
        rest = [b["x"][0].numpy() for b in loader]
    assert [r.shape for r in rest] == [r.shape for r in one[2:4]] and all(np.array_equal(a, b) for a, b in zip(rest, one[2:4]))
    assert len({r.tobytes() for r in one}) == len(one)


def test_random_part_takes_every_place(tmp_path):
    x = np.arange(300) / 400
    source = tar_of(tmp_path / "a.tar", [("wav", wav16(x[:, None], 100))] * 200)
    starts = [int(round(float(r[0]) * 400)) for r in rows(source, "from(wav) | sound | random_part(1.0)", epochs=3)]
    assert min(starts) >= 0 and max(starts) <= 200 and len(set(starts)) > 150
    assert abs(np.mean(starts) - 100) < 12


def test_masks(speech):
    source, _ = speech
    plain = rows(source, "from(wav) | sound(rate=16000) | fbank(20)")
    masked = rows(source, "from(wav) | sound(rate=16000) | fbank(20) | spec_augment(time=20, freq=6, time_masks=1, freq_masks=1, fill=-99)", epochs=8)
    for i, g in enumerate(masked):
        hit = g == -99
        time, freq = hit.all(1), hit.all(0)
        assert time.sum() <= 20 and freq.sum() <= 6
        assert np.array_equal(hit, time[:, None] | freq[None])
        assert np.array_equal(g[~hit], plain[i % 4][~hit])
    assert any((g == -99).any() for g in masked)


WRONG = {"sound(rate=16000) | fbank(80) | gain(3)": "features after it", "sound | fbank(80)": "sound(rate=16000)",
         "sound(rate=8000) | log_mel(80)": "16000 samples per second", "sound(rate=16000, mono=false) | fbank(80)": "one channel",
         "sound(rate=16000) | truncate(5)": "part(0, seconds)", "sound(rate=5)": "not in 100", "sound(channel=-1)": "channel is random", "sound(channel=left)": "the column left",
         "sound | speed(3, 2)": "factors are in", "sound(rate=16000) | spec_augment": "works on features", "bytes | part(1)": "put `sound` before it",
         "sound(rate=16000) | spectrogram(fft=46)": "product of primes up to 19", "sound(filter=best)": "hq or torchaudio"}


@pytest.mark.parametrize("chain", WRONG)
def test_chains_that_make_no_sense(speech, chain):
    with pytest.raises(stoker.StokerError) as e:
        stoker.Loader(speech[0], {"x": "from(wav) | " + chain}, batch_size=1)
    assert WRONG[chain] in str(e.value)


BAD = {"part(5)": "begins at 5", "pad_to(0.5)": "more than 0.5", "part(0, 0.01) | fbank(80)": "less than one frame"}


@pytest.mark.parametrize("steps", BAD)
def test_recordings_that_do_not_fit(speech, steps):
    with stoker.Loader(speech[0], {"x": "from(wav) | sound(rate=16000) | " + steps}, batch_size=1) as loader:
        with pytest.raises(stoker.StokerError) as e:
            next(iter(loader))
        assert BAD[steps] in str(e.value)


@pytest.mark.parametrize("step", ["fbank(40)", "mfcc(13)", "log_mel(80)", "log_mel(80, preset=nemo)", "log_mel(80, preset=torchaudio)", "spectrogram"])
def test_numbers_that_overflow(tmp_path, step):
    """As loud as a decoder lets through, features are numbers; louder by steps, so that squares overflow, it is a bad sample."""
    source = tar_of(tmp_path / "a.tar", [("wav", wav((tone(0.5) * 1.5e10).astype("<f4").tobytes(), RATE, 1, 3, 32))])
    assert np.isfinite(rows(source, f"from(wav) | sound(rate=16000) | {step}")[0]).all()
    with stoker.Loader(source, {"x": f"from(wav) | sound(rate=16000) | gain(120) | gain(60) | gain(60) | {step}"}, batch_size=1) as loader:
        with pytest.raises(stoker.StokerError, match="so loud that its numbers overflow"):
            next(iter(loader))


def test_almost_silence(tmp_path):
    """Factors to full scale and to a ratio of powers stay numbers."""
    soft = tar_of(tmp_path / "a.tar", [("wav", wav((tone(0.5) * 1e-44).astype("<f4").tobytes(), RATE, 1, 3, 32))])
    loud = tar_of(tmp_path / "b.tar", [("wav", wav((tone(0.5) * 1.5e10).astype("<f4").tobytes(), RATE, 1, 3, 32))])
    assert np.isfinite(rows(soft, "from(wav) | sound(rate=16000) | normalize_peak(1000)")[0]).all()
    assert np.isfinite(rows(loud, f'from(wav) | sound(rate=16000) | noise(from="{soft}", p=1, snr=-100)')[0]).all()
