# SPDX-License-Identifier: Apache-2.0
"""What the rewrites of compiled graphs share: reading nodes, making them, what an op can compute."""
from __future__ import annotations

import logging
import operator
from typing import Any, NamedTuple, TypeGuard

import torch
import torch._guards
from torch import fx
from torch.distributed.tensor import DTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _disable_current_modes

from . import _groups
from ._dtypes import DTYPES
from ._errors import Error

log = logging.getLogger("tilelace.inductor")

ATEN, COLLECTIVES, OPS = torch.ops.aten, torch.ops._c10d_functional, torch.ops.tilelace
# Why a collective is left as it is whose result goes to more than the wait that is looked at.
STRIDES_TAKEN = "fusing would change the strides of its result, which as_strided in the graph may read"
WAITED_AGAIN = "its result is waited for more than once, or kept for the backward graph before the wait"
_PRODUCTS = (ATEN.mm.default, ATEN.addmm.default)
_RESHAPES = (ATEN.view.default, ATEN.reshape.default, ATEN._unsafe_view.default)
_DTYPES = {
    "cpu": tuple(row.dtype for row in DTYPES),
    "cuda": tuple(row.dtype for row in DTYPES if row.on_gpus),
}


def is_call(node: Any, *targets: Any) -> TypeGuard[fx.Node]:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def arguments(node: fx.Node) -> dict[str, Any]:
    """By name, defaults included."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
    return defaults | dict(zip((a.name for a in schema), node.args)) | node.kwargs


def value(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, fx.Node) else node


def equal(a: Any, b: Any) -> bool:
    return a is b or statically_known_true(a == b)


def same_shape(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))


def call(graph: fx.Graph, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
    node = graph.call_function(op, args, kwargs)
    values = fx.node.map_arg((args, kwargs), value)
    with torch.no_grad():
        node.meta["val"] = op(*values[0], **values[1])
    return node


def size(graph: fx.Graph, node: fx.Node, dim: int) -> Any:
    """As an argument of a node."""
    known = value(node).shape[dim]
    return known if isinstance(known, int) else call(graph, ATEN.sym_size.int, node, dim)


def skip(node: fx.Node, why: str) -> bool:
    log.info("%s is left as it is: %s", node.name, why)
    return False


def reshapes_rows(node: Any) -> bool:
    """A reshape that keeps the last dimension."""
    return is_call(node, *_RESHAPES) and value(node).dim() > 0 and value(node.args[0]).dim() > 0 and (
        equal(value(node).shape[-1], value(node.args[0]).shape[-1]))


def is_product(node: Any) -> bool:
    return is_call(node, *_PRODUCTS)


def operands(product: fx.Node) -> tuple[Any, fx.Node, fx.Node]:
    """Bias or None, left and right operand."""
    if product.target is ATEN.mm.default:
        return None, product.args[0], product.args[1]  # type: ignore[return-value]
    return product.args[0], product.args[1], product.args[2]  # type: ignore[return-value]


def unfit(product: fx.Node) -> str:
    """Why no op of ours computes this product, "" where one does."""
    bias, left, right = operands(product)
    x = value(left)
    (k, n), device = value(right).shape, x.device.type
    if product.kwargs:
        return "the product has alpha or beta"
    if device not in _DTYPES:
        return f"the product is on {device}, expected {' or '.join(_DTYPES)}"
    if x.dtype not in _DTYPES[device]:
        return f"the product is of {x.dtype}, expected {', '.join(map(str, _DTYPES[device]))} on {device}"
    if bias is not None and not (value(bias).dim() == 1 and equal(value(bias).shape[0], n)):
        return f"the product's bias is not a vector of {n}"
    if equal(k, 0) or equal(n, 0):
        return "the product is empty"
    if device == "cuda" and not (equal(k % 8, 0) and equal(n % 8, 0)):
        return f"a product of n {n} and k {k}, expected multiples of 8 that are known when compiling"
    return ""


def _dtensors() -> list[Any]:
    """Those that go into what is compiled."""
    context = torch._guards.TracingContext.try_get()
    return [] if context is None else [t for t in context.tensor_to_context if isinstance(t, DTensor)]


def _unequal_groups() -> set[str]:
    """Over which a DTensor is split into parts of several sizes.

    Ranks then have graphs of other sizes, of which an op makes an error, or nothing on some ranks.
    """
    return {
        t.device_mesh.get_group(i).group_name for t in _dtensors() for i, p in enumerate(t.placements)
        if p.is_shard() and t.shape[p.dim] % t.device_mesh.size(i)}


def beside_the_graph() -> bytes:
    """What rewrites depend on that torch's caches of compiled graphs do not know."""
    return repr((bool(_dtensors()), sorted(_unequal_groups()))).encode()


def strides_matter(graph: fx.Graph) -> bool:
    """Results of a dimension that is not the first are views of rows that are dense in memory."""
    return any(is_call(n, ATEN.as_strided.default) for n in graph.nodes)


def unreachable(name: str, device: torch.device) -> str:
    """Why the group can make no calls on this device, "" where it can.

    Whether GPUs of a group reach each other is known once it has joined: collective then.
    """
    if name in _unequal_groups():
        return "ranks have parts of a DTensor that differ in size"
    if device.type != "cuda":
        return ""
    if not OPS._has_cuda():
        return "tilelace was built without GPUs"
    try:
        with _disable_current_modes():
            _groups.ensure(_groups.plain(name), "cuda", _groups.index_in(device))
    except Error as error:
        # Several hosts, for one: every rank raises it.
        if error.kind != "usage":
            raise
        return str(error)
    return ""


def first_wait(collective: fx.Node) -> fx.Node | None:
    """None where something reads the result without one.

    Training graphs also wait again, or save what is not waited on yet for the backward graph.
    """
    users = list(collective.users)
    waits = [u for u in users if is_call(u, COLLECTIVES.wait_tensor.default)]
    if not waits or any(u.op != "output" and u not in waits for u in users):
        return None
    return min(waits)


def replace_collective(collective: fx.Node, result: fx.Node) -> None:
    for user in list(collective.users):
        if user.op != "output":
            user.replace_all_uses_with(result)
            result.graph.erase_node(user)
    collective.replace_all_uses_with(result)
    result.graph.erase_node(collective)


def erase_unused(nodes: Any) -> None:
    """In this order: users first."""
    for node in nodes:
        if not node.users:
            node.graph.erase_node(node)


class Moved(NamedTuple):
    """`source` in equal parts along one dimension, put together along another by a cat."""

    source: fx.Node
    split_dim: int
    cat_dim: int
    between: list[fx.Node]  # users first


def _part(node: Any) -> tuple[fx.Node, int, Any] | None:
    """What a node is a part of: the tensor, the dimension and where in it the part starts."""
    if is_call(node, ATEN.slice.Tensor):
        a = arguments(node)
        if a["step"] != 1:
            return None
        return a["self"], a["dim"] % value(a["self"]).dim(), value(a["start"]) or 0
    if not is_call(node, operator.getitem):
        return None
    split, index = node.args
    if is_call(split, ATEN.split.Tensor):
        a = arguments(split)
        start = index * value(a["split_size"])
    elif is_call(split, ATEN.split_with_sizes.default):
        a = arguments(split)
        start = sum(value(s) for s in a["split_sizes"][:index])
    else:
        return None
    return a["self"], a["dim"] % value(a["self"]).dim(), start


def moved(cat: fx.Node, ranks: int) -> Moved | None:
    """What functional collectives make of a dimension that is not the first, where it is that."""
    if not is_call(cat, ATEN.cat.default):
        return None
    nodes = list(arguments(cat)["tensors"])
    parts = [_part(n) for n in nodes]
    if len(parts) != ranks or parts[0] is None:
        return None
    source, dim, _ = parts[0]
    whole = value(source).shape[dim]
    for i, part in enumerate(parts):
        if part is None or part[0] is not source or part[1] != dim:
            return None
        mine = value(nodes[i]).shape[dim]
        if not (equal(part[2], i * mine) and equal(mine * ranks, whole)):
            return None
    splits = dict.fromkeys(n.args[0] for n in nodes if n.args[0] is not source)
    between = [*nodes, *splits]
    if any(len(n.users) != 1 for n in nodes) or any(len(s.users) != ranks for s in splits):
        return None
    return Moved(source, dim, arguments(cat)["dim"] % value(cat).dim(), between)
