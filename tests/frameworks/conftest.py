# SPDX-License-Identifier: Apache-2.0
"""One process that has imported the frameworks, for the scripts of all tests here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import stoker  # noqa: E402

HERE = Path(__file__).resolve().parent
MODULES = ["torch._dynamo", "torch.distributed.checkpoint", "stoker", "torchdata.nodes",
           "torchdata.stateful_dataloader", "lightning.fabric", "lightning.pytorch", "accelerate",
           "transformers.trainer", "ignite.engine"]


@pytest.fixture(scope="package")
def forker():
    """lives.py, waiting for plans."""
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMI_"))}
    env |= {"PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen([sys.executable, HERE / "lives.py", *MODULES], env=env, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()                          # closing its input is not enough: workers that tests left behind may have the pipe


class Lives:
    """Scripts in lives.py; `steps` are the global batches that a life trained on."""

    def __init__(self, forker, folder):
        self.forker, self.folder, self.lives = forker, folder, []

    def run(self, script, lives):
        """lives: [(ranks, the step before which they are killed, or None)]."""
        self.lives = lives
        plan = {"folder": str(self.folder), "script": script, "lives": lives}
        self.forker.stdin.write(json.dumps(plan) + "\n")
        self.forker.stdin.flush()
        wrong = self.forker.stdout.readline()
        logs = "\n".join(f"{p.name}:\n{p.read_text()[-4000:]}" for p in self.folder.glob("log-*"))
        assert wrong == "\n", f"{wrong}\n{logs}"

    def steps(self, life):
        ranks = [[json.loads(line) for line in (self.folder / f"steps-{life}-{r}").read_text().splitlines()]
                 for r in range(self.lives[life][0])]
        return [sum(shares, []) for shares in zip(*ranks, strict=True)]


@pytest.fixture
def new_lives(forker, tmp_path):
    return Lives(forker, tmp_path)
