# SPDX-License-Identifier: Apache-2.0
"""Transform: a chain's ops on pictures in memory, the host's or a GPU's, and on recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _stoker, _transform_sound
from ._arrays import torch_or_none
from ._options import or_chosen, whole
from .chains import Chain
from .errors import Whole, invalid, not_a_chain, shown, unsupported

_TORCH = {"u8": "uint8", "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_NUMPY = {**_TORCH, "bf16": "uint16"}           # NumPy has none: the same bits
_LAYOUTS = (None, "chw", "hwc")


class Transform(Whole, has=("epoch", "position")):
    """Crops, flips and normalizes pictures as a loader does, draws and all; makes features of sound as it does.

        augment = stoker.Transform("random_resized_crop(224) | hflip | normalize(imagenet) | to(f16)", seed=1)
        images = augment(batch)                 # uint8, (n, 3, h, w) or (n, h, w, 3)

        features = stoker.Transform("sound(rate=16000) | speed(0.9, 1.1) | fbank(80)", seed=1)
        rows = features([left, right], rate=[44100, 16000])     # float32, (samples) or (channels, samples) each

    chain: ops, as text or built; a loader's whole chain does too, of which from(), image and sound stand for the
        pictures or recordings given
    seed, output: address the draws, with the epoch and each picture's position: for equal ones, the
        pixels are those of a loader whose output number `output` has this chain.  Give its whole chain: draws
        depend on a step's place, and from() is one; ops alone are numbered as after `image`, or as after
        `sound(rate=)` where a rate is given
    layout: "chw" or "hwc", of pictures that could be either; None: what has 1 or 3 channels, and where
        both do, chw for tensors and hwc for NumPy arrays
    num_workers: threads; None: chosen; 1: the caller's alone
    rate: samples per second of the recordings given, where the call does not say; with it, a chain of ops alone
        is of sound

    Positions count up from 0 with every picture or recording; set_epoch() begins at 0 again.
    """

    def __init__(self, chain: str | Chain, seed: int = 0, *, output: int = 0, layout: str | None = None,
                 num_workers: int | None = None, rate: int | None = None) -> None:
        if not isinstance(chain, (str, Chain)):
            invalid(f"a chain is text or built from objects, not {not_a_chain(chain)}")
        if layout not in _LAYOUTS:
            invalid(f'layout must be "chw", "hwc" or None, not {shown(layout)}')
        self._made_of = str(chain), whole("seed", seed, 0, 2**64 - 1), whole("output", output, 0, 255), \
            or_chosen("num_workers", num_workers), _transform_sound.rate_of(rate)
        self._core = _stoker.Transform(*self._made_of[:4], self._made_of[4] or 0)
        self._sound = self._core.sound_info()
        self._layout = layout
        self._dtype, self._order, self._views, *self._size = self._core.info()
        self.epoch = self.position = 0

    def __call__(self, pictures: Any, *, epoch: int | None = None, positions: Any = None, rate: Any = None) -> Any:
        """The pictures or recordings, transformed.

        pictures: a uint8 tensor or array (n, 3, h, w) or (n, h, w, 3), or a list of pictures of any sizes;
            gray ones have 1 channel, or none as an array (h, w); torch tensors on a GPU are transformed
            there, on its current stream.  Of sound: one recording, a float32 tensor or array (samples) or
            (channels, samples); a list of recordings of any lengths; or several of one length, (n, channels,
            samples)
        epoch, positions: address the draws, one position a picture or recording; None: as they count up
        rate: samples per second of the recordings, or a list with that of each; None: as the Transform was told

        Of one recording its row comes out; of several a list, or one tensor where the chain fixes the rows' shape,
        as pad_to(2.0) does.  Of pictures it answers a tensor (a NumPy array where torch is not installed), or a list of them where a list was
        given and the chain fixes no size.  With views(v) in the chain it is (n, v, ...).
        """
        epoch = self.epoch if epoch is None else whole("epoch", epoch, 0, 2**32 - 1)
        if self._sound is not None:
            return self._hear(pictures, epoch, positions, rate, self._sound)
        if rate is not None:
            invalid("a rate is of sound, and this transform is of pictures")
        one = not isinstance(pictures, (list, tuple))
        device = _gpu_of(pictures, one)
        rows = self._batch(pictures) if one else [self._picture(p, i) for i, p in enumerate(pictures)]
        numbers = self._numbers(len(rows), positions)
        if device is not None:
            rows = _table(rows)
        made = self._run_views(epoch, rows, numbers, device) if self._views else self._run(epoch, rows, numbers, one, device)
        if positions is None:
            self.position += len(numbers)
        return made

    def _hear(self, given: Any, epoch: int, positions: Any, rate: Any, shape: tuple[int, ...]) -> Any:
        rows, one = _transform_sound.recordings(given)
        numbers = self._numbers(len(rows), positions)
        made = self._core.run_sound(epoch, rows, _transform_sound.rates(rate, len(rows), self._made_of[4]), numbers)
        if positions is None:
            self.position += len(rows)
        return _transform_sound.made_of(made, len(rows), one, shape, self._dtype)

    # ---- what was given --------------------------------------------------------------------------

    def _batch(self, pictures: Any) -> Any:
        array = _as_array(pictures, "the batch")
        if array.ndim != 4:
            invalid(f"a batch has four dimensions, (n, 3, h, w) or (n, h, w, 3), not {tuple(array.shape)}; "
                    "give a list of pictures of different sizes")
        made = self._as_hwc(array, pictures, "the batch")
        return made if hasattr(made, "data_ptr") else list(made)

    def _picture(self, picture: Any, number: int) -> Any:
        what = f"picture {number}"
        array = _as_array(picture, what)
        if array.ndim == 2:
            return array[:, :, None]
        if array.ndim != 3:
            invalid(f"{what} has the shape {tuple(array.shape)}: it must be (h, w, 3), (3, h, w) or (h, w)")
        return self._as_hwc(array, picture, what)

    def _as_hwc(self, array: Any, given: Any, what: str) -> Any:
        """Channels last, without a copy."""
        first, last = array.shape[-3] in (1, 3), array.shape[-1] in (1, 3)
        if self._layout is not None:
            first, last = first and self._layout == "chw", last and self._layout == "hwc"
        if first and last:
            first = hasattr(given, "is_cuda")
        if not first and not last:
            wanted = {None: "(..., 3, h, w) or (..., h, w, 3)", "chw": "(..., 3, h, w)",
                      "hwc": "(..., h, w, 3)"}[self._layout]
            invalid(f"{what} has the shape {tuple(array.shape)}: pictures have 3 channels (RGB) or 1 (gray), "
                    f"as {wanted}")
        if not first:
            return array
        order = (*range(array.ndim - 3), array.ndim - 2, array.ndim - 1, array.ndim - 3)
        return array.permute(*order) if hasattr(array, "permute") else array.transpose(*order)

    def _numbers(self, n: int, positions: Any) -> Any:
        import numpy
        if positions is None:
            return numpy.arange(self.position, self.position + n, dtype=numpy.uint64)
        found = numpy.asarray(positions)
        if found.shape != (n,) or found.dtype.kind not in "iu" or (n and found.min() < 0):
            invalid(f"positions must be {n} whole numbers from 0 on, one for each")
        return numpy.ascontiguousarray(found, numpy.uint64)

    # ---- what comes out --------------------------------------------------------------------------

    def _run_views(self, epoch: int, rows: Any, numbers: Any, device: Any) -> Any:
        """Each picture goes in once for each of its views, which have one size."""
        import numpy
        n, views = len(rows), self._views
        every = [row for row in rows for _ in range(views)] if device is None else numpy.repeat(rows, views, axis=0)
        made = self._run(epoch, every, numpy.repeat(numbers, views), False, device)
        return made.reshape(n, views, *made.shape[1:])

    def _run(self, epoch: int, rows: Any, numbers: Any, one: bool, device: Any) -> Any:
        import numpy
        fixed = all(self._size)
        sizes = [tuple(self._size)] * len(rows) if fixed else self._core.sizes(epoch, rows, numbers)
        item = {"u8": 1, "f32": 4}.get(self._dtype, 2)
        ends = numpy.zeros(len(rows) + 1, numpy.uint64)
        ends[1:] = numpy.cumsum([h * w * 3 * item for h, w in sizes], dtype=numpy.uint64)
        torch = torch_or_none()
        flat: Any = numpy.empty(int(ends[-1]), numpy.uint8) if torch is None \
            else torch.empty(int(ends[-1]), dtype=torch.uint8, device=device)
        if device is None:
            self._core.run(epoch, rows, numbers, flat if torch is None else flat.numpy(), ends)
        else:                                   # memory is torch's: in order on the current stream, as all of it
            self._core.run_gpu(epoch, rows, numbers, (flat.data_ptr(), flat.numel()), ends,
                               (device.index, torch.cuda.current_stream(device).cuda_stream))
        if fixed or (one and len(set(sizes)) <= 1):
            return self._shaped(flat, len(rows), *(sizes[0] if sizes else self._size))
        return [self._shaped(flat[int(a):int(b)], 1, *size)[0]
                for a, b, size in zip(ends, ends[1:], sizes, strict=False)]

    def _shaped(self, flat: Any, n: int, height: int, width: int) -> Any:
        torch = torch_or_none()
        if torch is None:
            values = flat.view(_NUMPY[self._dtype])
        else:
            values = flat.view(getattr(torch, _TORCH[self._dtype]))
        if self._order == "chw":
            return values.reshape(n, 3, height, width)
        values = values.reshape(n, height, width, 3)
        if self._order == "hwc":
            return values
        return values.transpose(0, 3, 1, 2) if torch is None else values.permute(0, 3, 1, 2)

    # ---- where it stands -------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Draw as in epoch `epoch` from here on, from position 0."""
        self.epoch = whole("epoch", epoch, 0, 2**32 - 1)
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.epoch = whole("epoch", state["epoch"], 0, 2**32 - 1)
        self.position = whole("position", state["position"], 0, 2**63 - 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._made_of, self._layout, self.state_dict())

    def __repr__(self) -> str:
        return f"Transform({self._made_of[0]!r}, seed={self._made_of[1]})"


def _again(made_of: Sequence[Any], layout: str | None, state: Mapping[str, int]) -> Transform:
    chain, seed, output, workers, *rate = made_of        # what an older version pickled has no rate
    made = Transform(chain, seed, output=output, layout=layout, num_workers=workers or None, rate=rate[0] if rate else None)
    made.load_state_dict(state)
    return made


def _gpu_of(pictures: Any, one: bool) -> Any:
    """The torch device that the pictures are on; None: the host's memory."""
    devices = [p.device if getattr(p, "is_cuda", False) else None for p in ([pictures] if one else pictures)]
    for i, device in enumerate(devices):
        if device != devices[0]:
            invalid(f"picture {i} is on {device or 'the CPU'} and picture 0 on {devices[0] or 'the CPU'}: give "
                    "pictures of one device")
    return devices[0] if devices else None


def _table(rows: Any) -> Any:
    """Address, height, width, channels and strides of pictures on a GPU: of a batch, or of a list."""
    import numpy
    table = numpy.empty((len(rows), 7), numpy.int64)
    if isinstance(rows, list):
        for i, row in enumerate(rows):
            table[i] = (row.data_ptr(), *row.shape, *row.stride())
    else:
        table[:, 0] = rows.data_ptr() + rows.stride(0) * numpy.arange(len(rows))
        table[:, 1:] = (*rows.shape[1:], *rows.stride()[1:])
    return table


def _as_array(value: Any, what: str) -> Any:
    """A NumPy array over the memory of a tensor, an array or a Pillow image; a tensor on a GPU as it is."""
    import numpy
    if hasattr(value, "detach"):
        value = value.detach()
        near = str(value.dtype) == "torch.uint8" and not value.is_cuda
        found = value.numpy() if near else value
    elif hasattr(value, "__cuda_array_interface__"):
        unsupported(f"{what} is {type(value).__name__} on a GPU: give torch.from_dlpack() of it")
    elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        found = numpy.asarray(value)
    else:
        invalid(f"{what} is {type(value).__name__}: give a uint8 tensor or array, or a list of them")
    if str(found.dtype).removeprefix("torch.") != "uint8":
        invalid(f"{what} is {str(found.dtype).removeprefix('torch.')}: a transform takes pixels as they were "
                "decoded, uint8; to() and normalize() make others of them")
    return found
