# SPDX-License-Identifier: Apache-2.0
"""Sizes that change from call to call: one graph."""
import tilelace
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from .world import case


def splits(w, total, least):
    """Twelve of the sum `total`, the same on every rank, none smaller than `least`."""
    free = total - least * w.ranks
    found = []
    for _ in range(12):
        cuts = torch.randint(0, free + 1, (w.ranks - 1,), generator=w.generator).sort().values.tolist()
        found.append([least + b - a for a, b in zip([0, *cuts], [*cuts, free])])
    return found


def graphs(w, splits, train, **settings):
    """How many were compiled for what takes `sizes`, forward and backward; results are eager's."""
    weight = w.randn(8, 16)

    def block(x, y, weight, sizes):
        gathered, (z,) = tilelace.ag_gemm(
            x, [weight], None, w.group, sizes=sizes, return_gathered=True)
        mine = tilelace.gemm_rs(gathered, weight, None, w.group, sizes=sizes)
        whole = tilelace.all_gather(mine, w.group, sizes=sizes)
        return whole + z, tilelace.reduce_scatter(y, w.group, sizes=sizes)

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, backend=counter, fullgraph=True, **settings)
    for sizes in splits:
        y = w.randn(sum(sizes), 16)
        x = w.mine(y, sizes=sizes)
        results = []
        for fn in (compiled, block):
            inputs = [t.detach().clone().requires_grad_(train) for t in (x, y, weight)]
            outs = list(fn(*inputs, list(sizes)))
            if train:
                outs += torch.autograd.grad(sum(t.square().sum() for t in outs), inputs)
            results.append(outs)
        for ours, eager in zip(*results, strict=True):
            assert torch.equal(ours, eager), sizes
    return counter.frame_count


@case(2)
def from_call_to_call(w):
    # Without `dynamic` torch makes the first graph for the first sizes alone.
    found = splits(w, 5 * w.ranks, 2)
    assert len({tuple(s) for s in found}) > 6
    assert graphs(w, found, True, dynamic=True) == 1
    assert graphs(w, found, False) == 2


@case(2, 3)
def of_which_some_are_none_or_one(w):
    # For sizes of 0 and of 1 torch makes graphs of their own, unless it is told not to know them.
    found = [*splits(w, 3 * w.ranks, 0), [0] * (w.ranks - 1) + [3], [1] * w.ranks]
    with torch.compiler.config.patch(unbacked_sources=r"L\['sizes'\]\[\d+\],L\['x'\],L\['y'\]"):
        assert graphs(w, found, w.ranks == 2) == 1
    some = [s for s in found if s[0] == 0][:1] + [s for s in found if min(s) > 1][:1]
    assert graphs(w, some, False, dynamic=True) <= 2
