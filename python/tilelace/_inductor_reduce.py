# SPDX-License-Identifier: Apache-2.0
"""A product and the reduce_scatter or all_reduce of it become gemm_rs or gemm_ar."""
from __future__ import annotations

from typing import Any, NamedTuple

from torch import fx

from . import _groups
from ._inductor_graph import (
    ATEN,
    COLLECTIVES,
    OPS,
    STRIDES_TAKEN,
    arguments,
    call,
    erase_unused,
    first_wait,
    is_call,
    is_product,
    moved,
    operands,
    replace_collective,
    reshapes_rows,
    same_shape,
    size,
    strides_matter,
    unfit,
    unreachable,
    value,
)


class _Summed(NamedTuple):
    """The product, in the form [.., n] that is reduced, and the dimension that is scattered."""

    product: fx.Node
    node: fx.Node
    dim: int
    between: list[fx.Node]  # users first


def _summed(reduce: fx.Node, ranks: int) -> _Summed | str:
    """Or why there is none."""
    node, dim, between = arguments(reduce)["input"], 0, []
    if is_call(reduce, COLLECTIVES.reduce_scatter_tensor.default):
        found = moved(node, ranks)
        if found and found.cat_dim == 0:
            between = [node, *found.between]
            node, dim = found.source, found.split_dim
    product: Any = node
    reshapes = []
    while reshapes_rows(product):
        reshapes.append(product)
        product = product.args[0]
    if not is_product(product):
        return "it does not follow a product"
    between += dict.fromkeys([*reshapes, product])
    if any(set(n.users) - {reduce, *between} for n in between):
        return "the product has other users"
    return _Summed(product, node, dim, between)


def _same_on_all_ranks(bias: fx.Node, product: fx.Node, ranks: int) -> fx.Node | None:
    """The bias of which every rank adds its part: what DTensor makes of a replicated one.

    A sum over ranks has every rank's bias, but the ops add one. A graph does not tell whether ranks
    have the same, except here: one linear of DTensors has become both the product and a division of
    the local bias by the ranks, which is how what is replicated becomes a partial sum.
    """
    if not is_call(bias, ATEN.div.Tensor) or arguments(bias)["other"] != ranks:
        return None
    whole = arguments(bias)["self"]
    made_by = bias.meta.get("source_fn_stack")
    if not made_by or made_by != product.meta.get("source_fn_stack"):
        return None
    local = getattr(whole.meta.get("desc"), "attr", None) == "_local_tensor"
    return whole if local and made_by[-1][0].startswith("linear") else None


def _left_shaped(graph: fx.Graph, summed: _Summed) -> fx.Node:
    """The left operand with the dimensions of what is reduced."""
    left = operands(summed.product)[1]
    shape = value(summed.node).shape[:-1]
    found: Any = left
    while True:
        if same_shape(value(found).shape[:-1], shape):
            return found
        if not reshapes_rows(found):
            break
        found = found.args[0]
    # Not the product itself, which has the left operand's rows: so a reshape.
    rows = arguments(summed.node).get("size") or arguments(summed.node)["shape"]
    return call(graph, ATEN.reshape.default, left, [*rows[:-1], size(graph, left, 1)])


def fuse_reduce(graph: fx.Graph, reduce: fx.Node) -> str:
    """Why not; "" where it was fused. May leave nodes out of order."""
    scatters = is_call(reduce, COLLECTIVES.reduce_scatter_tensor.default)
    given = arguments(reduce)
    how, name = given["reduce_op"], given["group_name"]
    ranks = _groups.size_and_rank(name)[0]
    if first_wait(reduce) is None:
        return "its result is used without a wait"
    if how not in ("sum", "avg"):
        return f"it reduces by {how}, not sum or avg"
    summed = _summed(reduce, ranks)
    if isinstance(summed, str):
        return summed
    if summed.dim == value(summed.node).dim() - 1:
        return "it scatters the last dimension, the product's columns"
    if why := unfit(summed.product):
        return why
    bias, _, right = operands(summed.product)
    added = None if bias is None else _same_on_all_ranks(bias, summed.product, ranks)
    if bias is not None and added is None:
        return "every rank adds its bias before the sum, and the fused op would add only one"
    if summed.dim and strides_matter(graph):
        return STRIDES_TAKEN
    if why := unreachable(name, value(right).device):
        return why
    more: dict[str, Any] = {"scatter_dim": summed.dim} if summed.dim else {}
    op = OPS.gemm_rs.default if scatters else OPS.gemm_ar.default
    with graph.inserting_before(reduce):
        x = _left_shaped(graph, summed)
        weight = call(graph, ATEN.permute.default, right, [1, 0])
        fused = call(graph, op, x, weight, added, None, _groups.qualified(name), **more)
        if how == "avg":
            fused = call(graph, ATEN.div.Tensor, fused, ranks)
    replace_collective(reduce, fused)
    erase_unused([*summed.between, *([bias] if bias is not None else [])])
    return ""
