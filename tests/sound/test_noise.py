# SPDX-License-Identifier: Apache-2.0
"""noise: another data set's recordings, mixed in at the ratio that is drawn, the same for equal seed, epoch and position."""

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
