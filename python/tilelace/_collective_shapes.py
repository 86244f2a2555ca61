# SPDX-License-Identifier: Apache-2.0
"""Shapes of the collectives' results, symbolic ones included."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _groups
from ._errors import usage


def _dim_of(op: str, x: Tensor, dim: int) -> int:
    if not x.dim():
        raise usage(f"{op}: x: got [], expected at least one dimension")
    at = dim + x.dim() if dim < 0 else dim
    if not 0 <= at < x.dim():
        raise usage(f"{op}: dim: got {dim}, expected 0 to {x.dim() - 1}")
    return at


def _shaped(x: Tensor, dim: int, units: Any) -> Tensor:
    """Like x, with this size in `dim`, which is outermost in memory."""
    size = list(x.shape)
    size[dim] = units
    size[0], size[dim] = size[dim], size[0]
    return x.new_empty(size).transpose(0, dim) if dim else x.new_empty(size)


def part_of(units: Any, ranks: int, rank: int) -> Any:
    """A rank's part of a size: the first ranks get one more where it does not divide."""
    return (units + ranks - 1 - rank) // ranks


def own_part(units: Any, name: str) -> Any:
    return part_of(units, *_groups.size_and_rank(name))


def _all_reduce(x: Tensor, group_name: str, *, reduce_op: str = "sum") -> Tensor:
    return x.new_empty(x.shape)


def _all_gather(
    x: Tensor, group_name: str, *, gather_dim: int = 0, sizes: Sequence[int] | None = None
) -> Tensor:
    dim = _dim_of("all_gather", x, gather_dim)
    ranks, _ = _groups.size_and_rank(group_name)
    return _shaped(x, dim, x.shape[dim] * ranks if sizes is None else sum(sizes))


def _all_gather_like(x: Tensor, group_name: str, like: Tensor, *, gather_dim: int = 0) -> Tensor:
    dim = _dim_of("all_gather", x, gather_dim)
    return _shaped(x, dim, like.shape[dim])


def _reduce_scatter(
    x: Tensor, group_name: str, *, scatter_dim: int = 0, sizes: Sequence[int] | None = None,
    reduce_op: str = "sum",
) -> Tensor:
    dim = _dim_of("reduce_scatter", x, scatter_dim)
    if sizes is None:
        return _shaped(x, dim, own_part(x.shape[dim], group_name))
    return _shaped(x, dim, sizes[_groups.size_and_rank(group_name)[1]])


def _all_to_all(
    x: Tensor, group_name: str, *, sends: Sequence[int] | None = None,
    takes: Sequence[int] | None = None,
) -> Tensor:
    dim = _dim_of("all_to_all", x, 0)
    return _shaped(x, dim, x.shape[0] if takes is None else sum(takes))


def _scales_of(n: Any, quant: str) -> Any:
    """Scales per row; None if the call makes none."""
    known = {"none": None, "token": 1, "block": n // 128, "given": None}
    if quant not in known:
        raise usage(f'all_reduce_norm: quant: got "{quant}", expected none, token, block or given')
    return known[quant]


def quantised_like(x: Tensor, quant: str) -> tuple[Tensor | None, Tensor | None]:
    """The quantised result of all_reduce_norm for x and this quant, and its scales."""
    scales = _scales_of(x.shape[-1], quant)
    if quant == "none":
        return None, None
    made = None if scales is None else x.new_empty((*x.shape[:-1], scales), dtype=torch.float)
    return x.new_empty(x.shape, dtype=torch.float8_e4m3fn), made


def _all_reduce_norm(
    x: Tensor, weight: Tensor, residual: Tensor | None, scale: Tensor | None, group_name: str, *,
    eps: float = 1e-6, quant: str = "none", return_normed: bool = False,
) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor | None]:
    _dim_of("all_reduce_norm", x, -1)
    made = quantised_like(x, quant)
    normed = x.new_empty(x.shape) if quant == "none" or return_normed else None
    return normed, x.new_empty(x.shape), *made


# Calls that are given their results have none.
OF: dict[str, Callable[..., Any]] = {"all_reduce": _all_reduce, "all_gather": _all_gather, "_all_gather_like": _all_gather_like,
      "reduce_scatter": _reduce_scatter, "all_to_all": _all_to_all,
      "all_reduce_norm": _all_reduce_norm}
