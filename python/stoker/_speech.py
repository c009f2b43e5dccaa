# SPDX-License-Identifier: Apache-2.0
"""stoker.speech: lists of utterances as other programs keep them, as one manifest that open() reads.

Every kind is a generator of rows: path, start and duration in seconds, text, and what else it has.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import pathlib
import re
import tarfile
from collections.abc import Iterator
from typing import Any, NoReturn

from .dataset import Dataset
from .errors import invalid

Row = dict[str, Any]


def speech(source: str | os.PathLike[str], tars: str | None = None, *, to: str | os.PathLike[str] | None = None) -> Dataset:
    """Open a list of utterances: Kaldi's, NeMo's, lhotse's, Common Voice's or LibriSpeech's.

        ds = stoker.speech("data/train")        # Kaldi: wav.scp, segments, text, utt2spk
        loader = stoker.Loader(ds, {"audio": 'from(path) | open(root="/") | sound(rate=16000) | part(start, duration) | fbank(80)',
                                    "text": "from(text) | text"}, max_seconds=600, lengths="duration", collate="pad")

    source: a folder with wav.scp (Kaldi) or *.trans.txt below it (LibriSpeech); a .json, .jsonl or .jsonl.gz file of NeMo
        or of lhotse's MonoCuts; a .tsv file of Common Voice, its recordings in clips/ beside it
    tars: of NeMo's tarred sets: "audio__OP_0..7_CL_.tar", or with braces; members are read in place
    to: the JSON lines file that is written; None: one in the cache, by what source is and when it changed

    Samples have the fields path, start, duration, text and, where the list has them, id, speaker, language, channel. A
    duration that the list lacks is read from the header of FLAC files, and else it is left out.
    """
    place = pathlib.Path(source).absolute()
    rows = _reader(place, tars)
    target = pathlib.Path(to).absolute() if to is not None else _cached(place, tars)
    if to is not None or not target.exists():
        _write(target, rows)
    return Dataset(str(target))


def _bad(place: pathlib.Path, line: int, why: str) -> NoReturn:
    invalid(f"{place}, line {line}: {why}")


def _lines(place: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, and their numbers."""
    with (gzip.open(place, "rt", encoding="utf-8") if place.suffix == ".gz" else place.open(encoding="utf-8")) as f:
        for number, line in enumerate(f, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def _reader(place: pathlib.Path, tars: str | None) -> Iterator[Row]:
    if place.is_dir():
        if tars is not None:
            invalid("tars= goes with a manifest of NeMo's, not with a folder")
        if (place / "wav.scp").exists():
            return _kaldi(place)
        if next(place.rglob("*.trans.txt"), None):
            return _librispeech(place)
        invalid(f"{place}: neither wav.scp (Kaldi) nor *.trans.txt (LibriSpeech) is in it")
    if not place.exists():
        invalid(f"{place}: there is no such file or folder")
    if place.name.endswith(".tsv"):
        return _common_voice(place)
    if not place.name.endswith((".json", ".jsonl", ".jsonl.gz", ".json.gz")):
        invalid(f"{place}: a list of utterances is a folder, or ends in .tsv, .json, .jsonl or .jsonl.gz")
    return _json(place, tars)


# ---- Kaldi ----

def _table(place: pathlib.Path) -> dict[str, str]:
    """A file of lines "key value"."""
    out: dict[str, str] = {}
    for number, line in _lines(place):
        key, _, value = line.strip().partition(" ")
        if key in out:
            _bad(place, number, f"{key} is there twice")
        out[key] = value.strip()
    return out


def _optional(place: pathlib.Path) -> dict[str, str]:
    return _table(place) if place.exists() else {}


def _kaldi(folder: pathlib.Path) -> Iterator[Row]:
    files = {}
    for key, value in _table(folder / "wav.scp").items():
        if value.endswith("|") or not value:
            invalid(f"{folder / 'wav.scp'}: {key} is a command, and none is run: write its output into a file first")
        files[key] = os.path.join(folder, value)
    texts, speakers = _optional(folder / "text"), _optional(folder / "utt2spk")
    durations = _optional(folder / "utt2dur")
    for row in _kaldi_segments(folder, files) if (folder / "segments").exists() else _kaldi_whole(files, durations):
        if row["id"] in texts:
            row["text"] = texts[row["id"]]
        if row["id"] in speakers:
            row["speaker"] = speakers[row["id"]]
        yield row


def _kaldi_whole(files: dict[str, str], durations: dict[str, str]) -> Iterator[Row]:
    for key, path in files.items():
        seconds = float(durations[key]) if key in durations else _header_seconds(path)
        yield {"path": path, "start": 0.0, **({"duration": seconds} if seconds else {}), "id": key}


def _kaldi_segments(folder: pathlib.Path, files: dict[str, str]) -> Iterator[Row]:
    place = folder / "segments"
    for number, line in _lines(place):
        cells = line.split()
        if len(cells) != 4 or cells[1] not in files:
            _bad(place, number, "a segment is: utterance, a recording of wav.scp, start, end")
        start, end = _seconds(place, number, cells[2]), _seconds(place, number, cells[3])
        if end >= 0 and not 0 <= start < end:       # Kaldi's -1 is the recording's end
            _bad(place, number, f"it is from {start:g} to {end:g} seconds")
        yield {"path": files[cells[1]], "start": start, **({"duration": round(end - start, 6)} if end >= 0 else {}), "id": cells[0]}


def _seconds(place: pathlib.Path, number: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        _bad(place, number, f"{text!r} is not a number of seconds")


# ---- LibriSpeech ----

def _librispeech(folder: pathlib.Path) -> Iterator[Row]:
    for place in sorted(folder.rglob("*.trans.txt")):
        for number, line in _lines(place):
            key, _, text = line.partition(" ")
            path = place.parent / f"{key}.flac"
            if not path.exists():
                _bad(place, number, f"{path.name} is not beside it")
            yield {"path": str(path), "start": 0.0, "duration": _header_seconds(path), "text": text, "id": key,
                   "speaker": key.split("-")[0]}


def _header_seconds(path: str | os.PathLike[str]) -> float | None:
    """Of a FLAC file with a STREAMINFO that says how many samples there are."""
    try:
        with open(path, "rb") as f:
            head = f.read(42)
    except OSError as e:
        invalid(f"{os.fspath(path)}: {e.strerror}")
    if len(head) < 42 or head[:4] != b"fLaC" or head[4] & 127:
        return None
    bits = int.from_bytes(head[18:26], "big")
    rate, samples = bits >> 44, bits & (1 << 36) - 1
    return samples / rate if rate and samples else None


# ---- Common Voice ----

def _common_voice(place: pathlib.Path) -> Iterator[Row]:
    """Cells end at tabs; quotes are text."""
    lines = _lines(place)
    names = next(lines, (0, ""))[1].split("\t")
    if "path" not in names or "sentence" not in names:
        _bad(place, 1, "the columns of Common Voice are client_id, path, sentence and more")
    durations = {}
    beside = place.parent / "clip_durations.tsv"
    if beside.exists():
        durations = {c[0]: int(c[1]) / 1000 for _, line in itertools.islice(_lines(beside), 1, None) if len(c := line.split("\t")) == 2}
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(names):
            _bad(place, number, f"{len(cells)} cells, and the first line has {len(names)}")
        of = dict(zip(names, cells))
        row: Row = {"path": str(place.parent / "clips" / of["path"]), "start": 0.0, "text": of["sentence"], "id": of["path"]}
        if of["path"] in durations:
            row["duration"] = durations[of["path"]]
        row.update({to: of[name] for name, to in (("client_id", "speaker"), ("locale", "language")) if of.get(name)})
        yield row


# ---- JSON lines: NeMo, lhotse ----

def _json(place: pathlib.Path, tars: str | None) -> Iterator[Row]:
    members = _members(place, tars) if tars is not None else None
    for number, line in _lines(place):
        try:
            entry = json.loads(line)
        except ValueError as e:
            _bad(place, number, f"no JSON: {e}")
        if not isinstance(entry, dict):
            _bad(place, number, "a line is an object")
        if "audio_filepath" in entry:
            yield _nemo(place, number, entry, members)
        elif "recording" in entry or str(entry.get("type", "")).endswith("Cut"):
            if members is not None:
                invalid("tars= goes with a manifest of NeMo's, and these are lhotse's cuts")
            yield _monocut(place, number, entry)
        else:
            _bad(place, number, "neither audio_filepath (NeMo) nor recording (lhotse) is in it")


_NEMO = {"text": "text", "speaker": "speaker", "lang": "language", "id": "id"}


def _nemo(place: pathlib.Path, number: int, entry: Row, members: dict[tuple[Any, str], Row] | None) -> Row:
    name = entry["audio_filepath"]
    if members is None:
        where: Row = {"path": os.path.join(place.parent, os.path.expanduser(name))}
    else:
        stem = os.path.splitext(os.path.basename(name))[0]
        stems, shards = (stem, re.sub(r"-sub\d+$", "", stem)), (entry.get("shard_id"), None)
        found = [members[shard, s] for shard in shards for s in stems if (shard, s) in members]
        if not found:
            _bad(place, number, f"{name} is in no tar file" + (f" of shard {shards[0]}" if shards[0] is not None else ""))
        where = found[0]
    row = {**where, "start": entry.get("offset") or 0.0}
    if entry.get("duration") is not None:
        row["duration"] = entry["duration"]
    return {**row, **{to: entry[name] for name, to in _NEMO.items() if entry.get(name) is not None}}


def _members(place: pathlib.Path, tars: str) -> dict[tuple[Any, str], Row]:
    """Where each member of the tar files is, by shard and stem; and by stem alone."""
    out: dict[tuple[Any, str], Row] = {}
    for path in _expanded(os.path.join(place.parent, tars)):
        number = re.findall(r"\d+", os.path.basename(path))
        try:
            with tarfile.open(path, "r:") as t:
                for m in t:
                    if m.isfile():
                        at = {"path": path, "offset": m.offset_data, "length": m.size}
                        stem = os.path.splitext(os.path.basename(m.name))[0]
                        out[int(number[-1]) if number else None, stem] = at
                        out.setdefault((None, stem), at)
        except (OSError, tarfile.TarError) as e:
            invalid(f"{path}: {e}")
    return out


def _expanded(pattern: str) -> list[str]:
    """audio__OP_0..7_CL_.tar, audio_{0..7}.tar."""
    pattern = pattern.replace("_OP_", "{").replace("_CL_", "}")
    m = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if not m:
        return [pattern]
    return [name for i in range(int(m[1]), int(m[2]) + 1)
            for name in _expanded(f"{pattern[:m.start()]}{i:0{len(m[1])}}{pattern[m.end():]}")]


def _monocut(place: pathlib.Path, number: int, cut: Row) -> Row:
    recording = cut.get("recording")
    if cut.get("type", "MonoCut") != "MonoCut" or not recording:
        _bad(place, number, f"a {cut.get('type', 'cut without a recording')}: MonoCuts with their recordings are read")
    if recording.get("transforms"):
        _bad(place, number, "its recording is transformed while it is loaded: leave that to the chain, by speed() and its like")
    sources = recording.get("sources") or [{}]
    if len(sources) != 1 or sources[0].get("type") != "file":
        _bad(place, number, "its recording is not one file")
    said = cut.get("supervisions") or []
    row = {"path": os.path.join(place.parent, sources[0]["source"]), "start": cut.get("start") or 0.0, "duration": cut["duration"],
           "text": " ".join(s["text"] for s in said if s.get("text")), "id": cut["id"]}
    if isinstance(cut.get("channel"), int):
        row["channel"] = cut["channel"]
    for name in ("speaker", "language"):
        if said and said[0].get(name):
            row[name] = said[0][name]
    return row


# ---- the manifest ----

def _cached(place: pathlib.Path, tars: str | None) -> pathlib.Path:
    """In the cache, by the names, sizes and times of what it is made of."""
    parts = sorted(place.rglob("*.txt")) + [p for p in place.iterdir() if p.is_file()] if place.is_dir() else [*place.parent.glob("*.tsv"), place]
    parts += [pathlib.Path(p) for p in _expanded(os.path.join(place.parent, tars))] if tars else []
    seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(set(parts)) if p.exists()]
    home = os.environ.get("STOKER_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stoker")
    name = hashlib.sha256(repr((str(place), tars, seen)).encode()).hexdigest()[:20]
    return pathlib.Path(home) / f"speech-{name}.jsonl"


def _write(target: pathlib.Path, rows: Iterator[Row]) -> None:
    """Whole or not at all: ranks may write it at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new, n = f"{target}.{os.getpid()}.new", 0
    try:
        with open(new, "w", encoding="utf-8") as f:
            for n, row in enumerate(rows, 1):
                f.write(json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False) + "\n")
        if not n:
            invalid(f"no utterance is in it, so {target.name} would be empty")
        os.replace(new, target)
    finally:
        if os.path.exists(new):
            os.unlink(new)
