# SPDX-License-Identifier: Apache-2.0
"""Functions for pack(): in a module that spawned processes can import by itself."""

import itertools
import os
import signal
import time


def shout(sample):
    """Drops threes, doubles fours."""
    n = int(sample["__key__"])
    if n % 10 == 3:
        return None
    made = {"__key__": sample["__key__"], "cls": int(sample["cls"]), "txt": sample["txt"].upper()}
    return [made, {**made, "__key__": sample["__key__"] + "b"}] if n % 10 == 4 else made


def stumble(sample):
    if sample["__key__"].endswith("42"):
        raise KeyError("no such thing")
    return sample


def seven(sample):
    return 7


def keep(sample):
    return sample


def slowly(sample):
    time.sleep(0.02)
    return sample


def nothing(sample):
    return False


def odd(sample):
    return int(sample["__key__"]) % 2


def twice(sample):
    yield {"__key__": sample["__key__"] + "a", "txt": sample["txt"]}
    yield {"__key__": sample["__key__"] + "b", "txt": sample["txt"]}


def stuck(sample):
    if sample["__key__"].endswith("53"):
        time.sleep(600)
    if sample["__key__"].endswith("4"):
        raise RuntimeError("four")
    return 5 if sample["__key__"].endswith("5") else sample


def letters(text):
    """A tokenizer: the number of each letter."""
    return [ord(c) for c in text]


def letters_dict(text):
    return {"input_ids": letters(text), "attention_mask": [1] * len(text)}


def far_letters(text):
    return [70_000 + ord(c) for c in text]


def some_fail(text):
    if text.endswith("3"):
        raise RuntimeError("three")
    return letters(text) if not text.endswith("4") else "words"


def shorten(sample):
    return {"__key__": sample["__key__"], "txt": sample["txt"].decode()[:3]}


SUFFIX = "!"


def helper(text):
    return text + SUFFIX


def helped(sample):
    return {**sample, "txt": helper(sample["txt"].decode())}


def some_set(sample):
    """Its constants have a set of words, whose order differs from process to process."""
    return sample if sample["__key__"][-1:] in {"a", "b", "c", "0", "1"} else None


def adder(text, far=0):
    def add(sample, near="", *, last=""):
        return {**sample, "txt": sample["txt"].decode() + text}
    add.__defaults__, add.__kwdefaults__ = (far,), {"last": far}
    return add


class Words(set):
    """A set of one's own: its order differs from process to process too."""


class Adder:
    def __init__(self, text):
        self.text = text

    def __call__(self, sample):
        return {**sample, "txt": sample["txt"].decode() + self.text}

    def method(self, sample):
        return self(sample)


def second_is_bad(sample):
    bad = sample["__key__"].endswith("7")
    return [{"__key__": sample["__key__"] + "a", "txt": b"1"}, {"__key__": sample["__key__"] + "b", "a/b" if bad else "txt": b"2"}]


def swallows(sample):
    try:
        if sample["__key__"].endswith("53"):
            time.sleep(600)
    except Exception:
        return None
    return sample


def crashes(sample):
    if sample["__key__"].endswith("42"):
        os._exit(9)
    return sample


class KilledOnce:
    """The process is killed, at the first try only."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, sample):
        mark = os.path.join(self.folder, sample["__key__"])
        if sample["__key__"].endswith("5") and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sample


def hangs_in_c(sample):
    if sample["__key__"].endswith("42"):
        sum(itertools.repeat(0))        # looks at no signal
    return sample
