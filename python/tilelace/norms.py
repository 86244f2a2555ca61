# SPDX-License-Identifier: Apache-2.0
"""all_reduce, residual add and RMSNorm as one call, optionally quantised to e4m3.

tilelace/all_reduce_norm.h defines the results bit for bit: they are the same on every rank, on CPUs
and on GPUs. When results are there, and errors: as for the ops (tilelace.ops). CUDA graphs: as for
tilelace.collectives.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from . import _arguments
from ._collective_shapes import quantised_like
from ._groups import Group
from .ops import _list, _name, _run


class Normed(NamedTuple):
    """The results of all_reduce_norm for x [.., n]. None: a result that the call does not make.

    `normed` [.., n]; `residual` [.., n]: the sum plus the given residual, for the next layer;
    `quantised` [.., n] torch.float8_e4m3fn; `scales` fp32: [.., 1] for quant "token",
    [.., n / 128] for "block".
    """

    normed: Tensor | None
    residual: Tensor
    quantised: Tensor | None = None
    scales: Tensor | None = None


def _outs(args: Sequence[Any], out: Any) -> list[Any]:
    given = _list(out)
    if not isinstance(given, list) or len(given) != len(Normed._fields):
        got = f"{len(given)} tensors" if isinstance(given, list) else type(given).__name__
        _arguments.refuse("all_reduce_norm", args, f"out: got {got}, expected a Normed or four tensors, "
                          "with None for results that are not wanted")
    return given


@_arguments.told
def all_reduce_norm(
    x: Tensor, weight: Tensor, group: Group = None, *, residual: Tensor | None = None,
    eps: float = 1e-6, quant: str = "none", scale: Tensor | None = None, return_normed: bool = False,
    out: Normed | Sequence[Tensor | None] | None = None,
) -> Normed:
    """RMSNorm of residual + the sum of x over the ranks, and that sum, the same bits on every rank.

    `x` [.., n] (this rank's terms), `residual` [.., n] and `weight` [n], both equal on all ranks; bf16
    or fp16; n is a multiple of 8 up to 16384. `quant` "none": the norm is not quantised. "token": e4m3
    with one scale per row. "block": one scale per 128 columns of a row; n is a multiple of 128.
    "given": the one scale in `scale`, fp32. `return_normed`: also return the norm of a quantised
    call. `out`: a Normed of tensors to write, with None for results that are not needed (the
    residual; the norm of a quantised call). Its `normed` and `residual` may be x or the residual. A
    call with `out` has no gradients. Tensors with gaps are copied.

    Collective. Traffic: (ranks - 1) times x leaves each rank. Gradients of the norm and the sum need
    no communication: the result counts once, as for gemm_ar. Quantised results have none: backward
    raises an error. Errors: tilelace.Error.
    """
    args = (x, weight, residual, scale, _name(group, x))
    settings = {"eps": eps, "quant": quant}
    if out is None:
        return Normed(*_run("all_reduce_norm", args, settings, return_normed=return_normed))
    normed, after, quantised, scales = given = _outs(args, out)
    _run("all_reduce_norm", args, settings, [t for t in given if t is not None],
         normed=normed, out=after, quantised=quantised, scales=scales)
    return Normed(*given)


@_arguments.told
def all_reduce_norm_(
    x: Tensor, weight: Tensor, group: Group = None, *, residual: Tensor, eps: float = 1e-6,
    quant: str = "none", scale: Tensor | None = None,
) -> Normed:
    """all_reduce_norm in place: writes the new residual to `residual` and, without a quant, the norm to x.

    Quantised results and their scales are new tensors. Collective. No gradients.
    Errors: tilelace.Error.
    """
    try:
        made = quantised_like(x, quant)
    except (AttributeError, RuntimeError, TypeError):
        made = None, None  # the call says what is wrong
    normed = x if quant == "none" else None
    return all_reduce_norm(x, weight, group, residual=residual, eps=eps, quant=quant, scale=scale,
                           out=Normed(normed, residual, *made))
