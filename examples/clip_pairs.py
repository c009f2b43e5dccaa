# SPDX-License-Identifier: Apache-2.0
"""Pictures and captions, tokenized ahead of the loop: python clip_pairs.py FOLDER_OR_SHARDS

A folder has 1.jpg beside 1.txt; shards have members jpg and txt.
"""
import sys

import stoker
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

data = sys.argv[1]
captions = [sample["txt"].decode() for sample in stoker.open(data)]
tokenizer = Tokenizer(models.WordLevel(unk_token="?"))         # or Tokenizer.from_pretrained("gpt2")
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train_from_iterator(captions, trainers.WordLevelTrainer(special_tokens=["?", "_"]))
tokenizer.enable_padding(pad_id=1, pad_token="_")


def tokenize(batch):
    found = tokenizer.encode_batch(batch["text"])
    return {**batch, "ids": torch.tensor([e.ids for e in found]), "mask": torch.tensor([e.attention_mask for e in found])}


loader = stoker.Loader(data, batch_size=16, shuffle=True, batch_ops=[tokenize], fields={
    "image": "image | random_resized_crop(64) | normalize(imagenet) | to(f32)", "text": "from(txt) | text"})
for images, ids, mask in loader.as_tuples("image", "ids", "mask"):
    assert len(images) == len(ids) == len(mask) and ids.shape == mask.shape
print(f"{len(loader)} batches, {tokenizer.get_vocab_size()} words; the last: {tuple(images.shape)}, {tuple(ids.shape)}")
