# SPDX-License-Identifier: Apache-2.0
"""What the Inductor pass leaves alone, and that it says so."""
from unittest import mock

import tilelace.inductor
import torch
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from tilelace import _groups
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .compiled import OPS, all_gather, expect_fused, logged
from .world import case

COLLECTIVES = torch.ops._c10d_functional
GATHER, SCATTER, REDUCE = ["all_gather_into_tensor"], ["reduce_scatter_tensor"], ["all_reduce"]


@case(2)
def gathers_without_a_product_of_their_own(w):
    x, a, z = w.randn(4, 6), w.randn(6, 8), w.randn(2, 3, 6)

    def right_operand(x):
        return (a.t() @ funcol.all_gather_tensor(x, 0, w.name)[:6, :6],)

    def both_operands(x):
        g = funcol.all_gather_tensor(x, 0, w.name)
        return (g @ g.t(),)

    def strides_taken(z):
        g = all_gather(z, 1, w)
        return (g @ a + 1).as_strided((8, 8), (8, 1)), g

    def last_dimension(x):
        return (all_gather(x, 1, w) @ torch.cat([a, a]),)

    def other_order(x):
        g = funcol.all_gather_tensor(x, 0, w.name)
        return (torch.cat([g[4:], g[:4]], 1) @ torch.cat([a, a]),)

    def doubles(x):
        return (funcol.all_gather_tensor(x.double(), 0, w.name) @ a.double(),)

    def scaled(x):
        return (torch.addmm(a[0], funcol.all_gather_tensor(x, 0, w.name), a, beta=2),)

    def several(x):
        return [g @ a for g in funcol.all_gather_into_tensor_coalesced([x, x + 1], w.name)]

    expect_fused(w, right_operand, (x,), [], GATHER, ["no product"])
    expect_fused(w, both_operands, (x,), [], GATHER, ["no product"])
    expect_fused(w, strides_taken, (z,), [], GATHER, ["as_strided"])
    expect_fused(w, last_dimension, (x,), [], GATHER, ["last dimension"])
    expect_fused(w, other_order, (x,), [], GATHER, ["no product"])
    expect_fused(w, doubles, (x,), [], GATHER, ["float64"])
    expect_fused(w, scaled, (x,), [], GATHER, ["alpha or beta"])
    expect_fused(w, several, (x,), [], GATHER, ["several tensors"])

    def biased(x):  # one number for all columns
        return (torch.addmm(a[0, :1], funcol.all_gather_tensor(x, 0, w.name), a),)

    expect_fused(w, biased, (x,), [], GATHER, ["bias is not a vector of 8"])


@case(2)
def reductions_without_a_product_of_their_own(w):
    x, a, z = w.randn(4, 6), w.randn(6, 8), w.randn(4, 2, 6)

    def product_used_twice(x):
        y = x @ a
        return funcol.all_reduce(y, "sum", w.name), y + 1

    def sum_of_products(x):
        return (funcol.all_reduce(x @ a + x @ a, "sum", w.name),)

    def largest(x):
        return (funcol.all_reduce(x @ a, "max", w.name),)

    def last_dimension(x):
        return (funcol.reduce_scatter_tensor(x @ a, "sum", 1, w.name),)

    def other_order(z):
        y = z @ a
        return (funcol.reduce_scatter_tensor(torch.cat([y[:, 1:], y[:, :1]]), "sum", 0, w.name),)

    def strides_taken(z):
        z = z.transpose(0, 1).contiguous()
        y = funcol.reduce_scatter_tensor(z @ a, "sum", 1, w.name)
        return ((y + 1).as_strided((4, 4), (4, 1)),)

    def doubles(x):
        return (funcol.all_reduce(x.double() @ a.double(), "sum", w.name),)

    expect_fused(w, product_used_twice, (x,), [], REDUCE, ["other users"])
    expect_fused(w, sum_of_products, (x,), [], REDUCE, ["does not follow a product"])
    expect_fused(w, strides_taken, (z,), [], SCATTER, ["as_strided"])
    expect_fused(w, largest, (x,), [], REDUCE, ["reduces by max"])
    expect_fused(w, last_dimension, (x,), [], SCATTER, ["last dimension"])
    expect_fused(w, other_order, (z,), [], SCATTER, ["does not follow a product"])
    expect_fused(w, doubles, (x,), [], REDUCE, ["float64"])


@case(2)
def biases_of_every_rank(w):
    # Each rank its own: only their sum is right.
    x, weight, bias = w.randn(4, 6), w.randn(8, 6), w.randn(8) * (1 + w.rank)

    def added(x):
        return (funcol.all_reduce(F.linear(x, weight, bias), "sum", w.name),)

    def mean_added(x):
        return (funcol.reduce_scatter_tensor(F.linear(x, weight, bias / w.ranks), "sum", 0, w.name),)

    expect_fused(w, added, (x,), [], REDUCE, ["bias"])
    expect_fused(w, mean_added, (x,), [], SCATTER, ["bias"])


def graph_on_gpus(w, n, k, dtype):
    """Of a gather, a product [.., k] [k, n] and one [.., n] [n, k] that is reduced; without GPUs."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        with mode.shape_env.ignore_fresh_unbacked_symbols():
            unknown = mode.shape_env.create_unbacked_symint()
        n, k = (8 * unknown if s == "eights" else unknown if s == "any" else s for s in (n, k))
        x, up, down = (torch.empty(*size, dtype=dtype, device="cuda")
                       for size in ((4, k), (k, n), (n, k)))

        def block(x, up, down):
            g = COLLECTIVES.wait_tensor(COLLECTIVES.all_gather_into_tensor(x, w.ranks, w.name))
            y = (g @ up).relu() @ down
            return COLLECTIVES.wait_tensor(
                COLLECTIVES.reduce_scatter_tensor(y, "sum", w.ranks, w.name))

        return make_fx(block)(x, up, down).graph


@case(2)
def what_kernels_of_gpus_do_not_take(w):
    cases = [
        (16, 8, torch.bfloat16, 2, ""),
        (16, 8, torch.float16, 2, ""),
        (16, 8, torch.float32, 0, "expected torch.bfloat16, torch.float16 on cuda"),
        (12, 8, torch.bfloat16, 0, " 12"),
        (16, 12, torch.bfloat16, 0, " 12"),
        ("eights", 8, torch.bfloat16, 2, ""),
        ("any", 8, torch.bfloat16, 0, "known when compiling"),
    ]
    joined = []
    with (mock.patch.object(_groups, "ensure", lambda *call: joined.append(call)),
          mock.patch.object(OPS, "_has_cuda", lambda: True)):
        for n, k, dtype, fused, why in cases:
            lines = []
            joined.clear()
            with logged(lines):
                count = tilelace.inductor.fuse(graph_on_gpus(w, n, k, dtype))
            assert count == fused, (n, k, dtype, count, lines)
            assert len(lines) == 2 - fused and all(why in line for line in lines), lines
            # What is left alone must not make ranks meet, and what is fused must not run unjoined.
            assert joined == [(w.name, "cuda", 0)] * fused, joined


@case(2)
def groups_that_gpus_cannot_use(w):
    def refused(*_):
        raise tilelace._errors.usage("join: host: got two")

    lines = []
    with logged(lines):
        with mock.patch.object(OPS, "_has_cuda", lambda: False):
            assert tilelace.inductor.fuse(graph_on_gpus(w, 16, 8, torch.bfloat16)) == 0
        with (mock.patch.object(OPS, "_has_cuda", lambda: True),
              mock.patch.object(_groups, "ensure", refused)):
            assert tilelace.inductor.fuse(graph_on_gpus(w, 16, 8, torch.bfloat16)) == 0
    assert len(lines) == 4, lines
    assert all("without GPUs" in line for line in lines[:2]), lines
    assert all("got two" in line for line in lines[2:]), lines
