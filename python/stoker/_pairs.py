# SPDX-License-Identifier: Apache-2.0
"""Folders whose files belong together by their names, as the address that the library reads: pairs://image=DIR&mask=DIR."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .errors import invalid, shown

_KINDS = {"jpg": "jpg", "jpeg": "jpg", "png": "png", "webp": "webp"}    # one word for each kind of picture


def _escaped(name: str | bytes | os.PathLike[Any]) -> bytes:
    """As src/format/pairs.c reads it; nothing in it looks like a pattern."""
    return re.sub(rb"[%&={}\[\]*?$:\\]", lambda m: b"%%%02X" % m[0][0], os.fsencode(name))


def _absolute(path: Any) -> bytes:
    return _escaped(os.path.abspath(os.fsencode(path)))


def _ending(missing: Any) -> bytes:
    if missing not in (None, "error", "drop", "keep"):
        invalid(f'missing must be "error", "drop" or "keep", not {shown(missing)}')
    return b"" if missing in (None, "error") else b"&missing=" + missing.encode()


def _is_folder(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike)) and b"\0" not in os.fsencode(value) and os.path.isdir(value)


def folders(data: Any, missing: Any = None) -> list[bytes] | None:
    """{"image": "images/", "mask": "masks/"} as an address; None: it is something else."""
    if not isinstance(data, Mapping) or not data or not any(map(_is_folder, data.values())):
        return None
    for name, path in data.items():
        if not isinstance(name, str) or not name or "\0" in name or name == "missing":
            invalid(f"a folder's field must be a word, not {shown(name)}")
        if not _is_folder(path):
            invalid(f"{name!r}: {shown(path)} is not a folder, and others of the dict are: fields are all folders, or all arrays")
    return [b"pairs://" + b"&".join(_escaped(name) + b"=" + _absolute(path) for name, path in data.items()) + _ending(missing)]


def one(folder: Any, missing: Any = None) -> list[bytes]:
    """A folder with 1.jpg beside 1.png as an address."""
    if not _is_folder(folder):
        invalid(f"pairs=True is for one folder with files of one name, not for {shown(folder)}")
    return [b"pairs://" + _absolute(folder) + _ending(missing)]


def frames(folder: Any) -> list[bytes]:
    """A folder whose folders of numbered pictures are clips as an address."""
    if not _is_folder(folder):
        invalid(f"frames=True is for one folder, with a folder of numbered pictures for each clip, not for {shown(folder)}")
    return [b"frames://" + _absolute(folder)]


def coco(files: Any, images: Any) -> list[bytes]:
    """Annotation files with the folder of their pictures as addresses."""
    several = files if isinstance(files, (list, tuple)) else [files]
    if not several or not all(isinstance(f, (str, bytes, os.PathLike)) and os.fsencode(f).endswith(b".json") for f in several):
        invalid(f"images= is the folder of the pictures of COCO's annotation files (.json), not of {shown(files)}")
    if not _is_folder(images):
        invalid(f"images= must be the folder of the pictures, not {shown(images)}")
    return [b"coco://" + _absolute(f) + b"&images=" + _absolute(images) for f in several]


def _kinds(chain: Any) -> set[str]:
    """The kinds of pictures that a chain names in from()."""
    found = re.match(r"\s*from\(([^()]*)\)", str(chain))
    names = [name.strip(" '\"") for name in found[1].split(",")] if found else []
    return {_KINDS[name] for name in names if name in _KINDS}


def implied(data: Any, fields: Any) -> bool:
    """Do chains name pictures of different kinds, so that 1.jpg and 1.png of this folder are one sample?"""
    if not isinstance(fields, Mapping) or isinstance(data, Mapping) or not _is_folder(data):
        return False
    kinds = [k for k in map(_kinds, fields.values()) if k]
    return any(a.isdisjoint(b) for a in kinds for b in kinds) and not any(
        os.fsencode(name).endswith(b".tar") for name in os.listdir(data))
