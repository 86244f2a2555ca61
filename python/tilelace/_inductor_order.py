# SPDX-License-Identifier: Apache-2.0
"""Inductor runs the ops in their graph's order.

Its scheduler reorders independent nodes to save memory, and in other ways on ranks whose graphs
differ. Effect tokens do not prevent that in torch 2.11, and `tilelace.inductor`'s nodes have none.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

# Of a graph that is being lowered: the buffer of its latest call.
_latest: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _in_order(op: torch._ops.OpOverload) -> Callable[..., Any]:
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import V

    fallback = lowering.fallback_handler(op)

    def lower(*args: Any, **kwargs: Any) -> Any:
        graph = V.graph
        first = len(graph.operations)
        result = fallback(*args, **kwargs)
        # Before it there may be what computes its arguments, behind it are its results.
        made = next(o for o in graph.operations[first:] if isinstance(o, ir.FallbackKernel))
        if graph in _latest:
            graph.additional_buffer_deps[made.get_operation_name()].add(_latest[graph])
        _latest[graph] = made.get_name()
        return result

    return lower


def keep(ops: Sequence[torch._ops.OpOverload]) -> None:
    """Applies when Inductor is imported, by the first compiled graph: importing it takes seconds."""
    lowering = sys.modules.get("torch._inductor.lowering")
    if lowering is None or ops[0] in lowering.lowerings:
        return
    for op in ops:
        lowering.register_lowering(op, type_promotion_kind=None)(_in_order(op))
