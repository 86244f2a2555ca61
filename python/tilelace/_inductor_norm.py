# SPDX-License-Identifier: Apache-2.0
"""An all_reduce, what is added to the sum and RMSNorm of it become all_reduce_norm.

The norm rounds once where the graph does up to three times; the sum keeps its bits but for the order
of the ranks. Behind a product of few rows on GPUs this call is faster than a gemm_ar and a norm, by
records of decode steps; of more rows the gemm_ar goes first.
"""
from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import torch
from torch import fx

from . import _groups
from ._dtypes import DTYPES
from ._inductor_graph import (
    ATEN,
    OPS,
    WAITED_AGAIN,
    arguments,
    call,
    equal,
    erase_unused,
    first_wait,
    is_call,
    replace_collective,
    reshapes_rows,
    same_shape,
    unreachable,
    value,
)

_CASTS = (torch.ops.prims.convert_element_type.default, ATEN._to_copy.default)
_ADDS = (ATEN.add.Tensor, ATEN.add.Scalar)
_TYPES = tuple(row.dtype for row in DTYPES if row.dtype.itemsize == 2)
_MOST_COLUMNS, _GRAIN = 16384, 8
_FEW_ROWS = 64  # the most that were timed


class _Summed(NamedTuple):
    """What is normed: the sum, reshaped, or with a residual."""

    node: fx.Node
    residual: fx.Node | None
    reshapes: list[fx.Node]  # of the sum, the first first


class _Norm(NamedTuple):
    weight: fx.Node
    eps: float
    result: fx.Node
    between: list[fx.Node]  # users first, from the result to the sum in fp32


def _user(node: fx.Node, *targets: Any) -> fx.Node | None:
    """Its only one, where that is such a call."""
    only = next(iter(node.users)) if len(node.users) == 1 else None
    return only if is_call(only, *targets) else None


def _casts(node: Any, dtype: torch.dtype) -> bool:
    return is_call(node, *_CASTS) and value(node).dtype == dtype


def _other(node: fx.Node, known: fx.Node) -> Any:
    a, b = node.args[:2]
    return b if a is known else a


def _summed(wait: fx.Node) -> _Summed:
    node, reshapes = wait, []
    while len(node.users) == 1 and reshapes_rows(only := next(iter(node.users))):
        reshapes.append(only)
        node = only
    total = _user(node, ATEN.add.Tensor)
    if total is None or total.kwargs or len(total.args) != 2:
        return _Summed(node, None, reshapes)
    residual = _other(total, node)
    fits = isinstance(residual, fx.Node) and residual is not node and (
        value(residual).dtype == value(node).dtype
        and same_shape(value(residual).shape, value(node).shape))
    return _Summed(total, residual, reshapes) if fits else _Summed(node, None, reshapes)


def _squares(wide: fx.Node) -> fx.Node | None:
    for u in wide.users:
        if is_call(u, ATEN.pow.Tensor_Scalar) and u.args[1] == 2:
            return u
        if is_call(u, ATEN.mul.Tensor) and u.args[:2] == (wide, wide):
            return u
    return None


def _root(wide: fx.Node) -> tuple[list[fx.Node], Any] | None:
    """From the squares to 1 / the root of their mean and eps, the last first; and eps."""
    squares = _squares(wide)
    mean = _user(squares, ATEN.mean.dim) if squares is not None else None
    moved = _user(mean, *_ADDS) if mean is not None else None
    root = _user(moved, ATEN.rsqrt.default) if moved is not None else None
    if squares is None or mean is None or moved is None or root is None:
        return None
    given, last = arguments(mean), value(wide).dim() - 1
    dims = [d % (last + 1) for d in given["dim"] or ()]
    if dims != [last] or not given["keepdim"] or len(moved.args) != 2 or moved.kwargs:
        return None
    return [root, moved, mean, squares], _other(moved, mean)


def _weighed(unit: fx.Node, dtype: torch.dtype) -> tuple[list[fx.Node], Any] | None:
    """From what has unit length to the result in its own type, the last first; and the weight.

    transformers round before the weight, torch behind it.
    """
    first = _user(unit, *_CASTS, ATEN.mul.Tensor)
    second = _user(first, *_CASTS, ATEN.mul.Tensor) if first is not None else None
    if first is None or second is None or is_call(first, *_CASTS) == is_call(second, *_CASTS):
        return None
    cast, product = (first, second) if is_call(first, *_CASTS) else (second, first)
    if value(cast).dtype != dtype or value(second).dtype != dtype:
        return None
    weight = _other(product, unit if product is first else cast)
    nodes = [second, first]
    if _casts(weight, torch.float):
        nodes, weight = [*nodes, weight], weight.args[0]
    return nodes, weight


def _norm_of(h: fx.Node) -> _Norm | str:
    """Or why there is none that can be replaced; "": there is no norm."""
    dtype = value(h).dtype
    wide = next((u for u in h.users if _casts(u, torch.float) and _squares(u) is not None), None)
    if wide is None:
        return ""
    rooted = _root(wide)
    unit = _user(rooted[0][0], ATEN.mul.Tensor) if rooted else None
    if rooted is None or unit is None or _other(unit, rooted[0][0]) is not wide or (
            set(wide.users) != {rooted[0][-1], unit}):
        return "the computation on its squares is not RMSNorm, or has other users"
    eps = rooted[1]
    if not isinstance(eps, (int, float)):
        return "its norm's eps is not a constant (torch.compile's dynamic=True turns numbers into tensors)"
    weighed = _weighed(unit, dtype)
    if weighed is None:
        return "its norm has no weight, or its normed values have other users"
    nodes, weight = weighed
    return _Norm(weight, float(eps), nodes[0], [*nodes, unit, *rooted[0], wide])


def _unfit(h: fx.Node, weight: Any) -> str:
    x, n = value(h), value(h).shape[-1]
    if x.dtype not in _TYPES:
        return f"the norm is of {x.dtype}, expected {' or '.join(map(str, _TYPES))}"
    if not isinstance(n, int) or n % _GRAIN or n > _MOST_COLUMNS:
        return f"a norm of {n} columns, expected a multiple of {_GRAIN} up to {_MOST_COLUMNS}"
    w = value(weight)
    if not isinstance(weight, fx.Node) or w.dtype != x.dtype or w.dim() != 1 or not equal(w.shape[0], n):
        return "the norm's weight is not a vector of the norm's type"
    return "" if x.is_contiguous() else "fusing would change the norm's strides"


def _replace(graph: fx.Graph, reduce: fx.Node, wait: fx.Node, summed: _Summed, norm: _Norm) -> None:
    given = arguments(reduce)
    with graph.inserting_before(norm.result):
        x = given["input"]
        for r in summed.reshapes:
            x = call(graph, ATEN.reshape.default, x, r.args[1])
        both = call(graph, OPS.all_reduce_norm.default, x, norm.weight, summed.residual, None,
                    _groups.qualified(given["group_name"]), eps=norm.eps)
        normed, total = (call(graph, operator.getitem, both, i) for i in range(2))
    norm.result.replace_all_uses_with(normed)
    erase_unused(norm.between)
    if summed.node is wait:
        replace_collective(reduce, total)
        return
    summed.node.replace_all_uses_with(total)
    erase_unused(dict.fromkeys([summed.node, *reversed(summed.reshapes), wait, reduce]))


def has_few_rows(reduce: fx.Node) -> bool:
    """On a GPU, and known when compiling."""
    x = value(arguments(reduce)["input"])
    rows = math.prod(x.shape[:-1])
    return x.device.type == "cuda" and isinstance(rows, int) and rows <= _FEW_ROWS


def fuse_norm(graph: fx.Graph, reduce: fx.Node) -> str:
    """Why not, "no norm follows it" for one; "" where it was fused. May leave nodes out of order."""
    given, wait = arguments(reduce), first_wait(reduce)
    if wait is None or given["reduce_op"] != "sum":
        return "its result is used without a wait, or it is not a sum"
    summed = _summed(wait)
    norm = _norm_of(summed.node)
    if isinstance(norm, str):
        return norm or "no norm follows it"
    if summed.node is not wait and list(reduce.users) != [wait]:
        return WAITED_AGAIN
    if why := _unfit(summed.node, norm.weight):
        return why
    if why := unreachable(given["group_name"], value(summed.node).device):
        return why
    _replace(graph, reduce, wait, summed, norm)
    return ""
