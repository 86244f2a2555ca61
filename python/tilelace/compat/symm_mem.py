# SPDX-License-Identifier: Apache-2.0
"""torch.ops.symm_mem's fused ops, same signatures: `from tilelace.compat import symm_mem`.

Also supported: gradients, CPU tensors, and any size of the scattered dimension (the first ranks get
one row more). Symmetric memory need not be enabled. Not supported: the scaled (fp8) ops, which raise.
A gather along the last dimension is not fused: it runs before the products, and the logger "tilelace"
says so. `install()` puts the functions behind torch.ops.symm_mem itself, for code that calls that.
"""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import collectives, ops
from .._errors import usage
from .._log import tell_once
from . import _symm_mem_switch
from ._symm_mem_switch import Calls, calls, uninstall

__all__ = [
    "Calls", "calls", "enable_symm_mem_for_group", "fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul", "fused_matmul_all_reduce", "fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter", "install", "uninstall",
]


def enable_symm_mem_for_group(group_name: str) -> None:
    """Does nothing: symmetric memory need not be enabled. Local. Errors: none."""


def _weights(op: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    for b in tensors:
        if b.dim() != 2:
            raise usage(f"{op}: B: got {list(b.shape)}, expected [k, n]")
    return [b.t() for b in tensors]


def _is_last(t: Tensor, dim: int) -> bool:
    return dim in (t.dim() - 1, -1)


def _in_eights(rows: Tensor) -> Tensor:
    """[m, k], padded with rows of zeros to a number that GPU kernels take as columns."""
    return F.pad(rows, (0, 0, 0, -rows.shape[0] % 8)) if rows.is_cuda else rows


@torch.compiler.assume_constant_result
def _tell(text: str) -> bool:
    tell_once(logging.INFO, text)
    return True


def fused_all_gather_matmul(
    A: Tensor, Bs: Sequence[Tensor], gather_dim: int, group_name: str, *, return_A: bool = True
) -> tuple[Tensor | None, list[Tensor]]:
    """Gathers A along gather_dim and multiplies it by each B [k, n]: (A [.., m, .., k], [[.., n]]).

    `return_A` False: None instead of the gathered A. Collective; stream as for tilelace.ag_gemm.
    Errors: tilelace.Error.
    """
    weights = _weights("fused_all_gather_matmul", Bs)
    if not _is_last(A, gather_dim):
        return ops.ag_gemm(A, weights, None, group_name, gather_dim=gather_dim,
                           return_gathered=return_A)
    # Every rank has columns of each row: no row is whole before all have arrived.
    _tell("fused_all_gather_matmul: gather along the last dimension: not fused, the products run "
          "after the gather")
    parts = collectives.all_gather(A.reshape(-1, A.shape[-1]), group_name)
    whole = parts.view(ops.ranks_of(group_name), *A.shape).movedim(0, -2).flatten(-2)
    return whole if return_A else None, [whole @ b for b in Bs]


def _averaged(reduce_op: str, y: Tensor, group_name: str) -> Tensor:
    return y if reduce_op == "sum" else y / ops.ranks_of(group_name)


def _check_reduce(op: str, reduce_op: str) -> None:
    if reduce_op not in ("sum", "avg"):
        raise usage(f'{op}: reduce_op: got "{reduce_op}", expected sum or avg')


def fused_matmul_reduce_scatter(
    A: Tensor, B: Tensor, reduce_op: str, scatter_dim: int, group_name: str
) -> Tensor:
    """This rank's part, along scatter_dim, of the sum (or mean) of A * B over the ranks.

    `A` [.., m, .., k], `B` [k, n]. `reduce_op`: "sum" or "avg"; the mean divides the rounded sum.
    Collective; stream as for tilelace.gemm_rs. Errors: tilelace.Error.
    """
    _check_reduce("fused_matmul_reduce_scatter", reduce_op)
    (weight,) = _weights("fused_matmul_reduce_scatter", [B])
    if not _is_last(A, scatter_dim):
        y = ops.gemm_rs(A, weight, None, group_name, scatter_dim=scatter_dim)
    else:
        # Columns of the product are rows of its transpose.
        flat = A.reshape(-1, A.shape[-1])
        columns = ops.gemm_rs(weight, _in_eights(flat), None, group_name)
        y = columns.t()[: flat.shape[0]].reshape(*A.shape[:-1], columns.shape[0])
    return _averaged(reduce_op, y, group_name)


def fused_matmul_all_reduce(A: Tensor, B: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """The sum (or mean) of A * B over the ranks, [.., n]. Not in torch.ops.symm_mem.

    `A` [.., k], `B` [k, n]. Collective; stream as for tilelace.gemm_ar. Errors: tilelace.Error.
    """
    _check_reduce("fused_matmul_all_reduce", reduce_op)
    (weight,) = _weights("fused_matmul_all_reduce", [B])
    return _averaged(reduce_op, ops.gemm_ar(A, weight, None, group_name), group_name)


def _not_there(op: str) -> NoReturn:
    raise usage(
        f"{op}: there are no scaled (fp8) ops yet: use bfloat16, float16 or float32")


def fused_all_gather_scaled_matmul(
    A: Tensor, Bs: Sequence[Tensor], A_scale: Tensor, B_scales: Sequence[Tensor], gather_dim: int,
    group_name: str, biases: Sequence[Tensor | None], result_scales: Sequence[Tensor | None],
    out_dtypes: Sequence[torch.dtype | None], use_fast_accum: Sequence[bool],
) -> tuple[Tensor, list[Tensor]]:
    """Not there yet. Errors: usage."""
    _not_there("fused_all_gather_scaled_matmul")


def fused_scaled_matmul_reduce_scatter(
    A: Tensor, B: Tensor, A_scale: Tensor, B_scale: Tensor, reduce_op: str, orig_scatter_dim: int,
    scatter_dim_after_maybe_reshape: int, group_name: str, output_shape: Sequence[int] | None,
    bias: Tensor | None = None, result_scale: Tensor | None = None,
    out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> Tensor:
    """Not there yet. Errors: usage."""
    _not_there("fused_scaled_matmul_reduce_scatter")


def install() -> None:
    """From here on torch.ops.symm_mem's fused ops are ours, where ours can, in this process.

    fused_all_gather_matmul and fused_matmul_reduce_scatter, called by hand, by SGLang, torchtitan, or
    from graphs that Inductor compiled. No symmetric memory is to be enabled for a group, and CPU
    tensors are taken. What stays torch's own kernel, said once in the log "tilelace": scaled (fp8) ops,
    types and sizes that `tilelace.can_run` refuses, on GPUs a gather along the last dimension. As there,
    no gradients, and compiled graphs expect sizes that the ranks divide. Again, it counts from 0. Local,
    on every rank; a group's first call joins it. Errors: usage (a torch without
    torch.library.get_kernel).
    """
    _symm_mem_switch.install({
        "fused_all_gather_matmul": ("ag_gemm", fused_all_gather_matmul),
        "fused_matmul_reduce_scatter": ("gemm_rs", fused_matmul_reduce_scatter),
        "fused_all_gather_scaled_matmul": ("", fused_all_gather_scaled_matmul),
        "fused_scaled_matmul_reduce_scatter": ("", fused_scaled_matmul_reduce_scatter),
    })
