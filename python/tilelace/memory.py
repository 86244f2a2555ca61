# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that all ranks of a group reach."""
from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import torch
from torch import Tensor

from . import _groups
from ._errors import Error, call, usage
from ._groups import Group
from ._library import LIBRARY, has_cuda

# Of tensors that are gone. Their memory goes at a quiet time: whoever collects garbage may be in
# the middle of a graph's capture, and work on it may still run.
_dropped: list[int] = []
# Of pools that are gone; tensors in them may not be.
_dropped_pools: list[int] = []
# By place. Kept until the end of the process: some versions of torch hold their addresses alone.
_allocators: dict[int, torch.cuda.memory.CUDAPluggableAllocator] = {}


class _Buffer:
    """The memory behind a tensor on a GPU: lives as long as the tensor."""

    def __init__(self, number: int, address: int, size: int) -> None:
        self._number = number
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __del__(self) -> None:
        _dropped.append(self._number)


def _host_bytes(number: int, address: int, size: int) -> Any:
    kind: Any = type("_HostBytes", (ctypes.c_char * size,), {
        "__del__": lambda self: _dropped.append(number)})
    return kind.from_address(address)


def _give_back() -> None:
    """Frees the memory of tensors and pools that are gone."""
    if not _dropped and not _dropped_pools:
        return
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for index in set(_groups.joined_gpus()):
            torch.cuda.synchronize(index)
    while _dropped:
        torch.ops.tilelace._drop_buffer(_dropped.pop())
    in_use = []
    while _dropped_pools:  # more may come meanwhile
        number = _dropped_pools.pop()
        if not torch.ops.tilelace._drop_pool(number):
            in_use.append(number)
    _dropped_pools.extend(in_use)


def _wrong_size(shape: Sequence[Any], dtype: Any) -> str:
    if not isinstance(dtype, torch.dtype):
        return f"empty: dtype: got {dtype!r}, expected a torch.dtype"
    if not all(isinstance(s, int) and s >= 0 for s in shape):
        return f"empty: size: got {shape}, expected whole numbers, each 0 or more"
    return ""


def _refuse(name: str, kind: str, text: str) -> NoReturn:
    """Raises here, and in the peers' call: this rank asks for a size that no peer asks for."""
    with suppress(Error):
        call(torch.ops.tilelace._make_buffer, name, kind, 1 << 62)
    raise usage(text)


def empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    group: Group = None,
) -> Tensor:
    """A tensor of zeros that peers can write: for results of the ops.

    As `out` of `gemm_ar` on GPUs it saves a copy: if the plan is fused with transport store or pull,
    peers write results straight into it. All ranks pass the tensor of the same call of `empty`.
    `device`: "cpu" or "cuda"; by default the one that the group joined for, else the one of its
    backend. `dtype` as for torch.empty. Allocate once: a call is slow (ranks exchange handles) and
    takes memory in pieces of 2 MiB. The memory is freed by the next call of `empty` after the tensor
    is gone. Collective, with the same size on every rank; not while a graph is captured.
    Errors: usage (sizes that differ; a capture; no `device`, and the group did not join and has one
    backend for CPU and another for GPUs), system, peer, timeout.
    """
    shape: list[Any] = list(size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size)
    pg = _groups._group_of(group if group is None or not isinstance(group, str)
                           else _groups.plain(group))
    asked = torch.device(device) if device is not None else None
    kind = asked.type if asked is not None else _groups.default_device("empty", pg)
    if kind == "cuda" and torch.cuda.is_current_stream_capturing():
        raise usage("tilelace.empty: cannot allocate during a graph capture: call tilelace.empty before it")
    dtype = dtype or torch.get_default_dtype()
    name = pg.group_name
    _groups.ensure(name, kind, _groups.index_in(asked))
    _give_back()
    if wrong := _wrong_size(shape, dtype):
        _refuse(name, kind, wrong)
    wanted = math.prod(shape) * dtype.itemsize
    number, address = call(torch.ops.tilelace._make_buffer, name, kind, max(1, wanted))
    if kind == "cuda":
        flat = torch.as_tensor(_Buffer(number, address, max(1, wanted)),
                               device=f"cuda:{_groups.gpu_of(name)}")
    else:
        flat = torch.frombuffer(_host_bytes(number, address, max(1, wanted)), dtype=torch.uint8)
    return flat[:wanted].view(dtype).view(shape)


def _allocator(place: int) -> torch.cuda.memory.CUDAPluggableAllocator:
    if place not in _allocators:
        _allocators[place] = torch.cuda.memory.CUDAPluggableAllocator(
            str(LIBRARY), f"tilelace_pool_{place}_allocate", "tilelace_pool_free")
    return _allocators[place]


def _check_pool(size: int, device: str | torch.device | None) -> None:
    kind = torch.device(device).type if device is not None else "cuda"
    if kind != "cuda":
        raise usage(f"mem_pool: device: got {kind}, expected cuda: pools are for GPU memory")
    if not has_cuda():
        raise usage("mem_pool: this build has CPU ranks only: install one with CUDA")
    if not torch.cuda.is_available():
        raise usage("mem_pool: torch sees no GPU")
    if size <= 0:
        raise usage(f"mem_pool: size: got {size} bytes, expected 1 or more")
    if torch.cuda.is_current_stream_capturing():
        raise usage("mem_pool: a graph is being captured: call mem_pool before the capture")


def mem_pool(
    size: int,
    group: Group = None,
    device: str | torch.device | None = None,
) -> torch.cuda.MemPool:
    """A torch.cuda.MemPool of `size` bytes that peers can write, for torch.cuda.use_mem_pool.

    gemm_ar on GPUs writes straight into a result in the pool, given as `out` or made by the call,
    if its plan is fused with transport store or pull. The result must have the same place in the
    pool on all ranks: allocate and free the same sizes in the same order on all of them. If the
    places differ, the call raises an error of kind usage on all ranks; call tilelace.recover then.
    torch takes memory from the pool in pieces of 2 MiB (20 MiB for tensors of 1 to 10 MiB),
    separate pieces for each stream. It raises torch.OutOfMemoryError when the pool is full;
    docs/pytorch.md says how to size it. Memory is reserved now. A later call of mem_pool or `empty`
    frees it when the pool and all tensors in it are gone. `device`: "cuda", the GPU that the group
    joined with. Collective, with the same size on every rank; allocations from the pool are local.
    Not while a graph is captured. Errors: usage (no CUDA, a size that differs, more than 32 pools
    at a time, a capture), system, peer, timeout.
    """
    _check_pool(size, device)
    pg = _groups._group_of(group if group is None or not isinstance(group, str)
                           else _groups.plain(group))
    name = pg.group_name
    _groups.ensure(name, "cuda", _groups.index_in(device))
    _give_back()
    if _dropped_pools:  # tensors outlived them, and torch may have kept what these were in
        torch.cuda.empty_cache()
        _give_back()
    number, place, index = call(torch.ops.tilelace._make_pool, name, "cuda", size)
    try:
        with torch.cuda.device(index):
            pool = torch.cuda.MemPool(_allocator(place).allocator())
    except BaseException:
        _dropped_pools.append(number)
        raise
    weakref.finalize(pool, _dropped_pools.append, number).atexit = False
    return pool
