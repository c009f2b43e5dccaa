# SPDX-License-Identifier: Apache-2.0
"""Small tar shards made here, and helpers.  STOKER_BUILD names a build folder to import from;
without it, stoker is found as Python finds it."""

import gc
import io
import os
import subprocess
import sys
import tarfile
import textwrap

import numpy as np
import pytest
from PIL import Image

if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import stoker

try:
    import torch
except ImportError:
    torch = None

try:
    from hypothesis import HealthCheck, settings
    # What a property test draws is the same in every run, and no clock fails it: a loaded machine is slow.
    settings.register_profile("stoker", derandomize=True, print_blob=True, database=None, deadline=None,
                              suppress_health_check=list(HealthCheck))
    settings.load_profile("stoker")
except ImportError:
    pass

SAMPLES, SHARDS = 100, 3
IMAGE = "from(jpg) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)"
FIELDS = {"image": IMAGE, "label": "from(cls) | int"}
LABEL = {"label": "from(cls) | int"}


def picture(seed, width=80, height=60):
    """A smooth picture with some texture, as an RGB image."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **{"quality": 90, **options})
    return out.getvalue()


def write_tar(path, members):
    """members: (name, bytes) pairs."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def sample_members(i):
    image = picture(i, 60 + i % 37, 50 + i % 23)
    return [(f"{i:06d}.jpg", jpeg(image)), (f"{i:06d}.cls", str(i % 10).encode()),
            (f"{i:06d}.json", b'{"n": %d, "tags": ["a", "b"]}' % i),
            (f"{i:06d}.txt", f"número {i}".encode())]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Folder with train-000.tar ...: SAMPLES samples in SHARDS shards; fields jpg cls json txt."""
    folder = tmp_path_factory.mktemp("data")
    numbers = np.array_split(np.arange(SAMPLES), SHARDS)
    for s, mine in enumerate(numbers):
        write_tar(folder / f"train-{s:03d}.tar", [m for i in mine for m in sample_members(int(i))])
    return folder


@pytest.fixture(scope="session")
def urls(data):
    return str(data / f"train-{{000..{SHARDS - 1:03d}}}.tar")


@pytest.fixture(scope="session")
def damaged(tmp_path_factory):
    """40 samples; 7 is garbage, 21 a cut JPEG, 30 has a label that is no number."""
    path = tmp_path_factory.mktemp("damaged") / "bad.tar"
    members = []
    for i in range(40):
        image = jpeg(picture(i))
        label = b"x7" if i == 30 else str(i).encode()
        image = b"\xff\xd8garbage" * 20 if i == 7 else image[:len(image) // 2] if i == 21 else image
        members += [(f"{i:04d}.jpg", image), (f"{i:04d}.cls", label)]
    return str(write_tar(path, members))


@pytest.fixture
def forked(monkeypatch):
    """Workers of call() are forked, whatever loaders other tests have left open in this process: else each loader would start an
    interpreter that imports torch.  Not with ASan, whose locks are not taken over fork()."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        monkeypatch.setattr("stoker.sets.threads_of_loaders", lambda: False)


@pytest.fixture
def no_collections():
    """Torch's workers, which are forked for comparison, end none of the iterators that wait here for the garbage collector: their
    finalizers put to queues and start threads, in another process than the one that they belong to."""
    gc.disable()
    yield
    gc.enable()


def as_numpy(value):
    """A torch tensor or array as an array; bfloat16 as its bits."""
    if torch is not None and isinstance(value, torch.Tensor):
        return (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy()
    return np.asarray(value)


def epoch_of(loader):
    """Every batch of an epoch as (ids, {name: array}), copied."""
    return [(as_numpy(b.sample_ids).copy(), {k: as_numpy(v).copy() for k, v in b.items()})
            for b in loader]


def ids_of(loader):
    return [int(i) for b in loader for i in b.sample_ids]


def ids_of_epochs(urls, epochs=1, batch_size=64, **options):
    """Ids of one epoch, or a list of those of several."""
    with stoker.Loader(urls, LABEL, batch_size=batch_size, **options) as loader:
        out = [ids_of(loader) for _ in range(epochs)]
    return out[0] if epochs == 1 else out


# For run_python: a handler that raises an Alarm(base) while `armed`.
ALARM = """
    class Alarm({base}):
        pass

    armed = False

    def handler(number, frame):
        if armed:
            raise Alarm
"""


def run_python(code, *args, timeout=180, torch_too=False):
    """Run code in another interpreter; torch is hidden there unless asked for (it is slow)."""
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    head = "" if torch_too else "import sys; sys.modules['torch'] = None\n"
    if "SIGINT" in code:        # a job in the background has it ignored, and its children too
        head += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return subprocess.run([sys.executable, "-c", head + textwrap.dedent(code), *map(str, args)],
                          env=env, capture_output=True, text=True, timeout=timeout)


def check_python(code, *args, **kwargs):
    done = run_python(code, *args, **kwargs)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
