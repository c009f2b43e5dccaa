# SPDX-License-Identifier: Apache-2.0
"""State on the GPU: the same as on the CPU, from one to the other and back, in the middle of an epoch."""

import json

import on_gpu
import pytest
import stoker
from on_gpu import bits, options

torch = pytest.importorskip("torch")

FIELDS = {"image": "from(pic) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f16)",
          "label": "from(cls) | int"}


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    return on_gpu.write_pictures(tmp_path_factory.mktemp("resume") / "a.tar", on_gpu.every_kind(rounds=2))


def loader(tar, gpu, **more):
    return stoker.Loader(tar, FIELDS, **{"batch_size": 6, "shuffle": True, "seed": 8, **more},
                         **(options() if gpu else {}))


def seen(batches, n=None):
    found = []
    for batch in batches:
        found.append((torch.as_tensor(batch.sample_ids).tolist(), bits(batch["image"]), bits(batch["label"])))
        if len(found) == n:
            break
    return found


def equal(a, b):
    assert len(a) == len(b)
    for (ids, image, label), (ids2, image2, label2) in zip(a, b, strict=True):
        assert ids == ids2 and torch.equal(image, image2) and torch.equal(label, label2)


@pytest.mark.parametrize("way", [(True, True), (True, False), (False, True)], ids=["gpu-gpu", "gpu-cpu", "cpu-gpu"])
@pytest.mark.parametrize("stop", [1, 4])
def test_mid_epoch(tar, way, stop):
    before, behind = way
    reference = loader(tar, False)
    whole = [seen(reference), seen(reference)]
    first = loader(tar, before)
    seen(first)                                 # epoch 0
    head = seen(first, stop)                    # of epoch 1; more are in flight
    state = json.loads(json.dumps(first.state_dict()))
    assert state["epoch"] == 1 and state["position"] == 6 * stop
    first.close()
    second = loader(tar, behind, num_workers=2, prefetch=5)
    second.load_state_dict(state)
    equal(head + seen(second), whole[1])


def test_fingerprints_do_not_depend_on_the_device(tar):
    states = []
    for gpu in (False, True):
        state = loader(tar, gpu).state_dict()
        state.pop("local")
        states.append(state)
    assert states[0] == states[1]


def test_to_device_keeps_the_place(tar):
    whole = seen(loader(tar, False))
    first = stoker.to_device(loader(tar, False), on_gpu.DEVICE, depth=4)
    head = seen(first, 3)
    second = stoker.to_device(loader(tar, False), on_gpu.DEVICE, depth=2)
    second.load_state_dict(first.state_dict())
    equal(head + seen(second), whole)


def test_ranks_share_an_epoch(tar):
    whole = sorted(i for ids, _, _ in seen(loader(tar, False)) for i in ids)
    parts = [i for rank in range(2) for ids, _, _ in seen(loader(tar, True, rank=rank, world_size=2, drop_last=False))
             for i in ids]
    assert sorted(set(parts)) == whole
