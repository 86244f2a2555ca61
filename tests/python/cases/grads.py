# SPDX-License-Identifier: Apache-2.0
"""Gradients by finite differences of the unsharded product that the ranks compute together."""
import warnings

import tilelace
import torch

from .world import BOTH, GPU, case, expect_close, product, with_partials

EPS = 2.0**-4


class Part(torch.autograd.Function):
    """This rank's part of what every rank has; the gradient is put together again."""

    @staticmethod
    def forward(ctx, t, world, dim, sizes):
        ctx.world, ctx.dim = world, dim
        return world.mine(t, dim, sizes)

    @staticmethod
    def backward(ctx, grad):
        return ctx.world.gather(grad, ctx.dim), None, None, None


class Whole(torch.autograd.Function):
    """All ranks' parts; the gradient is this rank's part."""

    @staticmethod
    def forward(ctx, t, world, dim, sizes):
        ctx.world, ctx.dim, ctx.sizes = world, dim, sizes
        return world.gather(t, dim)

    @staticmethod
    def backward(ctx, grad):
        return ctx.world.mine(grad, ctx.dim, ctx.sizes), None, None, None


class Shared(torch.autograd.Function):
    """The same on every rank, but each sees only its rows of the result: gradients are summed."""

    @staticmethod
    def forward(ctx, t, world):
        ctx.world = world
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return ctx.world.gather(grad[None]).sum(0), None


def check(fn, *inputs, curved=False):
    """Products are linear in each operand, so differences are exact but for rounding: the results'
    16 * 2^-24 * sum |a b| over the step. An activation adds its third derivative's part."""
    inputs = [t.requires_grad_() for t in inputs]
    largest = max(t.abs().max().item() for t in inputs)
    terms = max(t.shape[-1] for t in inputs) * largest**2
    bound = 2 * 16 * 2.0**-24 * terms / EPS
    if curved:
        bound += EPS**2 / 6 * 2 * largest**3
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not a double precision.*")
        torch.autograd.gradcheck(fn, inputs, eps=EPS, atol=bound, rtol=0)


@case(2, 3, 4, reuse=True, activation="none")
@case(2, 3, reuse=False, activation="none")
@case(2, reuse=True, activation="gelu")
@case(2, reuse=False, activation="silu")
def gather(w, reuse, activation):
    m, sizes = w.ranks + 1, w.split(w.ranks + 1)

    def fn(x, w1, w2, b1, b2):
        _, outs = tilelace.ag_gemm(
            Part.apply(x, w, 0, sizes), [Part.apply(t, w, 0, None) for t in (w1, w2)],
            [Part.apply(t, w, 0, None) for t in (b1, b2)], w.group, sizes=sizes,
            return_gathered=reuse, activation=activation)
        return tuple(Whole.apply(y, w, 1, None) for y in outs)

    n = [w.ranks, w.ranks]
    check(fn, w.randn(m, 2), *(0.5 * w.randn(c, 2) for c in n), *(w.randn(c) for c in n),
          curved=activation != "none")


@case(2)
def gather_with_swiglu(w):
    def fn(x, gate, up):
        _, (y,) = tilelace.ag_gemm(
            Part.apply(x, w, 0, None), [Part.apply(t, w, 0, None) for t in (gate, up)], None,
            w.group, activation="swiglu")
        return Whole.apply(y, w, 1, None)

    check(fn, w.randn(4, 3), 0.5 * w.randn(4, 3), 0.5 * w.randn(4, 3), curved=True)


@case(2)
def what_was_gathered_has_a_gradient(w):
    def fn(x, weight):
        gathered, (y,) = tilelace.ag_gemm(
            Part.apply(x, w, 0, None), Part.apply(weight, w, 0, None), None, w.group,
            return_gathered=True)
        # Every rank has all of it and uses its own columns.
        return Whole.apply(y, w, 1, None), Whole.apply(w.mine_view(gathered), w, 1, None)

    w.mine_view = lambda t: t[:, 2 * w.rank : 2 * w.rank + 2]
    check(fn, w.randn(4, 4), w.randn(4, 4))


@case(2, 3, 4, activation="none", sizes=0)
@case(3, activation="none", sizes=1)
@case(2, activation="gelu_tanh", sizes=0)
def scatter(w, activation, sizes):
    m = w.ranks + 1
    sizes = [m - 1, 1, 0][: w.ranks] if sizes else None

    def fn(x, weight, bias):
        y = tilelace.gemm_rs(
            Part.apply(x, w, 1, None), Part.apply(weight, w, 1, None), Shared.apply(bias, w),
            w.group, activation=activation, sizes=sizes)
        return Whole.apply(y, w, 0, sizes or w.split(m))

    k = 2 * w.ranks
    check(fn, w.randn(m, k), 0.5 * w.randn(3, k), w.randn(3), curved=activation != "none")


@case(2, 3, activation="none")
@case(2, activation="silu")
def all_reduce(w, activation):
    def fn(x, weight, bias):
        return tilelace.gemm_ar(
            Part.apply(x, w, 1, None), Part.apply(weight, w, 1, None), bias, w.group,
            activation=activation)

    k = 2 * w.ranks
    check(fn, w.randn(3, k), 0.5 * w.randn(4, k), w.randn(4), curved=activation != "none")


@case(2)
def other_dimensions(w):
    def fn(x, w1, w2):
        _, (y,) = tilelace.ag_gemm(
            Part.apply(x, w, 1, None), Part.apply(w1, w, 0, None), None, w.group, gather_dim=1)
        z = tilelace.gemm_rs(y, Part.apply(w2, w, 1, None), None, w.group, scatter_dim=1)
        return Whole.apply(z, w, 1, None)

    check(fn, w.randn(2, 4, 3), 0.5 * w.randn(4, 3), 0.5 * w.randn(2, 4))


@case(3)
def collectives(w):
    sizes = [1, 0, 3]

    def fn(x):
        y = tilelace.all_gather(Part.apply(x, w, 0, sizes), w.group, sizes=sizes)
        return Whole.apply(tilelace.reduce_scatter(y, w.group), w, 0, w.split(4))

    check(fn, w.randn(4, 3))


@case(2, on=BOTH)
def only_what_is_asked_for(w):
    x, weight = w.integers(8, 8), w.integers(8, 8)
    for need_x, need_weight in ((True, False), (False, True)):
        a, b = x.clone().requires_grad_(need_x), weight.clone().requires_grad_(need_weight)
        y = tilelace.gemm_rs(a, b, None, w.group)
        y.sum().backward()
        w.synchronize()
        ones = torch.ones_like(x)
        assert torch.equal(a.grad, ones @ weight) if need_x else torch.equal(b.grad, ones @ x)


@case(2, 4, on=GPU)
def of_the_gather_against_fp64(w):
    for reuse in (False, True):
        m, k, n = 40 * w.ranks, 64, 48
        x, weights = w.randn(m, k), [w.randn(w.ranks * n, k) for _ in range(2)]
        bias, dy = w.randn(w.ranks * n), [w.randn(m, w.ranks * n) for _ in range(2)]
        mine = [w.mine(t).requires_grad_() for t in (x, *weights, bias)]
        _, outs = tilelace.ag_gemm(mine[0], mine[1:3], [mine[3], w.mine(bias)], w.group,
                                   return_gathered=reuse)
        torch.autograd.backward(outs, [w.mine(d, 1) for d in dy])
        w.synchronize()
        # One product of [dy_1 dy_2] with the weights below each other, its partials summed.
        y64, terms = product(torch.cat(dy, 1), torch.cat(weights).t())
        expect_close(mine[0].grad, w.mine(y64), w.mine(with_partials(terms, w.dtype)), "x")
        for i in range(2):
            expect_close(mine[1 + i].grad, *product(w.mine(dy[i], 1).t(), x.t()), f"weight {i}")
        expect_close(mine[3].grad, w.mine(dy[0], 1).double().sum(0),
                     w.mine(dy[0], 1).double().abs().sum(0), "bias")


@case(2, 4, on=GPU)
def of_the_reductions_against_fp64(w):
    m, k, n = 37, 64, 48
    x, weight, bias = w.randn(m, w.ranks * k), w.randn(n, w.ranks * k), w.randn(n)
    dy = w.randn(m, n)
    for op, grad in ((tilelace.gemm_rs, w.mine(dy)), (tilelace.gemm_ar, dy)):
        a, b, c = (t.clone().requires_grad_() for t in (w.mine(x, 1), w.mine(weight, 1), bias))
        op(a, b, c, w.group).backward(grad)
        w.synchronize()
        expect_close(a.grad, *product(dy, w.mine(weight, 1).t()), f"{op.__name__}: x")
        expect_close(b.grad, *product(dy.t(), w.mine(x, 1).t()), f"{op.__name__}: weight")
        expect_close(c.grad, grad.double().sum(0), grad.double().abs().sum(0), f"{op.__name__}: bias")
