# SPDX-License-Identifier: Apache-2.0
"""How the shards of Python functions were made: FOLDER/.stoker/PATTERN.made.json, as src/tools/pack_made.c writes it for chains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _stoker
from ._fingerprint import function_fingerprint, name_of, version_of

if TYPE_CHECKING:
    from ._pack_map import Functions
    from .dataset import Dataset


def text(data: Dataset, functions: Functions, arguments: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    """arguments: those of _stoker.pack(); figures: what they came to."""
    a = arguments
    chosen = {"where": a["where"], "exclude": a["exclude"], "dedup": a["dedup"], "balance": a["balance"],
              "only": "failed" if a["only_failed"] else None,
              "selected": None if a["select"] is None or a["only_failed"] else len(a["select"]), "fraction": a["fraction"] or None}
    if a["keep"][1] > 0:
        chosen["split_from"], chosen["split_to"] = a["keep"]
    layout = {"shuffle": a["seed"] if a["shuffle"] else None, "bytes_per_shard": a["bytes"] or None, "compress": a["compress"]}
    made = {"stoker": _stoker.__version__, "first_source": next(iter(data.shards), None), "sources": len(data.shards), **figures,
            **_functions(functions), **chosen, **layout}
    return "{" + ",\n ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items() if v is not None) + "}\n"


def _functions(functions: Functions) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, fn in functions.named().items():
        said = version_of(fn)
        made[name] = {"function": name_of(fn), "fingerprint": function_fingerprint(fn).rpartition(".")[2],
                      **({} if said is None else {"version": said})}
    if functions.tokens is not None:
        made["tokenize"] |= {"field": functions.tokens.field, "dtype": functions.tokens.dtype, "end": functions.tokens.end}
    return {**made, "on_error": "skip" if functions.skip else "raise", "timeout": functions.timeout}
