# SPDX-License-Identifier: Apache-2.0
"""torch.ops.symm_mem's fused ops, same signatures: `from tilelace.compat import symm_mem`.

What is more: gradients, CPU tensors, any size of the scattered dimension (the first ranks get one
row more), no symmetric memory to enable. What is not there: the scaled (fp8) ops, which raise.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from .. import _groups, ops
from .._errors import usage


def enable_symm_mem_for_group(group_name: str) -> None:
    """Nothing is to be enabled."""


def _weights(op: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    for b in tensors:
        if b.dim() != 2:
            raise usage(f"{op}: B: got {list(b.shape)}, expected [k, n]")
    return [b.t() for b in tensors]


def fused_all_gather_matmul(
    A: Tensor, Bs: Sequence[Tensor], gather_dim: int, group_name: str, *, return_A: bool = True
) -> tuple[Tensor | None, list[Tensor]]:
    """A of all ranks along gather_dim, and that times each B [k, n]. Collective."""
    weights = _weights("fused_all_gather_matmul", Bs)
    return ops.ag_gemm(A, weights, None, group_name, gather_dim=gather_dim,
                       return_gathered=return_A)


def _averaged(op: str, reduce_op: str, y: Tensor, group_name: str) -> Tensor:
    if reduce_op == "sum":
        return y
    return y / _groups.size_and_rank(group_name)[0]


def _check_reduce(op: str, reduce_op: str) -> None:
    if reduce_op not in ("sum", "avg"):
        raise usage(f'{op}: reduce_op: got "{reduce_op}", expected sum or avg')


def fused_matmul_reduce_scatter(
    A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int, group_name: str
) -> Tensor:
    """This rank's part, along scatter_dim, of the sum (or mean) of A * B over the ranks."""
    _check_reduce("fused_matmul_reduce_scatter", reduce_op)
    (weight,) = _weights("fused_matmul_reduce_scatter", [B])
    y = ops.gemm_rs(A, weight, None, group_name, scatter_dim=scatter_dim)
    return _averaged("fused_matmul_reduce_scatter", reduce_op, y, group_name)


def fused_matmul_all_reduce(A: Tensor, B: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """The sum (or mean) of A * B over the ranks. Not in torch.ops.symm_mem."""
    _check_reduce("fused_matmul_all_reduce", reduce_op)
    (weight,) = _weights("fused_matmul_all_reduce", [B])
    y = ops.gemm_ar(A, weight, None, group_name)
    return _averaged("fused_matmul_all_reduce", reduce_op, y, group_name)


def _not_there(op: str) -> NoReturn:
    raise usage(
        f"{op}: dtype: got scaled operands (fp8), expected bfloat16, float16 or float32: "
        "there are no scaled ops yet")


def fused_all_gather_scaled_matmul(*_: Any, **__: Any) -> NoReturn:
    _not_there("fused_all_gather_scaled_matmul")


def fused_scaled_matmul_reduce_scatter(*_: Any, **__: Any) -> NoReturn:
    _not_there("fused_scaled_matmul_reduce_scatter")
