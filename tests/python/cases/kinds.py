# SPDX-License-Identifier: Apache-2.0
"""Styles beside PyTorch's on linear layers of all kinds: taken where forward is nn.Linear's own.

Each kind: a layer, and what happens to it after the styles were applied. Two of them with a ReLU
between are compared in result and gradients; calls that were fused are counted.
"""
import contextlib
import copy
import functools
import logging
from unittest.mock import patch

import tilelace
import tilelace._log
import tilelace.nn as tnn
import tilelace.ops
import tilelace.tensor_parallel as ours
import torch
import torch.distributed.tensor.parallel as theirs
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from .styles import alike, full, mesh_of
from .world import BOTH, case, expect_raises

OPS = ("ag_gemm", "gemm_rs", "gemm_ar")


class Lora(nn.Linear):
    """An adapter in a subclass, of the whole weight's shape."""

    def forward(self, input):
        return 3 * super().forward(input) + F.linear(input, self.weight) * 0.5


class FakeQuantised(nn.Linear):
    def forward(self, input):
        return F.linear(input, torch.round(self.weight * 8) / 8, self.bias)


class Renamed(nn.Linear):
    """A subclass without a forward of its own."""


class Scaled(torch.Tensor):
    """A weight that stands for twice itself."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if func is F.linear:
                return F.linear(args[0], 2 * args[1].as_subclass(torch.Tensor), *args[2:], **kwargs or {})
            result = func(*args, **kwargs or {})
            return result.as_subclass(cls) if func is torch.Tensor.detach else result


def linear(n, k, kind=nn.Linear, **more):
    return kind(k, n, **more)


def patched(n, k):
    module = nn.Linear(k, n)
    module.forward = lambda x: 2 * nn.Linear.forward(module, x)
    return module


def wrap_forward(module):
    """As hooks of other packages do: the forward of before is called inside."""
    inner = module.forward
    module.forward = lambda x: torch.sin(inner(x) * 0.25)


def replace_forward(module):
    module.forward = lambda x: F.linear(x, module.weight, module.bias) * 0.5


def swap_class(module):
    module.__class__ = FakeQuantised


def look(module):
    module.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
    module.register_forward_hook(lambda m, args, y: y * 1.5)
    module.register_full_backward_hook(lambda m, grads, outs: tuple(
        g if g is None else g * 0.5 for g in grads))
    return module


def look_at_all(module):
    """Hooks whose results depend on the whole tensor."""
    module.register_forward_pre_hook(lambda m, args: (args[0] - args[0].mean(-1, keepdim=True),))
    module.register_forward_hook(lambda m, args, y: y - y.mean(-1, keepdim=True), prepend=True)


def looked_at(n, k):
    module = nn.Linear(k, n)
    module.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
    module.register_forward_hook(lambda m, args, y: y - y.mean(-1, keepdim=True))
    return module


def weight_normed(n, k):
    with contextlib.suppress(FutureWarning):
        return nn.utils.weight_norm(nn.Linear(k, n))


def parametrized(n, k):
    return nn.utils.parametrizations.weight_norm(nn.Linear(k, n))


def frozen(n, k):
    return nn.Linear(k, n).requires_grad_(False)


def bias_only(n, k):
    module = nn.Linear(k, n)
    module.weight.requires_grad_(False)
    return module


def quantised(n, k):
    module = nn.Linear(k, n)
    module.weight = nn.Parameter(module.weight.detach().as_subclass(Scaled), requires_grad=False)
    return module


def nothing(module):
    return None


# Layer, what comes after the styles, whether its calls are fused (None: either).
KINDS = {
    "plain": (linear, nothing, True),
    "without bias": (functools.partial(linear, bias=False), nothing, True),
    "frozen": (frozen, nothing, True),
    "frozen weight": (bias_only, nothing, True),
    "a subclass without a forward": (functools.partial(linear, kind=Renamed), nothing, True),
    "hooks after": (linear, look, True),
    "hooks before": (looked_at, nothing, True),
    "hooks that see all": (linear, look_at_all, None),
    "weight norm by hooks": (weight_normed, nothing, None),
    "lora": (functools.partial(linear, kind=Lora), nothing, False),
    "fake-quantised": (functools.partial(linear, kind=FakeQuantised), nothing, False),
    "patched": (patched, nothing, False),
    "patched later": (linear, replace_forward, False),
    "wrapped later": (linear, wrap_forward, False),
    "class swapped later": (linear, swap_class, False),
    "quantised weight": (quantised, nothing, None),
    "parametrized": (parametrized, nothing, False),
}


def plans(styles, sequence_parallel):
    if not sequence_parallel:
        return {"0": styles.ColwiseParallel(), "2": styles.RowwiseParallel()}
    return {"0": styles.ColwiseParallel(input_layouts=Shard(1)),
            "2": styles.RowwiseParallel(output_layouts=Shard(1))}


def fused_calls(fn):
    """fn's result, and how many calls of each op it made, not compiled."""
    calls = dict.fromkeys(OPS, 0)

    def counted(op, call):
        def count(*args, **kwargs):
            calls[op] += 1
            return call(*args, **kwargs)
        return count

    with patch.dict(tilelace.ops._OPS, {op: counted(op, tilelace.ops._OPS[op]) for op in OPS}):
        return fn(), calls


def parallel(w, styles, module, after, sequence_parallel):
    model = styles.parallelize_module(module, mesh_of(w), plans(styles, sequence_parallel))
    for layer in (model[0], model[2]):
        after(layer)
    return model


def two(w, kind):
    torch.manual_seed(8)
    return nn.Sequential(kind(8 * w.ranks, 8), nn.ReLU(), kind(8, 8 * w.ranks)).to(w.device, w.dtype)


def outcome(w, styles, kind, after, sequence_parallel, x):
    """Result and gradients, or the error's type; and the fused calls of forward."""
    try:
        model = parallel(w, styles, two(w, kind), after, sequence_parallel)
        mine = x.clone().requires_grad_()
        y, calls = fused_calls(lambda: model(mine))
        full(y).square().sum().backward()
        grads = [full(p.grad) for p in model.parameters() if p.grad is not None]
        return [y, mine.grad, *grads], calls
    except Exception as error:
        return type(error).__name__, {}


@case(2, 3, on=BOTH)
def kinds_of_layers(w):
    whole = w.randn(2, 2 * w.ranks, 8)
    for name, (kind, after, taken) in KINDS.items():
        for sequence_parallel in (False, True):
            x = w.mine(whole, 1) if sequence_parallel else whole
            what = f"{name}, sequence_parallel {sequence_parallel}"
            expected, _ = outcome(w, theirs, kind, after, sequence_parallel, x)
            got, calls = outcome(w, ours, kind, after, sequence_parallel, x)
            if isinstance(expected, str) or isinstance(got, str):
                assert got == expected, f"{what}: got {got}, expected {expected}"
                assert not taken, what
                continue
            for i, (mine, other) in enumerate(zip(got, expected, strict=True)):
                alike(mine, other, f"{what}: {i}")
            ops = ("ag_gemm", "gemm_rs") if sequence_parallel else ("gemm_ar",)
            assert taken is None or calls == {op: int(taken and op in ops) for op in OPS}, f"{what}: {calls}"


@case(2, on=BOTH)
def tied_meta_autocast_and_compiled(w):
    mesh, x, k = mesh_of(w), w.randn(2, 2 * w.ranks, 8 * w.ranks), 8 * w.ranks
    torch.manual_seed(8)
    # One layer at two places, and two layers with one weight.
    for styles in (theirs, ours):
        row = styles.parallelize_module(nn.Linear(k, k, device=w.device, dtype=w.dtype), mesh,
                                        styles.RowwiseParallel(input_layouts=Replicate()))
        with torch.no_grad():
            for p in row.parameters():
                p.fill_(2.0**-6)
        other = styles.parallelize_module(nn.Linear(k, k, device=w.device, dtype=w.dtype), mesh,
                                          styles.RowwiseParallel(input_layouts=Replicate()))
        other.weight, other.bias = row.weight, row.bias
        y, calls = fused_calls(lambda: other(row(row(x))))
        y.square().sum().backward()
        if styles is theirs:
            expected = [y, full(row.weight.grad)]
        else:
            assert calls["gemm_ar"] == 3, calls
            for mine, theirs_ in zip([y, full(row.weight.grad)], expected):
                assert torch.allclose(mine, theirs_, rtol=2.0**-4 if w.cuda else 1e-5)
    # Made without data, laid out, then filled.
    meta = ours.parallelize_module(nn.Linear(k, 8, device="meta", dtype=w.dtype), mesh, ours.RowwiseParallel())
    meta = meta.to_empty(device=w.device)
    with torch.no_grad():
        meta.weight.fill_(1.0)
        meta.bias.fill_(0.0)
    y, calls = fused_calls(lambda: meta(w.mine(torch.ones_like(x), 2)))
    assert calls["gemm_ar"] == 1 and torch.equal(y, torch.full_like(y, float(k))), calls
    # Autocast, and one graph.
    x = w.randn(2, 2 * w.ranks, 8)
    model = parallel(w, ours, two(w, linear), nothing, False)
    with torch.autocast(w.device, dtype=torch.bfloat16):
        y, calls = fused_calls(lambda: model(x))
    assert calls["gemm_ar"] == 1 and y.dtype == torch.bfloat16, calls
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    y = torch.compile(model, backend=backend, fullgraph=True)(x)
    targets = [node.target for graph in graphs for node in graph.graph.nodes]
    assert len(graphs) == 1 and targets.count(torch.ops.tilelace.gemm_ar.default) == 1, targets
    alike(y, model(x), "compiled")


@case(2)
def what_the_ops_do_not_take_is_left_and_said_once(w):
    """On CPU ranks: double."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    tilelace._log.log.addHandler(handler)
    tilelace._log.told.clear()
    try:
        x, first = w.randn(2, 4, 8, dtype=torch.float64), None
        for styles in (theirs, ours):
            torch.manual_seed(8)
            row = styles.parallelize_module(nn.Linear(8, 8).double(), mesh_of(w),
                                            styles.RowwiseParallel(input_layouts=Replicate()))
            results = [row(x) for _ in range(3)]
            first = results[0] if first is None else first
            assert all(torch.allclose(r, first) for r in results)
        wrapped = ours.parallelize_module(Lora(8, 8), mesh_of(w), ours.ColwiseParallel())
        for _ in range(2):
            wrapped(w.randn(2, 4, 8))
    finally:
        tilelace._log.log.removeHandler(handler)
    assert len(lines) == 2 and "float64" in lines[0] and "Lora" in lines[1], lines


@case(2)
def a_layer_made_from_another_takes_plain_ones_alone(w):
    """tilelace.nn's from_linear makes a new layer: what it would lose is an error."""
    for wrong, text in (
        (Lora(8, 8), "own (Lora)"), (patched(8, 8), "a forward of its own"),
        (parametrized(8, 8), "parametrizations"), (looked_at(8, 8), "hooks"),
        (quantised(8, 8), "Scaled"),
    ):
        for layer in (tnn.ColumnParallelLinear, tnn.RowParallelLinear):
            expect_raises("usage", text, lambda: layer.from_linear(wrong, tp_group=w.group))
    layer = tnn.RowParallelLinear.from_linear(bias_only(8, 8), tp_group=w.group)
    assert not layer.weight.requires_grad and layer.bias.requires_grad


@case(2)
def styles_that_are_copied(w):
    model = parallel(w, ours, two(w, linear), nothing, False)
    x = w.randn(2, 4, 8)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    assert model(x).abs().max() > 0 and other(x).abs().max() == 0
    assert isinstance(other[0].weight, DTensor)
    assert distribute_tensor(x, mesh_of(w), [Replicate()]).to_local().equal(x)
