# SPDX-License-Identifier: Apache-2.0
"""The logger "tilelace": says when a call takes a fallback, and why."""
from __future__ import annotations

import logging

log = logging.getLogger("tilelace")
told: set[str] = set()


def tell_once(level: int, text: str) -> None:
    if text not in told:
        told.add(text)
        log.log(level, text)
