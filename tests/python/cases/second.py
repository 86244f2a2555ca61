# SPDX-License-Identifier: Apache-2.0
"""Derivatives of derivatives: those of the unsharded computation, for every op, layer and style.

A penalty on gradients: the squares of the first derivatives of a loss are summed and derived again.
"""
import tilelace
import tilelace.nn as tnn
import tilelace.tensor_parallel as styles
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Shard

from .layers import near
from .styles import full, mesh_of
from .world import case, expect_raises

# fp32, some hundred roundings of terms of the size of the largest result.
SHARE = 256 * 2.0**-24


def penalty(loss, tensors):
    """Of the squares of the loss's gradients: the gradients with respect to the same tensors."""
    first = torch.autograd.grad(loss, tensors, create_graph=True)
    total = sum(g.square().sum() for g in first)
    second = torch.autograd.grad(total, tensors, allow_unused=True)
    return [*first, *(torch.zeros_like(t) if g is None else g for g, t in zip(second, tensors))]


def leaf(t):
    return t.detach().clone().requires_grad_()


def check(w, what, ours, reference, parts):
    """`parts`: of each of the reference's gradients, what this rank has."""
    for i, (mine, whole, part) in enumerate(zip(ours, reference, parts * 2, strict=True)):
        near(mine.detach(), part(whole).detach(), f"{what}: gradient {i}", SHARE)


def swiglu(gate, up):
    return F.silu(gate) * up


@case(2, 3)
def of_gathers(w):
    m, k, n = 2 * w.ranks + 1, 6, 5
    sizes = w.split(m)
    whole, weights = w.randn(m, k), [[w.randn(n, k) for _ in range(2)] for _ in range(w.ranks)]
    for activation, act in (("none", None), ("silu", F.silu), ("swiglu", swiglu)):
        for keep in (False, True):
            x, ws = leaf(w.mine(whole)), [leaf(t) for t in weights[w.rank]]
            gathered, outs = tilelace.ag_gemm(
                x, ws, None, w.group, activation=activation, return_gathered=keep, sizes=sizes)
            loss = sum(y.pow(3).sum() for y in outs)
            if keep:
                loss = loss + gathered.pow(3).sum()
            X, W = leaf(whole), [[leaf(t) for t in rank] for rank in weights]
            total = 0
            for rank in W:
                products = [X @ t.t() for t in rank]
                results = [act(*products)] if activation == "swiglu" else [
                    act(y) if act else y for y in products]
                total = total + sum(y.pow(3).sum() for y in results)
                if keep:
                    total = total + X.pow(3).sum()
            got = penalty(loss, [x, *ws])
            flat = penalty(total, [X, *(t for rank in W for t in rank)])
            count = 1 + 2 * w.ranks
            mine = [0, 1 + 2 * w.rank, 2 + 2 * w.rank]
            reference = [flat[i] for i in mine] + [flat[count + i] for i in mine]
            check(w, f"ag_gemm {activation} {keep}", got, reference,
                  [w.mine, lambda t: t, lambda t: t])


@case(2, 3)
def of_sums(w):
    m, k, n = 2 * w.ranks + 1, 5, 6
    xs, ws = [w.randn(m, k) for _ in range(w.ranks)], [w.randn(n, k) for _ in range(w.ranks)]
    bias = w.randn(n)
    for op in ("gemm_rs", "gemm_ar"):
        for activation, act in (("none", lambda t: t), ("gelu", F.gelu)):
            x, weight = leaf(xs[w.rank]), leaf(ws[w.rank])
            y = getattr(tilelace, op)(x, weight, bias, w.group, activation=activation)
            got = penalty(y.pow(3).sum(), [x, weight])
            X, W = [leaf(t) for t in xs], [leaf(t) for t in ws]
            whole = act(sum(a @ b.t() for a, b in zip(X, W)) + bias)
            flat = penalty(whole.pow(3).sum(), [*X, *W])
            mine = [w.rank, w.ranks + w.rank]
            reference = [flat[i] for i in (*mine, *(2 * w.ranks + i for i in mine))]
            check(w, f"{op} {activation}", got, reference, [lambda t: t] * 2)


@case(2, 3)
def of_collectives(w):
    whole = w.randn(2 * w.ranks + 1, 3)
    sizes = w.split(len(whole))
    x, X = leaf(w.mine(whole)), leaf(whole)
    # Every rank's loss counts.
    y = tilelace.all_gather(x, w.group, sizes=sizes)
    check(w, "all_gather", penalty(y.pow(3).sum(), [x]),
          penalty(w.ranks * X.pow(3).sum(), [X]), [w.mine])
    parts = [w.randn(2 * w.ranks + 1, 3) for _ in range(w.ranks)]
    x, X = leaf(parts[w.rank]), [leaf(t) for t in parts]
    y = tilelace.reduce_scatter(x, w.group)
    flat = penalty(sum(X).pow(3).sum(), X)
    check(w, "reduce_scatter", penalty(y.pow(3).sum(), [x]), [flat[w.rank], flat[w.ranks + w.rank]],
          [lambda t: t])


def two(w):
    torch.manual_seed(0)
    return nn.Linear(6, 4 * w.ranks), nn.Linear(4 * w.ranks, 6)


@case(2, 3)
def of_layers(w):
    """The gradient penalty of the input through a column and a row layer."""
    for sequence_parallel in (True, False):
        a, b = two(w)
        arguments = dict(sequence_parallel=sequence_parallel, tp_group=w.group)
        column = tnn.ColumnParallelLinear.from_linear(a, **arguments)
        row = tnn.RowParallelLinear.from_linear(b, **arguments)
        whole = w.randn(2 * w.ranks, 6)
        x, mine = leaf(whole), leaf(w.mine(whole) if sequence_parallel else whole)
        g, = torch.autograd.grad(b(torch.tanh(a(x))).pow(3).sum(), x, create_graph=True)
        g.square().sum().backward()
        h, = torch.autograd.grad(row(torch.tanh(column(mine)[0]))[0].pow(3).sum(), mine, create_graph=True)
        h.square().sum().backward()
        part = w.mine if sequence_parallel else lambda t: t
        what = f"sequence_parallel {sequence_parallel}"
        near(h.detach(), part(g.detach()), f"{what}: first", SHARE)
        near(mine.grad, part(x.grad), f"{what}: input", SHARE)
        near(column.weight.grad, w.mine(a.weight.grad), f"{what}: column", SHARE)
        near(column.bias.grad, w.mine(a.bias.grad), f"{what}: column bias", SHARE)
        near(row.weight.grad, w.mine(b.weight.grad, 1), f"{what}: row", SHARE)
        near(row.bias.grad, b.bias.grad, f"{what}: row bias", SHARE)


@case(2)
def of_styles(w):
    for sequence_parallel in (True, False):
        a, b = two(w)
        plan = {"0": styles.ColwiseParallel(input_layouts=Shard(0)),
                "2": styles.RowwiseParallel(output_layouts=Shard(0))} if sequence_parallel else {
                "0": styles.ColwiseParallel(), "2": styles.RowwiseParallel()}
        c, d = two(w)
        model = styles.parallelize_module(nn.Sequential(c, nn.Tanh(), d), mesh_of(w), plan)
        whole = w.randn(2 * w.ranks, 6)
        x, mine = leaf(whole), leaf(w.mine(whole) if sequence_parallel else whole)
        g, = torch.autograd.grad(b(torch.tanh(a(x))).pow(3).sum(), x, create_graph=True)
        g.square().sum().backward()
        h, = torch.autograd.grad(model(mine).pow(3).sum(), mine, create_graph=True)
        h.square().sum().backward()
        for name, got, expected in (("column", model[0].weight.grad, a.weight.grad),
                                    ("column bias", model[0].bias.grad, a.bias.grad),
                                    ("row", model[2].weight.grad, b.weight.grad)):
            near(full(got), expected, f"sequence_parallel {sequence_parallel}: {name}", SHARE)


@case(2)
def through_main_grad_is_an_error(w):
    a, _ = two(w)
    column = tnn.ColumnParallelLinear.from_linear(
        a, tp_group=w.group, gradient_accumulation_fusion=True)
    column.weight.main_grad = torch.zeros_like(column.weight)
    y = column(leaf(w.randn(4, 6)))[0].pow(3).sum()
    expect_raises("usage", "main_grad has no second derivative", lambda: torch.autograd.grad(
        y, [column.weight], create_graph=True, allow_unused=True))
