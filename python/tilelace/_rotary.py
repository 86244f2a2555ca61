# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of queries and keys in place, in one pass over them; transformers' takes five.

While a prompt is split (_split_prompt.py), outside compiled graphs, on GPUs that Triton knows. The angles'
products are rounded once, behind their sum.
"""
from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ._log import tell_once

_NAME = "apply_rotary_pos_emb"  # what attention calls, a function of its module
_DEVICES = {"cuda"}
_ALIGNED = 16  # bytes; strides in elements are multiples of 8
_running = threading.local()
_stock: dict[str, Any] = {}  # by module
_compiled: set[Any] = set()  # what may be launched under a capture
_broken: list[bool] = []


def _is_laid_out(x: Tensor) -> bool:
    return (x.stride(-1) == 1 and x.data_ptr() % _ALIGNED == 0
            and all(s % 8 == 0 for s in x.stride()[:-1]))


def _can_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> bool:
    batch, _, tokens, size = x.shape
    half = size // 2
    if size % 16 or half & (half - 1) or 0 in x.stride() or cos.stride() != sin.stride() or cos.dtype is not sin.dtype:
        return False
    return (cos.shape == sin.shape and cos.shape[1:] == (tokens, size) and cos.shape[0] in (1, batch)
            and all(map(_is_laid_out, (x, cos, sin))))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """x [batch, heads, tokens, 2 * half] in place; cos, sin [batch or 1, tokens, 2 * half]."""
    batch, heads, tokens, size = x.shape
    strides = [s // 8 for s in x.stride()[:-1]]
    angles = [0 if cos.shape[0] == 1 else cos.stride(0) // 8, cos.stride(1) // 8]
    from ._rotary_kernel import rotate_tokens  # needs Triton

    rotate_tokens[(batch * tokens,)](x, cos, sin, heads, tokens, *strides, *angles, HALF=size // 2, num_warps=2)


def _in_place(q: Any, k: Any, cos: Any, sin: Any) -> bool:
    """Whether q and k were rotated; nothing has changed where they were not."""
    tensors = (q, k, cos, sin)
    if _broken or not all(isinstance(t, Tensor) and t.device.type in _DEVICES for t in tensors):
        return False
    if q.dim() != 4 or k.dim() != 4 or cos.dim() != 3 or sin.dim() != 3:
        return False
    if not _can_rotate(q, cos, sin) or not _can_rotate(k, cos, sin):
        return False
    key = (q.dtype, k.dtype, cos.dtype, q.shape[-1], q.device)
    if key not in _compiled:
        if q.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
        try:
            rotate(torch.zeros_like(q[:1, :1, :1]), cos[:1, :1], sin[:1, :1])  # before q has changed
            rotate(torch.zeros_like(k[:1, :1, :1]), cos[:1, :1], sin[:1, :1])
        except Exception as error:  # no Triton, or no compiler that it needs
            _broken.append(True)
            tell_once(logging.WARNING, f"transformers: rotary embedding in place needs Triton and a C compiler, but "
                      f"failed with {type(error).__name__}: {error}: left to transformers")
            return False
        _compiled.add(key)
    rotate(q, cos, sin)
    rotate(k, cos, sin)
    return True


def _install(module: str) -> None:
    """Attention of this module rotates in place where `here` lets it."""
    of = sys.modules[module]
    stock = getattr(of, _NAME, None)
    if module in _stock or stock is None:
        return

    @functools.wraps(stock)
    def apply(q: Any, k: Any, cos: Any, sin: Any, *more: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or more or named or not getattr(_running, "here", False):
            return stock(q, k, cos, sin, *more, **named)
        return (q, k) if _in_place(q, k, cos, sin) else stock(q, k, cos, sin)

    _stock[module] = stock
    setattr(of, _NAME, apply)


def restore() -> None:
    """All modules have their own function again."""
    for module, stock in _stock.items():
        setattr(sys.modules[module], _NAME, stock)
    _stock.clear()


@contextmanager
def here(module: str) -> Iterator[None]:
    """While it lasts, q and k of this thread's attention, of this module, belong to it alone."""
    _install(module)
    _running.here = True
    try:
        yield
    finally:
        _running.here = False
