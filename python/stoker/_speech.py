# SPDX-License-Identifier: Apache-2.0
"""stoker.speech: lists of utterances as other programs keep them, as one manifest that open() reads.

Every kind is a generator of rows: path, start and duration in seconds, text, and what else it has.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from ._speech_files import Members, beside, expanded, header_seconds
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
    duration that the list lacks is read from the header of WAV and FLAC files, and else it is left out. Relative paths are beside
    the list, or else in the working directory; a name that is two files is refused.
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

_BLANK = " \t\r\n\f\v"             # of the C locale, by which Kaldi splits lines


def _pairs(place: pathlib.Path) -> Iterator[tuple[int, str, str]]:
    """Lines "key value" with their numbers; a key is there once."""
    seen = set()
    for number, line in _lines(place):
        key, *value = re.split(f"[{_BLANK}]+", line.strip(_BLANK), maxsplit=1)
        if key in seen:
            _bad(place, number, f"{key} is there twice")
        seen.add(key)
        yield number, key, value[0] if value else ""


def _kaldi(folder: pathlib.Path) -> Iterator[Row]:
    files = {}
    for number, key, value in _pairs(folder / "wav.scp"):
        if value.endswith("|"):
            _bad(folder / "wav.scp", number, f"{key} is a command, and none is run: write its output into a file first")
        if not value:
            _bad(folder / "wav.scp", number, f"{key} has no file")
        files[key] = beside(folder, value)
    said = {to: {key: value for _, key, value in _pairs(folder / name)}
            for name, to in (("text", "text"), ("utt2spk", "speaker")) if (folder / name).exists()}
    for row in _kaldi_segments(folder, files) if (folder / "segments").exists() else _kaldi_whole(folder, files):
        for to, of in said.items():
            if row["id"] not in of:
                place = folder / ("text" if to == "text" else "utt2spk")
                invalid(f"{place}: utterance {row['id']} is not in it: add its line, or leave the utterance out (Kaldi's fix_data_dir.sh does)")
            row[to] = of[row["id"]]
        yield row


def _kaldi_whole(folder: pathlib.Path, files: dict[str, str]) -> Iterator[Row]:
    place, durations = folder / "utt2dur", {}
    for number, key, value in _pairs(place) if place.exists() else ():
        durations[key] = _seconds(place, number, value)
        if durations[key] <= 0:
            _bad(place, number, f"{key} has {value} seconds")
    for key, path in files.items():
        seconds = durations[key] if key in durations else header_seconds(path)
        yield {"path": path, "start": 0.0, "duration": seconds, "id": key}


def _kaldi_segments(folder: pathlib.Path, files: dict[str, str]) -> Iterator[Row]:
    place = folder / "segments"
    for number, line in _lines(place):
        cells = line.split()
        if len(cells) not in (4, 5) or cells[1] not in files or not all(c.isdecimal() for c in cells[4:]):
            _bad(place, number, "a segment is: utterance, a recording of wav.scp, start, end, and the channel where there are several")
        start, end = _seconds(place, number, cells[2]), _seconds(place, number, cells[3])
        if end != -1 and not 0 <= start < end:      # Kaldi's -1 is the recording's end
            _bad(place, number, f"it is from {start:g} to {end:g} seconds")
        row: Row = {"path": files[cells[1]], "start": start, "id": cells[0]}
        if end != -1:
            row["duration"] = round(end - start, 6)
        elif seconds := header_seconds(row["path"]):
            row["duration"] = max(0.0, seconds - start)
        if len(cells) == 5:
            row["channel"] = int(cells[4])
        yield row


def _seconds(place: pathlib.Path, number: int, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        _bad(place, number, f"{text!r} is not a number of seconds")
    return seconds


# ---- LibriSpeech ----

def _librispeech(folder: pathlib.Path) -> Iterator[Row]:
    for place in sorted(folder.rglob("*.trans.txt")):
        for number, line in _lines(place):
            key, _, text = line.partition(" ")
            path = place.parent / f"{key}.flac"
            if not path.exists():
                _bad(place, number, f"{path.name} is not beside it")
            yield {"path": str(path), "start": 0.0, "duration": header_seconds(path), "text": text, "id": key,
                   "speaker": key.split("-")[0]}


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
    members = Members(expanded(os.path.join(place.parent, tars))) if tars is not None else None
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


def _nemo(place: pathlib.Path, number: int, entry: Row, members: Members | None) -> Row:
    name = entry["audio_filepath"]
    if not isinstance(name, str):
        _bad(place, number, "audio_filepath is not a text")
    if members is None:
        where: Row = {"path": beside(place.parent, os.path.expanduser(name))}
    else:
        found, why = members.find(name, entry.get("shard_id"))
        if found is None:
            _bad(place, number, why)
        where = found
    row = {**where, "start": entry.get("offset") or 0.0}
    if entry.get("duration") is not None:
        row["duration"] = entry["duration"]
    return {**row, **{to: entry[name] for name, to in _NEMO.items() if entry.get(name) is not None}}


def _monocut(place: pathlib.Path, number: int, cut: Row) -> Row:
    recording = cut.get("recording")
    if cut.get("type", "MonoCut") != "MonoCut" or not recording:
        _bad(place, number, f"a {cut.get('type', 'cut without a recording')}: MonoCuts with their recordings are read")
    if recording.get("transforms"):
        _bad(place, number, "its recording is transformed while it is loaded: leave that to the chain, by speed() and its like")
    sources = recording.get("sources") or [{}]
    if len(sources) != 1 or sources[0].get("type") != "file":
        _bad(place, number, "its recording is not one file")
    missing = [name for name, of in (("id", cut), ("duration", cut), ("source", sources[0])) if of.get(name) is None]
    if missing:
        _bad(place, number, f"a MonoCut has no {missing[0]}")
    said = cut.get("supervisions") or []
    row = {"path": beside(place.parent, sources[0]["source"]), "start": cut.get("start") or 0.0, "duration": cut["duration"],
           "text": " ".join(s["text"] for s in said if s.get("text")), "id": cut["id"]}
    if isinstance(cut.get("channel"), int):
        numbers = sources[0].get("channels") or list(range(cut["channel"] + 1))
        if cut["channel"] not in numbers:
            _bad(place, number, f"it is channel {cut['channel']}, and its recording has {numbers}")
        row["channel"] = numbers.index(cut["channel"])
    for name in ("speaker", "language"):
        if said and said[0].get(name):
            row[name] = said[0][name]
    return row


# ---- the manifest ----

_LAYOUT = 2                             # raised when the same list becomes another manifest


def _cached(place: pathlib.Path, tars: str | None) -> pathlib.Path:
    """In the cache, by the names, sizes and times of what it is made of."""
    parts = sorted(place.rglob("*.txt")) + [p for p in place.iterdir() if p.is_file()] if place.is_dir() else [*place.parent.glob("*.tsv"), place]
    parts += [pathlib.Path(p) for p in expanded(os.path.join(place.parent, tars))] if tars else []
    seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(set(parts)) if p.exists()]
    home = os.environ.get("STOKER_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stoker")
    name = hashlib.sha256(repr((_LAYOUT, str(place), os.getcwd(), tars, seen)).encode()).hexdigest()[:20]
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
