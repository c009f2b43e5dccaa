# SPDX-License-Identifier: Apache-2.0
"""docs/frameworks.md: every block trains, checkpoints, is killed and resumes with the right samples."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from made import jpeg, write_tar  # noqa: E402

if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import stoker  # noqa: E402

SAMPLES, BATCH, EPOCHS = 80, 8, 3
STEPS = SAMPLES // BATCH
MID, BEHIND = 18, 13            # killed there, kept last at 15 (in epoch 1) and at 10 (the end of epoch 0)
NEEDS = {"loop": "torch", "torchdata": "torchdata", "dcp": "torch", "lightning": "lightning",
         "accelerate": "accelerate", "transformers": "transformers"}
BLOCK = re.compile(r"^<!-- run: (\w+) -->\n```python\n(.*?)^```$", re.M | re.S)
BLOCKS = dict(BLOCK.findall((ROOT / "docs/frameworks.md").read_text()))
RANKS = {"loop": (1, 1, 1), "torchdata": (1, 1, 1), "dcp": (2, 2, 1), "lightning": (2, 1, 2),
         "accelerate": (2, 1, 2), "transformers": (1, 2, 1)}     # of each life


def need(package):
    """Skip where a package is missing, or where TORCH=0 hides torch."""
    for name in ("torch", package):
        try:
            found = importlib.util.find_spec(name) is not None
            if name == "torch":
                importlib.import_module(name)
        except ImportError:
            found = False
        if not found:
            pytest.skip(f"without {name}: `make setup` installs it (TORCH=0 leaves it out)")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two shards; a sample's label is its number."""
    folder = tmp_path_factory.mktemp("shards")
    for s in range(2):
        write_tar(folder / f"train-{s:03d}.tar", [
            (f"{i:04d}.{field}", raw) for i in range(s * SAMPLES // 2, (s + 1) * SAMPLES // 2)
            for field, raw in (("jpg", jpeg(i, 24, 20)), ("cls", b"%d" % i))])
    return folder


@pytest.fixture(scope="module")
def undisturbed(shards):
    """The global batches of all epochs, from a loader that nobody disturbs."""
    with stoker.Loader(str(shards / "train-{000..001}.tar"), {"label": "from(cls) | int"}, batch_size=BATCH,
                       shuffle=True, seed=1, rank=0, world_size=1) as loader:
        found = [b.sample_ids.tolist() for _ in range(EPOCHS) for b in loader]
    assert len(found) == EPOCHS * STEPS and found[:STEPS] != found[STEPS:2 * STEPS]
    return found


@pytest.fixture
def lives(shards, new_lives):
    for shard in shards.glob("*.tar"):
        (new_lives.folder / shard.name).symlink_to(shard)
    return new_lives


@pytest.mark.parametrize("name", RANKS)
def test_killed_and_resumed(name, lives, undisturbed):
    need(NEEDS[name])
    ends = BEHIND, MID - 10, None
    lives.run(BLOCKS[name], list(zip(RANKS[name], ends, strict=True)))
    assert lives.steps(0) == undisturbed[:BEHIND]
    assert lives.steps(1) == undisturbed[10:MID]        # kept last at the end of an epoch
    assert lives.steps(2) == undisturbed[15:]           # kept last within one


def test_every_block_is_run():
    assert set(BLOCKS) == set(NEEDS) == set(RANKS)


def test_lightning_counts_epochs(lives, undisturbed):
    need("lightning")
    script = BLOCKS["lightning"].replace("max_steps=30", "max_epochs=3")
    assert script != BLOCKS["lightning"]
    lives.run(script, [(1, MID), (1, None)])
    assert lives.steps(0) == undisturbed[:MID] and lives.steps(1) == undisturbed[15:]


LOADER = """
import os, torch, torch.nn.functional as F, stoker
loader = stoker.Loader("train-{000..001}.tar", global_batch_size=8, shuffle=True, seed=1, fields={
    "image": "from(jpg) | image | random_resized_crop(16) | to(f32)", "label": "from(cls) | int"})
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 80))
"""

NESTED = LOADER + """
from torchdata.stateful_dataloader import StatefulDataLoader

class Wrapped(torch.utils.data.IterableDataset):
    def __iter__(self):
        for batch in loader:
            yield batch["image"] * 2, batch["label"]

    def state_dict(self):
        return {"inner": {"loader": loader.state_dict()}}

    def load_state_dict(self, state):
        loader.load_state_dict(state["inner"]["loader"])

outer = StatefulDataLoader(Wrapped(), batch_size=None, num_workers=0)
step = 0
if os.path.exists("last.pt"):
    kept = torch.load("last.pt")
    outer.load_state_dict(kept["outer"])
    step = kept["step"]
while step < 30:
    for image, label in outer:
        F.cross_entropy(model(image), label)
        step += 1
        if step % 5 == 0:
            torch.save({"outer": outer.state_dict(), "step": step}, "last.pt")
"""


def test_inside_a_dataset_of_a_stateful_data_loader(lives, undisturbed):
    need("torchdata")
    lives.run(NESTED, [(1, MID), (1, None)])
    assert lives.steps(0) == undisturbed[:MID] and lives.steps(1) == undisturbed[15:]


STATEFUL = """
import json, warnings, torch, stoker
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    how = DataLoaderConfiguration(use_stateful_dataloader=True)
    made = [Accelerator(cpu=True, dataloader_config=how).prepare(stoker.DataLoader(range(16), batch_size=2, num_workers=1)) for _ in range(2)]
    batches = [batch.tolist() for batch in made[0]]
said = [str(w.message) for w in caught if "stoker" in str(w.message)]
with open("found.json", "w") as file:
    json.dump([said, batches], file)
"""


def test_what_accelerate_makes_a_stateful_loader_of_is_said(new_lives):
    """Once: its batches come from torchdata's workers."""
    need("accelerate")
    need("torchdata")
    new_lives.run(STATEFUL, [(1, None)])
    said, batches = json.loads((new_lives.folder / "found.json").read_text())
    assert len(said) == 1 and "of a stoker.DataLoader: batches are the same and come from its workers, not from Stoker's" in said[0]
    assert batches == [[i, i + 1] for i in range(0, 16, 2)]


FABRIC = LOADER + """
import lightning as L
fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.launch()
try:
    fabric.setup_dataloaders(loader)
    raise SystemExit("setup_dataloaders takes other loaders now: say so in frameworks.md")
except TypeError:
    pass
state = {"model": model, "loader": loader, "step": 0}
if os.path.exists("last.ckpt"):
    fabric.load("last.ckpt", state)
while state["step"] < 30:
    for batch in loader:
        F.cross_entropy(model(batch["image"]), batch["label"])
        state["step"] += 1
        if state["step"] % 5 == 0:
            fabric.save("last.ckpt", state)
"""


def test_fabric(lives, undisturbed):
    need("lightning")
    lives.run(FABRIC, [(1, MID), (1, None)])
    assert lives.steps(0) == undisturbed[:MID] and lives.steps(1) == undisturbed[15:]


PREPARED = LOADER.replace("import os", "from accelerate import Accelerator, skip_first_batches\n"
                          "accelerator = Accelerator(cpu=True)\nimport os") + """
assert accelerator.prepare(loader) is loader
try:
    skip_first_batches(loader, 3)
    raise SystemExit("skip_first_batches takes other loaders now: say so in frameworks.md")
except AttributeError:
    pass
for batch in loader:
    F.cross_entropy(model(batch["image"]), batch["label"])
"""


SHARDED = """
import importlib.util, itertools, json, os, random, sys
import numpy as np, torch, torch.distributed as dist, stoker
from torch.utils import data as theirs
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)

class Numbers(theirs.Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, i):
        return {"i": i, "drawn": torch.rand(2), "more": random.random(), "ours": stoker.get_worker_info() is not None}

class Flow(theirs.IterableDataset):
    def __iter__(self):
        for i in range(24):
            yield {"i": i, "drawn": torch.rand(2), "more": random.random(), "ours": stoker.get_worker_info() is not None}

def seen(batches):
    return [{"i": b["i"].tolist(), "drawn": b["drawn"].tolist(), "more": b["more"].tolist(), "ours": b["ours"].tolist()} for b in batches]

def options(workers=2):
    return {"batch_size": 2, "num_workers": workers, **({"multiprocessing_context": "fork"} if workers else {})}

def plain(make):
    data = Numbers()
    sampler = theirs.DistributedSampler(data, WORLD, RANK, seed=3)
    loader = make(data, sampler=sampler, **options())
    found = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        found += seen(loader)
    return found

def accelerated(make):
    from accelerate import Accelerator, skip_first_batches
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(make(Numbers(), shuffle=True, **options()))
    assert isinstance(loader, make) and accelerator.prepare(loader) is loader
    found = seen(loader) + seen(skip_first_batches(loader, 2))
    flow = accelerator.prepare(make(Flow(), **options(1)))
    return found + (seen(flow) if RANK == 0 or flow is None else seen(flow))

def in_lightning(make):
    import lightning as L
    found = []
    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(2, 1)
        def training_step(self, batch, number):
            found.extend(seen([batch]))
            return self.net(batch["drawn"]).mean()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)
        def train_dataloader(self):
            return make(Numbers(), shuffle=True, **options())
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", strategy="ddp", devices=WORLD, logger=False, enable_progress_bar=False,
                        enable_model_summary=False, enable_checkpointing=False)
    model = Model()
    trainer.fit(model)
    assert type(trainer.train_dataloader) is make, type(trainer.train_dataloader)
    return found

def in_trainer(make):
    from transformers import Trainer, TrainingArguments
    found = []
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(2, 1)
        def forward(self, drawn=None, **batch):
            found.extend(seen([{**batch, "drawn": drawn}]))
            return {"loss": self.net(drawn).mean()}
    class Own(Trainer):
        def get_train_dataloader(self):
            return self.accelerator.prepare(make(Numbers(), shuffle=True, **options()))
    args = TrainingArguments("kept", num_train_epochs=2, save_strategy="no", remove_unused_columns=False, use_cpu=True, report_to=[],
                             disable_tqdm=True)
    Own(Model(), args).train()
    return found

def in_ignite(make):
    from ignite.engine import DeterministicEngine, Engine
    found = []
    for engine in (Engine, DeterministicEngine):
        data = Numbers()
        loader = make(data, sampler=theirs.DistributedSampler(data, WORLD, RANK), **options())
        torch.manual_seed(5)
        engine(lambda e, batch: found.extend(seen([batch]))).run(loader, max_epochs=2)
    return found

dist.init_process_group("gloo")
NEEDS = {"accelerate": accelerated, "lightning": in_lightning, "transformers": in_trainer, "ignite": in_ignite, "torch": plain}
result = {}
for name, run in NEEDS.items():
    if importlib.util.find_spec(name) is None:
        continue
    both = []
    for make in (stoker.DataLoader, theirs.DataLoader):
        torch.manual_seed(7), random.seed(7), np.random.seed(7)
        both.append(run(make))
    result[name] = both
with open(f"seen-{WORLD}-{RANK}", "w") as f:
    json.dump(result, f)
"""


@pytest.mark.parametrize("world", [2, 3])
def test_data_loader_is_sharded_as_torchs(lives, world):
    """Both ranks had the same batches: frameworks left what is not torch's alone."""
    need("accelerate")
    lives.run(SHARDED, [(world, None)])
    ranks = [json.loads((lives.folder / f"seen-{world}-{r}").read_text()) for r in range(world)]
    assert set(ranks[0]) >= {"accelerate", "torch"}
    for name in ranks[0]:
        for rank in ranks:
            ours, torchs = rank[name]
            assert ours, name
            assert all(flag for batch in ours for flag in batch.pop("ours")), f"{name}: not of Stoker's workers"
            assert not any(flag for batch in torchs for flag in batch.pop("ours"))
            assert ours == torchs, name
    shares = [{i for batch in rank["torch"][0] for i in batch["i"]} for rank in ranks]
    assert set.union(*shares) == set(range(22)) and shares[0] != shares[1]


def test_accelerate_shards_nothing_twice(lives, undisturbed):
    need("accelerate")
    lives.run(PREPARED, [(2, None)])
    assert lives.steps(0) == undisturbed[:STEPS]
