# SPDX-License-Identifier: Apache-2.0
"""noise and reverb: another data set's recordings, the same ones for equal seed, epoch and position."""

import numpy as np
import pytest
from sounds import RATE, integers, rows, tar_of, tone, wav16

import stoker


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Six recordings; noises: longer than those, shorter, of another rate, silent.  And their samples."""
    d = tmp_path_factory.mktemp("noise")
    own = [integers(tone(0.5 + 0.1 * i, seed=i), 16)[:, 0] / 32768 for i in range(6)]
    rng = np.random.default_rng(9)
    long, short = (integers(rng.normal(0, 0.1, n), 16) / 32768 for n in (5 * RATE, 3000))
    noises = {"long": wav16(long[:, None]), "short": wav16(short[:, None]), "other": wav16(tone(2, 8000, seed=7), 8000),
              "silent": wav16(np.zeros((4000, 1)))}
    paths = {name: tar_of(d / f"{name}.tar", [("wav", data)]) for name, data in noises.items()}
    paths["all"] = tar_of(d / "all.tar", [("wav", noises[n]) for n in ("long", "short", "other")])
    return tar_of(d / "own.tar", [("wav", wav16(x[:, None])) for x in own]), own, paths, {"long": long, "short": short}


def chain(path, more="snr=(5, 20), p=1"):
    return f'from(wav) | sound(rate=16000) | noise(from="{path}", {more})'


@pytest.mark.parametrize("name", ["long", "short"])
def test_what_is_mixed_in(sets, name):
    source, own, paths, noises = sets
    for got, x in zip(rows(source, chain(paths[name], "snr=10, p=1")), own):
        d = got - x
        assert abs(10 * np.log10(np.sum(x * x) / np.sum(d * d)) - 10) < 1e-3
        d /= np.sqrt(np.mean(d * d))
        noise = noises[name] if name == "long" else np.tile(noises[name], 6)[:len(x)]
        size = len(noise) + len(d)
        like = np.fft.irfft(np.fft.rfft(noise, size) * np.conj(np.fft.rfft(d, size)), size)[:len(noise) - len(d) + 1]
        at = int(np.argmax(like)) if name == "long" else 0
        part = noise[at:at + len(x)]
        np.testing.assert_allclose(d, part / np.sqrt(np.mean(part * part)), atol=2e-3)


def test_ratio_how_often_and_addresses(sets):
    source, own, paths, _ = sets
    of = lambda **o: rows(source, chain(paths["all"], "snr=(5, 20), p=0.5"), epochs=6, seed=3, **o)  # noqa: E731
    first = of()
    ratios = [10 * np.log10(np.sum(x * x) / np.sum((g - x) ** 2)) for g, x in zip(first, own * 6) if not np.array_equal(g, x.astype("f4"))]
    assert 8 < len(ratios) < 28 and min(ratios) > 4.9 and max(ratios) < 20.1 and np.ptp(ratios) > 5
    for again in (of(), of(num_workers=3), of(num_workers=0)):
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, rows(source, chain(paths["all"], "p=0.5"), epochs=6, seed=4)))


def test_any_number_of_rates(sets, tmp_path):
    """Resamplers come and go; what comes out does not depend on which are there, nor on the workers."""
    source, own, _, _ = sets
    rates = [4000 + 500 * i for i in range(30)]
    noises = tar_of(tmp_path / "rates.tar", [("wav", wav16(tone(0.4, rate, seed=rate), rate)) for rate in rates])
    for step in (f'noise(from="{noises}", snr=10, p=1)', f'reverb(from="{noises}", p=1, seconds=0.05)'):
        of = lambda n, step=step: rows(source, f"from(wav) | sound(rate=16000) | {step}", epochs=8, seed=3, num_workers=n)  # noqa: E731
        got = of(1)
        assert len(got) == 8 * len(own) and all(np.array_equal(a, b) for a, b in zip(got, of(4), strict=True))


def test_another_rate_and_silence(sets):
    source, own, paths, _ = sets
    assert all(np.array_equal(g, x.astype("f4")) for g, x in zip(rows(source, chain(paths["silent"])), own))
    got = rows(source, chain(paths["other"], "snr=0, p=1"))[0] - own[0]         # 8 kHz has nothing above 4
    spectrum = abs(np.fft.rfft(got * np.hanning(len(got)))) ** 2
    assert spectrum[len(spectrum) * 21 // 40:].sum() < 1e-3 * spectrum.sum()


def test_refused(sets, tmp_path):
    source, _, paths, _ = sets
    texts = tar_of(tmp_path / "t.tar", [("txt", b"hello")])
    for more, said in ((f'from(wav) | sound | noise(from="{paths["long"]}")', "one rate"), (chain("/nowhere/*.tar"), "nowhere"),
                       (chain(paths["long"], "snr=(20, 10)"), "must go up"), (chain(paths["long"], "p=2"), "p")):
        with pytest.raises(stoker.StokerError, match=said):
            stoker.Loader(source, {"x": more}, batch_size=1)
    for path, more, said in ((texts, "p=1", "sample 0: none of its fields is sound"), (paths["long"], 'field="flac", p=1', "none of its fields")):
        with stoker.Loader(source, {"x": chain(path, more)}, batch_size=1) as loader, pytest.raises(stoker.StokerError, match=said):
            next(iter(loader))


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Responses: a long one with its direct sound late, a short one, one sample alone, silence; each in a tar file, and as floats."""
    d = tmp_path_factory.mktemp("rooms")
    rng = np.random.default_rng(11)
    long = rng.normal(0, 0.1, 9000) * np.exp(-np.arange(9000) / 1500)
    long[140] = 0.9
    made = {"long": long, "short": np.array([0.1, -0.8, 0.3, 0.05]), "one": np.array([0.5]), "silent": np.zeros(50)}
    made = {name: integers(x, 16) / 32768 for name, x in made.items()}
    paths = {name: tar_of(d / f"{name}.tar", [("wav", wav16(x[:, None]))]) for name, x in made.items()}
    paths["all"] = tar_of(d / "all.tar", [("wav", wav16(made[n][:, None])) for n in ("long", "short", "one")])
    return paths, made


def answered(x, h):
    """The definition, in doubles: the loudest tap stays in place, the power is as before."""
    size = len(x) + len(h) - 1
    y = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(h, size), size)[int(np.argmax(abs(h))):][:len(x)]
    y = np.concatenate([y, np.zeros(len(x) - len(y))])
    return y * np.sqrt(np.sum(x * x) / np.sum(y * y))


def room(path, more="p=1"):
    return f'from(wav) | sound(rate=16000) | reverb(from="{path}", {more})'


@pytest.mark.asan
@pytest.mark.parametrize("name", ["long", "short", "one", "silent"])
def test_a_room_answers(sets, rooms, name):
    source, own, _, _ = sets
    paths, responses = rooms
    for got, x in zip(rows(source, room(paths[name])), own):
        want = x if name == "silent" else answered(x, responses[name])
        np.testing.assert_allclose(got, want, atol=2e-6)


def test_many_blocks_and_channels(tmp_path, rooms, monkeypatch):
    """Of a recording of many blocks: every channel by itself, all as loud together as before; at every CPU level the same bits."""
    x = integers(tone(20, channels=2), 16) / 32768
    source, h = tar_of(tmp_path / "a.tar", [("wav", wav16(x))]), rooms[1]["long"]
    chain = f'from(wav) | sound(rate=16000, mono=false) | reverb(from="{rooms[0]["long"]}", p=1)'
    got = rows(source, chain)[0]
    each = [answered(c, h) / np.sqrt(np.sum(c * c) / np.sum(np.convolve(c, h)[140:140 + len(c)] ** 2)) for c in x.T]
    want = np.stack(each) * np.sqrt(np.sum(x * x) / np.sum(np.stack(each) ** 2))
    np.testing.assert_allclose(got, want, atol=3e-6)
    monkeypatch.setenv("STK_CPU", "none")
    assert np.array_equal(got, rows(source, chain)[0])


def test_responses_are_cut_and_resampled(sets, rooms, tmp_path):
    source, own, _, _ = sets
    paths, responses = rooms
    np.testing.assert_allclose(rows(source, room(paths["long"], "p=1, seconds=0.05"))[0], answered(own[0], responses["long"][:800]), atol=2e-6)
    slow = np.zeros(400)
    slow[100:141] = np.hanning(41) * 0.5           # of 8 kHz: twice as many taps at 16, of the same shape
    path = tar_of(tmp_path / "slow.tar", [("wav", wav16(integers(slow, 16)[:, None] / 32768, 8000))])
    fast = np.interp(np.arange(800) / 2, np.arange(400), slow)
    assert abs(rows(source, room(path))[0] - answered(own[0], fast)).max() < 0.02


def test_rooms_and_noises_are_addressed(sets, rooms):
    """The same partners by seed, epoch and position: for any number of workers, and after a state."""
    source, own, paths, _ = sets
    chain = f'from(wav) | sound(rate=16000) | reverb(from="{rooms[0]["all"]}", p=0.5) | noise(from="{paths["all"]}", p=0.5)'
    options = {"batch_size": 1, "shuffle": True, "seed": 5}
    first = rows(source, chain, epochs=4, num_workers=1, **{k: v for k, v in options.items() if k != "batch_size"})
    again = rows(source, chain, epochs=4, num_workers=3, **{k: v for k, v in options.items() if k != "batch_size"})
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    kept = {a.tobytes() for a in first}
    assert len(kept) > 12                            # other partners in every epoch
    with stoker.Loader(source, {"x": chain}, num_workers=2, **options) as loader:
        for _ in range(2):
            assert len(list(loader)) == 6
        part = iter(loader)
        for _ in range(2):
            next(part)
        state = loader.state_dict()
    with stoker.Loader(source, {"x": chain}, num_workers=1, **options) as loader:
        loader.load_state_dict(state)
        rest = [b["x"][0].numpy().copy() for _ in range(2) for b in loader]
    assert len(rest) == 10 and all(np.array_equal(a, b) for a, b in zip(rest, first[14:]))


def test_reverb_refused(sets, rooms, tmp_path):
    source = sets[0]
    path = rooms[0]["long"]
    for more, said in ((f'from(wav) | sound | reverb(from="{path}")', "one rate"), (room("/nowhere/*.tar"), "nowhere"), (room(path, "p=2"), "p"),
                       (room(path, "seconds=0"), "seconds")):
        with pytest.raises(stoker.StokerError, match=said):
            stoker.Loader(source, {"x": more}, batch_size=1)
    broken = tar_of(tmp_path / "t.tar", [("wav", wav16(tone(0.1))[:1000])])
    with stoker.Loader(source, {"x": room(broken)}, batch_size=1) as loader, pytest.raises(stoker.StokerError, match="reverb: its sample 0: .*truncated"):
        next(iter(loader))
