# SPDX-License-Identifier: Apache-2.0
"""The residual of gemm_rs and gemm_ar: values, gradients, layers, graphs."""
import tilelace
import torch
from tilelace import nn

from .world import BOTH, GPU, case, expect_close, product, with_partials


def operands(w, m, dtype):
    k, n = (200, 136) if w.cuda else (11, 9)
    x, weight = w.randn(m, w.ranks * k, dtype=dtype), w.randn(n, w.ranks * k, dtype=dtype)
    return x, weight, w.randn(n, dtype=dtype), w.randn(m, n, dtype=dtype)


def summed(x, weight, bias, residual, ranks=1):
    """`ranks`: that have all of x each."""
    y64, terms = product(x.double() * ranks, weight, bias)
    return y64 + residual.double(), with_partials(terms, x.dtype) + residual.double().abs()


@case(2, 3, 4, dtype=torch.float32, m=13)
@case(3, on=BOTH, dtype=torch.bfloat16, m=2)
@case(2, on=BOTH, dtype=torch.float16, m=0)
@case(2, 4, on=GPU, dtype=torch.bfloat16, m=333)
@case(2, on=GPU, dtype=torch.bfloat16, m=4096)
def is_added_once(w, dtype, m):
    x, weight, bias, residual = operands(w, m, dtype)
    for b in (None, bias):
        y64, terms = summed(x, weight, b, residual)
        mine = w.mine(x, 1), w.mine(weight, 1), b, w.group
        y = tilelace.gemm_rs(*mine, residual=w.mine(residual))
        expect_close(y, w.mine(y64), w.mine(terms), "gemm_rs")
        z = tilelace.gemm_ar(*mine, residual=residual)
        expect_close(z, y64, terms, "gemm_ar")
        assert all(torch.equal(z.cpu(), other) for other in w.everyone(z.cpu()))
        out = w.empty(*z.shape, dtype=dtype)
        assert tilelace.gemm_ar(*mine, residual=residual, out=out) is out and torch.equal(out, z)


@case(2, 3, on=BOTH)
def of_any_layout(w):
    b, s, k, n = 2, 7, 16, 8
    x, weight = w.randn(b, s, k), w.randn(n, k)
    residual = w.randn(n, s, b).permute(2, 1, 0)
    y64, terms = summed(x, weight, None, residual, w.ranks)
    z = tilelace.gemm_ar(x, weight, None, w.group, residual=residual)
    expect_close(z, y64, terms, "gemm_ar")
    part = tilelace.gemm_rs(x, weight, None, w.group, scatter_dim=1, residual=w.mine(residual, 1))
    expect_close(part, w.mine(y64, 1), w.mine(terms, 1), "gemm_rs, dim 1")
    sizes = [s, 0, 0][: w.ranks]
    part = tilelace.gemm_rs(
        x, weight, None, w.group, scatter_dim=1, sizes=sizes, residual=w.mine(residual, 1, sizes))
    expect_close(part, w.mine(y64, 1, sizes), w.mine(terms, 1, sizes), "gemm_rs, sizes")


@case(2, 3, on=BOTH)
def has_gradients(w):
    """Integers: every sum is exact, so gradients are equal bit for bit."""
    m, k, n = 6, 16, 8
    x, weight = w.integers(m, w.ranks * k), w.integers(n, w.ranks * k)
    residual, grad = w.integers(m, n), w.integers(m, n)
    mine = [t.requires_grad_() for t in (w.mine(x, 1), w.mine(weight, 1), residual.clone())]
    tilelace.gemm_ar(mine[0], mine[1], None, w.group, residual=mine[2]).backward(grad)
    part = w.mine(residual).requires_grad_()
    again = [t.detach().clone().requires_grad_() for t in mine[:2]]
    tilelace.gemm_rs(*again, None, w.group, residual=part).backward(w.mine(grad))
    assert torch.equal(mine[2].grad, grad) and torch.equal(part.grad, w.mine(grad))
    for got in (mine, again):
        assert torch.equal(got[0].grad, w.mine(grad @ weight, 1))
        assert torch.equal(got[1].grad, w.mine(grad.t() @ x, 1))


@case(2, 3)
def goes_through_a_layer(w):
    for parallel in (False, True):
        layer = nn.RowParallelLinear(
            8 * w.ranks, 16, tp_group=w.group, sequence_parallel=parallel, return_bias=False)
        x, residual = w.randn(6, 8 * w.ranks), w.randn(6, 16)
        mine = w.mine(residual) if parallel else residual
        plain = layer(w.mine(x, 1))
        assert torch.allclose(layer(w.mine(x, 1), mine), plain + mine, atol=1e-5)


@case(2)
def stays_in_a_graph(w):
    x, weight, _, residual = operands(w, 6, torch.float32)
    x, weight = w.mine(x, 1), w.mine(weight, 1)

    def step(x, residual):
        return tilelace.gemm_ar(x, weight, None, w.group, residual=residual) * 2

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, residual), step(x, residual))
