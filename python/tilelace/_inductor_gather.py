# SPDX-License-Identifier: Apache-2.0
"""all_gather and the products of what it gathers become ag_gemm."""
from __future__ import annotations

import operator
from typing import Any, NamedTuple

from torch import fx

from . import _groups
from ._inductor_graph import (
    ATEN,
    OPS,
    STRIDES_TAKEN,
    WAITED_AGAIN,
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
    skip,
    strides_matter,
    unfit,
    unreachable,
    value,
)

_MOST_WEIGHTS = 16  # of a call


class _Whole(NamedTuple):
    """The gathered tensor, all that is only a reshape of it, and what lies before it."""

    node: fx.Node
    dim: int
    sources: list[fx.Node]
    between: list[fx.Node]  # users first


def _whole(wait: fx.Node, ranks: int) -> _Whole:
    node, dim, between = wait, 0, []
    after = next(iter(wait.users), None)
    if is_call(after, ATEN.split.Tensor, ATEN.split_with_sizes.default):
        after = next(iter(after.users), None)
    last = next(iter(after.users), None) if after is not None else None
    found = moved(last, ranks) if last is not None else None
    # The wait's result is used as a whole, or as the parts alone.
    if (last is not None and found and found.source is wait and found.split_dim == 0
            and set(wait.users) <= set(found.between)):
        node, dim, between = last, found.cat_dim, found.between
    sources = [node]
    for s in sources:
        sources += [u for u in s.users if reshapes_rows(u)]
    return _Whole(node, dim, sources, between)


def _followers(node: fx.Node) -> set[fx.Node]:
    found = {node}
    pending = [node]
    while pending:
        new = [u for u in pending.pop().users if u not in found]
        found.update(new)
        pending += new
    return found


def _products_of(whole: _Whole, gather: fx.Node) -> tuple[list[fx.Node], str]:
    """Those that can share one call: the same use of a bias, weights that do not need the result."""
    later = _followers(gather)
    found: list[fx.Node] = []
    why = "no product with weights of its own follows it"
    for p in sorted({u for s in whole.sources for u in s.users if is_product(u)}):
        bias, left, right = operands(p)
        if left not in whole.sources or right in later or bias in later:
            continue
        if reason := unfit(p):
            why = reason
        elif not found or (operands(found[0])[0] is None) == (bias is None):
            found.append(p)
    return found[:_MOST_WEIGHTS], why


def _replace_product(graph: fx.Graph, product: fx.Node, result: fx.Node) -> None:
    """By a result that has the gathered tensor's dimensions, which may be what is wanted of it."""
    shape = value(result).shape
    for user in list(product.users):
        if reshapes_rows(user) and same_shape(value(user).shape, shape):
            user.replace_all_uses_with(result)
            graph.erase_node(user)
    if product.users:
        if len(shape) != 2:
            with graph.inserting_after(result):
                columns = size(graph, operands(product)[2], 1)
                result = call(graph, ATEN.reshape.default, result, [-1, columns])
        product.replace_all_uses_with(result)
    graph.erase_node(product)


def _fused(
    graph: fx.Graph, x: fx.Node, products: list[fx.Node], name: str, **kwargs: Any
) -> tuple[fx.Node, list[fx.Node]]:
    with graph.inserting_before(products[0]):
        all_operands = [operands(p) for p in products]
        weights = [call(graph, ATEN.permute.default, r, [1, 0]) for _, _, r in all_operands]
        biases = None if all_operands[0][0] is None else [b for b, _, _ in all_operands]
        node = call(graph, OPS.ag_gemm.default, x, weights, biases, name, **kwargs)
        listed = call(graph, operator.getitem, node, 1)
        return node, [call(graph, operator.getitem, listed, i) for i in range(len(products))]


def fuse_gather(graph: fx.Graph, gather: fx.Node) -> bool:
    """May leave nodes out of order."""
    given = arguments(gather)
    x, ranks, name = given["input"], given["group_size"], given["group_name"]
    wait = first_wait(gather)
    if wait is None:
        return skip(gather, "its result is used without a wait")
    whole = _whole(wait, ranks)
    products, why = _products_of(whole, gather)
    if whole.dim == value(whole.node).dim() - 1:
        return skip(gather, "it gathers the last dimension, over which a product sums")
    if not products:
        return skip(gather, why)
    if len(gather.users) > 1 and whole.node is not wait:
        return skip(gather, WAITED_AGAIN)
    if whole.dim and strides_matter(graph):
        return skip(gather, STRIDES_TAKEN)
    if why := unreachable(name, value(x).device):
        return skip(gather, why)
    kept = len(gather.users) > 1 or any(
        u not in products and u not in whole.sources for s in whole.sources for u in s.users)
    more: dict[str, Any] = {"return_gathered": True} if kept else {}
    if whole.dim:
        more["gather_dim"] = whole.dim
    node, results = _fused(graph, x, products, _groups.qualified(name), **more)
    for product, result in zip(products, results):
        _replace_product(graph, product, result)
    erase_unused(reversed(whole.sources[1:]))
    if kept:
        with graph.inserting_after(node):
            gathered = call(graph, operator.getitem, node, 0)
        whole.node.replace_all_uses_with(gathered)
    erase_unused([n for n in (whole.node, *whole.between) if n is not wait])
    if kept:
        replace_collective(gather, gathered)
    else:
        erase_unused([wait, gather])
    return True
