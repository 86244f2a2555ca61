# SPDX-License-Identifier: Apache-2.0
"""torch.compile: whole graphs, a dynamic m, gradients; what the Inductor pass fuses."""
import contextlib
import logging

import tilelace
import tilelace.inductor
import tilelace.nn
import torch
import torch.distributed._functional_collectives as funcol
from torch._dynamo.testing import CompileCounterWithBackend
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx.experimental.proxy_tensor import make_fx

from .world import BOTH, case, expect_close, product, with_partials

OPS, COLLECTIVES = torch.ops.tilelace, torch.ops._c10d_functional
TRACED = torch.__version__ >= "2.15"  # dynamo goes through gathers of other dimensions than the first


def all_gather(x, dim, w):
    if TRACED:
        return funcol.all_gather_tensor(x, dim, w.name)
    return torch.cat(funcol.all_gather_tensor(x, 0, w.name).chunk(w.ranks), dim)


@case(2, 4, on=BOTH)
def whole_graph_with_a_dynamic_m(w):
    w1, w2 = (t.requires_grad_() for t in (w.randn(16, 8), w.randn(8, 16)))

    def block(x):
        _, (y,) = tilelace.ag_gemm(x, w1, None, w.name)
        z = tilelace.gemm_rs(torch.relu(y), w2, None, w.name)
        return z + tilelace.gemm_ar(x, w1[:8], None, w.name)

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, backend=counter, fullgraph=True, dynamic=True)
    for m in (4, 6, 9, 17):
        x = w.randn(m, 8).requires_grad_()
        grads = []
        for fn in (compiled, block):
            y = fn(x)
            grads.append([y, *torch.autograd.grad(y.square().sum(), (x, w1, w2))])
        for ours, eager in zip(*grads):
            assert torch.equal(ours, eager)
    assert counter.frame_count == 1, f"{counter.frame_count} graphs for four sizes"


@case(2, 4, on=BOTH)
def inductor_runs_it(w):
    weight = w.randn(8, 16)
    torch._dynamo.reset()
    # Nothing pointwise: Inductor would call a C++ compiler, for half a minute.
    # m 7 has other rows on some ranks: what torch caches of a compiled graph must not be shared.
    compiled = torch.compile(
        lambda x: tilelace.gemm_rs(x.t(), weight, None, w.group), fullgraph=True, dynamic=True)
    for m in (4, 7):
        x = w.randn(m, 16)
        y64, terms = product(w.ranks * x, weight)
        terms = with_partials(terms, x.dtype)
        expect_close(compiled(x.t().contiguous()), w.mine(y64), w.mine(terms), "compiled")


@case(2, 4, on=BOTH)
def inductor_runs_the_pass(w):
    weight = w.randn(16, 8)
    torch._dynamo.reset()
    tilelace.inductor.enable()
    try:
        compiled = torch.compile(
            lambda x: funcol.all_reduce(x @ weight, "sum", w.name), fullgraph=True)
        x = w.randn(4, 16)
        y64, terms = product(w.ranks * x, weight.t())
        expect_close(compiled(x), y64, with_partials(terms, x.dtype), "compiled")
        assert f"gemm_ar ranks {w.ranks} m 16 n 8 k 16" in tilelace.plans(w.group)[0]
    finally:
        tilelace.inductor.disable()


def fused_graphs(fn, *inputs):
    """The graph that the pass makes of fn's, and its result."""
    graphs = []

    def backend(module, example):
        def compiler(graph, _):
            graphs.append((tilelace.inductor.fuse(graph.graph), graph))
            graph.recompile()
            return graph

        return aot_module_simplified(module, example, fw_compiler=compiler)

    torch._dynamo.reset()
    with torch.no_grad():
        result = torch.compile(fn, backend=backend, fullgraph=True)(*inputs)
    ((count, graph),) = graphs
    return count, [n.target for n in graph.graph.nodes if n.op == "call_function"], result


NAMES = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce")


@contextlib.contextmanager
def logged(lines):
    """What the pass says that it leaves alone."""
    handler, log = logging.Handler(), logging.getLogger("tilelace.inductor")
    handler.emit = lambda record: lines.append(record.getMessage())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def expect_fused(w, fn, inputs, ops, left=(), why=(), eager=None):
    """`why`: a part of each line that says what was left, in their order."""
    lines = []
    with logged(lines):
        count, targets, result = fused_graphs(fn, *inputs)
    with torch.no_grad():
        expected = (eager or fn)(*inputs)
    found = [t for t in targets if t in (OPS.ag_gemm.default, OPS.gemm_rs.default,
                                         OPS.gemm_ar.default)]
    assert found == ops and count == len(ops), (count, targets)
    assert [c for c in NAMES if any(c in str(t) for t in targets)] == list(left), targets
    assert len(lines) == len(why) and all(a in b for a, b in zip(why, lines)), lines
    for ours, theirs in zip(result, expected):
        torch.testing.assert_close(ours, theirs)


@case(2, on=BOTH)
def the_pass_fuses_what_it_knows(w):
    x, a, b = w.integers(4, 8), w.integers(8, 16), w.integers(8, 16)
    bias, z = w.integers(16), w.integers(2, 3, 8)

    def gathers(x):
        g = funcol.all_gather_tensor(x, 0, w.name)
        return g @ a, torch.relu(g @ b)

    def gather_kept(x):
        g = funcol.all_gather_tensor(x, 0, w.name)
        return torch.addmm(bias, g, a), g + 1

    def gather_shaped(z):
        return (funcol.all_gather_tensor(z, 0, w.name) @ a,)

    def reduces(x):
        return (funcol.reduce_scatter_tensor(x @ a, "sum", 0, w.name),
                funcol.all_reduce(x @ b, "sum", w.name))

    def reduce_shaped(z):
        return (funcol.reduce_scatter_tensor(z @ a, "sum", 0, w.name),)

    expect_fused(w, gathers, (x,), [OPS.ag_gemm.default])
    expect_fused(w, gather_kept, (x,), [OPS.ag_gemm.default])
    expect_fused(w, gather_shaped, (z,), [OPS.ag_gemm.default])
    expect_fused(w, reduces, (x,), [OPS.gemm_rs.default, OPS.gemm_ar.default])
    def mean(x):
        return (funcol.reduce_scatter_tensor(x @ a, "avg", 0, w.name),
                funcol.all_reduce(x @ b, "avg", w.name))

    expect_fused(w, reduce_shaped, (z,), [OPS.gemm_rs.default])
    # Not every gloo has a mean: beside the sum.
    expect_fused(w, mean, (x,), [OPS.gemm_rs.default, OPS.gemm_ar.default],
                 eager=lambda x: [y / w.ranks for y in reduces(x)])


@case(2, on=BOTH)
def the_pass_fuses_what_is_waited_on_again(w):
    # Training graphs save a result that is not waited on yet, and may wait twice.
    x, a = w.integers(4, 8), w.integers(8, 16)

    def block(x, a):
        g = COLLECTIVES.all_gather_into_tensor(x, w.ranks, w.name)
        y = COLLECTIVES.wait_tensor(g) @ a
        z = COLLECTIVES.all_reduce(x @ a, "sum", w.name)
        return y, COLLECTIVES.wait_tensor(z), g, z, COLLECTIVES.wait_tensor(z) + 1

    module = make_fx(block, tracing_mode="fake")(x, a)
    assert sum(n.target is COLLECTIVES.wait_tensor.default for n in module.graph.nodes) == 3
    assert tilelace.inductor.fuse(module.graph) == 2
    module.recompile()
    targets = {str(n.target) for n in module.graph.nodes}
    assert not any("c10d" in t for t in targets), targets
    whole, total = torch.cat([x] * w.ranks), w.ranks * (x @ a)
    for ours, right in zip(module(x, a), (whole @ a, total, whole, total, total + 1)):
        assert torch.equal(ours, right)


@case(2, 4, on=BOTH)
def the_pass_fuses_other_dimensions(w):
    a, b, bias = w.integers(8, 16), w.integers(8, 16), w.integers(16)
    z, y = w.integers(2, 3, 8), w.integers(2, 3 * w.ranks, 8)
    four = w.integers(2, 3, 2, 8)

    def gathers(z):
        g = all_gather(z, 1, w)
        return torch.relu(g @ a), g @ b

    def gather_kept(z):
        # As a weight's gradient has it: the gathered tensor is used before the product.
        g = all_gather(z, 1, w).reshape(-1, 8)
        before = g.t() @ y.reshape(-1, 8)
        return before, torch.addmm(bias, g, a), g.sum(0)

    def gather_sliced(z):
        g = COLLECTIVES.all_gather_into_tensor(z, w.ranks, w.name)
        g = COLLECTIVES.wait_tensor(g)
        return (torch.cat([g[2 * r:2 * r + 2] for r in range(w.ranks)], 1) @ a,)

    def weight_after_it(z):
        g = all_gather(z, 1, w)
        first = g @ a
        return first, g @ torch.relu(b + 1)

    def reduces(y):
        return (funcol.reduce_scatter_tensor(y @ a, "sum", 1, w.name),)

    def both(four):
        g = all_gather(four, 2, w)
        return (funcol.reduce_scatter_tensor(g @ a, "sum", 2, w.name),)

    expect_fused(w, gathers, (z,), [OPS.ag_gemm.default])
    expect_fused(w, gather_kept, (z,), [OPS.ag_gemm.default])
    expect_fused(w, gather_sliced, (z,), [OPS.ag_gemm.default])
    expect_fused(w, weight_after_it, (z,), [OPS.ag_gemm.default])
    expect_fused(w, reduces, (y,), [OPS.gemm_rs.default])
    expect_fused(w, both, (four,), [OPS.ag_gemm.default],
                 ["reduce_scatter_tensor"], ["does not follow a product"])




@case(2, on=BOTH)
def layers_are_whole_graphs(w):
    for sequence_parallel in (False, True):
        torch.manual_seed(6)
        layer = tilelace.nn.ParallelMLP(8, 16, activation="swiglu", tp_group=w.group,
                                        sequence_parallel=sequence_parallel)
        layer.to(w.device, w.dtype)
        torch._dynamo.reset()
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
        for rows in (4, 6):
            x = w.randn(rows, 2, 8).requires_grad_()
            y, _ = layer(x)
            z, _ = compiled(x)
            assert torch.equal(y, z)
            ours, theirs = (torch.autograd.grad(t.sum(), x)[0] for t in (z, y))
            assert torch.equal(ours, theirs)
