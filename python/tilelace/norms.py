# SPDX-License-Identifier: Apache-2.0
"""all_reduce, the residual and RMSNorm of the sum as one call, with e4m3 where it is asked for.

What the results are stands in tilelace/all_reduce_norm.h, bit for bit: the same on every rank, on CPU
ranks and GPUs. When, errors: as the ops (tilelace.ops); captures in CUDA graphs: as
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
    """What all_reduce_norm gives, of x [.., n]; None: not asked for, or none there.

    `normed` [.., n]; `residual` [.., n]: the sum, the given residual added, which is the next one;
    `quantised` [.., n] torch.float8_e4m3fn; `scales` fp32, of quant token [.., 1], block [.., n / 128].
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
    or fp16; n a multiple of 8 up to 16384. `quant`: "none": the norm; else e4m3 of it, by a scale a
    row ("token"), for 128 columns of a row ("block", n a multiple of 128) or the one in `scale`, fp32
    ("given"); `return_normed`: the norm, too. `out`: a Normed that says where results are written,
    with None for those that nobody wants (the residual; the norm beside a quant); its `normed` and
    `residual` may be x or the residual; no gradients then. Other strides than dense ones are copied.

    Collective. Traffic: (ranks - 1) times x leaves each rank. Gradients of the norm and the sum as
    gemm_ar's: the result counts once, so they need no communication; what is quantised has none (an
    error in backward). Errors: tilelace.Error.
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
    """all_reduce_norm in place: `residual` becomes the next one and, without a quant, x the norm.

    What is quantised, and its scales, are fresh. Collective. No gradients. Errors: tilelace.Error.
    """
    try:
        made = quantised_like(x, quant)
    except (AttributeError, RuntimeError, TypeError):
        made = None, None  # the call says what is wrong
    normed = x if quant == "none" else None
    return all_reduce_norm(x, weight, group, residual=residual, eps=eps, quant=quant, scale=scale,
                           out=Normed(normed, residual, *made))
