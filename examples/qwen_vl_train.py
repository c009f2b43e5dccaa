# SPDX-License-Identifier: Apache-2.0
"""A tiny Qwen2-VL, made from its config, on chats with any number of pictures: python qwen_vl_train.py chats.tar

A sample has fields 0.jpg, 1.jpg, ... and ids.json, its tokens, in which 9 stands for each picture."""
import sys

import stoker
import torch
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

IMAGE, START, END, VIDEO = 9, 10, 11, 12
config = Qwen2VLConfig(
    vision_config={"depth": 1, "embed_dim": 32, "num_heads": 2, "hidden_size": 32, "mlp_ratio": 2},
    text_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64, "vocab_size": 64, "bos_token_id": None, "eos_token_id": None,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}},
    image_token_id=IMAGE, vision_start_token_id=START, vision_end_token_id=END, video_token_id=VIDEO)
torch.manual_seed(0)
model = Qwen2VLForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens = f"from(ids.json) | ints | image_tokens(pixel_values, token={IMAGE}"
loader = stoker.Loader(sys.argv[1], shuffle=True, max_tokens=384, fields={
    "pixel_values": "from(jpg) | pictures | resize_to_patches(qwen2_vl, max_pixels=6272) | normalize(clip) | patches(qwen2_vl) | to(f32)",
    "input_ids": f"{tokens})", "labels": f"{tokens}, give=labels)", "position_ids": f"{tokens}, give=positions)"},
    collate={"pixel_values": "pack", "input_ids": "pad", "labels": ("pad", -100), "position_ids": "pad"})
for epoch in range(3):
    total = steps = 0
    for batch in loader:
        pictures = {"pixel_values": batch["pixel_values"], "image_grid_thw": batch.grid["pixel_values"]} if len(batch["pixel_values"]) else {}
        out = model(input_ids=batch["input_ids"], attention_mask=batch.mask("input_ids").long(), labels=batch["labels"],
                    position_ids=batch["position_ids"].permute(2, 0, 1), **pictures)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        total, steps = total + out.loss.item(), steps + 1
    print(f"epoch {epoch}: loss {total / steps:.3f}, {steps} steps")
