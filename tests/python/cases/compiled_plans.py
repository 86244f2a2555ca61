# SPDX-License-Identifier: Apache-2.0
"""The Inductor pass on training graphs of PyTorch's own tensor-parallel plans."""
import copy
from unittest import mock

import tilelace
import tilelace.inductor
import torch
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from .world import BOTH, case

COLLECTIVES = torch.ops._c10d_functional
NAMES = {
    torch.ops.tilelace.ag_gemm.default: "ag_gemm",
    torch.ops.tilelace.gemm_rs.default: "gemm_rs",
    torch.ops.tilelace.gemm_ar.default: "gemm_ar",
    COLLECTIVES.all_gather_into_tensor.default: "all_gather",
    COLLECTIVES.reduce_scatter_tensor.default: "reduce_scatter",
    COLLECTIVES.all_reduce.default: "all_reduce",
}


def mesh_of(w):
    """Of the default group: DTensor remembers groups of meshes, and those of cases are destroyed."""
    return DeviceMesh(w.device, list(range(w.ranks)))


def calls(graph):
    """The graph's fused ops and what is left of collectives, in their order."""
    return [NAMES[n.target] for n in graph.nodes if n.target in NAMES]


def compiled(fn, graphs, **settings):
    """As Inductor has it, graphs and all, but run node by node: no C++ compiler, half a minute."""

    def inner(module, _, **kwargs):
        view_to_reshape(module)
        module.graph.eliminate_dead_code()
        tilelace.inductor.fuse(module.graph)
        module.recompile()
        graphs.append(calls(module.graph))
        return make_boxed_func(module.forward)

    torch._dynamo.reset()
    return torch.compile(fn, backend=lambda module, inputs: compile_fx(module, inputs, inner_compile=inner),
                         fullgraph=True, **settings)


class Block(torch.nn.Module):
    def __init__(self, hidden, bias):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, hidden, bias=bias)
        self.down = torch.nn.Linear(hidden, 8, bias=bias)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Feed(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(8, 4 * ranks, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(4 * ranks, 8, bias=False)

    def forward(self, x):
        return self.down(torch.sigmoid(self.gate(x)) * self.up(x))


class Gated(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.norm, self.feed = torch.nn.LayerNorm(8), Feed(ranks)

    def forward(self, x):
        return x + self.feed(self.norm(x))


def plan(sequence_parallel):
    if not sequence_parallel:
        return {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }


def gated_plan():
    return {
        "norm": SequenceParallel(),
        "feed": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "feed.gate": ColwiseParallel(),
        "feed.up": ColwiseParallel(),
        "feed.down": RowwiseParallel(output_layouts=Shard(1)),
    }


def local(t):
    return t.to_local() if isinstance(t, DTensor) else t


def trained(model, fn, x):
    """The result, and every gradient."""
    x = x.clone().requires_grad_()
    y = fn(x)
    y.square().sum().backward()
    grads = {n: local(p.grad) for n, p in model.named_parameters()}
    return {"result": y.detach(), "x": x.grad, **grads}


def expect_trained(w, model, x, forward, backward, **settings):
    """The pass makes these calls of a model's graphs, which then compute what eager mode does."""
    graphs = []
    other = copy.deepcopy(model)
    ours = trained(other, compiled(other, graphs, **settings), x)
    eager = trained(model, model, x)
    assert graphs == [forward, backward], graphs
    assert ours.keys() == eager.keys()
    for name, t in eager.items():
        assert t is not None and t.abs().sum() > 0, name
        torch.testing.assert_close(ours[name], t, msg=lambda text, n=name: f"{n}: {text}")


for _sequence_parallel in (False, True):
    for _bias in (False, True):
        @case(2, 4, sequence_parallel=_sequence_parallel, bias=_bias)
        def plans_are_fused(w, sequence_parallel, bias):
            mesh = mesh_of(w)
            forward = ["ag_gemm", "gemm_rs"] if sequence_parallel else ["gemm_ar"]
            for batch in (1, 2):
                torch.manual_seed(batch)
                model = parallelize_module(Block(4 * w.ranks, bias), mesh, plan(sequence_parallel))
                x = w.randn(batch, 3 * w.ranks, 8)
                x = w.mine(x, 1) if sequence_parallel else x
                expect_trained(w, model, x, forward, forward)


@case(2)
def blocks_after_one_another_are_fused(w):
    mesh = mesh_of(w)
    torch.manual_seed(3)
    model = torch.nn.Sequential(Block(4 * w.ranks, True), Block(4 * w.ranks, False))
    for block in model:
        parallelize_module(block, mesh, plan(True))
    x = w.mine(w.randn(2, 3 * w.ranks, 8), 1)
    both = ["ag_gemm", "gemm_rs"] * 2
    expect_trained(w, model, x, both, both)


@case(2)
def products_of_one_gather_share_a_call(w):
    mesh = mesh_of(w)
    torch.manual_seed(4)
    x = w.mine(w.randn(2, 3 * w.ranks, 8), 1)
    # Backward, the gradients of the two products' input are added before they are reduced.
    model = parallelize_module(Gated(w.ranks), mesh, gated_plan())
    expect_trained(w, model, x, ["ag_gemm", "gemm_rs"], ["ag_gemm", "reduce_scatter"])


@case(2)
def sizes_may_be_symbols(w):
    mesh = mesh_of(w)
    torch.manual_seed(5)
    for model, plan_of, backward in (
            (Block(4 * w.ranks, True), plan(True), ["ag_gemm", "gemm_rs"]),
            (Gated(w.ranks), gated_plan(), ["ag_gemm", "reduce_scatter"])):
        model = parallelize_module(model, mesh, plan_of)
        x = w.mine(w.randn(2, 3 * w.ranks, 8), 1)
        expect_trained(w, model, x, ["ag_gemm", "gemm_rs"], backward, dynamic=True)


@case(2, 4)
def shards_of_several_sizes_are_left_alone(w):
    mesh = mesh_of(w)
    torch.manual_seed(7)
    model = parallelize_module(Block(4 * w.ranks - 1, False), mesh, {
        "up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()})
    expect_trained(w, model, w.randn(2, 3, 8), ["all_reduce"], ["all_reduce"])


class Bare(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.up = torch.nn.Linear(16, 8 * ranks, bias=False)
        self.down = torch.nn.Linear(8 * ranks, 16, bias=False)

    def forward(self, x):
        return self.down(self.up(x))


@case(2, on=BOTH)
def inductor_itself_trains_a_plan(w):
    mesh = mesh_of(w)
    torch.manual_seed(6)
    model = parallelize_module(Bare(w.ranks).to(w.device, w.dtype), mesh, {
        "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))})
    # A batch of 1: nothing is copied, so Inductor calls no C++ compiler.
    x = w.mine(w.randn(1, 3 * w.ranks, 16), 1)
    eager = trained(model, model, x)
    model.zero_grad()
    counts, fuse = [], tilelace.inductor.fuse
    torch._dynamo.reset()
    tilelace.inductor.enable()
    try:
        # Graphs of a cache run without the pass.
        with (mock.patch.object(tilelace.inductor, "fuse", lambda graph: counts.append(fuse(graph))),
              torch._inductor.config.patch(force_disable_caches=True)):
            ours = trained(model, torch.compile(model, fullgraph=True), x)
    finally:
        tilelace.inductor.disable()
    assert counts == [2, 2], counts
    for name, t in eager.items():
        # Eager mode rounds partial sums and sums of them to bf16.
        loose = {"rtol": 2.0**-6, "atol": 2.0**-6 * t.abs().max().item()} if w.cuda else {}
        torch.testing.assert_close(ours[name], t, msg=lambda text, n=name: f"{n}: {text}", **loose)
    problems = [p for p in tilelace.plans(device=w.device) if "n 16 k 8" in p or "n 8 k 16" in p]
    assert sorted(p.split()[0] for p in problems) == ["ag_gemm", "gemm_rs"], problems
