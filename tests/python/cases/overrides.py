# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's own collectives, made by ours while that is switched on."""
import threading
import time

import tilelace
import torch
import torch.distributed as dist
from tilelace import _override
from torch.distributed import _functional_collectives as funcol

from .collectives import expect_equal, parts_of, reduced
from .fits import Lines
from .world import BOTH, case


class Made:
    """Names of the calls of ours that were made inside a `with`."""

    NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

    def __enter__(self):
        self.calls = []
        self.whole = {name: getattr(tilelace.collectives, name) for name in self.NAMES}
        for name, fn in self.whole.items():
            setattr(tilelace.collectives, name, self.counted(name, fn))
        return self.calls

    def counted(self, name, fn):
        def call(*args, **kwargs):
            self.calls.append(name)
            return fn(*args, **kwargs)

        return call

    def __exit__(self, *_):
        for name, fn in self.whole.items():
            setattr(tilelace.collectives, name, fn)


@case(2, 3, on=BOTH)
def functions_of_torch(w):
    parts = parts_of(w, 2 * w.ranks, 3, dtype=torch.bfloat16)
    x, total, whole = parts[w.rank], reduced(parts), torch.cat(parts)
    own = dist.all_reduce
    with tilelace.override_collectives(), Made() as calls:
        for wait in (lambda work: work, lambda work: work.wait(), lambda work: work.get_future().wait()):
            for is_async in (False, True):
                y, part, gathered, sent = x.clone(), x[:2].clone(), whole.clone(), x.clone()
                works = [dist.all_reduce(y, dist.ReduceOp.SUM, w.group, is_async),
                         dist.reduce_scatter_tensor(part, x, group=w.group, async_op=is_async),
                         dist.all_gather_into_tensor(gathered, x, group=w.group, async_op=is_async),
                         dist.all_to_all_single(sent, x, group=w.group, async_op=is_async)]
                assert all((work is not None) == is_async for work in works), works
                for work in works:
                    if is_async and wait(work) is not False:
                        assert work.is_completed() or w.cuda
                expect_equal(y, total)
                expect_equal(part, w.mine(total))
                expect_equal(gathered, whole)
                expect_equal(sent, torch.cat([p.chunk(w.ranks)[w.rank] for p in parts]))
        stacked = whole.new_empty(w.ranks, *x.shape)
        dist.all_gather_into_tensor(stacked, x, group=w.group)
        expect_equal(stacked.flatten(0, 1), whole)
        weight = torch.nn.Parameter(x.float())
        dist.all_reduce(weight, dist.ReduceOp.AVG, group=w.group)
        expect_equal(weight.detach(), reduced([p.float() for p in parts], "avg"))
    assert calls.count("all_reduce") == 7 and len(calls) == 26, calls
    assert dist.all_reduce is own and _override._installed is None


@case(2, 3, on=BOTH)
def functional_ones(w):
    parts = parts_of(w, 2 * w.ranks, 3, dtype=torch.float16)
    x, total, whole = parts[w.rank], reduced(parts), torch.cat(parts)
    on = tilelace.override_collectives(w.group)
    with Made() as calls:
        expect_equal(funcol.all_reduce(x, "sum", w.group) + 0, total)
        expect_equal(funcol.all_gather_tensor(x, 0, w.group) + 0, whole)
        expect_equal(funcol.reduce_scatter_tensor(x, "avg", 0, w.group) + 0,
                     w.mine(reduced(parts, "avg")))
        y = torch.ops._c10d_functional.all_reduce_(x.clone(), "max", w.name)
        expect_equal(torch.ops._c10d_functional.wait_tensor(y), reduced(parts, "max"))
        assert calls == ["all_reduce", "all_gather", "reduce_scatter", "all_reduce"], calls
        on.off()
        funcol.all_reduce(x.float(), "sum", w.group).wait()
        assert len(calls) == 4, calls
    on.off()
    assert _override._installed is None


@case(2)
def compiled_graphs_too(w):
    x = w.integers(4, 8)

    def fn(x):
        y = funcol.all_reduce(x + 1, "sum", w.group) * 2
        z = x * 3
        dist.all_reduce(z, group=w.group)
        return y, z, funcol.reduce_scatter_tensor(y, "sum", 0, w.group) + 1

    expected = fn(x)
    for backend in ("aot_eager", "inductor"):
        compiled = torch.compile(fn, backend=backend, fullgraph=True)
        with tilelace.override_collectives(w.group), Made() as calls:
            for _ in range(2):
                for got, right in zip(compiled(x), expected):
                    expect_equal(got, right, backend)
        assert calls == ["all_reduce", "all_reduce", "reduce_scatter"] * 2, (backend, calls)


@case(2, on=BOTH)
def what_is_left_is_said_once(w):
    x = torch.arange(1.0, 5, device=w.device)
    other = dist.new_group(list(range(w.ranks)))
    with Lines() as lines, tilelace.override_collectives(), Made() as calls:
        for _ in range(2):
            y = x.clone()
            dist.all_reduce(y, dist.ReduceOp.PRODUCT, group=w.group)
            assert torch.equal(y, x**w.ranks), y
            y = x.double()
            dist.all_reduce(y, group=w.group)
            assert torch.equal(y, x.double() * w.ranks)
            y = x.clone()
            dist.all_reduce(y, group=other)
            assert torch.equal(y, x * w.ranks)
            takes = 2 * [3 if w.rank else 1]
            dist.all_to_all_single(w.empty(sum(takes)).float(), x, takes, [1, 3], group=w.group)
            expected = funcol.all_reduce(x, "product", w.group)
            assert torch.equal(expected, x**w.ranks)
    assert not calls, calls
    texts = ("all_reduce: got PRODUCT, expected sum, avg or max", "tilelace has no sum of torch.float64",
             "the group has not joined", "all_to_all_single: the call has lists of split sizes",
             "functional all_reduce: got product")
    assert len(lines) == len(texts), lines
    for text, line in zip(texts, lines):
        assert text in line and line.endswith("torch's own is used"), (text, line)
    # Of one group alone: of others nothing is said.
    with Lines() as lines, tilelace.override_collectives(w.group), Made() as calls:
        with tilelace.override_collectives(w.group):
            dist.all_reduce(x.clone(), group=other)
        dist.all_reduce(x.clone(), group=w.group)
    assert calls == ["all_reduce"] and not lines, (calls, lines)
    dist.destroy_process_group(other)


@case(2)
def torchs_kernels_leave_other_threads_alone(w):
    """A thread of gloo that waits for the GIL under a lock would never end otherwise."""
    x, ticks, ended = torch.ones(1 << 25), [], threading.Event()

    def tick():
        while not ended.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with tilelace.override_collectives():
            begin = time.monotonic()
            y = torch.ops._c10d_functional.all_reduce(x, "product", w.group.group_name)  # copies x
            end = time.monotonic()
            y = torch.ops._c10d_functional.wait_tensor(y)
    finally:
        ended.set()
        thread.join()
    assert torch.equal(y, x)
    assert sum(begin < t < end for t in ticks) >= 5, (end - begin, len(ticks))
