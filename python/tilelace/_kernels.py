# SPDX-License-Identifier: Apache-2.0
"""The ops on CPU tensors and for compilers: shapes without data, and calls that a compiler must keep."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.effects import _EffectType as EffectType
from torch._higher_order_ops.effects import _register_effectful_op
from torch.fx.node import has_side_effect
from torch.utils.checkpoint import CheckpointPolicy

from . import _collective_shapes, _groups, _inductor_order, _moe_shapes
from ._errors import Error, call, usage
from ._table import CALLS, COLLECTIVES, OPS, Op

LIB = torch.library.Library("tilelace", "IMPL")

_CALLS = (*CALLS, *(name for op in OPS.values() for name in op.like_calls),
          *(name for name in COLLECTIVES if name not in CALLS))


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


for _name in _CALLS:
    LIB.impl(_name, _cpu_kernel(_name), "CPU")

_OVERLOADS = [getattr(torch.ops.tilelace, _name).default for _name in _CALLS]

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
for _overload in (*_OVERLOADS, torch.ops.tilelace._order_before.default,
            torch.ops.tilelace._order_after.default) if torch.__version__ >= "2.11" else ():
    has_side_effect(_overload)
    if not _overload._schema.is_mutable:
        _register_effectful_op(_overload, EffectType.ORDERED)


def _register(name: str, shapes: Callable[..., Any]) -> None:
    def fake(*args: Any, **kwargs: Any) -> Any:
        _traced()
        return shapes(*args, **kwargs)

    torch.library.register_fake(f"tilelace::{name}", fake)


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
    if sizes is not None:
        return sizes[_groups.size_and_rank(name)[1]]
    return _collective_shapes.own_part(x.shape[dim], name)


def _weight_check(op: str, x: Tensor, weight: Tensor) -> None:
    if weight.dim() != 2:
        raise usage(f"{op}: weight: got {list(weight.shape)}, expected [n, k]")
    torch._check(
        weight.shape[1] == x.shape[-1],
        lambda: f"{op}: weight: got [{weight.shape[0]}, {weight.shape[1]}], "
        f"expected [{weight.shape[0]}, {x.shape[-1]}]",
    )


def _gather_fakes(op: Op) -> dict[str, Callable[..., Any]]:
    def shapes(x: Tensor, weights: Sequence[Tensor], dim: int, units: Any, activation: str,
               gathered: bool) -> tuple[Tensor | None, list[Tensor]]:
        for w in weights:
            _weight_check(op.name, x, w)
        wide = weights[:1] if activation == "swiglu" else weights
        columns = [w.shape[0] for w in wide] if op.multiplies else [x.shape[-1]]
        outs = [_shaped(x, dim, units, n) for n in columns]
        return (_shaped(x, dim, units, x.shape[-1]) if gathered else None), outs

    def whole(x: Tensor, weights: Any, biases: Any, group_name: str, *, gather_dim: int = 0,
              activation: str = "none", return_gathered: bool = False, sizes: Any = None) -> Any:
        dim = _dim_of(op.name, x, gather_dim)
        units = _gathered_units(x, dim, group_name, sizes)
        return shapes(x, weights, dim, units, activation, return_gathered)

    def like_whole(x: Tensor, weights: Any, group_name: str, like: Tensor, *, gather_dim: int = 0,
                   return_gathered: bool = False) -> Any:
        dim = _dim_of(op.name, x, gather_dim)
        return shapes(x, weights, dim, like.shape[dim], "none", return_gathered)

    def alone(x: Tensor, group_name: str, *, gather_dim: int = 0, sizes: Any = None) -> Any:
        dim = _dim_of(op.collective, x, gather_dim)
        return _shaped(x, dim, _gathered_units(x, dim, group_name, sizes), x.shape[-1])

    def like_alone(x: Tensor, group_name: str, like: Tensor, *, gather_dim: int = 0) -> Any:
        dim = _dim_of(op.collective, x, gather_dim)
        return _shaped(x, dim, like.shape[dim], x.shape[-1])

    return {op.name: whole, op.collective: alone, **dict(zip(op.like_calls, (like_whole, like_alone)))}


def _sum_fakes(op: Op) -> dict[str, Callable[..., Any]]:
    def units_of(x: Tensor, dim: int, name: str, sizes: Sequence[int] | None) -> Any:
        return x.shape[dim] if op.shares else _own_units(x, dim, name, sizes)

    def whole(x: Tensor, weight: Tensor, bias: Any, residual: Any, group_name: str, *,
              scatter_dim: int = 0, activation: str = "none", sizes: Any = None) -> Any:
        dim = _dim_of(op.name, x, scatter_dim)
        _weight_check(op.name, x, weight)
        return _shaped(x, dim, units_of(x, dim, group_name, sizes), weight.shape[0])

    def alone(x: Tensor, group_name: str, *, scatter_dim: int = 0, sizes: Any = None) -> Any:
        dim = _dim_of(op.collective, x, scatter_dim)
        return _shaped(x, dim, units_of(x, dim, group_name, sizes), x.shape[-1])

    return {op.name: whole, op.collective: alone}


for _op in OPS.values():
    _fakes = _gather_fakes(_op) if _op.gathers else _sum_fakes(_op)
    for _name in (*_op.calls, *_op.like_calls):
        # Calls that are given their results have none.
        _register(_name, _fakes.get(_name, lambda *args, **kwargs: None))

for _name in COLLECTIVES:
    _shapes: Callable[..., Any] | None = _moe_shapes.OF.get(_name, _collective_shapes.OF.get(_name))
    _register(_name, _shapes or (lambda *args, **kwargs: None))
torch.library.register_fake("tilelace::grouped_gemm", _moe_shapes.grouped_gemm)
