# SPDX-License-Identifier: Apache-2.0
"""Collectives by themselves, beside the fused ops on the same communicator, in any order with them.

Tensors may have any strides; others than one after the other are copied. What adds takes bf16, fp16,
fp32, int32, int64 and uint8 (avg: floats alone), in fp32 (integers: in their own type) in rank order,
rounded once: the same bits on every rank. What moves takes any type of 1, 2, 4 or 8 bytes.

`out`: of the result's shape and type, on x's device; x itself is a place for all_reduce, its own
part of the whole for all_gather (x in `out`) and reduce_scatter (`out` in x). No gradients then.

Gradients, of the sum of all ranks' losses, as torch.distributed._functional_collectives has them:
all_reduce's is an all_reduce with the same op (a result that is the same on every rank counts once
for each rank, unlike gemm_ar's), a gather's a reduce_scatter, a reduce_scatter's a gather, an
all_to_all's an all_to_all the other way round. max has none.

A group's first collective prepares for all of any size; one must have been made before one is
captured in a CUDA graph. When, errors: as the ops (tilelace.ops).
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
    """The sum of x over the ranks, on every rank; `op` "avg": divided by them, "max": the largest.

    `x` of any shape, result the same. Collective. CUDA tensors: enqueued on the current stream, whole
    for what comes later there. Any strides: what has gaps is copied. Traffic: 2 (ranks - 1) / ranks
    of x's bytes leave each rank, or (ranks - 1) times x for few bytes. Gradient: an all_reduce of the
    gradient with the same op. Errors: tilelace.Error of kind usage, system, peer, timeout.
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

    `x` [.., m_r, ..]; result [.., m, ..]. `sizes`: size of `gather_dim` on every rank, where they
    differ. Collective, in the stream and with strides as all_reduce. Traffic: (ranks - 1) times x
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
    """This rank's part of the sum of x over the ranks (`op`: as of all_reduce) along `scatter_dim`.

    `x` [.., m, ..]; result [.., m_r, ..]. `sizes`: size of `scatter_dim` of every rank's result;
    default: evenly, the first ranks one more. Collective, in the stream and with strides as
    all_reduce. Traffic: x without this rank's part leaves each rank. Errors: as all_reduce.
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
    """To each rank its rows of x, by rank; the result is what came, by rank.

    `x` [m, ..]; result [rows taken, ..]. `sends`, `takes`: rows to and from every rank; none: m is
    split evenly. All ranks give lists, or none does. With lists what a pair of ranks exchanges has a
    bound (docs/collectives.md). Collective, in the stream and with strides as all_reduce. Traffic: x
    without what stays leaves each rank. Errors: as all_reduce; a pair whose lists do not fit is told,
    others may have their part.
    """
    name, settings = _name(group, x), {"sends": _list(sends), "takes": _list(takes)}
    if out is None:
        return _run("all_to_all", (x, name), settings)
    _run("all_to_all", (x, name), settings, (out,), out=out)
    return out
