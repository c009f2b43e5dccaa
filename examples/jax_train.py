# SPDX-License-Identifier: Apache-2.0
"""Batches for JAX, without a copy where its device is the CPU: python jax_train.py PHOTOS"""
import sys

import jax
import jax.numpy as jnp
import stoker

loader = stoker.Loader(sys.argv[1], batch_size=16, shuffle=True, seed=1, fields={
    "image": "image | random_resized_crop(32) | hflip | to(f32, hwc)", "label": "from(cls) | int | to(i32)"})


@jax.jit
def step(weights, images, labels):
    def loss(w):
        scores = images.reshape(len(images), -1) @ w
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    value, slope = jax.value_and_grad(loss)(weights)
    return weights - 0.01 * slope, value


weights = jnp.zeros((32 * 32 * 3, 2))
for images, labels in loader.as_tuples("image", "label"):
    weights, value = step(weights, jnp.from_dlpack(images), jnp.from_dlpack(labels))    # another batch size compiles again
print(f"{len(loader)} steps, loss {float(value):.3f}")
