# SPDX-License-Identifier: Apache-2.0
"""A small NaFlex ViT of timm on pictures at their own size and ratio: python naflex_train.py photos"""
import sys

import stoker
import torch
from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg

data = stoker.open(sys.argv[1])
loader = stoker.Loader(data, shuffle=True, max_tokens=256, schedule=(12, 20), collate="pad", fields={
    "patches": "from(image) | image | random_resized_crop_to_patches(8, max_patches=20) | hflip | normalize(half) | patches(8) | to(f32)",
    "label": "from(cls) | int"})                # each step draws the most patches of a picture; a batch has 256 divided by that
model = NaFlexVit(NaFlexVitCfg(patch_size=8, embed_dim=32, depth=2, num_heads=2, pos_embed_grid_size=(4, 4)), num_classes=len(data.classes))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(4):
    total, lengths = 0.0, set()
    for batch in loader:
        logits = model(batch["patches"], patch_coord=batch.coords("patches"), patch_valid=batch.mask("patches"))
        loss = torch.nn.functional.cross_entropy(logits, batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(logits)
        lengths.add(batch["patches"].shape[1])
    print(f"epoch {epoch}: loss {total / len(data):.3f}, patches {sorted(lengths)}")
