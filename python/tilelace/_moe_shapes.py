# SPDX-License-Identifier: Apache-2.0
"""Shapes of the results of mixtures of experts, symbolic ones included."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _groups
from ._collective_shapes import own_part
from ._errors import usage

GATED = ("swiglu", "swiglu_clamped")
ACTIVATIONS = ("none", "gelu", "gelu_tanh", "silu", *GATED)


def _width(op: str, rows: Any, activation: str) -> Any:
    """Columns of the result of a weight with this many rows for each expert."""
    if activation not in ACTIVATIONS:
        raise usage(f'{op}: activation: got "{activation}", expected {", ".join(ACTIVATIONS)}')
    return rows // 2 if activation in GATED else rows


def _words(pairs: Any, here: Any) -> Any:
    """Words of a map: its sections (src/schedule/moe_map.h), each aligned to 32."""
    def section(n: Any) -> Any:
        return (n + 31) // 32 * 32

    return section(here + 1) + 3 * section(pairs) + 64


def grouped_gemm(
    x: Tensor, weight: Tensor, begins: Tensor, bias: Tensor | None = None,
    scales: Tensor | None = None, sources: Tensor | None = None, *, activation: str = "none",
) -> Tensor:
    return x.new_empty((x.shape[0], _width("grouped_gemm", weight.shape[1], activation)))


def _ag_moe(
    x: Tensor, ids: Tensor, weights: Tensor, w13: Tensor, bias: Tensor | None, group_name: str, *,
    experts: int, first: int = 0, activation: str = "swiglu", replicated: bool = False,
    weight_on_input: bool = False, max_tokens: int = 0, sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    ranks, _ = _groups.size_and_rank(group_name)
    if sizes is not None:
        m = sum(sizes)
    else:
        m = x.shape[0] if replicated else x.shape[0] * ranks
    pairs = m * ids.shape[1]
    return (x.new_empty((pairs, _width("ag_moe", w13.shape[1], activation))),
            x.new_empty(_words(pairs, w13.shape[0]), dtype=torch.int32))


def _moe_rs(
    act: Tensor, map: Tensor, w2: Tensor, bias: Tensor | None, add: Tensor | None, group_name: str, *,
    experts: int, top_k: int, first: int = 0, weight_on_input: bool = False,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    own = own_part(act.shape[0] // top_k, group_name)
    if sizes is not None:
        own = sizes[_groups.size_and_rank(group_name)[1]]
    return act.new_empty((own, w2.shape[1]))


def _moe_ar(
    act: Tensor, map: Tensor, w2: Tensor, bias: Tensor | None, add: Tensor | None, group_name: str, *,
    experts: int, top_k: int, first: int = 0, weight_on_input: bool = False,
) -> Tensor:
    return act.new_empty((act.shape[0] // top_k, w2.shape[1]))


OF: dict[str, Callable[..., Any]] = {"ag_moe": _ag_moe, "moe_rs": _moe_rs, "moe_ar": _moe_ar}
