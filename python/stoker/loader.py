# SPDX-License-Identifier: Apache-2.0
"""The loader: epochs of batches."""

from __future__ import annotations

import inspect
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import (_arrow, _batch_ops, _calls, _diagnosis, _expectation, _explain, _lerobot, _mix, _monitor, _options, _pairs, _rank_check,
               _ranks, _renamed, _sampling, _state, _stoker, _windows, preview)
from ._arrays import note_stream, torch_or_none
from ._loader_base import Epoch, LoaderBase, open_loaders
from ._mix import Mix
from ._seconds import Seconds
from ._tuples import Tuples, as_tuple
from .batch import Batch, from_parts
from .dataset import Arrays, Dataset, Urls
from .errors import ClosedError, StokerError, by_handler, invalid, printable, shown
from .store import Store

Collate = str | tuple[str, float] | tuple[str, float, int] | Mapping[str, Any] | None


class _FileEpoch(Epoch):
    @_monitor.profiled
    def _make(self) -> tuple[Batch | tuple[Any, ...], Any, tuple[int, int]]:
        try:
            made = self._made()
        except Exception as e:
            self.failed = not isinstance(e, StopIteration) and not by_handler(e)
            raise
        self.failed = False
        return made

    def _made(self) -> tuple[Batch | tuple[Any, ...], Any, tuple[int, int]]:
        self._check_newest()
        loader, core = self._loader, self._loader._core
        if loader._pins is not None:
            loader._pins(core)
        try:
            found = core.peek(self._epoch)
            if found is not None and found[2] == loader._touched:
                core.again()                    # a function began to change it, and it was not handed out
                found = core.peek(self._epoch)
        except StokerError as e:
            error, cause = loader._explained(e)
            raise error from cause
        if found is None:
            self._end()
            raise StopIteration
        parts, token, serial = found
        if loader._expected is not None:
            loader._expected.note(token, parts[1])
        batch = loader._made(parts, token, serial)
        return batch if self._names is None else as_tuple(batch, self._names), core.give, token


class Loader(LoaderBase):
    """Batches from shards, one epoch a loop.

        loader = stoker.Loader("train-{000..099}.tar", batch_size=256, shuffle=True, fields={
            "image": "from(jpg, png) | image | random_resized_crop(224) | hflip | to(f32)",
            "label": "from(cls) | int"})
        for batch in loader:
            train(batch["image"], batch["label"])

    data: path, folder, glob, brace pattern, a list of them, a stoker.open() data set, a list of those,
        stoker.mix({...}) or stoker.stream(...); token files and arrays (.bin, .npy, .npz), or a dict: field
        -> NumPy or torch array, or its files
    fields: output name -> chain, as text or built (stoker.image().resize(256))
    store: a stoker.Store: how remote data (s3, gs, az, http, hf) is reached; None: as the environment says
        (docs/stores.md)
    batch_size: samples per batch and rank; global_batch_size instead: of all ranks together
    global_batch_size: in place of batch_size: samples of all ranks together, divided evenly
    drop_last: leave out a last batch that is not full
    collate: for rows of different shapes; "list": one tensor per row; "pad" or ("pad", value): filled up to
        the largest of the batch, or with ("pad", value, multiple) to a multiple; real sizes are in
        batch.lengths, batch.mask(name) tells values from padding; "pack": rows joined along their first
        dimension, batch.offsets[name] says where each begins; a dict: by output
    max_tokens: as many rows as fit: rows x the longest of them in a rank's batch, padding included;
        batch_size then bounds the rows.  For outputs whose rows differ in length (docs/tokens.md)
    max_seconds: as many recordings as fit: rows x the seconds of the longest, by durations that the index
        has, nothing is decoded.  With max_tokens batches keep within both: rows of similar seconds, then of
        similar tokens, come together.  lengths= are then seconds.  stoker.Seconds(600, quadratic=30): a row
        of s seconds counts s + s * s / 30 (docs/sound.md)
    bucket: True, or a number of samples: in windows of so many samples rows of similar length come together
        in a batch, and batches are mixed; with max_tokens they always do.  Pictures of several sizes
        (resize_to_bucket): each batch has one size, over the whole epoch, the same on all ranks
    schedule: most patches of a picture, one drawn for each step, the same on all ranks: (128, 256, 576, 784,
        1024), or pairs (side of a patch, patches).  It takes the place of max_patches= in chains; a batch has
        max_tokens divided by it, and is padded to it (docs/native.md)
    bucket_rest: with bucket of pictures or schedule, samples that are less than a batch of all ranks:
        "smaller": a smaller batch; "drop": left out of this epoch; "wrap": filled up with samples that came
        before; None: "drop" with drop_last, else "smaller"
    over_budget: with max_tokens or max_seconds, a sample that is longer than that: "bad": an error with its
        key and the numbers when the loader is opened, and with on_error="skip" a bad sample; "drop": in no
        batch, and counted in the log; "truncate": its pictures keep the whole rows of patches that fit, from
        the top (docs/native.md); None: "bad"
    batch_ops: ops on whole batches, in order, made ahead of the loop: texts ("mixup_cutmix(image, label,
        mixup=0.8, cutmix=1.0, switch=0.5)", mixup, cutmix, label_smoothing), then functions of your own,
        which take a batch and return it or another dict (docs/batches.md)
    lengths: length of each sample of the data, or the name of a field that has it; None: measured once and
        kept beside the index
    seed: order and augmentation depend on (seed, epoch, position) only
    shuffle: True or "exact": a new permutation of all samples every epoch; "block": for shards that are far
        away: read one after the other, by one node, in streams side by side (docs/order.md); "megatron":
        token files with documents in Megatron-LM's own order (docs/tokens.md)
    streams: of "block": how many streams, a power of two; None: chosen
    window: of "block": how much is mixed, in samples or as "256MB"; None: chosen
    rank: None: of mesh, else torch.distributed's, else the launcher's (torchrun, Slurm, Open MPI, MPICH),
        else 0
    world_size: as rank; else 1
    ranks_per_node: of "block": ranks that share a node, the same on all; they take turns in what it reads;
        None: what Slurm or torch.distributed know, else 1
    mesh: a torch DeviceMesh: ranks along its data dimension share the data, the others repeat it
    check_ranks: with ranks from mesh or torch.distributed, check first that all of them load the same; False
        where only some ranks make this loader
    select: the samples that take part, in this order: indices, a mask, a list of keys, or an Arrow stream,
        table or .parquet file with a column `sample` or `key`
    where: a condition on columns, as SQL has it: "width >= 300 AND split = 'train'"; columns of tables, or of
        the index (docs/tables.md).  Other samples are not part of the epoch
    exclude: a file of samples to leave out: what `stoker check --write-exclude` wrote, or keys, one per line;
        or a list of keys.  They are not part of the epoch
    skip: of the samples that take part, leave out the first ones
    limit: of the samples that are left, take so many
    repeat: how often each sample comes in an epoch
    epoch_size: samples in an epoch; the order goes on from one epoch to the next; None: all
    weights: draw every sample by its weight: one number for each sample of the data, or the name of a field
        that has it
    replacement: of weights and balance; False: no sample comes twice in an epoch
    balance: the field (or an array) with the class: all classes are equally likely
    stratify: the field (or an array) with the class: every batch has the classes as the data has them
    classes: folders of pictures: fixes the class numbers; None: by name, as ImageFolder does
    dtype: type of numbers in files without a header, as for stoker.open()
    shape: shape of a row in files without a header, as for stoker.open()
    on_error: "raise", "skip", or {"skip": n}: at most n bad samples per epoch
    max_pixels: larger pictures are bad data, and rows of more samples of sound; None: 178,956,970, as in
        Pillow
    num_workers: threads that decode; None: chosen; 0: everything in the caller's thread
    worker_type: of Python data sets and of functions in chains: "process" or "thread", or how processes
        start: "fork", "forkserver" or "spawn"; None: processes where the GIL is on (docs/python-data.md)
    prefetch: batches made ahead; None: chosen
    io_threads: threads for reads that wait; None: chosen
    memory_limit: bytes, or "2GB", for batches, reads and scratch; None: a quarter of the memory
    learn_jpeg: keep seek points of JPEGs as they are decoded, for later epochs and, beside the index, for
        later runs.  The first epoch is slower for it; `stoker index --jpeg` makes all of them before
    device: "cuda" (the current GPU, else LOCAL_RANK's) or "cuda:1": tensors are on the GPU, complete when
        they are handed out, safe on any stream (docs/gpu.md); strings and JSON stay on the host
    decode: with "cuda": "gpu": baseline JPEGs and videos are decoded on the GPU, and an output of pictures
        that workers would make is refused; "cpu": all pictures by the workers; None: as "gpu", but workers
        make what the GPU does not, and decode videos too while the GPU has enough to do
    pin_memory: with "cpu": batches are in page-locked memory
    device_memory_limit: bytes of the GPU, or "4GB"; None: a quarter of its memory
    sm_limit: multiprocessors that decoding may keep busy; None: all
    in_flight: batches on their way to the GPU at once, 1 to 8; None: 4
    cache: with "cuda": "device": the GPU keeps JPEGs that have seek points, as they are stored, and decodes
        them again whenever they are drawn; arrays and tokens; and frames of clips that NVDEC decoded.
        Batches are the same (docs/gpu.md)
    device_cache_limit: bytes of the GPU for cache, or "40GB"; what does not fit comes as without; None: half
        of what is free when the loader is opened
    """

    _server: _monitor.MetricsServer | None = None
    _trace: _monitor.Trace | None = None
    _expected: _expectation.Expectation | None = None
    _touched: int | None = None                 # the batch that functions of batch_ops began to change in the loop's thread

    def __init__(self, data: Urls | Arrays | Dataset | list[Dataset] | Mix,
                 fields: Mapping[str, Any] | None = None, *, store: Store | None = None,
                 batch_size: int = _options.Left(1), global_batch_size: int | None = None,
                 drop_last: bool = False, collate: Collate = None, max_tokens: int | None = None,
                 max_seconds: float | Seconds | None = None, bucket: bool | int | None = None,
                 schedule: Iterable[int | tuple[int, int]] | None = None, bucket_rest: str | None = None,
                 over_budget: str | None = None,
                 batch_ops: Iterable[str | Callable[[Batch], Mapping[str, Any]]] | str | None = None,
                 lengths: Any = None, seed: int = 0, shuffle: bool | str = False, streams: int | None = None,
                 window: int | str | None = None, rank: int | None = None, world_size: int | None = None,
                 ranks_per_node: int | None = None, mesh: Any = None, check_ranks: bool = True,
                 select: Any = None, where: str | None = None,
                 exclude: str | bytes | os.PathLike[Any] | Iterable[str] | None = None, skip: int = 0,
                 limit: int | None = None, repeat: int = 1, epoch_size: int | None = None,
                 weights: Any = None, replacement: bool | None = None, balance: Any = None,
                 stratify: Any = None, classes: list[str] | None = None, dtype: Any = None,
                 shape: tuple[int, ...] | None = None, on_error: str | Mapping[str, int] = "raise",
                 max_pixels: int | None = None, num_workers: int | None = None,
                 worker_type: str | None = None, prefetch: int | None = None, io_threads: int | None = None,
                 memory_limit: int | str | None = None, learn_jpeg: bool = False, device: str = "cpu",
                 decode: str | None = None, pin_memory: bool = False,
                 device_memory_limit: int | str | None = None, sm_limit: int | None = None,
                 in_flight: int | None = None, cache: str | None = None,
                 device_cache_limit: int | str | None = None, **unknown: Any) -> None:
        given = dict(locals())
        _options.screen(given)
        _options.check_unknown(unknown, Loader.__init__)
        robots = data if fields is None and isinstance(data, _lerobot.LeRobot) else None
        finish = robots.finish if robots is not None else None
        if isinstance(data, _windows.WindowsOf) and isinstance(fields, Mapping):
            fields = data.complete(fields)
        given["fields"], functions = _calls.plan(robots.chains if robots is not None else fields)
        if worker_type is not None and not functions:
            invalid("worker_type= is for Python data sets and for functions in chains: files are decoded by threads without "
                    "the GIL")
        _options.refuse_in_worker()
        place = _ranks.find(rank, world_size, mesh)
        options = _options.of_files(given, place)
        options["batch_ops"], self._functions = _batch_ops.split(batch_ops)
        if finish is not None:
            self._functions = (finish, *self._functions)
        self._works_ahead = bool(self._functions) and options["num_workers"] != -1 and options["device"] == "cpu"
        with _rank_check.Meeting(place, _options.flag("check_ranks", check_ranks)) as meeting:
            self._take_data(given, options["shuffle"])
            self._take_chains(given, options, functions)
            place = meeting.compare(_rank_check.describe(self._data, self._identity, self._made_of))
        place.log()
        self._take_rank(place, place.local if ranks_per_node is None else options["ranks_per_node"])
        self._stand_at_start()
        self._start()

    def _take_data(self, given: Mapping[str, Any], shuffle: int) -> None:
        """Data sets, and which of their samples come in which order."""
        data = given["data"]
        mix = data if isinstance(data, Mix) else None
        self._mixed = {} if mix is None else dict(mix.weights)
        self._datasets, self._named = _datasets(given), describe(data)
        self._data = tuple(d._core for d in self._datasets)
        self._numbered = all(core.kind() for core in self._data)    # rows of arrays have no keys
        self._fixed = {name for name in ("streams", "window") if given[name] is not None}
        self._sampling, self._order = _sampling.plan(
            self._datasets, mix=mix, shuffle=shuffle, seconds=given["max_seconds"] is not None,
            **{name: given[name] for name in ("select", "where", "skip", "limit", "repeat", "epoch_size", "weights", "replacement",
                                              "balance", "stratify", "lengths")})

    def _take_chains(self, given: Mapping[str, Any], options: dict[str, Any], functions: list[Any]) -> None:
        """Outputs, and the library's loader that makes them."""
        exclude = given["exclude"]
        if not isinstance(exclude, (str, bytes, os.PathLike)) and isinstance(exclude, Iterable):
            exclude = list(exclude)             # it is read twice
        found = list(dict.fromkeys(name for core in self._data for name in core.fields()))
        self._made_of = _options.outputs(given["fields"], found, self._data[0], given["collate"]), options, exclude
        self._bins: list[int] | None = None     # of a state that was taken up
        self._changes = []
        self._calls = _calls.of_loader(self, functions, given["worker_type"], options["num_workers"])
        self._core = self._open(*self._made_of, ahead=self._works_ahead)
        _options.check_torch(options["device"])
        self._pins = note_stream if options["pin_memory"] and torch_or_none() is not None else None
        self._note_streams()
        self._changes = self._core.mix()
        if isinstance(given["data"], Mix):
            given["data"].counts = self._core.counts()
        self._identity = self._what()

    def _take_rank(self, place: _ranks.Place, local: int) -> None:
        """The rank as all of them count it, node by node."""
        options = self._made_of[1]
        if (place.rank, local) != (options["rank"], options["ranks_per_node"]):
            options.update(rank=place.rank, ranks_per_node=local)
            self._core.close()
            self._core = self._open(*self._made_of, ahead=self._works_ahead)
        self._steps, self._samples = self._core.sizes()
        self._by_length = self._core.bins()[0] != 0
        self._grouped = self._core.groups()     # a batch of all ranks is a group; see _state.with_bins()

    def _start(self) -> None:
        self._seen: dict[str, Any] | None = None    # when diagnose() was called last
        self._open_for_use()
        self._ahead = None
        if self._works_ahead:
            self._ahead = _batch_ops.Ahead(self._core, self._functions, self._data, self._numbered)
            weakref.finalize(self, self._core.close)    # the thread holds the core, not this object
        if os.environ.get("STOKER_MONITOR", "0") not in ("", "0"):
            self.monitor()

    @staticmethod
    def kind_of(data: Any = None, fields: Any = None, *args: Any, **kwargs: Any) -> type[LoaderBase]:
        """A Python data set has a loader of its own, with the same methods, and so has a stream."""
        from . import _stream, sets             # which import this file
        if isinstance(data, _stream.Stream):
            return _stream.StreamLoader
        return sets.SetLoader if fields is None and sets.is_python(data) else Loader

    def _note_streams(self) -> None:
        """What was chosen is kept: a second core is to have the same order."""
        streams, window = self._core.streams()
        self._made_of[1].update(streams=streams, window=window, window_bytes=0)

    def _made(self, parts: Any, place: tuple[int, int], serial: int) -> Batch:
        """A batch as it is handed out."""
        if self._ahead is not None:
            return self._ahead.take(serial)
        batch = from_parts(parts, self._data, self._numbered)
        if not self._functions:
            return batch
        self._touched = serial
        return _batch_ops.apply(self._functions, batch, *place)

    def _explained(self, error: StokerError) -> tuple[BaseException, BaseException | None]:
        """What is raised for an error of the library, and its cause."""
        if self._calls is not None:
            said, cause = self._calls.explained(error)
            if said is not error or cause is not None:
                return said, cause
        return error, error.__cause__ if self._ahead is None else self._ahead.cause(error)

    def _what(self) -> dict[str, Any]:
        """What a state is the state of."""
        outputs, options, _ = self._made_of
        order: dict[str, Any] = {"shuffle": _options.SHUFFLES[options["shuffle"]]}
        if order["shuffle"] == "block":
            order.update(streams=options["streams"], window=options["window"])
        order.update(_state.drawn_of(self._core, self._order))
        window, together, lengths = self._core.bins()
        if window:
            order.update(bucket=options["bucket"], max_tokens=options["max_tokens"],
                         lengths=_state.word(lengths), bins=[window, together])
            order.update({name: options[name] for name in ("max_seconds", "quadratic_duration") if options[name]})
        multiple = math.lcm(*(max(output[4], 1) for output in outputs))
        if window and multiple > 1:             # rows are counted with their padding
            order.update(multiple=multiple)
        if options["batch_ops"]:
            order.update(batch_ops=options["batch_ops"])
        order.update({name: options[name] for name in ("schedule", "bucket_rest", "over_budget") if options[name]})
        if options["max_tokens"] or options["max_seconds"] or self._core.groups():
            order.update(max_rows=options["batch_size"])
        if "mix" in order:
            order["mix"] = {**order["mix"], "changes": _mix.saved(self._changes)}
        return {"seed": options["seed"], "order": order,
                "data": _state.data_of(self._core),
                "chains": _state.chains_of(self._core, [output[0] for output in outputs])}

    def _open(self, outputs: Any, options: dict[str, Any], exclude: Any, *, watch: bool = False,
              ahead: bool = False) -> _stoker.Loader:
        sampling = (*self._sampling[:-1], None) if watch else self._sampling    # one sample has no batch by length
        with _options.exclude_file(exclude) as path:
            core = _stoker.Loader(self._data, outputs, _options.words(options), path, watch, sampling, ahead=ahead,
                                  calls=None if self._calls is None else self._calls.core)
        if self._calls is not None:
            self._calls.cores.append(core)
        if self._changes:
            core.set_mix(tuple(self._changes))
        if self._bins is not None and core.bins()[0]:
            core.set_bins(*self._bins)
        return core

    # ---- epochs ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._core.where()

    def _begin(self, names: tuple[str, ...] | None) -> Any:
        epoch, position = self._coming()
        self._check_known(epoch, position)
        self._begin_life()
        self._core.resume(epoch, position)      # costs nothing when that is what comes anyway
        running = self._running = _FileEpoch(self, epoch, names)
        self._next = None                       # last: an interrupted call is repeated from the same place
        return running

    def _coming(self) -> tuple[int, int]:
        self._check_open()
        return super()._coming()

    def as_tuples(self, *names: str) -> Tuples:
        """The same batches as tuples of these outputs, in this order; without names, of all outputs in the order of
        `fields`:

            for images, labels in loader.as_tuples("image", "label"):

        It is a view of this loader: len(), state_dict(), load_state_dict(), set_epoch() and all else are the
        loader's.
        """
        return Tuples(self, names or tuple(self.fields))

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank.

        With max_tokens and max_seconds epochs differ in it: it is that of the running epoch, or of the next one if none is
        running.
        """
        return self._core.epoch_sizes(self._where()[0])[0] if self._by_length else self._steps

    @property
    def batch_size(self) -> int | None:
        """Samples per batch of this rank; None: max_tokens or max_seconds alone bound it."""
        options = self._made_of[1]
        return options["batch_size"] or options["global_batch_size"] // options["world_size"] or None

    @property
    def dataset(self) -> Dataset | list[Dataset]:
        """The data set, as stoker.open() has it; a list where the loader was given several."""
        return self._datasets[0] if len(self._datasets) == 1 else list(self._datasets)

    @property
    def fields(self) -> dict[str, str]:
        """Output name -> the text of its chain."""
        return {name: chain for name, chain, *_ in self._made_of[0]}

    def __repr__(self) -> str:
        options = self._made_of[1]
        said = [self._named, f"{self._samples} samples"]
        said.append(f"batch {self.batch_size}" if self.batch_size
                    else f"{options['max_seconds']:g} seconds" if options["max_seconds"] else f"{options['max_tokens']} tokens")
        if options["world_size"] > 1:
            said.append(f"rank {options['rank']} of {options['world_size']}")
        try:
            self._core.where()                  # says so if it is closed
            epoch, steps, left = self._where()[0], len(self), self._left()
            said += [f"epoch {epoch}", f"step {steps - left} of {steps}"]
        except ClosedError:
            said.append("closed")
        return f"Loader({', '.join(said)})"

    def _left(self) -> int:
        """Steps that are left in the epoch where the consumer stands."""
        epoch, position = self._where()
        options = self._made_of[1]
        whole = options["global_batch_size"] or options["batch_size"] * options["world_size"]
        if self._by_length and (options["max_tokens"] or options["max_seconds"] or self._grouped):
            return int(-(-(self._positions(epoch) - position) // options["world_size"]))
        left = self._positions(epoch) - position
        return int(left // whole) if options["drop_last"] else -(-left // whole)

    def _positions(self, epoch: int) -> int:
        return self._core.epoch_sizes(epoch)[1] if self._by_length else self._samples

    def _where(self) -> tuple[int, int]:
        return self._next or self._core.where()

    # ---- state -----------------------------------------------------------------------------------

    def _skipped_samples(self) -> int:
        return int(self._core.stats()["skipped"])

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """The next loop goes on after the last batch of `state`, with the same samples and draws, for
        any number of ranks and any batch size.

        A state of other data, chains, seed or order is refused; strict=False takes its epoch and
        position all the same.  Streams and window of block shuffle come from the state, unless they
        were given to this loader; so do the weights of a mixture (set_weights() changes them).
        """
        state = _state.plain(state)
        strict = _options.flag("strict", strict)
        mine = _mix.with_changes(_state.with_streams(self._identity, state, self._fixed), state)
        mine = {**_state.with_bins(mine, state), "old_chains": _state.old_chains_of(self._core, self._identity["chains"])}
        before = self._identity["order"].get("bins")
        self._set_bins(mine["order"].get("bins"), before)
        try:
            same = mine["order"].get("streams") == self._identity["order"].get("streams")
            place = _state.read(state, mine, self._positions if same else lambda _: 2**63 - 1, strict)
        except StokerError:
            self._set_bins(before, mine["order"].get("bins"))
            raise
        generation = _state.generation(state)
        if mine["order"] != self._identity["order"]:
            if "streams" in mine["order"]:
                self._core.set_streams(mine["order"]["streams"], mine["order"]["window"])
                self._note_streams()
            if self._changes:
                self._take_changes(mine["order"]["mix"]["changes"], place, strict)
            self._identity = self._what()
        self._go_on_at(generation, place)

    def _order_of(self, epoch: int) -> dict[str, Any]:
        order = super()._order_of(epoch)
        if not self._grouped:
            return order
        taken = self._bins or [0, 0]            # an epoch that was begun on another number of ranks
        return {**order, "bins": taken if taken[0] == epoch + 1 else [epoch + 1, self._made_of[1]["world_size"]]}

    def _set_bins(self, bins: list[int] | None, before: list[int] | None) -> None:
        if bins is not None and bins != (self._bins or before):
            self._core.set_bins(*bins)
            self._bins = bins

    def _mixer(self) -> _stoker.Loader:
        return self._core

    def _write_ledger(self, path: bytes | None, life: tuple[int, int, int]) -> None:
        self._core.ledger(path, *life)

    # ---- a look ----------------------------------------------------------------------------------

    def preview(self, n: int = 16, output: str | None = None) -> preview.Preview:
        """The first n pictures of the next loop, as the model sees them but before normalize.

        It shows itself in a notebook; .save("grid.png") and .image are for elsewhere.  The loader does
        not move.  output: which one; None: the first that is a picture.
        """
        n = _options.whole("the number of pictures", n, 1, 4096)
        outputs, options, exclude = self._made_of
        at = preview.choose(outputs, output)
        as_list = tuple((name, preview.as_pixels(chain) if i == at else chain, 1, 0.0, 1)
                        for i, (name, chain, *_) in enumerate(outputs))
        rows = options["batch_size"] or options["global_batch_size"] // options["world_size"]
        workers = options["num_workers"] if n < rows else -1
        core = self._open(as_list, {**options, "prefetch": 1, "num_workers": workers,
                                    "learn_jpeg": False, "batch_ops": ""}, exclude)
        found: list[preview.Picture] = []
        try:
            core.resume(*self._coming())
            epoch = self._coming()[0]
            while len(found) < n and (parts := core.next(epoch)) is not None:
                found += preview.pictures(parts, at, self._data)
        finally:
            core.close()
        return preview.Preview(found[:n])

    def explain(self, sample: str | int, epoch: int | None = None) -> _explain.Explanation:
        """What is drawn for a sample in an epoch, step by step; print() it.

        sample: its key, or its id (batch.sample_ids); epoch: None: the running or the next one.
        """
        epoch = self.epoch if epoch is None else _options.whole("epoch", epoch, 0, 2**32 - 1)
        number = _explain.find_id(sample, self._data)
        outputs, options, exclude = self._made_of
        alone = {**options, "batch_size": 1, "global_batch_size": 0, "rank": 0, "world_size": 1, "drop_last": False,
                 "prefetch": 1, "num_workers": -1, "on_error": "raise", "skip_budget": 0,
                 "learn_jpeg": False, "max_tokens": 0, "max_seconds": 0, "quadratic_duration": 0, "bucket": 0, "bucket_rest": None, "over_budget": None, "schedule": None, "batch_ops": ""}
        core = self._open(outputs, alone, exclude, watch=True)
        try:
            position = core.find(epoch, number)
            core.resume(epoch, position)
            core.next(epoch)
            drawn = core.drawn()
            reads = {output[0]: _explain.what_is_read(core.reads_whole(i), core.in_parts(i) > 0) for i, output in enumerate(outputs)}
            workers = {output[0]: core.by_workers(i) for i, output in enumerate(outputs)}
        finally:
            core.close()
        key = _stoker.keys(self._data, number.to_bytes(8, sys.byteorder))[0]
        steps = _explain.steps(drawn, [output[:2] for output in outputs])
        why = {} if options["device"] == "cpu" else {name: text for name, text in workers.items() if text and name in steps}
        return _explain.Explanation(key, number, epoch, position, steps, why, reads, _explain.where_made(workers))

    # ---- figures and threads ---------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Figures since the loader was opened; times in seconds, stages summed over workers; padding: the
        share of packed rows, or of max_tokens' batches, that is no token of theirs, in this epoch; else None;
        memory: bytes that memory_limit counts, memory_of: who has them; samples: rows made, ahead and again too,
        handed_out: those of batches that were handed out.

        wait: where the consumer's time in next() went: data_s (no batch was ready; also wait_s), repair_s (rows
        that the GPU could not make), ledger_s, rest_s, and now_s: it waits at this moment, for so long; for: what it waits
        for then, after a second (seconds, epoch, step, shard, host, retries, text), else None.  ring:
        slots, and of them ahead (may be open), open (begun) and ready.  histograms: of each stage (seconds, how many rows
        took that or more, but less than twice that), of rows that are timed; a batch is timed each time.  doing:
        of each worker its stage now, the ticket (row) it is at, and for how many seconds.  Any thread may call it; it never waits for next()."""
        stats = self._core.stats()
        stats["wait"]["for"] = self._core.waiting()
        room = stats["packed_room"]
        stats["padding"] = 1 - stats["packed_tokens"] / room if room else None
        doing: list[dict[str, Any]] = []
        stats["doing"] = doing
        while (now := self._core.doing(len(doing))) is not None:
            doing.append(dict(zip(("stage", "ticket", "seconds"), now)))
        bad: list[dict[str, Any]] = []
        stats["bad_samples"] = bad
        while (row := self._core.skipped(len(bad))) is not None:
            shard, offset, key, reason = row
            bad.append({"shard": shard, "offset": None if offset < 0 else offset, "key": key,
                        "reason": reason})
        return _renamed.with_old_keys(stats)

    def diagnose(self, ranks: bool = False) -> _diagnosis.Diagnosis:
        """What holds the loop up since the last call (the first: since the loader was opened), what removing that
        would give, and how: print() it.  Any thread may call it.

        ranks: all ranks of torch.distributed call it together, and the slow one is named.
        """
        before, self._seen = self._seen, _diagnosis.sight(self._core, self._calls)
        return _diagnosis.diagnose([before] if before else [], [self._seen], self._shown_data(),
                               together=_options.flag("ranks", ranks))

    def report(self) -> str:
        """stats() as text for people, with the diagnosis since the loader was opened."""
        found = _diagnosis.diagnose([], [_diagnosis.sight(self._core, self._calls)], self._shown_data())
        return _diagnosis.report(self.stats(), found)

    def metrics(self, path: str | os.PathLike[Any] | None = None) -> str:
        """stats() in OpenMetrics' text format, for Prometheus; path: also written there, whole or not at all."""
        text = self._core.metrics()
        if path is not None:
            _monitor.write_whole(path, text.encode(), "metrics")
        return text

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Serve metrics() over HTTP from a thread until the loader is closed; its address.  port 0: any that is free."""
        self._server = self._server or _monitor.MetricsServer(self.metrics, host, _options.whole("port", port, 0, 65535))
        return self._server.address

    def trace(self, path: str | os.PathLike[Any], spans: int = 65536) -> _monitor.Trace:
        """Note what every worker does and when the loop is in next(), the last `spans` stages of each (24 bytes a span), for
        ui.perfetto.dev; `with loader.trace("trace.json"):` or its close() write the file, and so does the loader's."""
        if self._trace is not None:
            self._trace.close()
        self._trace = _monitor.Trace(self._core, path, _options.whole("spans", spans, 16, 1 << 24))
        return self._trace

    def expect(self, description: Any, every: int = 100_000) -> _expectation.Expectation:
        """Hold a description (`stoker describe`: a file, or its dict) against the samples that are loaded: some of them are
        described again after 2,000 samples and then after each `every`, and a figure that drifted is logged (WARNING)."""
        self._core.where()                      # says so if it is closed
        self._expected = _expectation.expect(self._data, description, _options.whole("every", every, 100))
        return self._expected

    def _shown_data(self) -> str | None:
        names = [name for core in self._data for name in core.shards()[:1]] if not self._numbered else []
        return os.path.dirname(names[0]) or names[0] if names else None

    def set_workers(self, n: int) -> None:
        """Park or add worker threads while running."""
        self._core.set_workers(_options.whole("the number of workers", n, 1))

    def close(self) -> None:
        """Stop and free.  Batches and tensors that you hold stay good.  Twice is once."""
        trace, self._trace = self._trace, None
        try:
            if trace is not None:
                trace.close()
        finally:
            if "_core" in self.__dict__:        # else the constructor failed
                self._close()

    def _close(self) -> None:
        if self._expected is not None:
            self._expected.wait()
        if self._calls is not None:
            self._calls.stop()
        self._core.close()
        if self._calls is not None:
            self._calls.close()
        open_loaders.discard(self)
        self._running = None
        if self._server is not None:
            self._server.close()
            self._server = None


_seen = inspect.signature(Loader.__init__)
Loader.__signature__ = _seen.replace(parameters=list(_seen.parameters.values())[1:])    # type: ignore[attr-defined]


def describe(data: Any) -> str:
    """What data a loader was given, in a few words."""
    if isinstance(data, Mix):
        return f"mix of {', '.join(map(repr, data.weights))}"
    if isinstance(data, Dataset):
        return describe(data._urls)
    if isinstance(data, Mapping):
        return f"arrays {', '.join(map(repr, data))}"
    if isinstance(data, (list, tuple)):
        return describe(data[0]) + (f" and {len(data) - 1} more" if len(data) > 1 else "") if data else "nothing"
    return repr(printable(os.fsdecode(data))) if isinstance(data, (str, bytes, os.PathLike)) else shown(data)


def _datasets(given: Mapping[str, Any]) -> list[Dataset]:
    data = given["data"]
    own = {name: given[name] for name in ("classes", "dtype", "shape", "store")}
    opened = data.datasets if isinstance(data, Mix) else [data] if isinstance(data, Dataset) else data
    if isinstance(opened, (list, tuple)) and opened and all(isinstance(d, Dataset) for d in opened):
        for name, value in own.items():
            if value is not None:
                invalid(f"{name}= belongs to stoker.open() when data is opened before")
        return list(opened)
    if not isinstance(data, Mapping) and _options.url_bytes(data) is None and not _arrow.is_table(data):
        invalid(f"data must be a path, a pattern, a list of them, a dict of arrays, or data sets of "
                f"stoker.open(), not {shown(data)}; a Python data set makes its own samples and takes no fields=")
    return [Dataset(data, **own, skip_damaged=given["on_error"] == "skip", pairs=_pairs.implied(data, given["fields"]))]
