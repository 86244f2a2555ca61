# SPDX-License-Identifier: Apache-2.0
"""The collectives by themselves: values, types, sizes, places, gradients, compiled, errors."""
import itertools

import tilelace
import torch
import torch.distributed as dist

from .world import BOTH, GPU, case, expect_raises

OPS = torch.ops.tilelace
FLOATS = (torch.bfloat16, torch.float16, torch.float32)
INTEGERS = (torch.int32, torch.int64, torch.uint8)
MOVED = (torch.bool, torch.int8, torch.int16, torch.float64, torch.complex64, *FLOATS, *INTEGERS)


def parts_of(w, *size, dtype):
    """What every rank has, by rank."""
    return [(w.randn(*size, 1, dtype=torch.float32)[..., 0] * 50).to(dtype) for _ in range(w.ranks)]


def reduced(parts, op="sum"):
    """In rank order, floats in fp32, rounded once: bit for bit what is to come."""
    dtype = parts[0].dtype
    total = parts[0].float() if dtype.is_floating_point else parts[0].clone()
    for p in parts[1:]:
        total = torch.maximum(total, p.to(total.dtype)) if op == "max" else total + p.to(total.dtype)
    return (total / len(parts) if op == "avg" else total).to(dtype)


def expect_equal(got, expected, *what):
    assert got.dtype == expected.dtype and torch.equal(got, expected), (what, got, expected)


@case(2, 3, on=BOTH)
def sums_are_in_rank_order(w):
    for dtype, op in itertools.product((*FLOATS, *INTEGERS), ("sum", "avg", "max")):
        if op == "avg" and not dtype.is_floating_point:
            continue
        for size in ((), (1,), (3, 7), (0, 4), (2, 3, 50)):
            parts = parts_of(w, *size, dtype=dtype)
            x, expected = parts[w.rank], reduced(parts, op)
            kept = x.clone()
            expect_equal(tilelace.all_reduce(x, w.group, op=op), expected, dtype, op, size)
            expect_equal(x, kept, "x stays")
            if not size:
                continue
            mine = tilelace.reduce_scatter(x, w.group, op=op)
            expect_equal(mine, w.mine(expected), dtype, op, size)
            if len(size) > 1:
                mine = tilelace.reduce_scatter(x, w.group, scatter_dim=-1, op=op)
                expect_equal(mine, w.mine(expected, -1), dtype, op, size)


@case(2, 3, on=BOTH)
def they_are_those_of_torch(w):
    x = w.integers(6 * w.ranks, 5)
    for op, torchs in (("sum", dist.ReduceOp.SUM), ("max", dist.ReduceOp.MAX)):
        y = (x * (w.rank + 1)).to(torch.int64)
        z = y.clone()
        dist.all_reduce(z, torchs, group=w.group)
        expect_equal(tilelace.all_reduce(y, w.group, op=op), z)
    whole = torch.empty(6 * w.ranks**2, 5, device=x.device, dtype=x.dtype)
    dist.all_gather_into_tensor(whole, x + w.rank, group=w.group)
    expect_equal(tilelace.all_gather(x + w.rank, w.group), whole)


@case(2, 3, on=BOTH)
def any_type_moves(w):
    sizes = [3 * r for r in range(w.ranks)]
    for dtype in MOVED:
        x = w.randn(sum(sizes), 4, dtype=torch.float32).to(dtype)
        expect_equal(tilelace.all_gather(w.mine(x, 0, sizes), w.group, sizes=sizes), x, dtype)
        expect_equal(tilelace.all_gather(w.mine(x.t(), 1, sizes), w.group, gather_dim=1, sizes=sizes),
                     x.t(), dtype)
        rows = w.randn(w.ranks, w.ranks, 2, 3, dtype=torch.float32).to(dtype)  # from, to
        y = tilelace.all_to_all(rows[w.rank].reshape(-1, 3), w.group)
        expect_equal(y, rows[:, w.rank].reshape(-1, 3), dtype)
    line = tilelace.all_gather(torch.full((2,), w.rank, device=w.device), w.group)
    assert line.tolist() == [r for r in range(w.ranks) for _ in range(2)], line


@case(2, 3, on=BOTH)
def parcels_of_all_sizes(w):
    count = [[(2 * a + 3 * b) % 4 for b in range(w.ranks)] for a in range(w.ranks)]  # from, to
    rows = [[w.randn(count[a][b], 5) for b in range(w.ranks)] for a in range(w.ranks)]
    x, sends = torch.cat(rows[w.rank]), count[w.rank]
    takes = [count[a][w.rank] for a in range(w.ranks)]
    expected = torch.cat([rows[a][w.rank] for a in range(w.ranks)])
    y = tilelace.all_to_all(x, w.group, sends=sends, takes=takes)
    expect_equal(y, expected)
    expect_equal(tilelace.all_to_all(y, w.group, sends=takes, takes=sends), x)
    out = w.empty(10, 2 * len(expected)).t()[::2, :5]  # with gaps
    assert tilelace.all_to_all(x, w.group, sends=sends, takes=takes, out=out) is out
    expect_equal(out, expected)


@case(2, 3, on=BOTH)
def results_go_where_they_are_wanted(w):
    parts = parts_of(w, 4 * w.ranks, 6, dtype=w.dtype)
    x, total = parts[w.rank], reduced(parts)
    for out in (w.empty(*x.shape), w.empty(*x.t().shape).t()):
        assert tilelace.all_reduce(x, w.group, out=out) is out
        expect_equal(out, total)
    for y in (x.clone(), x.t().clone().t(), torch.stack([x, x], -1)[..., 0]):
        version = y._version
        assert tilelace.all_reduce_(y, w.group, op="avg") is y and y._version > version
        expect_equal(y, reduced(parts, "avg"))
    whole, at = torch.cat(parts), slice(4 * w.ranks * w.rank, 4 * w.ranks * (w.rank + 1))
    out = w.empty(*whole.shape)
    out[at] = x
    tilelace.all_gather(out[at], w.group, out=out)  # in place
    expect_equal(out, whole)
    y = x.clone()
    tilelace.reduce_scatter(y, w.group, out=y[4 * w.rank:4 * w.rank + 4])
    expect_equal(y[4 * w.rank:4 * w.rank + 4], w.mine(total))
    # Places that overlap otherwise.
    y = torch.cat([x, x[:1]])
    tilelace.all_reduce(y[:-1], w.group, out=y[1:])
    expect_equal(y[1:], total)
    with torch.inference_mode():
        expect_equal(tilelace.all_reduce_(x.clone(), w.group), total)
    meta = tilelace.all_gather(x.to("meta"), w.group)
    assert meta.is_meta and meta.shape == whole.shape


@case(2, on=BOTH)
def checks_of_torch(w):
    x = w.randn(6, 8).requires_grad_()
    for op in ("sum", "avg"):
        torch.library.opcheck(OPS.all_reduce, (x, w.name), {"reduce_op": op})
    torch.library.opcheck(OPS.reduce_scatter, (x, w.name), {"reduce_op": "avg", "scatter_dim": 1})
    torch.library.opcheck(OPS.all_to_all, (x, w.name))
    torch.library.opcheck(OPS.all_to_all, (x, w.name), {"sends": [3, 3], "takes": [3, 3]})
    torch.library.opcheck(OPS.all_reduce_out, (x.detach(), w.name), {"out": w.empty(6, 8)})


@case(2, 3, on=BOTH)
def gradients_are_those_of_all_losses(w):
    weights = parts_of(w, 6, 4, dtype=torch.float32)
    x = w.randn(6, 4, dtype=torch.float32).requires_grad_()
    for op in ("sum", "avg"):
        y = tilelace.all_reduce(x, w.group, op=op)
        (grad,) = torch.autograd.grad((y * weights[w.rank]).sum(), x)
        expect_equal(grad, reduced(weights, op), op)
    scale = w.mine(weights[0])
    y = tilelace.reduce_scatter(x, w.group, op="avg")
    (grad,) = torch.autograd.grad((y * scale).sum(), x)
    expect_equal(grad, w.gather(scale / w.ranks))
    sends = [3, 2, 1][:w.ranks] if w.ranks == 3 else [4, 2]
    takes = [sends[w.rank]] * w.ranks
    y = tilelace.all_to_all(x, w.group, sends=sends, takes=takes)
    back = w.randn(6 * w.ranks, 4, dtype=torch.float32)[:len(y)]
    (grad,) = torch.autograd.grad((y * back).sum(), x)
    expect_equal(grad, tilelace.all_to_all(back, w.group, sends=takes, takes=sends))
    for fn in (tilelace.all_reduce, tilelace.reduce_scatter):
        expect_raises("usage", "op max has no gradient", fn(x, w.group, op="max").sum().backward)
    expect_raises("usage", "tensors that need gradients", lambda: tilelace.all_reduce_(x, w.group))


@case(2, 3, on=("cpu",))
def compiled_graphs_are_whole(w):
    parts = parts_of(w, 4, w.ranks * 2, dtype=torch.float32)

    def fn(x, y):
        a = tilelace.all_reduce(x * 2, w.group, op="avg")
        b = tilelace.reduce_scatter(tilelace.all_gather(a, w.group, gather_dim=1), w.group)
        c = tilelace.all_to_all(x.t(), w.group)
        tilelace.all_reduce_(y, w.group)
        return a, b, c, tilelace.all_reduce(y, w.group, op="max")

    for backend in ("aot_eager", "inductor") if w.ranks == 2 else ("aot_eager",):
        compiled = torch.compile(fn, backend=backend, fullgraph=True, dynamic=True)
        x = parts[w.rank].clone().requires_grad_()
        results = [(f(x, y), y) for f, y in ((fn, x.detach() + 1), (compiled, x.detach() + 1))]
        for (eager, y), (graph, z) in [results]:
            for e, g in zip((*eager, y), (*graph, z)):
                expect_equal(g, e, backend)
            grads = [torch.autograd.grad(r[1].sum() + r[2].sum(), x)[0] for r in (eager, graph)]
            expect_equal(*reversed(grads), backend)


def refused(w, text, wrong, right):
    """A call that is wrong on the last rank alone is an error on all, and the next one works."""
    last = w.rank == w.ranks - 1
    expect_raises("usage", text, lambda: (wrong if last else right)(w.group))
    if w.cuda:
        tilelace.recover(w.group)
    assert tilelace.all_reduce(torch.ones(3, device=w.device), w.group).tolist() == [w.ranks] * 3


def wrong_calls(w):
    """What the error says, the wrong call, the right one of the other ranks."""
    gather, reduce, scatter = tilelace.all_gather, tilelace.all_reduce, tilelace.reduce_scatter
    exchange, x, even = tilelace.all_to_all, w.randn(2 * w.ranks, 4), [2] * w.ranks
    ok, whole, to_all = lambda g: reduce(x, g), lambda g: gather(x, g), lambda g: exchange(x, g)
    return (
        ('op: got "product", expected sum, avg or max', lambda g: reduce(x, g, op="product"), ok),
        ("op: got 3, expected a string", lambda g: reduce(x, g, op=3), ok),
        ("all_reduce: x: got NoneType", lambda g: reduce(None, g), ok),
        ("all_reduce: x: got Double", lambda g: reduce(x.double(), g), ok),
        ("all_reduce: x: got Bool", lambda g: reduce(x > 0, g), ok),
        ("avg", lambda g: reduce(x.int(), g, op="avg"), ok),
        ("all_reduce: out: got [1]", lambda g: reduce(x, g, out=x.new_empty(1)), ok),
        ("all_reduce: out: got Int", lambda g: reduce(x, g, out=x.int()), ok),
        ("its elements overlap in memory",
         lambda g: reduce(x, g, out=x.new_empty(1, 4).expand_as(x)), ok),
        ("all_reduce: wrong arguments", lambda g: reduce(x, g, dim=0), ok),
        ("all_gather: dim: got 2, expected 0 to 1", lambda g: gather(x, g, gather_dim=2), whole),
        ("all_gather: x: got ComplexDouble", lambda g: gather(x.to(torch.complex128), g), whole),
        ("all_gather: x: got []", lambda g: gather(x[0, 0], g), whole),
        ("all_gather: sizes: got 1 entries", lambda g: gather(x, g, sizes=[1]), whole),
        ("reduce_scatter: sizes: got a sum of", lambda g: scatter(x, g, sizes=[1] * w.ranks),
         lambda g: scatter(x, g)),
        ("a multiple of the", lambda g: exchange(x[1:], g), to_all),
        ("all_to_all: takes: got none", lambda g: exchange(x, g, sends=even), to_all),
        ("sends: got 3, expected a list of whole", lambda g: exchange(x, g, sends=3, takes=even),
         to_all),
        # Right by themselves.
        ("all_reduce", lambda g: reduce(x[1:], g), ok),
        ("all_reduce", lambda g: reduce(x, g, op="max"), ok),
        ("", lambda g: gather(x, g), ok),
        ("", lambda g: tilelace.gemm_ar(x, x, None, g), ok),
        ("", lambda g: exchange(x, g, sends=even, takes=even), to_all)
    )


@case(2, 3)
def wrong_calls_are_errors_everywhere(w):
    for text, wrong, right in wrong_calls(w):
        refused(w, text, wrong, right)


@case(2, on=BOTH)
def groups_of_their_own(w):
    other = dist.new_group(list(range(w.ranks)))
    x = torch.ones(4, device=w.device)
    for _ in range(3):
        for group in (w.group, other):
            assert tilelace.all_reduce(x, group).tolist() == [w.ranks] * 4
    y = w.randn(8, 8)
    before = tilelace.gemm_ar(y, y, None, w.group)
    tilelace.all_reduce(y, w.group)
    expect_equal(tilelace.gemm_ar(y, y, None, w.group), before)
    w.synchronize()
    tilelace.synchronize(other)
    tilelace.leave(other)
    dist.destroy_process_group(other)


@case(2, 4, on=GPU)
def a_capture_needs_one_before(w):
    x, y = torch.ones(64, device=w.device), torch.empty(64, device=w.device)

    def captured(graph):
        with torch.cuda.graph(graph):
            tilelace.all_reduce(x, w.group, out=y)

    expect_raises("usage", "the first collective cannot be captured",
                  lambda: captured(torch.cuda.CUDAGraph()))
    tilelace.all_reduce(x, w.group)
    w.synchronize()
    graph = torch.cuda.CUDAGraph()
    captured(graph)
    for factor in (1, 3):
        x.fill_(factor)
        graph.replay()
        w.synchronize()
        assert y.tolist() == [factor * w.ranks] * 64, y
