# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that all ranks of a group reach."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _groups
from ._errors import call, usage
from ._groups import Group

# Of tensors that are gone. Their memory goes at a quiet time: whoever collects garbage may be in
# the middle of a graph's capture, and work on it may still run.
_dropped: list[int] = []


class _Buffer:
    """What a tensor on a GPU keeps alive."""

    def __init__(self, number: int, address: int, size: int) -> None:
        self._number = number
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __del__(self) -> None:
        _dropped.append(self._number)


def _host_bytes(number: int, address: int, size: int) -> Any:
    kind = type("_HostBytes", (ctypes.c_char * size,), {
        "__del__": lambda self: _dropped.append(number)})
    return kind.from_address(address)


def _give_back() -> None:
    """What tensors that are gone were in."""
    if not _dropped:
        return
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    while _dropped:
        torch.ops.tilelace._drop_buffer(_dropped.pop())


def empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    group: Group = None,
) -> Tensor:
    """A tensor of zeros that peers reach: for results that the ops write.

    As `out` of `gemm_ar` on GPUs it saves a copy: peers store their rows into it while the call is in
    the stream. All ranks pass the tensor of the same call of `empty`. `device`: "cpu" or "cuda", by
    default that of the group. Slow (ranks exchange handles, memory comes in
    pieces of 2 MiB): allocate once. Freed after the tensor, when `empty` is called next.
    Collective, with the same size on every rank; not in a graph's capture. Errors: tilelace.Error.
    """
    shape = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    pg = _groups._group_of(group if group is None or not isinstance(group, str)
                           else _groups.plain(group))
    kind = torch.device(device).type if device is not None else _groups._device_of(pg)
    if kind == "cuda" and torch.cuda.is_current_stream_capturing():
        raise usage("empty: got a call in a graph's capture, expected one before it")
    dtype = dtype or torch.get_default_dtype()
    wanted = math.prod(shape) * dtype.itemsize
    if any(s < 0 for s in shape):
        raise usage(f"empty: size: got {shape}, expected 0 or more")
    name = pg.group_name
    _groups.ensure(name, kind)
    _give_back()
    number, address = call(torch.ops.tilelace._make_buffer, name, kind, max(1, wanted))
    if kind == "cuda":
        flat = torch.as_tensor(_Buffer(number, address, max(1, wanted)), device="cuda")
    else:
        flat = torch.frombuffer(_host_bytes(number, address, max(1, wanted)), dtype=torch.uint8)
    return flat[:wanted].view(dtype).view(shape)
