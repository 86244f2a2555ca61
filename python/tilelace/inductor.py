# SPDX-License-Identifier: Apache-2.0
"""Replaces collectives around matrix products in compiled graphs by tilelace's ops.

    tilelace.inductor.enable()     # then torch.compile as usual

all_gather + mm (or addmm), mm + reduce_scatter and mm + all_reduce (torch.distributed's functional
collectives, sums, over the first dimension, also with a reshape between) become ag_gemm, gemm_rs
and gemm_ar; several products of one gather share it. What is left alone, and why, is logged at
level INFO by "tilelace.inductor".
"""
from __future__ import annotations

import logging
import operator
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.custom_graph_pass
from torch import fx

from . import _groups

log = logging.getLogger("tilelace.inductor")

_ATEN, _COLLECTIVES, _OPS = torch.ops.aten, torch.ops._c10d_functional, torch.ops.tilelace
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default)
_RESHAPES = (_ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default)
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def _is_call(node: Any, *targets: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def _call(graph: fx.Graph, op: Any, args: Any, value: Any, **kwargs: Any) -> fx.Node:
    node = graph.call_function(op, args, kwargs)
    node.meta["val"] = value
    return node


def _operands(product: fx.Node) -> tuple[Any, fx.Node, fx.Node]:
    """Bias or None, left and right operand."""
    if product.target is _ATEN.mm.default:
        return None, product.args[0], product.args[1]
    return product.args[0], product.args[1], product.args[2]


def _plain(product: fx.Node) -> bool:
    """A product that an op of ours computes: of matrices, a bias [n] added as it is."""
    if not _is_call(product, *_PRODUCTS) or product.kwargs:
        return False
    bias, left, _ = _operands(product)
    return left.meta["val"].dtype in _DTYPES and (bias is None or bias.meta["val"].dim() == 1)


def _waited(collective: fx.Node) -> fx.Node | None:
    """The wait on a collective's result, if that is all that uses it."""
    users = list(collective.users)
    single = len(users) == 1 and _is_call(users[0], _COLLECTIVES.wait_tensor.default)
    return users[0] if single else None


def _skip(node: fx.Node, why: str) -> bool:
    log.info("%s is left as it is: %s", node.name, why)
    return False


def _flat(graph: fx.Graph, x: fx.Node) -> fx.Node:
    value = x.meta["val"]
    if value.dim() == 2:
        return x
    size = [-1, value.shape[-1]]
    return _call(graph, _ATEN.reshape.default, (x, size), value.reshape(size))


def _flattened(node: fx.Node) -> bool:
    return _is_call(node, *_RESHAPES) and node.meta["val"].dim() == 2 and (
        node.meta["val"].shape[-1] == node.args[0].meta["val"].shape[-1])


def _products_of(waited: fx.Node, order: dict[fx.Node, int]) -> list[fx.Node]:
    """Those that can share one call, in their order: the same use of a bias, operands there."""
    sources = [waited, *(u for u in waited.users if _flattened(u))]
    found = sorted({u for s in sources for u in s.users if _plain(u) and _operands(u)[1] is s and
                    _operands(u)[2] is not s}, key=order.__getitem__)
    if not found:
        return []
    first, biased = found[0], _operands(found[0])[0] is not None

    def shares(p: fx.Node) -> bool:
        bias, _, right = _operands(p)
        there = [n for n in (bias, right) if n is not None]
        return (bias is not None) == biased and all(order[n] < order[first] for n in there)

    return [p for p in found if shares(p)]


def _fuse_gather(graph: fx.Graph, gather: fx.Node) -> bool:
    x, _, name = gather.args
    waited = _waited(gather)
    if waited is None:
        return _skip(gather, "its result has other users than one wait")
    order = {n: i for i, n in enumerate(graph.nodes)}
    products = _products_of(waited, order)
    if not products:
        return _skip(gather, "no product of a type and form that tilelace has follows it")
    sources = {waited, *(_operands(p)[1] for p in products)}
    others = [u for s in sources for u in s.users if u not in products and u not in sources]
    if any(order[u] < order[products[0]] for u in others):
        return _skip(gather, "its result is used before the first product")
    with graph.inserting_before(products[0]):
        weights = [_call(graph, _ATEN.permute.default, (r, [1, 0]), r.meta["val"].t())
                   for _, _, r in map(_operands, products)]
        biases = [b for b, _, _ in map(_operands, products)] if _operands(products[0])[0] else None
        whole, outs = waited.meta["val"], [p.meta["val"] for p in products]
        rows = whole.reshape(-1, whole.shape[-1])
        fused = _call(graph, _OPS.ag_gemm.default, (_flat(graph, x), weights, biases, _groups.qualified(name)),
                      (rows if others else None, outs), return_gathered=bool(others))
        listed = _call(graph, operator.getitem, (fused, 1), outs)
        results = [_call(graph, operator.getitem, (listed, i), o) for i, o in enumerate(outs)]
        if others:
            gathered = _call(graph, operator.getitem, (fused, 0), rows)
            shaped = _call(graph, _ATEN.reshape.default, (gathered, list(whole.shape)), whole)
    for product, result in zip(products, results):
        product.replace_all_uses_with(result)
        graph.erase_node(product)
    if others:
        waited.replace_all_uses_with(shaped)
        # What reshaped the wait's result for a product now follows the fused call.
        for source in sources - {waited}:
            shaped.append(source)
    for node in [*(sources - {waited}), waited, gather]:
        if not node.users:
            graph.erase_node(node)
    return True


def _fuse_reduce(graph: fx.Graph, reduce: fx.Node) -> bool:
    scatter = _is_call(reduce, _COLLECTIVES.reduce_scatter_tensor.default)
    source, how, name = reduce.args[0], reduce.args[1], reduce.args[-1]
    waited = _waited(reduce)
    if waited is None:
        return _skip(reduce, "its result has other users than one wait")
    if how != "sum":
        return _skip(reduce, f"it takes the {how}")
    product = source.args[0] if _is_call(source, *_RESHAPES) else source
    if not _plain(product) or len(product.users) != 1 or len(source.users) != 1:
        return _skip(reduce, "it does not follow a product of its own")
    if source.meta["val"].shape[-1] != product.meta["val"].shape[-1]:
        return _skip(reduce, "the product's columns are reshaped")
    bias, x, right = _operands(product)
    if bias is not None:
        return _skip(reduce, "the product has a bias, which every rank adds")
    op = _OPS.gemm_rs.default if scatter else _OPS.gemm_ar.default
    result = waited.meta["val"]
    with graph.inserting_before(reduce):
        weight = _call(graph, _ATEN.permute.default, (right, [1, 0]), right.meta["val"].t())
        flat = result.reshape(-1, result.shape[-1])
        fused = _call(graph, op, (x, weight, None, _groups.qualified(name)), flat)
        if result.dim() != 2:
            fused = _call(graph, _ATEN.reshape.default, (fused, list(result.shape)), result)
    waited.replace_all_uses_with(fused)
    for node in dict.fromkeys((waited, reduce, source, product)):
        graph.erase_node(node)
    return True


def fuse(graph: fx.Graph) -> int:
    """Rewrites the graph in place; returns how many collectives went into a product. Local."""
    done = 0
    for node in list(graph.nodes):
        if _is_call(node, _COLLECTIVES.all_gather_into_tensor.default):
            done += _fuse_gather(graph, node)
        elif _is_call(node, _COLLECTIVES.reduce_scatter_tensor.default,
                      _COLLECTIVES.all_reduce.default):
            done += _fuse_reduce(graph, node)
    if done:
        graph.lint()
    return done


class _Pass(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __call__(self, graph: fx.Graph) -> None:
        fuse(graph)

    def uuid(self) -> bytes:
        from pathlib import Path

        return torch._inductor.custom_graph_pass.get_hash_for_files((str(Path(__file__)),))


def enable() -> None:
    """Makes torch.compile's Inductor run `fuse` on each graph; other passes of yours are kept off."""
    config = torch._inductor.config
    if config.post_grad_custom_pre_pass not in (None, _PASS):
        raise RuntimeError(
            "inductor: post_grad_custom_pre_pass: got one of yours, expected none; "
            "call tilelace.inductor.fuse in it")
    config.post_grad_custom_pre_pass = _PASS


def disable() -> None:
    if torch._inductor.config.post_grad_custom_pre_pass is _PASS:
        torch._inductor.config.post_grad_custom_pre_pass = None


_PASS = _Pass()
