# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts in tensor parallelism: a layer's two halves, and products grouped by expert.

    act, map = tilelace.moe.ag_moe(x, ids, weights, w13, group, experts=64)
    y = tilelace.moe.moe_rs(act, map, w2, group, experts=64, top_k=ids.shape[1])

`x` [m_r, hidden]; `ids` [m_r, top_k] int32 or int64, an expert or -1 (none); `weights` [m_r, top_k]
fp32. Each rank has a slice of every expert's inner columns, or whole experts: those from `first` on.
`map` says which row of `act` belongs to which token and slot, and brings the weights along; it is made
on the device, and nothing waits for counts on the host. No row is dropped.

The first call of a group prepares; later ones prepare again only where a layer needs more room.
`max_tokens`: the most tokens of all ranks that calls will have, to prepare for them at once.

bf16 and fp16, on CPU ranks fp32, too. No gradients: under torch.no_grad, or where no tensor
needs them. Tensors with gaps are copied. Errors: tilelace.Error of kind usage (also ids that name no
expert, and ranks whose routings differ, on every rank), system, peer, timeout.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _arguments
from ._errors import call, usage
from ._groups import Group
from .ops import _list, _name, _run


def _without_gradients(op: str, tensors: Sequence[Any]) -> str:
    """What is wrong with tensors that need gradients, or ""."""
    if torch.is_grad_enabled() and any(getattr(t, "requires_grad", False) for t in tensors):
        return f"{op}: gradients are not supported: call under torch.no_grad"
    return ""


def _made(op: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    wrong = _without_gradients(op, args[:-1])
    if wrong and not torch.compiler.is_compiling():
        _arguments.refuse(op, args, wrong.removeprefix(op + ": "))
    return _run(op, args, settings)


def grouped_gemm(
    x: Tensor, weight: Tensor, begins: Tensor, bias: Tensor | None = None, *,
    activation: str = "none", scales: Tensor | None = None, sources: Tensor | None = None,
) -> Tensor:
    """act(x * weight_e^T + bias_e) for the rows of each expert e, times a factor of each row.

    `x` [rows, k], `weight` [experts, w, k] (w: n, or 2 n for "swiglu" and "swiglu_clamped"),
    `begins` [experts + 1] int32: first row of each expert, and the number of rows; `bias` [experts, w];
    result [rows, n], undefined beyond the experts' rows. `scales` [rows] fp32; with `sources` [rows]
    int32 row r's is scales[sources[r]]. k and n are multiples of 8. Products are summed in fp32 and
    rounded once. Local: no group, no communication; on GPUs on the current stream. In a CUDA graph a
    replay reads `begins` anew, and must not overlap with another replay of that graph.
    Errors: tilelace.Error of kind usage (on GPUs what `begins` and `sources` say is not checked).
    """
    wrong = _without_gradients("grouped_gemm", (x, weight, bias, scales))
    if wrong:
        raise usage(wrong)
    return call(torch.ops.tilelace.grouped_gemm, x, weight, begins, bias, scales, sources,
                activation=activation)


@_arguments.told
def ag_moe(
    x: Tensor, ids: Tensor, weights: Tensor, w13: Tensor, group: Group = None, *, experts: int,
    first: int = 0, bias: Tensor | None = None, activation: str = "swiglu", replicated: bool = False,
    weight_on_input: bool = False, max_tokens: int = 0, sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """A layer's first half: all ranks' tokens, their rows by expert, and each expert's product.

    `x` [m_r, hidden], `ids` and `weights` [m_r, top_k], `w13` [experts here, w, hidden] with w inner,
    or 2 inner for "swiglu" (gates first) and "swiglu_clamped" (gate, up, gate, up ..; gpt-oss); `bias`
    [experts here, w]. `experts`: in all; this rank's begin with `first`. `replicated`: every rank has
    all m tokens, nothing travels. `weight_on_input`: weights are applied to x. `sizes`: tokens of every
    rank, if they differ. Returns (act [m * top_k, inner], map): rows beyond the experts' are
    undefined. Collective; on GPUs on the current stream. Traffic: (ranks - 1) * m_r * hidden elements
    leave each rank. Errors: tilelace.Error of kind usage, system, peer, timeout.
    """
    settings = {"experts": experts, "first": first, "activation": activation, "replicated": replicated,
                "weight_on_input": weight_on_input, "max_tokens": max_tokens, "sizes": _list(sizes)}
    return _made("ag_moe", (x, ids, weights, w13, bias, _name(group, x)), settings)


@_arguments.told
def moe_rs(
    act: Tensor, map: Tensor, w2: Tensor, group: Group = None, *, experts: int, top_k: int,
    first: int = 0, bias: Tensor | None = None, add: Tensor | None = None,
    weight_on_input: bool = False, sizes: Sequence[int] | None = None,
) -> Tensor:
    """A layer's second half: each expert's product, tokens' weighted sums, scattered over the ranks.

    `act` and `map` as ag_moe returned them; `w2` [experts here, hidden, inner]; `bias` [experts here,
    hidden] (where ranks share an expert, on one of them alone); `add` [m, hidden], or [m_r, hidden]
    for this rank's tokens: added to this rank's term. Result [m_r, hidden]. Slots are added in fp32 in
    their order, ranks in theirs: the same bits in every run. `sizes`: tokens of every rank; without it
    the first ranks get one more. Collective; on GPUs on the current stream. Traffic: (m - m_r) * hidden
    elements leave each rank. Errors: as ag_moe.
    """
    settings = {"experts": experts, "top_k": top_k, "first": first,
                "weight_on_input": weight_on_input, "sizes": _list(sizes)}
    return _made("moe_rs", (act, map, w2, bias, add, _name(group, act)), settings)


@_arguments.told
def moe_ar(
    act: Tensor, map: Tensor, w2: Tensor, group: Group = None, *, experts: int, top_k: int,
    first: int = 0, bias: Tensor | None = None, add: Tensor | None = None,
    weight_on_input: bool = False,
) -> Tensor:
    """As moe_rs, but every rank gets the sums of all tokens [m, hidden], the same bits on every rank.

    Collective; on GPUs on the current stream. Traffic: that of an all_reduce of m * hidden elements.
    Errors: as ag_moe.
    """
    settings = {"experts": experts, "top_k": top_k, "first": first,
                "weight_on_input": weight_on_input}
    return _made("moe_ar", (act, map, w2, bias, add, _name(group, act)), settings)
