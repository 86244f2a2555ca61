# SPDX-License-Identifier: Apache-2.0
"""Versions of other packages that the tests run with; another one is named once, and tried."""
from __future__ import annotations

import logging
from importlib.metadata import PackageNotFoundError, version

from ._errors import usage
from ._log import tell_once

# The first and the last release that was tested.
TESTED = {
    "megatron-core": ("0.16", "0.16"),
    "transformers": ("5.17", "5.24"),
}


def _numbers(text: str) -> tuple[int, ...]:
    """5.24.0.dev1: (5, 24)."""
    parts = text.split(".")[:2]
    return tuple(int(p) if p.isdecimal() else 0 for p in parts)


def check(package: str, switch: str) -> None:
    """Says once if this release was not tested. Errors: usage (the package is not there)."""
    first, last = TESTED[package]
    try:
        found = version(package)
    except PackageNotFoundError:
        raise usage(f"{switch}: {package}: got none, expected {first} to {last}: "
                    f"pip install {package}") from None
    if not _numbers(first) <= _numbers(found) <= _numbers(last):
        tell_once(logging.WARNING, f"{switch}: {package}: got {found}, but only {first} to {last} are tested: "
                  "this version may not work")
