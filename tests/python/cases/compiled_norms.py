# SPDX-License-Identifier: Apache-2.0
"""Which sums of compiled graphs become all_reduce_norm, and what that changes of their bits."""
import tilelace
import tilelace.inductor
import torch
import torch.distributed._functional_collectives as funcol
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.decomposition import select_decomp_table

from .compiled import logged
from .world import BOTH, UNIT, case

OPS = torch.ops.tilelace
N = 64


def of_transformers(h, weight, eps=1e-5):
    """LlamaRMSNorm and those that are like it."""
    wide = h.to(torch.float32)
    root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * root).to(h.dtype)


def of_torch(h, weight, eps=1e-5):
    return torch.nn.functional.rms_norm(h, h.shape[-1:], weight, eps)


def graph_of(fn, *inputs, dynamic=False):
    """What the pass makes of Inductor's graph: how many, its calls, what is left, the results."""
    found, lines = [], []

    def backend(module, example):
        def compiler(graph, _):
            with logged(lines):
                found.append((tilelace.inductor.fuse(graph.graph), graph))
            graph.recompile()
            return graph

        return aot_module_simplified(module, example, fw_compiler=compiler,
                                     decompositions=select_decomp_table())

    torch._dynamo.reset()
    with torch.no_grad():
        results = torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)(*inputs)
    ((count, graph),) = found
    return count, [n.target for n in graph.graph.nodes if n.op == "call_function"], lines, results


def expect_near(ours, theirs):
    """Of the norm one rounding beside up to three (behind the root, behind the weight), whose root
    itself is off by the order of fp32 sums."""
    for a, b in zip(ours, theirs, strict=True):
        bound = 3.1 * UNIT[b.dtype] * b.double().abs() + 1e-30
        assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape)
        assert ((a.double() - b.double()).abs() <= bound).all(), (a, b)


def expect_norm(w, fn, *inputs, count=1, dynamic=False):
    found, targets, lines, results = graph_of(fn, *inputs, dynamic=dynamic)
    assert found == count and targets.count(OPS.all_reduce_norm.default) == count, (targets, lines)
    assert not any("_c10d" in str(t) or t is torch.ops.aten.rsqrt.default for t in targets), targets
    with torch.no_grad():
        expect_near(results, fn(*inputs))


def inputs(w, *size, dtype=torch.bfloat16):
    """x of this rank, a residual and a weight."""
    x = [w.randn(*size, N, dtype=dtype) for _ in range(w.ranks)][w.rank]
    return x, w.randn(*size, N, dtype=dtype), w.randn(N, dtype=dtype)


def summed(x, w):
    return funcol.all_reduce(x, "sum", w.name)


@case(2, on=BOTH)
def sums_and_norms_are_one_call(w):
    for dtype, norm in ((torch.bfloat16, of_transformers), (torch.bfloat16, of_torch),
                        (torch.float16, of_torch)):
        x, residual, weight = inputs(w, 5, dtype=dtype)

        def alone(x, weight):
            return (norm(summed(x, w), weight),)

        def with_sum(x, weight):
            h = summed(x, w)
            return norm(h, weight), h * 2

        def added(x, residual, weight):
            h = residual + summed(x, w)
            return norm(h, weight), h

        def chained(x, residual, weight):
            h = summed(x, w) + residual
            y = norm(h, weight, 1e-6)
            g = summed(torch.relu(y), w) + h
            return norm(g, weight), g

        expect_norm(w, alone, x, weight)
        expect_norm(w, with_sum, x, weight)
        expect_norm(w, added, x, residual, weight)
        found, targets, _, results = graph_of(chained, x, residual, weight)
        assert found == 2 and targets.count(OPS.all_reduce_norm.default) == 2, targets
        eager = chained(x, residual, weight)
        torch.testing.assert_close(results, eager, rtol=0.05, atol=0.05)


@case(2, on=BOTH)
def shapes_may_be_others(w):
    x, residual, weight = inputs(w, 2, 3)

    def reshaped(x, residual, weight):
        h = summed(x.reshape(-1, N), w).reshape(residual.shape) + residual
        return of_torch(h, weight), h

    expect_norm(w, reshaped, x, residual, weight)
    expect_norm(w, reshaped, x, residual, weight, dynamic=True)
    found, _, lines, _ = graph_of(lambda x, a: (of_transformers(summed(x, w), a),), x, weight,
                                  dynamic=True)
    # A tensor, then; before torch 2.15 n is no number, too, and said first.
    assert found == 0 and ("eps is not a constant" in lines[0] or "columns, expected" in lines[0]), lines
    torch._dynamo.mark_dynamic(x, 0)
    expect_norm(w, lambda x, a: (of_transformers(summed(x, w), a),), x, weight)


@case(2, on=BOTH)
def what_is_no_such_norm_stays(w):
    x, residual, weight = inputs(w, 4)

    def no_weight(x, r, a):
        return (torch.nn.functional.rms_norm(summed(x, w) + r, (N,), None, 1e-5),)

    def wide_weight(x, r, a):
        return (of_transformers(summed(x, w) + r, a.float()),)

    def two_sums(x, r, a):
        s = summed(x, w)
        return of_torch(s + r, a), s

    def root_is_wanted(x, r, a):
        wide = (summed(x, w) + r).float()
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return a * (wide * root).to(x.dtype), root

    def other_dimension(x, r, a):
        wide = (summed(x, w) + r).float()
        root = torch.rsqrt(wide.pow(2).mean(0, keepdim=True) + 1e-5)
        return (a * (wide * root).to(x.dtype),)

    def average(x, r, a):
        return (of_torch(funcol.all_reduce(x, "max", w.name), a),)

    def no_norm(x, r, a):
        return (summed(x, w) + r,)

    for fn, why in ((no_weight, "no weight"), (wide_weight, "its norm has no weight"),
                    (two_sums, "no norm follows"), (root_is_wanted, "is not RMSNorm, or has other"),
                    (other_dimension, "is not RMSNorm"), (average, "it is not a sum"),
                    (no_norm, "it does not follow a product; no norm follows it")):
        found, targets, lines, _results = graph_of(fn, x, residual, weight)
        assert found == 0 and OPS.all_reduce_norm.default not in targets, (fn.__name__, targets)
        assert len(lines) == 1 and why in lines[0], (fn.__name__, lines)
    for other, why in ((lambda t: t.float(), "no norm follows it"),
                       (lambda t: t[..., :N - 4].contiguous(), "a norm of 60 columns")):
        values = [other(t) for t in (x, residual, weight)]
        found, _, lines, _ = graph_of(lambda x, r, a: (of_torch(summed(x, w) + r, a),), *values)
        assert found == 0 and why in lines[0], lines


@case(2, on=BOTH)
def products_keep_their_own_sum(w):
    x, residual, weight = inputs(w, 4)
    square = w.randn(N, N, dtype=torch.bfloat16)

    def block(x, residual, weight):
        h = summed(x @ square, w) + residual
        return of_torch(h, weight), h

    found, targets, lines, _ = graph_of(block, x, residual, weight)
    few = w.device == "cuda"  # rows: there the norm goes first
    assert found == 1 and (OPS.gemm_ar.default in targets) != few, (targets, lines)
    assert (OPS.all_reduce_norm.default in targets) == few, targets


@case(2, on=BOTH)
def inductor_runs_it(w):
    x, residual, weight = inputs(w, 6)

    def block(x, residual, weight):
        h = summed(x, w) + residual
        return of_torch(h, weight), h

    tilelace.inductor.enable()
    try:
        torch._dynamo.reset()
        with torch.no_grad():
            ours = torch.compile(block, fullgraph=True)(x, residual, weight)
    finally:
        tilelace.inductor.disable()
    direct = tilelace.all_reduce_norm(x, weight, w.group, residual=residual, eps=1e-5)
    assert torch.equal(ours[0], direct.normed) and torch.equal(ours[1], direct.residual)
