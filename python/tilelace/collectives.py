# SPDX-License-Identifier: Apache-2.0
"""Collectives without a product. They share a communicator with the fused ops, in any order.

Tensors may have any strides; tensors with gaps are copied. all_reduce and reduce_scatter take bf16,
fp16, fp32, int32, int64 and uint8 (avg: floating-point types only). They add in fp32 (integers: in
their own type) in rank order and round once: every rank gets the same bits. all_gather and all_to_all
take any type of 1, 2, 4 or 8 bytes.

`out` has the result's shape and type, on x's device. all_reduce may write to x itself. In all_gather
x may be this rank's part of `out`; in reduce_scatter `out` may be this rank's part of x.
A call with `out` has no gradients.

Gradients are those of the sum of all ranks' losses, as in torch.distributed._functional_collectives.
all_reduce: an all_reduce with the same op; its result counts once for each rank (gemm_ar's counts
once). all_gather: a reduce_scatter. reduce_scatter: an all_gather. all_to_all: an all_to_all in the
other direction. max has no gradient.

A group's first collective prepares all later ones, of any size. Make one call before you capture one
in a CUDA graph. When results are there, and errors: as for the ops (tilelace.ops).
"""
from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from . import _arguments
from ._groups import Group
from .ops import _list, _name, _run


@_arguments.told
def all_reduce(
    x: Tensor, group: Group = None, *, op: str = "sum", out: Tensor | None = None
) -> Tensor:
    """The sum of x over the ranks, on every rank. `op`: "sum", "avg" (the mean) or "max".

    `x` has any shape; the result has the same. Collective. CUDA tensors: enqueued on the current
    stream; later work there sees the result. Any strides: tensors with gaps are copied.
    Traffic: 2 (ranks - 1) / ranks of x's bytes leave each rank, or (ranks - 1) times x for few bytes.
    Gradient: an all_reduce of the gradient with the same op. Errors: tilelace.Error of kind usage,
    system, peer, timeout.
    """
    name, settings = _name(group, x), {"reduce_op": op}
    if out is None:
        return _run("all_reduce", (x, name), settings)
    _run("all_reduce", (x, name), settings, (out,), out=out)
    return out


@_arguments.told
def all_reduce_(x: Tensor, group: Group = None, *, op: str = "sum") -> Tensor:
    """all_reduce in place; returns x. Collective. Errors: tilelace.Error."""
    return all_reduce(x, group, op=op, out=x)


@_arguments.told
def all_gather(
    x: Tensor, group: Group = None, *, gather_dim: int = 0, sizes: Sequence[int] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """x of all ranks, one after the other along `gather_dim`.

    `x` [.., m_r, ..]; result [.., m, ..]. `sizes`: size of `gather_dim` on every rank, if they
    differ. Collective; stream and strides as for all_reduce. Traffic: (ranks - 1) times x
    leaves each rank. Errors: as all_reduce.
    """
    name, settings = _name(group, x), {"gather_dim": gather_dim, "sizes": _list(sizes)}
    if out is None:
        return _run("all_gather", (x, name), settings)
    _run("all_gather", (x, name), settings, (out,), out=out)
    return out


@_arguments.told
def reduce_scatter(
    x: Tensor, group: Group = None, *, scatter_dim: int = 0, sizes: Sequence[int] | None = None,
    op: str = "sum", out: Tensor | None = None,
) -> Tensor:
    """This rank's part of the sum of x over the ranks (`op`: as for all_reduce) along `scatter_dim`.

    `x` [.., m, ..]; result [.., m_r, ..]. `sizes`: size of `scatter_dim` in every rank's result.
    Without it the split is even, and the first ranks get one more where m does not divide.
    Collective; stream and strides as for all_reduce. Traffic: x without this rank's part leaves
    each rank. Errors: as all_reduce.
    """
    name = _name(group, x)
    settings = {"scatter_dim": scatter_dim, "sizes": _list(sizes), "reduce_op": op}
    if out is None:
        return _run("reduce_scatter", (x, name), settings)
    _run("reduce_scatter", (x, name), settings, (out,), out=out)
    return out


@_arguments.told
def all_to_all(
    x: Tensor, group: Group = None, *, sends: Sequence[int] | None = None,
    takes: Sequence[int] | None = None, out: Tensor | None = None,
) -> Tensor:
    """Sends each rank its rows of x; returns the rows received. Both are in rank order.

    `x` [m, ..]; result [rows received, ..]. `sends`, `takes`: rows to and from every rank. Without
    them m is split evenly. All ranks give lists, or none does. With lists the rows that a pair of
    ranks exchanges are bounded (docs/collectives.md). Collective; stream and strides as for
    all_reduce. Traffic: x without this rank's own rows leaves each rank. Errors: as all_reduce. If
    the lists of two ranks do not match, these two get the error; other ranks may complete.
    """
    name, settings = _name(group, x), {"sends": _list(sends), "takes": _list(takes)}
    if out is None:
        return _run("all_to_all", (x, name), settings)
    _run("all_to_all", (x, name), settings, (out,), out=out)
    return out
