# SPDX-License-Identifier: Apache-2.0
"""What `join` is given for a group's communicator."""
from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from ._errors import usage


def settings_of(
    timeout: float, workers: int = 0, max_workers: int = 0,
    tuning: str | os.PathLike[str] | None = None, autotune: float = 0.0,
    deterministic: bool = False, cache: str | os.PathLike[str] | None = None,
    plans: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The settings that members compare; `check` validates them."""
    return {"timeout": timeout, "workers": workers, "max_workers": max_workers, "tuning": tuning,
            "autotune": autotune, "deterministic": deterministic, "cache": cache, "plans": plans}


def check(name: str, settings: dict[str, Any]) -> None:
    timeout = settings["timeout"]
    if not isinstance(timeout, (int, float)) or not 0 < timeout <= 86400:
        raise usage(f'join: group "{name}": timeout: got {timeout!r}, expected seconds, more than 0 and '
                    "at most 86400, or a timedelta")
    settings["timeout"] = float(timeout)
    for what in ("workers", "max_workers"):
        try:
            settings[what] = operator.index(settings[what])
        except TypeError:
            raise usage(f'join: group "{name}": {what}: got {settings[what]!r}, '
                        "expected a whole number") from None
    _check_tuning(name, settings)
    plans = {} if settings["plans"] is None else settings["plans"]
    if not isinstance(plans, Mapping) or not all(isinstance(t, str) for p in plans.items() for t in p):
        raise usage(f'join: group "{name}": plans: got {plans!r}, expected a dict from op to plan, such as '
                    '{"gemm_ar": "path=unfused"}')
    settings["plans"] = dict(sorted(plans.items()))


def _check_tuning(name: str, settings: dict[str, Any]) -> None:
    seconds = settings["autotune"]
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 3600:
        raise usage(f'join: group "{name}": autotune: got {seconds!r}, expected seconds, 0 to 3600')
    settings["autotune"] = float(seconds)
    settings["deterministic"] = bool(settings["deterministic"])
    if settings["deterministic"] and seconds:
        raise usage(f'join: group "{name}": autotune with deterministic: got {seconds:g} s, expected 0: '
                    "timed plans may differ from run to run, and so may the last bits "
                    "of results")
    for what in ("tuning", "cache"):
        path = settings[what]
        try:
            settings[what] = "" if path is None else os.fsdecode(path)
        except TypeError:
            raise usage(f'join: group "{name}": {what}: got {path!r}, expected a path') from None
