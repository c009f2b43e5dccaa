# SPDX-License-Identifier: Apache-2.0
"""Items of LeRobotDataset as one .npz, by a Python that has the package lerobot: FOLDER DELTAS(JSON) OUT NUMBER..."""
import json
import sys

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

root, deltas, out, *numbers = sys.argv[1:]
ds = LeRobotDataset("made/set", root=root, delta_timestamps=json.loads(deltas))
made = {}
for i in map(int, numbers):
    for key, value in ds[i].items():
        made.setdefault(key, []).append(np.asarray(value))
np.savez(out, **{k: np.stack(v) for k, v in made.items()})
