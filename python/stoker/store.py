# SPDX-License-Identifier: Apache-2.0
"""How remote data (s3, gs, az, http, https, hf) is reached."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from . import _options, _stoker
from .errors import Whole, invalid, printable, shown


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        invalid(f"{name} must be text, not {shown(value)}")
    text = None if value is None else os.fspath(value)
    if text is not None and "\0" in text:
        invalid(f"{name} has a null byte")
    return text


class Store(Whole):
    """Settings of remote data, for open() and Loader.  What is left out comes from the environment and ~/.aws.

    profile: of ~/.aws/config and ~/.aws/credentials
    region, endpoint: of S3, endpoint also of gs and az; an endpoint with "{bucket}" in its host is addressed in virtual-host style
    credentials: {"access_key": ..., "secret_key": ..., "session_token": ...}, or a function without arguments that
        returns such a dict, with "expires" (seconds since 1970) where they end; it is asked again in time.  A
        dict with a session_token alone: it is sent as bearer token (gs), or is a SAS token (az).  Of az the
        access_key is the account's name
    anonymous: requests are not signed
    requester_pays: agree to pay for requests
    cache: a folder on a local disk where remote data is kept for all processes of this host; None: $STOKER_STORE_CACHE,
        "": none
    hedge: ask a second time for bytes that take unusually long; at most 2 % more requests
    cache_limit: how much it may hold ("500GB"); None: $STOKER_STORE_CACHE_LIMIT, else nine tenths of what is free
    timeout: seconds without progress after which a request fails; of a first question a sixth of it, and not before 5.
        What comes at 1 KB/s or more is progress.  None: $STOKER_STORE_TIMEOUT, else 120
    """

    def __init__(self, *, profile: str | None = None, region: str | None = None, endpoint: str | None = None,
                 credentials: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
                 anonymous: bool = False, requester_pays: bool = False, cache: str | os.PathLike[str] | None = None,
                 cache_limit: int | str | None = None, hedge: bool = False, timeout: int | None = None) -> None:
        self._settings: dict[str, Any] = {
            "profile": _text("profile", profile), "region": _text("region", region),
            "endpoint": _text("endpoint", endpoint), "anonymous": _options.flag("anonymous", anonymous),
            "requester_pays": _options.flag("requester_pays", requester_pays),
            "cache": _text("cache", cache), "hedge": _options.flag("hedge", hedge),
            "cache_limit": 0 if cache_limit is None else _options.byte_count("cache_limit", cache_limit),
            "timeout": 0 if timeout is None else _options.whole("timeout", timeout, 1, 86400)}
        if isinstance(credentials, Mapping):
            for name in credentials:
                if name not in ("access_key", "secret_key", "session_token"):
                    invalid(f"credentials has {shown(name)}: it can have access_key, secret_key and session_token")
            self._settings.update({str(k): _text(k, v) for k, v in credentials.items()})
        elif credentials is not None:
            if not callable(credentials):
                invalid("credentials must be a dict or a function that returns one")
            self._settings["credentials"] = credentials
        self._core = _stoker.store(**self._settings)

    def __reduce__(self) -> Any:
        return _again, (self._settings,)

    def __repr__(self) -> str:
        shown_ones = [f"{k}={printable(repr(v))}" for k, v in self._settings.items()
                      if v and k in ("profile", "region", "endpoint", "anonymous", "requester_pays", "cache",
                                "cache_limit", "hedge", "timeout")]
        return f"stoker.Store({', '.join(shown_ones)})"


def _again(settings: dict[str, Any]) -> Store:
    made = Store.__new__(Store)
    made._settings = settings
    made._core = _stoker.store(**settings)
    return made


def core(store: Any) -> Any:
    """The settings as the extension takes them."""
    if store is not None and not isinstance(store, Store):
        invalid(f"store must be a stoker.Store, not {shown(store)}")
    return None if store is None else store._core
