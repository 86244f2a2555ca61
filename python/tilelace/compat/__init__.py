# SPDX-License-Identifier: Apache-2.0
"""The calls of other libraries, on tilelace."""
from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name == "symm_mem":  # loaded when it is first named
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
