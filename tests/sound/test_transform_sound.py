# SPDX-License-Identifier: Apache-2.0
"""Transform on sound in memory: the rows of a loader that reads WAV files of the same floats, bit for bit."""

import pickle

import numpy as np
import pytest
import stoker
import torch
from sounds import tar_of, tone, wav

SECONDS = (2.0, 1.3, 3.21, 0.7, 0.9, 1.0)
CHAINS = ["sound", "sound(rate=16000)", "sound(rate=16000, filter=torchaudio)", "sound(rate=16000, mono=false)", "sound(channel=random)", "sound(channel=0)",
          "sound(rate=16000) | part(0.11, 0.4)", "sound(rate=16000) | random_part(0.5)", "sound | random_part(0.5)",
          "sound(rate=16000) | random_part(0.5) | pad_to(0.5) | fbank(40)", "sound(rate=16000) | gain(-6, 6) | random_part(0.3)",
          "sound(rate=16000) | resample(8000) | normalize_peak | preemphasis", "sound(rate=16000) | speed(0.9, 1.1) | gain(-6, 6) | fbank(80) | spec_augment(time=20)",
          "sound(rate=16000, mono=false) | speed(0.8, 1.2)", "sound(rate=16000) | log_mel(80)", "sound(rate=16000) | log_mel(80, preset=nemo) | to(f16)",
          "sound(rate=16000) | random_part(0.5) | log_mel(64, preset=torchaudio) | spec_augment | to(bf16)", "sound(rate=16000) | mfcc", "sound(rate=16000) | spectrogram"]


def recordings(rate, channels, dtype="f4"):
    return [np.ascontiguousarray(tone(s, rate, channels, seed=i).T.astype(dtype)) for i, s in enumerate(SECONDS)]


def floats(x, rate):
    return wav(np.ascontiguousarray(x.T, "<f4").tobytes(), rate, len(x), 3, 32)


@pytest.fixture(scope="module", params=[(16000, 1), (44100, 2), (8000, 3)], ids=str)
def data(request, tmp_path_factory):
    rate, channels = request.param
    sounds = recordings(rate, channels)
    path = tmp_path_factory.mktemp("transform") / "a.tar"
    return tar_of(path, [("wav", floats(x, rate)) for x in sounds]), sounds, rate


def bits(x):
    return np.asarray(x.contiguous().view(torch.uint8)) if x.dim() else x


def equal(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape and np.array_equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


def loaded(source, chain, epochs=1, **options):
    with stoker.Loader(source, {"name": "from(wav) | bytes", "x": chain}, batch_size=1, **options) as loader:
        return [[b["x"][0].clone() for b in loader] for _ in range(epochs)]


@pytest.mark.asan
@pytest.mark.parametrize("chain", CHAINS)
def test_rows_are_the_loaders(data, chain):
    source, sounds, rate = data
    chain = "from(wav) | " + chain
    want = loaded(source, chain, 2, seed=11)
    for workers in (1, 3):
        transform = stoker.Transform(chain, seed=11, output=1, rate=rate, num_workers=workers)
        for epoch in range(2):
            transform.set_epoch(epoch)
            assert equal(transform(sounds), want[epoch])
            assert transform.position == len(sounds)
        assert equal(transform([torch.from_numpy(x) for x in sounds], epoch=0, positions=range(len(sounds))), want[0])


def test_parts_by_address(data):
    """Draws follow positions: rows of a shuffled loader, one by one."""
    source, sounds, rate = data
    chain = "from(wav) | sound(rate=16000) | random_part(0.5) | speed(0.9, 1.1)"
    transform = stoker.Transform(chain, seed=3)
    with stoker.Loader(source, {"x": chain}, batch_size=1, shuffle=True, seed=3) as loader:
        for step, batch in enumerate(loader):
            row = transform(sounds[int(batch.sample_ids[0])], epoch=0, positions=[step], rate=rate)
            assert np.array_equal(row, batch["x"][0])
    assert transform.position == 0


def test_ops_alone_follow_sound(data):
    """With a rate, ops alone stand after sound(rate=RATE); other rates are resampled to it."""
    source, sounds, rate = data
    want = loaded(source, "from(wav) | sound(rate=16000) | speed(0.9, 1.1) | fbank(40)", seed=2)[0]
    with stoker.Loader(source, {"wav": "sound(rate=16000) | speed(0.9, 1.1) | fbank(40)"}, batch_size=1, seed=2) as loader:
        bare = [b["wav"][0].clone() for b in loader]
    transform = stoker.Transform("speed(0.9, 1.1) | fbank(40)", seed=2, rate=16000)
    assert equal(transform(sounds, rate=rate), bare)
    assert equal(transform(sounds, rate=[rate] * len(sounds), epoch=0, positions=range(len(sounds))), bare)
    built = stoker.from_("wav").sound(rate=16000).speed(0.9, 1.1).fbank(40)
    assert equal(stoker.Transform(built, seed=2, output=1)(sounds, rate=np.full(len(sounds), rate)), want)
    assert not equal(stoker.Transform(built, seed=2)(sounds, rate=rate), want)      # another output, other draws


def test_what_comes_out():
    x = recordings(16000, 2)
    fixed = stoker.Transform("sound(rate=16000) | random_part(0.5) | pad_to(0.5) | fbank(40)", rate=16000)
    ragged = stoker.Transform("sound(rate=16000) | fbank(40)", rate=16000)
    assert fixed(x).shape == (6, 48, 40) and isinstance(ragged(x), list)
    assert fixed([]).shape == (0, 48, 40) and fixed([]).dtype == torch.float32 and ragged([]) == []
    one = ragged(x[0])
    assert one.shape == (198, 40) and fixed(x[0]).shape == (48, 40)
    assert np.array_equal(ragged(x[0][:1]), ragged(x[0][0]))
    batch = np.stack([v[:, :11200] for v in x])
    assert fixed(batch).shape == (6, 48, 40)
    assert equal(ragged(batch, epoch=0, positions=range(6)), ragged(list(batch), epoch=0, positions=range(6)))
    assert stoker.Transform("gain(0)", rate=8000)(x[0][0]).dtype == torch.float32


def test_strides_and_memory():
    x = recordings(16000, 3)[0]
    chain = stoker.Transform("sound(mono=false) | gain(0)", rate=16000)
    want = np.asarray(chain(x))
    assert np.array_equal(want, x)
    wide = np.zeros((7, x.shape[1] + 5), "f4")
    wide[1:7:2, 3:-2] = x
    for given in (wide[1:7:2, 3:-2], np.asfortranarray(x), x.astype(">f4"), torch.from_numpy(x).clone(), x[::-1].copy()[::-1],
                  np.frombuffer(b"\0" + x.tobytes(), "f4", x.size, 1).reshape(x.shape)):
        before = np.array(given)
        assert np.array_equal(chain(given), want)
        assert np.array_equal(given, before)            # steps work on a copy


def test_it_pickles_and_goes_on(data):
    _, sounds, rate = data
    chain = "random_part(0.4) | speed(0.9, 1.1)"
    together = stoker.Transform(chain, seed=1, rate=rate)(sounds)
    transform = stoker.Transform(chain, seed=1, rate=rate)
    first = transform(sounds[:2])
    again = pickle.loads(pickle.dumps(transform))
    assert equal(first + again(sounds[2:]), together)


def test_noise_and_rooms(data, tmp_path):
    """Partners by address, as in a loader."""
    source, sounds, rate = data
    noises = tar_of(tmp_path / "n.tar", [("wav", floats(x, 16000)) for x in recordings(16000, 1)])
    chain = f'from(wav) | sound(rate=16000) | noise(from="{noises}", p=0.8) | reverb(from="{noises}", p=0.8)'
    assert equal(stoker.Transform(chain, seed=5, output=1)(sounds, rate=rate), loaded(source, chain, seed=5)[0])


SILENT = np.zeros((1, 100), "f4")
BAD = [(np.zeros((1, 0), "f4"), "the recording has no samples"), (np.zeros((0, 9), "f4"), "0 channels are not in 1..256"),
       (np.full(9, np.nan, "f4"), "sample 0 of channel 0 is not a finite number"), (np.full(9, 1e12, "f4"), "more than 1e\\+10 is refused"),
       (np.zeros(9), "the recording is float64: sound is float32"), (np.zeros(9, "i2"), "the recording is int16: sound is float32"),
       (np.zeros((1, 1, 1, 9), "f4"), r"the recording has the shape \(1, 1, 1, 9\)"), ([SILENT, np.zeros((1, 1, 1), "f4")], r"recording 1 has the shape \(1, 1, 1\)"),
       ([[0.0, 1.0]], "recording 0 is"), ("text", "the recording is 'text'"), (torch.zeros(9, dtype=torch.float64), "the recording is float64"),
       ([SILENT, np.full((2, 9), np.inf, "f4")], "recording 1: array: sample 0 of channel 0 is not")]


@pytest.mark.asan
@pytest.mark.parametrize("given, said", BAD, ids=[said for _, said in BAD])
def test_bad_recordings(given, said):
    with pytest.raises(ValueError, match=said):
        stoker.Transform("sound", rate=16000)(given)


CHAINS_REFUSED = [("sound | fbank(80)", None, "sound\\(rate=16000\\)"), ("fbank(80)", None, "put `sound` before it"), ("hflip", 16000, "hflip"),
                  ("image | hflip", 16000, "a rate is of sound, and the chain is of pictures"), ("sound | part(start, duration)", 16000, "the field start says it, which only a loader knows"),
                  ("sound(channel=side)", 16000, "the field side says it"), ("sound | call(f)", 16000, "leave call"), ("gain(3)", 0, "rate must be at least 1"),
                  ("gain(3)", 4000001, "rate must be at most 4000000"), ("sound | fbank(80, resise=3)", 16000, "resise"), ("from(json) | json | sound", 16000, "")]


@pytest.mark.parametrize("chain, rate, said", CHAINS_REFUSED, ids=[c[0] for c in CHAINS_REFUSED])
def test_bad_chains(chain, rate, said):
    with pytest.raises((ValueError, NotImplementedError), match=said):
        stoker.Transform(chain, rate=rate)


def test_bad_calls():
    transform = stoker.Transform("sound(rate=16000)")
    x = np.zeros(100, "f4")
    for rate, said in ((None, "how many samples per second"), ([16000, 8000], "one for each of 1 recordings, not 2"), (1.5, "rate must be a whole number"),
                       ([0], "rate must be at least 1")):
        with pytest.raises(ValueError, match=said):
            transform(x, rate=rate)
    with pytest.raises(ValueError, match="positions must be 1 whole numbers"):
        transform(x, rate=8000, positions=[1, 2])
    with pytest.raises(ValueError, match="a rate is of sound"):
        stoker.Transform("hflip")(np.zeros((1, 3, 4, 4), "u1"), rate=16000)
    with pytest.raises(ValueError, match="part: the recording has 0.006 seconds"):
        stoker.Transform("sound | part(5)", rate=16000)(x)
    core = stoker._stoker.Transform("sound")
    for given, rates, error in (([x], b"\0" * 4, TypeError), ([np.zeros((1, 8))], b"\0" * 4, TypeError), ([np.zeros((1, 8, 2), "f4")[..., 0]], b"\0" * 4, TypeError),
                                ([x[None]], b"", ValueError)):
        with pytest.raises(error):
            core.run_sound(0, given, rates, b"\0" * 8)
    with pytest.raises(ValueError, match="this transform takes sound"):
        core.sizes(0, [], b"")
    with pytest.raises(ValueError, match="this transform takes pictures"):
        stoker._stoker.Transform("hflip").run_sound(0, [], b"", b"")
    empty = stoker._stoker.Transform.__new__(stoker._stoker.Transform)
    for call in (empty.sound_info, lambda: empty.run_sound(0, [], b"", b"")):
        with pytest.raises(RuntimeError, match="never opened"):
            call()
