# SPDX-License-Identifier: Apache-2.0
"""Values of the ops against fp64, shapes, layouts, out forms."""
import resource

import tilelace
import torch
import torch.nn.functional as F

from .world import BOTH, GPU, case, expect_close, product, with_partials

ACTIVATIONS = {
    "none": (lambda t: t, 1.0),
    "gelu": (F.gelu, 1.13),
    "gelu_tanh": (lambda t: F.gelu(t, approximate="tanh"), 1.13),
    "silu": (F.silu, 1.1),
}
# m, k, n that tiles divide or not. On GPUs kernels want k and n in eights.
EVEN = {"cpu": (24, 32, 16), "cuda": (512, 256, 384)}
ODD = {"cpu": (13, 19, 7), "cuda": (333, 200, 72)}


def expect_activated(y, y64, terms, activation, what):
    act, slope = ACTIVATIONS[activation]
    expect_close(y, act(y64), terms, what, slope)


@case(2, 3, 4, dtype=torch.float32, activation="none", size=1)
@case(2, 3, on=BOTH, dtype=torch.bfloat16, activation="gelu", size=0)
@case(2, on=BOTH, dtype=torch.float16, activation="silu", size=1)
@case(4, on=BOTH, dtype=torch.bfloat16, activation="gelu_tanh", size=1)
@case(2, 4, on=GPU, dtype=torch.bfloat16, activation="none", size=0)
def gather_of_several_weights(w, dtype, activation, size):
    m, k, n = (EVEN, ODD)[size][w.device]
    x = w.randn(m, k, dtype=dtype)
    weights = [w.randn(w.ranks * c, k, dtype=dtype) for c in (n, n + 8)]
    biases = [w.randn(w.ranks * c, dtype=dtype) for c in (n, n + 8)]
    sizes = w.split(m)
    gathered, outs = tilelace.ag_gemm(
        w.mine(x), [w.mine(t) for t in weights], [w.mine(b) for b in biases], w.group,
        activation=activation, return_gathered=True, sizes=sizes)
    assert torch.equal(gathered, x)
    for i, y in enumerate(outs):
        y64, terms = product(x, w.mine(weights[i]), w.mine(biases[i]))
        expect_activated(y, y64, terms, activation, f"out {i}")


@case(2, 4, on=BOTH)
def swiglu_has_one_result(w):
    n = {"cpu": 12, "cuda": 264}[w.device]
    x, gate, up = w.randn(8 * w.ranks, 16), w.randn(n, 16), w.randn(n, 16)
    gathered, (y,) = tilelace.ag_gemm(w.mine(x), [gate, up], None, w.name, activation="swiglu")
    assert gathered is None
    g, g_terms = product(x, gate)
    u, u_terms = product(x, up)
    # Derivatives: up * silu' and silu.
    terms = u.abs() * 1.1 * g_terms + F.silu(g).abs() * u_terms
    expect_close(y, F.silu(g) * u, terms, "swiglu", roundings=2)


@case(2, 3, 4, dtype=torch.float32, activation="none", m=13)
@case(3, dtype=torch.bfloat16, activation="silu", m=24)
@case(4, dtype=torch.float32, activation="none", m=3)
@case(3, dtype=torch.float32, activation="none", m=0)
@case(2, 4, on=GPU, dtype=torch.bfloat16, activation="none", m=13)
@case(2, 4, on=GPU, dtype=torch.float16, activation="gelu", m=1000)
@case(4, on=GPU, dtype=torch.bfloat16, activation="none", m=3)
@case(2, 4, on=GPU, dtype=torch.bfloat16, activation="none", m=0)
@case(2, 4, on=GPU, dtype=torch.bfloat16, activation="none", m=4096)
def reductions_of_any_m(w, dtype, activation, m):
    k, n = (200, 136) if w.cuda else (11, 9)
    x, weight = w.randn(m, w.ranks * k, dtype=dtype), w.randn(n, w.ranks * k, dtype=dtype)
    bias = w.randn(n, dtype=dtype)
    mine = w.mine(x, 1), w.mine(weight, 1), bias, w.group
    y64, terms = product(x, weight, bias)
    terms = with_partials(terms, dtype)
    y = tilelace.gemm_rs(*mine, activation=activation)
    expect_activated(y, w.mine(y64), w.mine(terms), activation, "gemm_rs")
    z = tilelace.gemm_ar(*mine, activation=activation)
    expect_activated(z, y64, terms, activation, "gemm_ar")
    assert all(torch.equal(z.cpu(), other) for other in w.everyone(z.cpu())), "gemm_ar: other bits elsewhere"
    assert torch.equal(tilelace.gemm_ar(*mine, activation=activation), z)


@case(2, 3, 4, on=BOTH)
def integers_are_exact(w):
    m, k, n = (517, 512, 264) if w.cuda else (17, 24, 10)
    x = w.integers(m, k * w.ranks, ones=32).bfloat16()
    weight = w.integers(n, k * w.ranks, ones=256).bfloat16()
    y = (x.double() @ weight.double().t()).bfloat16()
    mine = w.mine(x, 1), w.mine(weight, 1), None, w.name
    assert torch.equal(tilelace.gemm_ar(*mine), y)
    assert torch.equal(tilelace.gemm_rs(*mine), w.mine(y))
    _, (z,) = tilelace.ag_gemm(w.mine(x), weight, None, w.name, sizes=w.split(m))
    assert torch.equal(z, y)


@case(2, 3, on=BOTH)
@case(4, on=GPU)
def uneven_rows_as_the_caller_says(w):
    sizes = [5, 0, 7, 150][: w.ranks]
    x, weight = w.randn(sum(sizes), 8), w.randn(8 if w.cuda else 6, 8)
    gathered, (y,) = tilelace.ag_gemm(
        w.mine(x, 0, sizes), weight, None, w.group, sizes=sizes, return_gathered=True)
    assert torch.equal(gathered, x)
    expect_close(y, *product(x, weight), "ag_gemm")
    part = tilelace.gemm_rs(x, weight, None, w.group, sizes=sizes)
    y64, terms = product(x.double() * w.ranks, weight)
    terms = with_partials(terms, x.dtype)
    expect_close(part, w.mine(y64, 0, sizes), w.mine(terms, 0, sizes), "gemm_rs")


@case(2, 3, on=BOTH)
@case(4, on=GPU)
def other_dimensions_and_more_of_them(w):
    b, s, k, n = 2, 5, 16 if w.cuda else 12, 8
    x, weight = w.randn(b, s * w.ranks, k), w.randn(n, k)
    for dim, whole in ((1, x), (0, x.transpose(0, 1).contiguous()), (-2, x)):
        gathered, (y,) = tilelace.ag_gemm(
            w.mine(whole, dim), weight, None, w.group, gather_dim=dim, return_gathered=True)
        assert torch.equal(gathered, whole)
        expect_close(y, *product(whole, weight), f"ag_gemm, dim {dim}")
        z = tilelace.gemm_rs(whole, weight, None, w.group, scatter_dim=dim)
        y64, terms = product(whole.double() * w.ranks, weight)
        terms = with_partials(terms, x.dtype)
        expect_close(z, w.mine(y64, dim), w.mine(terms, dim), f"gemm_rs, dim {dim}")
    odd = w.randn(b, 7, k)
    z = tilelace.gemm_rs(odd, weight, None, w.group, scatter_dim=1)
    y64, terms = product(odd.double() * w.ranks, weight)
    terms = with_partials(terms, x.dtype)
    expect_close(z, w.mine(y64, 1), w.mine(terms, 1), "gemm_rs, 7 in dim 1")
    expect_close(tilelace.gemm_ar(odd, weight, None, w.group), y64, terms, "gemm_ar, 3 dimensions")


@case(2, on=BOTH)
def any_layout_is_taken(w):
    k = 16 if w.cuda else 13
    x, weight = w.randn(10, 24), w.randn(24, 8)
    layouts = (x[:, 3 : k + 3], x[::2, 1 : k + 1], x.t()[:k, :10].t(), x[:, :k].contiguous())
    for i, a in enumerate(layouts):
        turned = w.randn(k, 8)
        for b in (turned.t(), turned.t().contiguous()):
            _, (y,) = tilelace.ag_gemm(a, b, None, w.group)
            expect_close(y, *product(torch.cat([a, a]), b), f"layout {i}")
    bias = w.randn(16)[1:9]
    y = tilelace.gemm_ar(x, weight.t(), bias, w.group)
    y64, terms = product(2 * x, weight.t(), bias)
    expect_close(y, y64, with_partials(terms, x.dtype), "a bias that is not aligned")


@case(2, 3, on=BOTH)
@case(4, on=GPU)
def results_go_where_they_are_wanted(w):
    m, k, n = 4, 16 if w.cuda else 12, 8
    x, weight, bias = w.randn(m * w.ranks, k), w.randn(n, k), w.randn(n)
    wide = w.empty(m * w.ranks, 2 * n).fill_(-7)
    for out in (w.empty(m * w.ranks, n), wide[:, 1 : n + 1]):
        gathered, _ = tilelace.ag_gemm(w.mine(x), weight, bias, w.group, return_gathered=True,
                                       out=[out])
        expect_close(out, *product(x, weight, bias), "ag_gemm")
        assert torch.equal(gathered, x)
        out.fill_(-7)
        assert tilelace.gemm_ar(x, weight, bias, w.group, out=out) is out
        y64, terms = product(w.ranks * x.double(), weight, bias)
        expect_close(out, y64, with_partials(terms, x.dtype), "gemm_ar")
    assert (wide[:, 0] == -7).all() and (wide[:, n + 1 :] == -7).all(), "written beside the result"
    whole = x.view(2, -1, k)
    shaped = w.empty(n, 2, whole.shape[1] // w.ranks).permute(1, 2, 0)
    if whole.shape[1] % w.ranks == 0:
        tilelace.gemm_rs(whole, weight, None, w.group, scatter_dim=1, out=shaped)
        y64, terms = product(whole.double() * w.ranks, weight)
        terms = with_partials(terms, x.dtype)
        expect_close(shaped, w.mine(y64, 1), w.mine(terms, 1), "gemm_rs")


@case(3, on=BOTH)
@case(2, 4, on=GPU)
def collectives_alone(w):
    sizes = [2, 0, 5, 4][: w.ranks]
    x = w.randn(sum(sizes), 8 if w.cuda else 6)
    assert torch.equal(tilelace.all_gather(w.mine(x, 0, sizes), w.group, sizes=sizes), x)
    parts = [x * (r + 1) for r in range(w.ranks)]
    y = tilelace.reduce_scatter(parts[w.rank], w.group, sizes=sizes)
    y64, terms = sum(p.double() for p in parts), sum(p.double().abs() for p in parts)
    expect_close(y, w.mine(y64, 0, sizes), w.mine(terms, 0, sizes), "sum")


@case(2, on=BOTH)
def weights_may_change_between_calls(w):
    x, weight = w.randn(6, 8), w.randn(8, 8)
    for step in range(3):
        weight.mul_(-1.5 + step)
        y64, terms = product(2 * x, weight)
        expect_close(tilelace.gemm_ar(x, weight, None, w.group), y64,
                     with_partials(terms, x.dtype), f"step {step}")


@case(2)
def thousands_of_calls_leave_no_memory_behind(w):
    x, weight = w.randn(4, 8), w.randn(8, 8)

    def call(count):
        for _ in range(count):
            tilelace.gemm_ar(x, weight, None, w.name)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = call(1000)
    # 400 bytes a call would be 2 MB.
    assert call(5000) - before < 2000, "memory grew"
