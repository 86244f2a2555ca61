# SPDX-License-Identifier: Apache-2.0
"""The ops as functions: torch.ops.tilelace with a group of any kind and tilelace.Error.

Shapes: a call takes tensors of any number of dimensions; the last is the product's, one of the
others (`gather_dim`, `scatter_dim`) is split over the ranks.
"""
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _groups
from ._errors import call
from ._groups import Group


# Asked once, when a graph is compiled.
_qualified = torch.compiler.assume_constant_result(_groups.qualified)


def _name(group: Group, x: Tensor) -> str:
    if torch.compiler.is_compiling():
        return _qualified(group)
    name = group if isinstance(group, str) else _groups.group_name(group)
    if x.is_cuda:
        _groups.ensure(name, "cuda")
    return name


def _call(op, *args, **kwargs):
    # A compiled graph keeps the op alone; its errors are RuntimeErrors with the same text on GPUs.
    return op(*args, **kwargs) if torch.compiler.is_compiling() else call(op, *args, **kwargs)


def ag_gemm(
    x: Tensor,
    weights: Tensor | Sequence[Tensor],
    biases: Tensor | Sequence[Tensor] | None = None,
    group: Group = None,
    *,
    gather_dim: int = 0,
    activation: str = "none",
    return_gathered: bool = False,
    sizes: Sequence[int] | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor | None, list[Tensor]]:
    """All-gather and product: out_i = act(x of all ranks * weight_i^T + bias_i) on every rank.

    `x` [.., m_r, .., k], `weights` [n_i, k] each (or views of that shape), `biases` [n_i];
    out_i [.., m, .., n_i]; activation "swiglu" takes two weights (gate, up) and gives one result.
    `sizes`: size of `gather_dim` on every rank, where they differ. Returns (the gathered x or None,
    the results). Collective. CPU tensors: blocking; CUDA tensors: on the current stream. In
    training `return_gathered` also decides whether the weights' gradient reuses the gathered x or
    gathers it again. Traffic: (ranks - 1) * m_r * k elements leave each rank.
    Errors: tilelace.Error.
    """
    name = _name(group, x)
    weights = [weights] if isinstance(weights, Tensor) else list(weights)
    biases = [biases] if isinstance(biases, Tensor) else biases
    biases = None if biases is None else list(biases)
    sizes = None if sizes is None else list(sizes)
    if out is None:
        return _call(
            torch.ops.tilelace.ag_gemm, x, weights, biases, name, gather_dim=gather_dim,
            activation=activation, return_gathered=return_gathered, sizes=sizes)
    gathered = None
    if return_gathered:
        size = list(x.shape)
        size[gather_dim] = out[0].shape[gather_dim]
        gathered = x.new_empty(size)
    _call(
        torch.ops.tilelace.ag_gemm_out, x, weights, biases, name, gather_dim=gather_dim,
        activation=activation, sizes=sizes, out=list(out), gathered=gathered)
    return gathered, list(out)


def gemm_rs(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    group: Group = None,
    *,
    scatter_dim: int = 0,
    activation: str = "none",
    sizes: Sequence[int] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product and reduce-scatter: this rank's rows of act(sum over ranks of x * weight^T + bias).

    `x` [.., m, .., k] (this rank's columns of the operand), `weight` [n, k], `bias` [n], added once;
    result [.., m_r, .., n]. `sizes`: size of `scatter_dim` of every rank's result; default: evenly,
    the first ranks one more. The sum runs in fp32 in rank order and is rounded once. Collective.
    Traffic: (m - m_r) * n partials leave each rank. Errors: tilelace.Error.
    """
    name = _name(group, x)
    sizes = None if sizes is None else list(sizes)
    ops = torch.ops.tilelace
    if out is None:
        return _call(ops.gemm_rs, x, weight, bias, name, scatter_dim=scatter_dim,
                     activation=activation, sizes=sizes)
    _call(ops.gemm_rs_out, x, weight, bias, name, scatter_dim=scatter_dim, activation=activation,
          sizes=sizes, out=out)
    return out


def gemm_ar(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    group: Group = None,
    *,
    activation: str = "none",
    out: Tensor | None = None,
) -> Tensor:
    """Product and all-reduce: act(sum over ranks of x * weight^T + bias), the same bits everywhere.

    `x` [.., k], `weight` [n, k], `bias` [n], added once; result [.., n]. Collective. Traffic:
    (ranks - 1) / ranks * m * n partials and as many results leave each rank. Errors: tilelace.Error.
    """
    name = _name(group, x)
    ops = torch.ops.tilelace
    if out is None:
        return _call(ops.gemm_ar, x, weight, bias, name, activation=activation)
    _call(ops.gemm_ar_out, x, weight, bias, name, activation=activation, out=out)
    return out


def all_gather(
    x: Tensor, group: Group = None, *, gather_dim: int = 0, sizes: Sequence[int] | None = None
) -> Tensor:
    """The gather of ag_gemm alone: x of all ranks, one after the other. Collective."""
    sizes = None if sizes is None else list(sizes)
    return _call(torch.ops.tilelace.all_gather, x, _name(group, x), gather_dim=gather_dim,
                 sizes=sizes)


def reduce_scatter(
    x: Tensor, group: Group = None, *, scatter_dim: int = 0, sizes: Sequence[int] | None = None
) -> Tensor:
    """The sum of gemm_rs alone: this rank's rows of the sum of x over the ranks. Collective."""
    sizes = None if sizes is None else list(sizes)
    return _call(torch.ops.tilelace.reduce_scatter, x, _name(group, x), scatter_dim=scatter_dim,
                 sizes=sizes)
