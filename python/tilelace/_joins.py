# SPDX-License-Identifier: Apache-2.0
"""Joins a group at its first call, also if that call does not come from Python.

Direct calls of torch.ops and compiled graphs reach the CUDA kernels in C++; these call this module.
"""
from __future__ import annotations

import atexit
import ctypes
from typing import Any

import torch

from . import _groups
from ._errors import KINDS, Error

_NUMBERS = {name: number for number, name in KINDS.items()}


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
def _join(name: bytes, device: bytes, index: int, text: Any, capacity: int) -> int:
    try:
        _groups.ensure(name.decode(), device.decode(), index)
        return 0
    except BaseException as error:  # nothing may go through C++
        what = str(error).encode()[:capacity]
        ctypes.memmove(text, what, len(what))
        return _NUMBERS[error.kind if isinstance(error, Error) else "system"]


torch.ops.tilelace._set_joiner(ctypes.cast(_join, ctypes.c_void_p).value)
# Calls that other threads make while the interpreter ends find no group.
atexit.register(torch.ops.tilelace._set_joiner, 0)
