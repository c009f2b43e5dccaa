# SPDX-License-Identifier: Apache-2.0
"""From text to a small GPT: tokenize in parallel while packing, join the tokens to a file, train from it.

python tokenize_and_train.py WORK [FILE.txt ...]       # without files: some text is made

Needs torch and the package `tokenizers`; takes less than a minute on two cores.  What is left in WORK is a nanoGPT data
directory: train.bin, val.bin and the tokenizer.
"""
import functools
import os
import pathlib
import random
import sys

import numpy as np
import stoker

os.environ["TOKENIZERS_PARALLELISM"] = "false"      # the processes of stoker.pack() are the parallelism
VOCAB, BLOCK, BATCH, STEPS = 512, 64, 16, 150
END = "<|end|>"


def some_documents(n: int = 1200) -> list[str]:
    """Little stories: enough of a language that a model can learn it in a minute."""
    rng = random.Random(0)
    who = ["the fox", "the old miller", "a stoker", "the red hen", "my uncle", "the engine driver", "a small boy"]
    did = ["saw", "followed", "painted", "lost", "found", "carried", "remembered", "laughed at"]
    what = ["a river", "the last train", "three lanterns", "a heap of coal", "the wooden bridge", "an old song", "the moon"]
    when = ["in the morning", "before the rain came", "while the others slept", "on the way home", "every evening"]
    line = "{} {} {} {}.".format
    return [" ".join(line(*map(rng.choice, (who, did, what, when))) for _ in range(rng.randint(3, 12))) for _ in range(n)]


def train_tokenizer(documents: list[str], path: pathlib.Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(path))


@functools.cache                                    # once in every process
def load_tokenizer(path: str):
    from tokenizers import Tokenizer
    return Tokenizer.from_file(path)


def tokenize(path: str, sample: dict) -> dict:
    """What stoker.pack() runs in its processes: a document in, its tokens out."""
    tokenizer = load_tokenizer(path)
    ids = tokenizer.encode(sample["txt"].decode()).ids + [tokenizer.token_to_id(END)]
    return {"__key__": sample["__key__"], "ids.npy": np.array(ids, dtype=np.uint16)}


def make_token_files(documents: list[str], work: pathlib.Path) -> None:
    tokenizer = work / "tokenizer.json"
    train_tokenizer(documents, tokenizer)
    with stoker.Writer(work / "text-%04d.tar", max_count=200, force=True) as out:
        for i, text in enumerate(documents):
            out.write({"__key__": f"{i:08d}", "txt": text})
    made = stoker.pack(str(work / "text-*.tar"), work / "ids-%04d.tar", map=functools.partial(tokenize, str(tokenizer)),
                       num_proc=2, samples=200, force=True)
    kept = made["samples"] // 10                    # every tenth document is for validation
    for name, part in (("val", {"limit": kept}), ("train", {"skip": kept})):
        with (open(work / f"{name}.bin", "wb") as f,
              stoker.Loader(made["pattern"], {"ids": "from(ids.npy) | npy"}, batch_size=64, collate="list", **part) as docs):
            for batch in docs:
                for ids in batch["ids"]:
                    f.write(ids.numpy().tobytes())
    print(f"{made['samples']} documents in {made['shards']} shards, {(work / 'train.bin').stat().st_size // 2:,} tokens to train on")


def gpt(width: int = 64, heads: int = 4, layers: int = 2):
    import torch
    from torch import nn

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(VOCAB, width), nn.Embedding(BLOCK, width)
            self.body = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True), layers,
                enable_nested_tensor=False)
            self.head = nn.Linear(width, VOCAB)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.token(x) + self.place.weight[:x.shape[1]]
            return self.head(self.body(h, nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True))

    torch.manual_seed(0)
    return GPT()


def train(work: pathlib.Path, steps: int = STEPS) -> tuple[float, float]:
    """(the first loss, the loss on val.bin after the last step)"""
    import torch
    from torch.nn.functional import cross_entropy
    fields = {"x": f"tokens(block={BLOCK})", "y": f"tokens(block={BLOCK}, shift=1)"}
    model, first, step = gpt(), float("nan"), 0
    adam = torch.optim.AdamW(model.parameters(), 3e-3)
    with stoker.Loader(work / "train.bin", fields, batch_size=BATCH, shuffle=True, seed=1, drop_last=True) as loader:
        while step < steps:
            for batch in loader:
                loss = cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())
                adam.zero_grad()
                loss.backward()
                adam.step()
                first = loss.item() if step == 0 else first
                step += 1
                if step % 50 == 0:
                    print(f"step {step}: loss {loss.item():.3f}")
                if step == steps:
                    break
    with stoker.Loader(work / "val.bin", fields, batch_size=BATCH) as held, torch.no_grad():
        losses = [cross_entropy(model(b["x"]).flatten(0, 1), b["y"].flatten()).item() for b in held]
    return first, sum(losses) / len(losses)


def main() -> None:
    work = pathlib.Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    texts = [text for name in sys.argv[2:] for text in pathlib.Path(name).read_text().split("\n\n") if text.strip()]
    make_token_files(texts or some_documents(), work)
    first, last = train(work)
    print(f"loss {first:.2f} at first, {last:.2f} on held-out documents at the end")
    assert texts or last < 1.0, "the made text is learned to a loss below 1"


if __name__ == "__main__":
    main()
