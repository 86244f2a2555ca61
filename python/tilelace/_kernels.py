# SPDX-License-Identifier: Apache-2.0
"""What the ops are on CPU tensors and to compilers: shapes without data, calls that stay."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.effects import _EffectType as EffectType
from torch._higher_order_ops.effects import _register_effectful_op
from torch.fx.node import has_side_effect
from torch.utils.checkpoint import CheckpointPolicy

from . import _groups, _inductor_order
from ._errors import Error, call, usage

LIB = torch.library.Library("tilelace", "IMPL")

OPS = (
    "ag_gemm", "ag_gemm_out", "gemm_rs", "gemm_rs_out", "gemm_ar", "gemm_ar_out",
    "all_gather", "reduce_scatter", "_ag_gemm_like", "_all_gather_like",
)


def _place_of_group(name: str) -> int:
    schema = getattr(torch.ops.tilelace, name).default._schema
    return next(i for i, a in enumerate(schema.arguments) if a.name == "group_name")


def _cpu_kernel(name: str) -> Any:
    op = getattr(torch.ops.tilelace, "_cpu_" + name).default
    place = _place_of_group(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        _groups.ensure(args[place], "cpu")
        try:
            return call(op, *args, **kwargs)
        except Error as error:
            _groups.tell_failed(args[place], "cpu", error)
            raise

    return kernel


for _name in OPS:
    LIB.impl(_name, _cpu_kernel(_name), "CPU")

_OVERLOADS = [getattr(torch.ops.tilelace, _name).default for _name in OPS]

# Ops that write arguments can have no effects: in graphs they stand between two that do.
_ORDER = torch.library.Library("tilelace", "FRAGMENT")
_ORDER.define("_order_before(Tensor x) -> Tensor")  # what they take as `after`
_ORDER.define("_order_after(Tensor[] results) -> ()")


def _traced() -> None:
    """Every call that a compiler puts into a graph comes by here before its node is made."""
    _inductor_order.keep(_OVERLOADS)
    meta = torch.fx.traceback.current_meta
    if "recompute" in meta:
        # In a checkpointed region: peers do not make the call again. torch 2.15 does the same.
        meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _order_before(x: Tensor) -> Tensor:
    _traced()
    return x.new_empty(0)


def _order_after(results: list[Tensor]) -> None:
    _traced()


_ORDER.impl("_order_before", _order_before, "CompositeExplicitAutograd")
_ORDER.impl("_order_after", _order_after, "CompositeExplicitAutograd")

# Peers meet every call, also one whose result this rank's graph does not use: compilers remove, merge
# and move none. Not so torch 2.10, which fails to compile some backward graphs with effects.
for _op in (*_OVERLOADS, torch.ops.tilelace._order_before.default,
            torch.ops.tilelace._order_after.default) if torch.__version__ >= "2.11" else ():
    has_side_effect(_op)
    if not _op._schema.is_mutable:
        _register_effectful_op(_op, EffectType.ORDERED)


def _fake(name: str) -> Callable[[Callable[..., Any]], None]:
    def register(shapes: Callable[..., Any]) -> None:
        def fake(*args: Any, **kwargs: Any) -> Any:
            _traced()
            return shapes(*args, **kwargs)

        torch.library.register_fake(f"tilelace::{name}", fake)

    return register


def _dim_of(op: str, x: Tensor, dim: int) -> int:
    if x.dim() < 2:
        raise usage(f"{op}: x: got {list(x.shape)}, expected at least two dimensions")
    at = dim + x.dim() if dim < 0 else dim
    if not 0 <= at < x.dim() - 1:
        raise usage(f"{op}: dim: got {dim}, expected 0 to {x.dim() - 2}, not the last")
    return at


def _shaped(x: Tensor, dim: int, units: Any, n: Any) -> Tensor:
    """Dense in memory, dimension `dim` outermost."""
    size = list(x.shape)
    size[dim], size[-1] = units, n
    if not dim:
        return x.new_empty(size)
    order = [dim, *range(1, dim), 0, *range(dim + 1, x.dim())]
    strides, stride = [1] * x.dim(), 1
    for d in reversed(order):
        strides[d] = stride
        stride = stride * torch.sym_max(size[d], 1)
    return x.new_empty_strided(size, strides)


def _gathered_units(x: Tensor, dim: int, name: str, sizes: Sequence[int] | None) -> Any:
    return sum(sizes) if sizes is not None else x.shape[dim] * _groups.size_and_rank(name)[0]


def _own_units(x: Tensor, dim: int, name: str, sizes: Sequence[int] | None) -> Any:
    ranks, rank = _groups.size_and_rank(name)
    return sizes[rank] if sizes is not None else (x.shape[dim] + ranks - 1 - rank) // ranks


def _weight_check(op: str, x: Tensor, weight: Tensor) -> None:
    if weight.dim() != 2:
        raise usage(f"{op}: weight: got {list(weight.shape)}, expected [n, k]")
    torch._check(
        weight.shape[1] == x.shape[-1],
        lambda: f"{op}: weight: got [{weight.shape[0]}, {weight.shape[1]}], "
        f"expected [{weight.shape[0]}, {x.shape[-1]}]",
    )


def _gather_shapes(
    x: Tensor, weights: Sequence[Tensor], dim: int, units: Any, activation: str, gathered: bool
) -> tuple[Tensor | None, list[Tensor]]:
    for w in weights:
        _weight_check("ag_gemm", x, w)
    wide = weights[:1] if activation == "swiglu" else weights
    outs = [_shaped(x, dim, units, w.shape[0]) for w in wide]
    return (_shaped(x, dim, units, x.shape[-1]) if gathered else None), outs


@_fake("ag_gemm")
def _(x, weights, biases, group_name, *, gather_dim=0, activation="none", return_gathered=False,
      sizes=None):
    dim = _dim_of("ag_gemm", x, gather_dim)
    units = _gathered_units(x, dim, group_name, sizes)
    return _gather_shapes(x, weights, dim, units, activation, return_gathered)


@_fake("_ag_gemm_like")
def _(x, weights, group_name, like, *, gather_dim=0, return_gathered=False):
    dim = _dim_of("ag_gemm", x, gather_dim)
    return _gather_shapes(x, weights, dim, like.shape[dim], "none", return_gathered)


@_fake("gemm_rs")
def _(x, weight, bias, group_name, *, scatter_dim=0, activation="none", sizes=None):
    dim = _dim_of("gemm_rs", x, scatter_dim)
    _weight_check("gemm_rs", x, weight)
    return _shaped(x, dim, _own_units(x, dim, group_name, sizes), weight.shape[0])


@_fake("gemm_ar")
def _(x, weight, bias, group_name, *, activation="none"):
    dim = _dim_of("gemm_ar", x, 0)
    _weight_check("gemm_ar", x, weight)
    return _shaped(x, dim, x.shape[0], weight.shape[0])


@_fake("all_gather")
def _(x, group_name, *, gather_dim=0, sizes=None):
    dim = _dim_of("all_gather", x, gather_dim)
    return _shaped(x, dim, _gathered_units(x, dim, group_name, sizes), x.shape[-1])


@_fake("_all_gather_like")
def _(x, group_name, like, *, gather_dim=0):
    dim = _dim_of("all_gather", x, gather_dim)
    return _shaped(x, dim, like.shape[dim], x.shape[-1])


@_fake("reduce_scatter")
def _(x, group_name, *, scatter_dim=0, sizes=None):
    dim = _dim_of("reduce_scatter", x, scatter_dim)
    return _shaped(x, dim, _own_units(x, dim, group_name, sizes), x.shape[-1])


@_fake("ag_gemm_out")
def _(x, weights, biases, group_name, *, gather_dim=0, activation="none", sizes=None, out,
      gathered=None, after=None):
    return None


@_fake("gemm_rs_out")
def _(x, weight, bias, group_name, *, scatter_dim=0, activation="none", sizes=None, out, after=None):
    return None


@_fake("gemm_ar_out")
def _(x, weight, bias, group_name, *, activation="none", out, after=None):
    return None
