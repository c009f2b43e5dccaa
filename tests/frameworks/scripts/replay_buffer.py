# SPDX-License-Identifier: Apache-2.0
"""Q-learning with a replay buffer as an IterableDataset that grows while it is read, as Lightning's DQN example has it."""
import random
from collections import deque, namedtuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import IterableDataset

Experience = namedtuple("Experience", "state action reward done new_state")


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def sample(self, batch_size):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        return [self.buffer[i] for i in indices]


class RLDataset(IterableDataset):
    def __init__(self, buffer, sample_size):
        self.buffer, self.sample_size = buffer, sample_size

    def __iter__(self):
        yield from self.buffer.sample(self.sample_size)


torch.manual_seed(2)
np.random.seed(2)
random.seed(2)
buffer, state = ReplayBuffer(40), np.zeros(3, np.float32)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target_net.load_state_dict(net.state_dict())
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
loader = DataLoader(RLDataset(buffer, 16), batch_size=8)
for episode in range(3):
    for _ in range(20):
        action = random.randrange(2) if random.random() < 0.3 else int(net(torch.from_numpy(state)).argmax())
        new_state = (0.9 * state + np.random.randn(3) * 0.1 + (action - 0.5)).astype(np.float32)
        buffer.buffer.append(Experience(state, action, float(new_state[0]), bool(abs(new_state[0]) > 2), new_state))
        state = new_state
    for batch in loader:
        values = net(batch.state).gather(1, batch.action[:, None]).squeeze(1)
        with torch.no_grad():
            following = target_net(batch.new_state).max(1)[0]
            following[batch.done] = 0.0
        loss = nn.functional.mse_loss(values.double(), batch.reward + 0.99 * following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(episode, loss.item().hex())
