# SPDX-License-Identifier: Apache-2.0
"""Compilers remove, merge and move no call, also where ranks use other results: counted as made."""
import contextlib
import functools
from unittest import mock

import tilelace
import tilelace.inductor
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from tilelace import _kernels
from tilelace.compat import symm_mem
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from .world import case, expect_raises

OPS = torch.ops.tilelace
# Nothing pointwise in Inductor's graphs: it would call a C++ compiler, for half a minute.
BACKENDS = ("aot_eager", "inductor")


@contextlib.contextmanager
def counted():
    """The calls that this rank makes, in their order."""
    made, real = [], _kernels.call

    def call(op, *args, **kwargs):
        made.append(op._schema.name.removeprefix("tilelace::_cpu_"))
        return real(op, *args, **kwargs)

    with mock.patch.object(_kernels, "call", call):
        yield made


def leaves(*values):
    return [t for t in torch.utils._pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def expect_same(w, fn, inputs, calls, backends=BACKENDS, run=None):
    """`calls`: of eager and compiled, on every rank. `run(fn, inputs)` makes the results."""
    run = run or (lambda f, x: f(*x))
    made, results = [], []
    for how in (None, *backends):
        torch._dynamo.reset()
        f = fn if how is None else torch.compile(fn, backend=how, fullgraph=True)
        with counted() as count:
            results.append(leaves(run(f, inputs)))
        made.append((how or "no compiler", count))
    assert all(c == calls for _, c in made), f"made {made}, expected {calls}"
    for ours in results[1:]:
        for a, b in zip(ours, results[0], strict=True):
            torch.testing.assert_close(a, b)


def trained(fn, inputs):
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    with torch.enable_grad():
        results = leaves(fn(*inputs))
        sum(r.square().sum() for r in results if r.requires_grad).backward()
    return results, [t.grad for t in inputs]


def tensors(w):
    """x [4 ranks, 16], a [8, 16], b [8, 16], c [16, 8]."""
    return w.randn(4 * w.ranks, 16), w.randn(8, 16), w.randn(8, 16), w.randn(16, 8)


@case(2, 3)
def of_which_one_rank_uses_the_result(w):
    x, a, b, _ = tensors(w)
    like = w.randn(4 * w.ranks**2, 16)

    def functions(x):
        results = [
            tilelace.gemm_ar(x, a, None, w.group), tilelace.gemm_rs(x, a, None, w.group),
            tilelace.ag_gemm(x, [a, b], None, w.group)[1][0], tilelace.all_gather(x, w.group),
            tilelace.reduce_scatter(x, w.group)]
        return results[w.rank * 2] if w.rank != 1 else x.t()

    def raw(x):
        results = [
            OPS.gemm_ar(x, a, None, None, w.name), OPS._all_gather_like(x, w.name, like),
            OPS._ag_gemm_like(x, [a], w.name, like, return_gathered=True)[0]]
        return results[2] if w.rank == 1 else x.t()

    def ported(x):
        results = [
            symm_mem.fused_matmul_reduce_scatter(x, a.t(), "sum", 0, w.name),
            symm_mem.fused_all_gather_matmul(x, [a.t()], 0, w.name)[1][0]]
        return results[1] if w.rank == 0 else x.t()

    expect_same(w, functions, [x], ["gemm_ar", "gemm_rs", "ag_gemm", "all_gather", "reduce_scatter"],
                ("eager", *BACKENDS))
    if w.ranks == 2:
        expect_same(w, raw, [x], ["gemm_ar", "_all_gather_like", "_ag_gemm_like"], BACKENDS[:1])
        expect_same(w, ported, [x], ["gemm_rs", "ag_gemm"], BACKENDS[:1])


@case(2)
def that_are_equal(w):
    x, a, _, _ = tensors(w)

    def unused(x, a):
        tilelace.gemm_ar(x, a, None, w.group)
        tilelace.gemm_ar(x, a, None, w.group)
        return x.t()

    def used(x, a):
        return tilelace.gemm_rs(x, a, None, w.group), tilelace.gemm_rs(x, a, None, w.group)

    def written(x, a):
        x, a = x.detach(), a.detach()
        outs = [x.new_empty(len(x), 8), x.new_empty(len(x), 8)]
        for out in outs:
            tilelace.gemm_ar(x, a, None, w.group, out=out)
        return outs[0] if w.rank == 0 else x.t()

    def written_and_trained(x, a):
        return written(x, a), tilelace.gemm_ar(x, a, None, w.group)

    eager = BACKENDS[:1]
    expect_same(w, unused, [x, a], ["gemm_ar"] * 2)
    expect_same(w, written, [x, a], ["gemm_ar_out"] * 2)
    expect_same(w, used, [x, a], ["gemm_rs"] * 2 + ["_ag_gemm_like"] * 2, eager, trained)
    expect_same(w, written_and_trained, [x, a], ["gemm_ar_out"] * 2 + ["gemm_ar"], eager, trained)


@case(2)
def that_write_results_have_no_gradients(w):
    x, a, _, _ = tensors(w)
    text = "tensors that need gradients cannot be used with it"

    def written(x):
        out = x.new_empty(len(x), 8)
        tilelace.gemm_ar(x, a, None, w.group, out=out)
        return out.sum() + x.sum()

    def in_place(x):
        y = x * 2
        tilelace.all_reduce_(y, w.group)
        return y.square().sum()

    def raw(x):
        y = x * 2
        OPS.all_reduce_out(y, w.name, out=y)
        return y.square().sum()

    wanted = x.clone().requires_grad_()
    for fn in (written, in_place, raw):
        torch._dynamo.reset()
        for f in (fn, torch.compile(fn, backend="aot_eager")):
            with torch.enable_grad():
                try:
                    f(wanted).backward()
                except RuntimeError as error:  # of torch's own type where a graph is made
                    assert text in str(error), error
                else:
                    raise AssertionError(f"{fn.__name__}: no error, gradient {wanted.grad}")
    # Nothing is refused without gradients, or of other tensors.
    with torch.no_grad():
        expect_same(w, in_place, [wanted], ["all_reduce_out"], BACKENDS[:1])
    expect_same(w, in_place, [x], ["all_reduce_out"], BACKENDS[:1])
    assert torch.equal(raw(x), in_place(x))


@case(2, 3)
def that_ranks_use_in_another_order(w):
    x, a, b, c = tensors(w)

    def block(x, a, b, c):
        y = tilelace.gemm_ar(x, a, None, w.group)
        z = tilelace.gemm_rs(x, b, None, w.group)
        g = tilelace.all_gather(x, w.group)
        uses = [lambda: y @ c.t(), lambda: z @ c.t(), lambda: g.t() @ g]
        return [u() for u in uses[w.rank:] + uses[:w.rank]]

    def gathers(x, a, b, c):
        gathered, _ = tilelace.ag_gemm(x, [a], None, w.group, return_gathered=True)
        _, (v, u) = tilelace.ag_gemm(x, [a, b], None, w.group)
        tilelace.all_gather(x, w.group)
        s = tilelace.reduce_scatter(x, w.group)
        return [(gathered, u), v, s][w.rank]

    def written(x, a, b, c):
        y, z = x.new_empty(len(x), 8), x.new_empty(len(x) // w.ranks, 8)
        q = x.new_empty(len(x) * w.ranks, 8)
        tilelace.gemm_ar(x, a, None, w.group, out=y)
        g = tilelace.all_gather(x, w.group)
        tilelace.gemm_rs(x, b, None, w.group, out=z)
        tilelace.ag_gemm(x, [a], None, w.group, out=[q], return_gathered=True)
        return (z @ c.t(), y @ c.t()) if w.rank == 0 else (q @ c.t(), g @ a.t())

    def two(x, a, z, b):
        y, g = tilelace.gemm_rs(x, a, None, w.group), tilelace.all_gather(z, w.group)
        uses = [lambda: y @ c.t(), lambda: g @ b.t()]
        return [u() for u in uses[w.rank % 2:] + uses[:w.rank % 2]]

    inputs = [x, a, b, c]
    expect_same(w, block, inputs, ["gemm_ar", "gemm_rs", "all_gather"])
    expect_same(w, two, [x, a, x, b], ["gemm_rs", "all_gather", "reduce_scatter", "_ag_gemm_like"],
                run=trained)
    expect_same(w, gathers, inputs, ["ag_gemm", "ag_gemm", "all_gather", "reduce_scatter"])
    expect_same(w, written, inputs, ["gemm_ar_out", "all_gather", "gemm_rs_out", "ag_gemm_out"])


@case(2)
def in_checkpointed_regions(w):
    x, a, _b, c = tensors(w)
    mm = torch.ops.aten.mm.default
    policies = {
        "none": None,
        "products": lambda op: op is mm,
        "ours": lambda op: op.namespace == "tilelace",
        "nothing": lambda op: False,
    }

    k = w.randn(16, 16)

    def block(x, a, c):
        _, (y,) = tilelace.ag_gemm(x @ k, [a], None, w.group)
        return tilelace.gemm_rs(y @ k[:8, :8], c, None, w.group)

    def one_rank(x, a, c):
        y, z = block(x, a, c), x @ k
        return y if w.rank == 0 else z

    def region(fn, saved):
        def policy(_, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if saved(op) else CheckpointPolicy.PREFER_RECOMPUTE

        more = {} if saved is None else {
            "context_fn": functools.partial(create_selective_checkpoint_contexts, policy)}
        return lambda *inputs: checkpoint(fn, *inputs, use_reentrant=False, **more)

    inputs = [x, a, c]
    _, right = trained(block, inputs)
    forward, backward = ["ag_gemm", "gemm_rs"], ["_ag_gemm_like", "all_gather", "gemm_rs"]
    for name, saved in policies.items():
        torch._dynamo.reset()
        backend = "inductor" if name == "products" else "aot_eager"
        compiled = torch.compile(region(block, saved), backend=backend, fullgraph=True)
        with counted() as made:
            _, ours = trained(compiled, inputs)
        # Results of calls are kept, what is computed of them is not.
        assert made == forward + backward, (name, made)
        for p, q in zip(ours, right, strict=True):
            torch.testing.assert_close(p, q)
    torch._dynamo.reset()
    compiled = torch.compile(region(one_rank, None), backend="aot_eager", fullgraph=True)
    with counted() as made, torch.enable_grad():
        compiled(*[t.clone().requires_grad_() for t in inputs])
    assert made == forward, made


@case(2)
def in_exported_programs(w):
    x, a, b, _ = tensors(w)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(t.clone()) for t in (a, b))

        def forward(self, x):
            tilelace.gemm_ar(x, self.a, None, w.name)
            y = tilelace.gemm_ar(x, self.a, None, w.name)
            _, (z,) = tilelace.ag_gemm(x, [self.b], None, w.name)
            return (y, x) if w.rank == 0 else (x, z)

    model, calls = Model(), ["gemm_ar", "gemm_ar", "ag_gemm"]
    with torch.no_grad():
        right = model(x)
        exported = torch.export.export(model, (x,))
        for program in (exported, exported.run_decompositions()):
            with counted() as made:
                ours = program.module()(x)
            assert made == calls, made
            for p, q in zip(ours, right, strict=True):
                assert torch.equal(p, q)


@case(2)
def of_constants(w):
    x, a, _, _ = tensors(w)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.a = (torch.nn.Parameter(t.clone()) for t in (x, a))

        def forward(self, y):
            z = tilelace.gemm_ar(self.x, self.a, None, w.name)
            return z if w.rank == 0 else y.t()

    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        torch._dynamo.reset()
        compiled = torch.compile(Model().eval())
        for _ in range(2):
            with counted() as made:
                compiled(x)
            assert made == ["gemm_ar"], made


@case(2)
def that_the_pass_makes(w):
    x, a, b, _ = tensors(w)

    def block(x, a, b):
        y = funcol.all_reduce(x @ a.t(), "sum", w.name)
        g = tilelace.all_gather(x, w.group)
        z = funcol.reduce_scatter_tensor(x @ b.t(), "sum", 0, w.name)
        again = funcol.all_reduce(x @ a.t(), "sum", w.name)
        return (again.t(), g.t()) if w.rank == 0 else (z.t(), y.t())

    tilelace.inductor.enable()
    try:
        torch._dynamo.reset()
        with torch.no_grad(), counted() as made:
            ours = torch.compile(block, fullgraph=True)(x, a, b)
    finally:
        tilelace.inductor.disable()
    assert made == ["gemm_ar", "all_gather", "gemm_rs", "gemm_ar"], made
    with torch.no_grad():
        for p, q in zip(ours, block(x, a, b), strict=True):
            torch.testing.assert_close(p, q)


@case(2)
def whose_gradient_one_rank_has(w):
    # Autograd calls no backward on the rank without one: compiled as eager, an error in time.
    x, a, _, _ = tensors(w)
    for how in (None, "aot_eager"):
        group = dist.new_group()
        tilelace.join(group, timeout=1)

        def loss(x, a, group=group):
            y = tilelace.gemm_rs(x, a, None, group)
            return y.sum() if w.rank == 0 else x.sum()

        torch._dynamo.reset()
        fn = loss if how is None else torch.compile(loss, backend=how, fullgraph=True)
        total = fn(x.clone().requires_grad_(), a.clone().requires_grad_())
        dist.barrier(w.group)
        if w.rank == 0:
            expect_raises("timeout", "rank 1", total.backward)
        else:
            total.backward()
        dist.barrier(w.group)
        tilelace.leave(group)
        dist.destroy_process_group(group)
