# SPDX-License-Identifier: Apache-2.0
"""What the package tells where it takes another way than was asked for: log "tilelace"."""
from __future__ import annotations

import logging

log = logging.getLogger("tilelace")
told: set[str] = set()


def tell_once(level: int, text: str) -> None:
    if text not in told:
        told.add(text)
        log.log(level, text)
