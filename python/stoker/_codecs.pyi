# SPDX-License-Identifier: Apache-2.0
# Written by _stub.py; a test compares.  stoker.image() and its like, which stoker/__init__.py makes when they are asked for.
from .chains import Chain

_empty: Chain
image = _empty.image
pictures = _empty.pictures
video = _empty.video
int = _empty.int
float = _empty.float
ints = _empty.ints
floats = _empty.floats
text = _empty.text
bytes = _empty.bytes
json = _empty.json
npy = _empty.npy
raw = _empty.raw
vocab = _empty.vocab
gunzip = _empty.gunzip
unzstd = _empty.unzstd
unlz4 = _empty.unlz4
tokens = _empty.tokens
masks = _empty.masks
class_map = _empty.class_map
sound = _empty.sound
