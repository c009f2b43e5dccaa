# SPDX-License-Identifier: Apache-2.0
"""Iterable data sets that tests derive from; workers import this file and nothing else of the tests."""


class Counted:
    """Samples 0 to n - 1, by sample(i); has a state."""

    n = 40
    at = 0

    def __iter__(self):
        while self.at < self.n:
            self.at += 1
            yield self.sample(self.at - 1)
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]
