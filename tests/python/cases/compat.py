# SPDX-License-Identifier: Apache-2.0
"""tilelace.compat.symm_mem against plain collectives and torch's own signatures."""
import inspect
import logging

import torch
import torch.distributed._symmetric_memory
from tilelace import _log
from tilelace.compat import symm_mem

from .world import BOTH, case, expect_close, expect_raises, product, with_partials


def sums(w, a, b):
    """In fp64, and the bound's terms: every rank has the same operands."""
    y64, terms = product(a * w.ranks, b.t())
    return y64, with_partials(terms, a.dtype)


@case(2, 3, on=BOTH)
def rows(w):
    a, b1, b2 = w.randn(2 * w.ranks, 16), w.randn(16, 8), w.randn(16, 24)
    gathered, (y1, y2) = symm_mem.fused_all_gather_matmul(w.mine(a), [b1, b2], 0, w.name)
    w.synchronize()
    assert torch.equal(gathered, a)
    expect_close(y1, *product(a, b1.t()), "first")
    expect_close(y2, *product(a, b2.t()), "second")
    none, _ = symm_mem.fused_all_gather_matmul(w.mine(a), [b1], 0, w.name, return_A=False)
    assert none is None
    y64, terms = sums(w, a, b1)
    y = symm_mem.fused_matmul_reduce_scatter(a, b1, "sum", 0, w.name)
    expect_close(y, w.mine(y64), w.mine(terms), "sum")
    y = symm_mem.fused_matmul_reduce_scatter(a, b1, "avg", 0, w.name)
    expect_close(y, w.mine(y64) / w.ranks, w.mine(terms) / w.ranks, "avg", roundings=2)
    expect_close(symm_mem.fused_matmul_all_reduce(a, b1, "sum", w.name), y64, terms, "all-reduce")


@case(2, 4, on=BOTH)
def the_last_dimension(w):
    a, b = w.randn(2, 3, 8 * w.ranks), w.randn(8 * w.ranks, 8)
    _log.told.clear()
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    _log.log.addHandler(handler)
    _log.log.setLevel(logging.INFO)
    for dim in (2, -1):
        gathered, (y,) = symm_mem.fused_all_gather_matmul(w.mine(a, 2), [b], dim, w.name)
        w.synchronize()
        assert torch.equal(gathered, a)
        expect_close(y, *product(a, b.t()), "gathered")
    _log.log.removeHandler(handler)
    assert len(lines) == 1 and "not fused" in lines[0], lines
    wide = w.randn(8 * w.ranks, 24)
    y64, terms = sums(w, a, wide)
    for dim in (2, -1):
        y = symm_mem.fused_matmul_reduce_scatter(a, wide, "sum", dim, w.name)
        w.synchronize()
        expect_close(y, w.mine(y64, 2), w.mine(terms, 2), "scattered")


@case(2)
def gradients_of_the_last_dimension(w):
    """Those of the sum of the ranks' losses, as along other dimensions."""
    a, b = w.randn(4, 6 * w.ranks), w.randn(6 * w.ranks, 4)
    x, weight = w.mine(a, 1).requires_grad_(), b.clone().requires_grad_()
    _, (y,) = symm_mem.fused_all_gather_matmul(x, [weight], 1, w.name, return_A=False)
    y.sum().backward()
    ones = torch.ones(4, 4)
    torch.testing.assert_close(x.grad, w.ranks * w.mine(ones @ b.t(), 1))
    torch.testing.assert_close(weight.grad, a.t() @ ones)
    weight.grad = None
    symm_mem.fused_matmul_reduce_scatter(a, weight, "sum", 1, w.name).sum().backward()
    torch.testing.assert_close(weight.grad, a.t() @ ones)


@case(2, on=BOTH)
def whole_graphs(w):
    a, b = w.randn(4, 16), w.randn(16, 8)

    def block(a):
        y = symm_mem.fused_matmul_reduce_scatter(a, b, "avg", 0, w.name)
        z = symm_mem.fused_matmul_all_reduce(a, b, "avg", w.name)
        _, (g,) = symm_mem.fused_all_gather_matmul(a[:, :8], [b], 1, w.name)
        return y, z, g

    torch._dynamo.reset()
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    for ours, theirs in zip(compiled(a), block(a)):
        assert torch.equal(ours, theirs)


@case(2)
def signatures_are_torchs(w):
    for name in ("fused_all_gather_matmul", "fused_matmul_reduce_scatter",
                 "fused_all_gather_scaled_matmul", "fused_scaled_matmul_reduce_scatter"):
        schema = getattr(torch.ops.symm_mem, name).default._schema
        ours = inspect.signature(getattr(symm_mem, name)).parameters.values()
        assert [a.name for a in schema.arguments] == [p.name for p in ours], name
        for theirs, mine in zip(schema.arguments, ours):
            assert theirs.kwarg_only == (mine.kind is mine.KEYWORD_ONLY), (name, mine)
            given = mine.default is not mine.empty
            assert theirs.has_default_value() == given, (name, mine)
            assert not given or theirs.default_value == mine.default, (name, mine)


@case(2)
def what_is_not_there(w):
    a, b = w.randn(4, 6), w.randn(6, 8)
    expect_raises("usage", 'reduce_op: got "max", expected sum or avg',
                  lambda: symm_mem.fused_matmul_reduce_scatter(a, b, "max", 0, w.name))
    scale = torch.ones(1)
    for dtype in (None, torch.bfloat16):
        expect_raises("usage", "there are no scaled (fp8) ops yet",
                      lambda: symm_mem.fused_all_gather_scaled_matmul(
                          a, [b], scale, [scale], 0, w.name, [None], [None], [dtype], [False]))
        expect_raises("usage", "there are no scaled (fp8) ops yet",
                      lambda: symm_mem.fused_scaled_matmul_reduce_scatter(
                          a, b, scale, scale, "sum", 0, 0, w.name, [4, 8], out_dtype=dtype))
