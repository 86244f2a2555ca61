# SPDX-License-Identifier: Apache-2.0
"""Runs torch.distributed's own collectives with this library, while switched on.

The functions of torch.distributed are replaced by name. torch's functional collectives get kernels
for CPU and CUDA tensors through torch.library, which also removes them again.
"""
from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d as c10d

from . import _groups, collectives
from ._done import Done
from ._dtypes import DTYPES
from ._fits import MOST_RANKS
from ._groups import Group
from ._log import tell_once

_ADDED = (*(row.dtype for row in DTYPES), torch.int32, torch.int64, torch.uint8)
_WIDTHS = (1, 2, 4, 8)
# Those that are on, the latest last; None: all groups.
_on: list[str | None] = []


# --- whether a call is ours; the answer is the same on every rank, as calls that match are


def _reduction(op: Any) -> str | None:
    if isinstance(op, str):
        return op.lower() if op.lower() in ("sum", "avg", "max") else None
    known = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG, "max": dist.ReduceOp.MAX}
    return next((name for name, value in known.items() if op == value), None)


def _why_not_tensors(tensors: tuple[Tensor, ...], pg: Any) -> str:
    for t in tensors:
        if type(t) not in (Tensor, torch.nn.Parameter):
            return f"got a {type(t).__name__}, expected a torch.Tensor"
        if t.device.type not in ("cpu", "cuda") or t.layout is not torch.strided:
            return f"got a tensor of layout {t.layout} on {t.device.type}, expected torch.strided on cpu or cuda"
        if not t.is_contiguous():
            return "a tensor is not contiguous"
        if t.dtype != tensors[0].dtype or t.device != tensors[0].device:
            return "tensors have several types or devices"
    device = tensors[0].device.type
    if not _groups._is_joined(pg, pg.group_name, device):
        return f"the group has not joined for {device} tensors: call tilelace.join first"
    if device == "cuda" and pg.size() > MOST_RANKS:
        return f"got {pg.size()} ranks, expected at most {MOST_RANKS} GPUs"
    return ""


def _why_not_dtype(dtype: torch.dtype, op: Any) -> str:
    """`op`: None for collectives that do not add."""
    if op is None:
        return "" if dtype.itemsize in _WIDTHS else (
            f"got {dtype} of {dtype.itemsize} bytes per element, expected 1, 2, 4 or 8")
    name = _reduction(op)
    if name is None:
        return f"got {op if isinstance(op, str) else str(op).rpartition('.')[2]}, expected sum, avg or max"
    if dtype not in _ADDED or (name == "avg" and not dtype.is_floating_point):
        return f"tilelace has no {name} of {dtype}"
    return ""


def _is_ours(what: str, pg: Any, tensors: tuple[Tensor, ...], op: Any = None, more: str = "") -> bool:
    """Whether this library runs the call; logs once why not. `more`: a further reason."""
    if pg is None or not any(name in (None, pg.group_name) for name in _on):
        return False
    reason = more or _why_not_tensors(tensors, pg) or _why_not_dtype(tensors[0].dtype, op)
    if reason:
        tell_once(logging.WARNING, f"override_collectives: {what}: {reason}; torch's own is used")
    return not reason


def _group_of(group: Any) -> Any:
    """None: this rank is not in the group, or torch collects the group's calls for later."""
    pg = c10d.GroupMember.WORLD if group is None else group
    if not isinstance(pg, dist.ProcessGroup) or c10d._rank_not_in_group(pg):
        return None
    return None if pg in c10d._world.pg_coalesce_state else pg


def _sizes_differ(larger: Tensor, smaller: Tensor, pg: Any) -> str:
    fits = pg is None or larger.numel() == smaller.numel() * pg.size()
    return "" if fits else "the larger tensor must have as many elements as the smaller ones of all ranks together"


# --- torch.distributed's functions


def _ended(result: Tensor, async_op: bool) -> Done | None:
    return Done(result) if async_op else None


def _all_reduce(torchs: Any, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None,
                async_op: bool = False) -> Any:
    pg = _group_of(group)
    if not _is_ours("all_reduce", pg, (tensor,), op):
        return torchs(tensor, op, group, async_op)
    t = tensor.detach()
    collectives.all_reduce(t, pg, op=_reduction(op), out=t)
    return _ended(tensor, async_op)


def _all_gather(torchs: Any, output_tensor: Any, input_tensor: Any, group: Any = None,
                async_op: bool = False) -> Any:
    pg = _group_of(group)
    wrong = _sizes_differ(output_tensor, input_tensor, pg)
    if not _is_ours("all_gather_into_tensor", pg, (output_tensor, input_tensor), None, wrong):
        return torchs(output_tensor, input_tensor, group, async_op)
    out = output_tensor.detach().view(-1)
    collectives.all_gather(input_tensor.detach().view(-1), pg, out=out)
    return _ended(output_tensor, async_op)


def _reduce_scatter(torchs: Any, output: Any, input: Any, op: Any = dist.ReduceOp.SUM,
                    group: Any = None, async_op: bool = False) -> Any:
    pg = _group_of(group)
    wrong = _sizes_differ(input, output, pg)
    if not _is_ours("reduce_scatter_tensor", pg, (output, input), op, wrong):
        return torchs(output, input, op, group, async_op)
    x, out = input.detach().view(-1), output.detach().view(-1)
    collectives.reduce_scatter(x, pg, op=_reduction(op), out=out)
    return _ended(output, async_op)


def _all_to_all(torchs: Any, output: Any, input: Any, output_split_sizes: Any = None,
                input_split_sizes: Any = None, group: Any = None, async_op: bool = False) -> Any:
    pg = _group_of(group)
    wrong = ""
    if output_split_sizes or input_split_sizes:
        wrong = "the call has lists of split sizes, and only equal parts are supported"
    elif pg is not None and (output.numel() != input.numel() or input.numel() % pg.size()):
        wrong = "input and output differ in size, or their size is no multiple of the ranks"
    if not _is_ours("all_to_all_single", pg, (output, input), None, wrong):
        return torchs(output, input, output_split_sizes, input_split_sizes, group, async_op)
    collectives.all_to_all(input.detach().view(-1), pg, out=output.detach().view(-1))
    return _ended(output, async_op)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather,
    "all_gather_single": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter,
    "all_to_all_single": _all_to_all,
}


def _in_place_of(torchs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torchs)
    def either(*args: Any, **kwargs: Any) -> Any:
        # Compilers know torch's function, and make a functional collective of it.
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            return torchs(*args, **kwargs)
        return ours(torchs, *args, **kwargs)

    return either


# --- torch's functional collectives: kernels of torch._c10d_functional


def _named(group_name: Any) -> Any:
    if isinstance(group_name, str):
        group_name = _groups._live(group_name)
    return _group_of(group_name) if isinstance(group_name, dist.ProcessGroup) else None


def _kernels() -> dict[str, Callable[..., Any]]:
    """Each returns NotImplemented if torch runs the call."""

    def all_reduce(x: Tensor, op: Any, group: Any) -> Any:
        pg = _named(group)
        ours = _is_ours("functional all_reduce", pg, (x,), op)
        return collectives.all_reduce(x.detach(), pg, op=_reduction(op)) if ours else NotImplemented

    def all_reduce_(x: Tensor, op: Any, group: Any) -> Any:
        pg = _named(group)
        ours = _is_ours("functional all_reduce", pg, (x,), op)
        if not ours:
            return NotImplemented
        t = x.detach()
        collectives.all_reduce(t, pg, op=_reduction(op), out=t)
        return x

    def all_gather(x: Tensor, size: int, group: Any) -> Any:
        pg = _named(group)
        ours = x.dim() > 0 and _is_ours("functional all_gather_into_tensor", pg, (x,))
        return collectives.all_gather(x.detach(), pg) if ours else NotImplemented

    def all_gather_out(x: Tensor, size: int, group: Any, *, out: Tensor) -> Any:
        pg = _named(group)
        ours = x.dim() > 0 and _is_ours(
            "functional all_gather_into_tensor", pg, (x, out), None, _sizes_differ(out, x, pg))
        if not ours:
            return NotImplemented
        collectives.all_gather(x.detach().view(-1), pg, out=out.detach().view(-1))
        return out

    def reduce_scatter(x: Tensor, op: Any, size: int, group: Any) -> Any:
        pg = _named(group)
        ours = x.dim() > 0 and x.shape[0] % size == 0 and _is_ours(
            "functional reduce_scatter_tensor", pg, (x,), op)
        if not ours:
            return NotImplemented
        return collectives.reduce_scatter(x.detach(), pg, op=_reduction(op))

    return {"all_reduce": all_reduce, "all_reduce_": all_reduce_, "all_gather_into_tensor": all_gather,
            "all_gather_into_tensor_out": all_gather_out, "reduce_scatter_tensor": reduce_scatter}


def _before(op: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    # torch's own kernel is the same for all backends, so it is reached by one that has none of ours.
    # redispatch lets go of the GIL; get_kernel(...).call_boxed keeps it, and would wait for ever for a
    # thread of gloo that ends a call's tensors under its lock.
    torchs = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse3)

    def either(*args: Any, **kwargs: Any) -> Any:
        result = ours(*args, **kwargs)
        return op.redispatch(torchs, *args, **kwargs) if result is NotImplemented else result

    return either


# --- the switch


class _Installed:
    """torch's own functions, and how to restore them."""

    def __init__(self) -> None:
        self.functions: list[tuple[Any, str, Any]] = []
        for module in (dist, c10d):
            for name, ours in _FUNCTIONS.items():
                torchs = getattr(module, name, None)
                if torchs is not None:
                    self.functions.append((module, name, torchs))
                    setattr(module, name, _in_place_of(torchs, ours))
        self.library = torch.library.Library("_c10d_functional", "IMPL")
        for name, ours in _kernels().items():
            op = getattr(torch.ops._c10d_functional, name).default
            for key in ("CPU", "CUDA"):
                self.library.impl(name, _before(op, ours), key)

    def remove(self) -> None:
        for module, name, torchs in self.functions:
            setattr(module, name, torchs)
        self.library._destroy()


_installed: _Installed | None = None


@final
class Override:
    """Switched on when made; switched off by `off` or the end of a `with`. May be nested."""

    def __init__(self, name: str | None) -> None:
        global _installed
        self._name: str | None = name
        self._is_on = True
        _on.append(name)
        if _installed is None:
            _installed = _Installed()

    def off(self) -> None:
        """Switches off; a second call does nothing. Local."""
        global _installed
        if not self._is_on:
            return
        self._is_on = False
        _on.remove(self._name)
        if not _on and _installed is not None:
            _installed.remove()
            _installed = None

    def __enter__(self) -> Override:
        return self

    def __exit__(self, *_: object) -> None:
        self.off()


def override_collectives(group: Group = None) -> Override:
    """Runs torch.distributed's collectives of a group with this library, where it supports them.

    `group` None: every group that has joined. Lasts until `off()` of the returned object, or to the
    end of a `with`. It replaces torch.distributed.all_reduce, all_gather_into_tensor,
    reduce_scatter_tensor and all_to_all_single (with equal parts). It also replaces torch's
    functional collectives of the first three, in graphs compiled before, too. It takes sum, avg and
    max, contiguous tensors of the types of tilelace.all_reduce, and groups that have joined. torch
    runs everything else, and the logger "tilelace" says once why. Sums are in rank order, rounded
    once. `async_op=True` returns a handle to wait on. On GPUs work goes into the current stream, and
    all calls of a group must be in one stream at a time. Local: call it on every rank, between the
    same calls. Functions imported by name before (`from torch.distributed import all_reduce`) and
    torch's calls from C++ (DDP) stay torch's. Errors: usage (not a group); calls raise
    tilelace.Error.
    """
    return Override(None if group is None else _groups.group_name(group))
