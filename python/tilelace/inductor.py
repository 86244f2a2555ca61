# SPDX-License-Identifier: Apache-2.0
"""Replaces collectives around matrix products in compiled graphs by tilelace's ops.

    tilelace.inductor.enable()     # then torch.compile as usual

all_gather + mm (or addmm) becomes ag_gemm; several products of one gather share it. mm +
reduce_scatter becomes gemm_rs, mm + all_reduce gemm_ar. This holds for torch.distributed's functional
collectives, those of DTensor's plans included, for sums and averages, for any dimension but the last,
and with reshapes between. Another all_reduce, a following add and RMSNorm become all_reduce_norm. The
logger "tilelace.inductor" says at level INFO what is left alone, and why.
"""
from __future__ import annotations

import torch
import torch._inductor.config
import torch._inductor.custom_graph_pass
from torch import fx
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _inductor_gather, _inductor_graph, _inductor_norm, _inductor_order, _inductor_reduce
from ._errors import usage
from ._inductor_graph import COLLECTIVES, is_call, skip

_SEVERAL = (
    COLLECTIVES.all_gather_into_tensor_coalesced.default,
    COLLECTIVES.reduce_scatter_tensor_coalesced.default,
    COLLECTIVES.all_reduce_coalesced.default,
)


def _fuse_sum(graph: fx.Graph, node: fx.Node) -> bool:
    norms = is_call(node, COLLECTIVES.all_reduce.default)
    if norms and _inductor_norm.has_few_rows(node) and not _inductor_norm.fuse_norm(graph, node):
        return True
    why = _inductor_reduce.fuse_reduce(graph, node)
    if why and norms:
        alone = _inductor_norm.fuse_norm(graph, node)
        why = f"{why}; {alone}" if alone else ""
    return skip(node, why) if why else True


def fuse(graph: fx.Graph) -> int:
    """Rewrites the graph in place; returns how many collectives went into a product or a norm.

    Local on CPU tensors. On CUDA tensors it is collective over a group that has not joined; a group
    that cannot join keeps its collectives. Errors: none; the logger "tilelace.inductor" says what
    is not rewritten.
    """
    done = 0
    for node in list(graph.nodes):
        if is_call(node, COLLECTIVES.all_gather_into_tensor.default):
            done += _inductor_gather.fuse_gather(graph, node)
        elif is_call(node, COLLECTIVES.reduce_scatter_tensor.default, COLLECTIVES.all_reduce.default):
            done += _fuse_sum(graph, node)
        elif is_call(node, *_SEVERAL):
            skip(node, "it is one collective of several tensors")
    if done:
        stable_topological_sort(graph)
        # As Inductor has them already: strides of results are not always what they were.
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
            node.target = torch.ops.aten.reshape.default
        graph.lint()
    return done


class _Pass(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __call__(self, graph: fx.Graph) -> None:
        fuse(graph)

    def uuid(self) -> bytes:
        modules = (_inductor_gather, _inductor_graph, _inductor_norm, _inductor_order,
                   _inductor_reduce)
        sources = (__file__, *(m.__file__ for m in modules))
        known = torch._inductor.custom_graph_pass.get_hash_for_files(tuple(map(str, sources)))
        return known + _inductor_graph.beside_the_graph()


def enable() -> None:
    """Makes torch.compile's Inductor run `fuse` on each graph that it compiles from now on.

    Sets torch._inductor.config.post_grad_custom_pre_pass, and never replaces another pass. May be
    repeated. Local; call it on every rank: all compile the same graphs. Errors: usage (a pass of yours
    is set already: call `fuse` in it).
    """
    config = torch._inductor.config
    if config.post_grad_custom_pre_pass not in (None, _PASS):
        raise usage(
            "inductor: post_grad_custom_pre_pass already has a pass of yours: "
            "call tilelace.inductor.fuse in it")
    config.post_grad_custom_pre_pass = _PASS


def disable() -> None:
    """Undoes `enable` for graphs that are compiled later; does nothing if it was not called.

    Graphs that are already compiled stay as they are. Local. Errors: none.
    """
    if torch._inductor.config.post_grad_custom_pre_pass is _PASS:
        torch._inductor.config.post_grad_custom_pre_pass = None


_PASS = _Pass()
