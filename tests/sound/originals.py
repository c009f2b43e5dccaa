# SPDX-License-Identifier: Apache-2.0
"""Features as the packages make them that presets are named after: each a function of one recording (16 kHz, f32), or the test skips.

Packages are where `make setup` installs them apart from the others (tools/requirements/sound.txt), or in STOKER_ORIGINALS=FOLDER.  Of lhotse and
NeMo only the modules that make features are executed: their packages import dozens of others, which take no part in it.  NeMo asks librosa
for mel bands; they are transformers', which has them for that purpose."""

import contextlib
import importlib
import importlib.util
import os
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(os.environ.get("STOKER_ORIGINALS") or Path(sys.prefix, "sound"))
RATE = 16000
FEATURES = "nemo.collections.asr.parts.preprocessing"


@contextlib.contextmanager
def installed(*names):
    """The packages' folder on the path, and whatever is imported meanwhile under `names` forgotten afterwards: others that find half a
    package would fail on it."""
    before = set(sys.modules)
    sys.path.append(str(FOLDER))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.path.remove(str(FOLDER))
        for module in set(sys.modules) - before:
            if module.split(".")[0] in names:
                del sys.modules[module]


def where(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed: make setup")
    return Path(spec.submodule_search_locations[0])


def hollow(name, folder=None, **has):
    """A package of which nothing is executed, so that a module inside can be imported by itself."""
    module = types.ModuleType(name)
    module.__dict__.update(has)
    module.__path__ = [str(folder)] if folder else []
    sys.modules[name] = module


def torchaudio():
    with installed():
        where("torchaudio")
        return importlib.import_module("torchaudio")


def whisper(bins, **options):
    transformers = pytest.importorskip("transformers")
    extractor = transformers.WhisperFeatureExtractor(feature_size=bins)
    return lambda x: np.asarray(extractor(x, sampling_rate=RATE, return_tensors="np", **options).input_features[0]).T


def slaney(sr, n_fft, n_mels, fmin, fmax, norm):
    bands = importlib.import_module("transformers.audio_utils").mel_filter_bank
    return bands(n_fft // 2 + 1, n_mels, fmin, fmax, sr, norm=norm, mel_scale="slaney").T


def nemo(bins):
    pytest.importorskip("transformers")
    with installed("nemo", "librosa"):
        folder, parts = where("nemo"), FEATURES.split(".")
        hollow("librosa", filters=types.SimpleNamespace(mel=slaney))
        for i in range(len(parts)):
            hollow(".".join(parts[:i + 1]), folder.joinpath(*parts[1:i + 1]))
        hollow("nemo.utils", logging=importlib.import_module("logging"))
        hollow(FEATURES + ".perturb", AudioAugmentor=None)
        hollow(FEATURES + ".segment", AudioSegment=None)
        module = importlib.import_module(FEATURES + ".features")
    made = module.FilterbankFeatures(n_window_size=400, nfilt=bins, dither=0.0, pad_to=0).eval()

    def run(x):
        rows, frames = made(torch.tensor(x)[None], torch.tensor([len(x)]))
        return rows[0, :, :int(frames[0])].T.numpy()
    return run


def torchaudio_mel(bins):
    made = torchaudio().transforms.MelSpectrogram(RATE, 400, hop_length=160, n_mels=bins)
    return lambda x: torch.log(made(torch.tensor(x)).clamp(min=1e-10)).T.numpy()


def torchaudio_power(fft, hop):
    made = torchaudio().transforms.Spectrogram(fft, hop_length=hop)
    return lambda x: made(torch.tensor(x)).T.numpy()


def torchaudio_kaldi(name, scale=1, **options):
    torchaudio()
    with installed():
        made = getattr(importlib.import_module("torchaudio.compliance.kaldi"), name)
    return lambda x: made(torch.tensor(x)[None] * scale, sample_frequency=RATE, **options).numpy()


def native(kind, bins, snip=True, high=0.0):
    """kaldi-native-fbank."""
    with installed():
        if importlib.util.find_spec("kaldi_native_fbank") is None:
            pytest.skip("kaldi_native_fbank is not installed: make setup")
        knf = importlib.import_module("kaldi_native_fbank")
    options = knf.MfccOptions() if kind == "mfcc" else knf.FbankOptions()
    options.frame_opts.dither, options.frame_opts.snip_edges = 0, snip
    options.mel_opts.num_bins, options.mel_opts.high_freq = bins, high
    options.use_energy = False

    def run(x):
        made = knf.OnlineMfcc(options) if kind == "mfcc" else knf.OnlineFbank(options)
        made.accept_waveform(RATE, x.tolist())
        made.input_finished()
        return np.stack([made.get_frame(i) for i in range(made.num_frames_ready)])
    return run


def lhotse():
    """The layer that its Fbank extractor runs, with the values of FbankConfig."""
    with installed("lhotse"):
        hollow("lhotse", where("lhotse"))
        hollow("lhotse.features", Path(sys.modules["lhotse"].__path__[0]) / "features")
        hollow("lhotse.features.kaldi", Path(sys.modules["lhotse"].__path__[0]) / "features/kaldi")
        layer = importlib.import_module("lhotse.features.kaldi.layers").Wav2LogFilterBank(sampling_rate=RATE, num_filters=80, low_freq=20.0, high_freq=-400.0)
    return lambda x: layer(torch.tensor(x)[None])[0].numpy()
