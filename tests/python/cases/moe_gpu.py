# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts on GPUs: random layers, graphs that take any routing, errors, what calls ask of CUDA."""
import os
import random
import re

import tilelace
import torch
from tilelace import moe

from .moe_layer import Layer, everyones, moe_activations
from .world import GPU, case, expect_raises

TIMES = int(os.environ.get("TILELACE_TEST_TIMES", "1"))


def drawn(w, dice):
    """A layer of any kind."""
    activation = dice.choice(moe_activations())
    experts = dice.choice((1, 2, 3, 8, 16, 33, 64))
    return Layer(w, dtype=dice.choice((torch.bfloat16, torch.float16)), activation=activation,
                 replicated=dice.random() < 0.5, cut=dice.random() < 0.5 and experts >= w.ranks,
                 hidden=8 * dice.randint(1, 40), inner=8 * dice.randint(1, 24), experts=experts,
                 top_k=dice.randint(1, 8), tokens=dice.choice((0, 1, 2, dice.randint(3, 150))),
                 biased=dice.random() < 0.5, added=dice.random() < 0.5,
                 narrow=dice.random() < 0.5)


def poison(w, *sizes, dtype):
    """What torch gives to the next results of these sizes."""
    blocks = [torch.full(size, float("nan"), dtype=dtype, device=w.device) for size in sizes]
    del blocks


@case(2, 3, 4, on=GPU)
def random_layers(w):
    dice = random.Random(17)
    for _ in range(500 * TIMES):
        layer = drawn(w, dice)
        layer.route(dice.randrange(5))
        scatters = dice.random() < 0.5
        width = layer.w2[w.rank].shape[-1]
        poison(w, (layer.m * layer.top_k, width), (layer.m, layer.x.shape[1]), dtype=layer.dtype)
        act, map = layer.first()
        layer.expect_first(act, map)
        layer.expect_second(everyones(w, act), layer.second(act, map, scatters), scatters)


class Captured:
    """A layer of local tokens, captured with one routing; its input is that of set()."""

    def __init__(self, w, **sizes):
        self.layer = layer = Layer(w, dtype=torch.bfloat16, **sizes)
        self.x, self.ids, self.weights = (layer.mine(t) for t in (layer.x, layer.ids, layer.weights))
        self.w = w
        with torch.no_grad():
            self.run()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.run()

    def run(self):
        w, layer = self.w, self.layer
        act, map = moe.ag_moe(self.x, self.ids, self.weights, layer.w13[w.rank], w.group,
                              experts=layer.experts, sizes=layer.sizes)
        return moe.moe_rs(act, map, layer.w2[w.rank], w.group, experts=layer.experts, top_k=layer.top_k,
                          sizes=layer.sizes)

    def set(self, ids, weights):
        self.ids.copy_(ids)
        self.weights.copy_(weights)


@case(2, 3, 4, on=GPU)
def graphs_take_any_routing(w):
    """The same bits as calls that are not captured; 50,000 replays whose routing changes."""
    captured = Captured(w, hidden=256, inner=128, experts=16, top_k=4, tokens=40)
    layer, known = captured.layer, []
    for turn in range(20):
        layer.route(turn % 5)
        mine = layer.mine(layer.ids), layer.mine(layer.weights)
        captured.set(*mine)
        known.append((*mine, captured.run()))
    dice, wrong = random.Random(3), torch.zeros((), dtype=torch.int64, device=w.device)
    for turn in range(50_000 * TIMES):
        ids, weights, expected = dice.choice(known)
        captured.set(ids, weights)
        captured.graph.replay()
        wrong += (captured.out.view(torch.int16) != expected.view(torch.int16)).any()
        if turn % 1000 == 0:
            w.synchronize()
    w.synchronize()
    assert wrong.item() == 0, wrong
    for _ in range(100):
        captured.set(*known[0][:2])
        assert torch.equal(captured.run(), known[0][2])


@case(2, on=GPU)
def calls_neither_wait_nor_allocate(w):
    """By a trace of what they ask of CUDA."""
    captured = Captured(w, hidden=256, inner=128, experts=16, top_k=4, tokens=40)
    profiler = torch.profiler
    with torch.no_grad():
        captured.run()
        w.synchronize()
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]) as trace:
            with profiler.record_function("calls"):
                for _ in range(3):
                    captured.run()
            torch.cuda.synchronize()
    calls = next(e for e in trace.events() if e.name == "calls" and e.device_type.name == "CPU").time_range
    names = [e.name for e in trace.events() if e.name.startswith("cu")
             and calls.start <= e.time_range.start <= calls.end]
    w.tell(asked={name: names.count(name) for name in sorted(set(names))})
    assert sum("Launch" in name for name in names) >= 24, names
    bad = re.compile("Synchronize|Malloc|Free|Alloc|MemCreate|MemMap|cudaMemcpy$|Query")
    assert not [name for name in names if bad.search(name)], names


@case(2, on=GPU)
def gpus_tell_of_routings_that_disagree(w):
    layer = Layer(w, dtype=torch.bfloat16, replicated=True)
    kept = layer.ids.clone()
    for spoil, text in (((layer.ids[0, 0] + 1) % 5, "moe_ar: rank "),
                        (torch.tensor(5), "moe_ar: ids: rank 1 has an id that names no expert")):
        if w.rank == 1:
            layer.ids[0, 0] = spoil
        layer.second(*layer.first(), False)
        expect_raises("usage", text, w.synchronize)
        tilelace.recover(w.group)
        layer.ids = kept.clone()
        act, map = layer.first()
        layer.expect_second(everyones(w, act), layer.second(act, map, False), False)
    local = Layer(w, dtype=torch.bfloat16)
    local.ids[0, 0] = 7  # on every rank
    local.second(*local.first(), True)
    expect_raises("usage", f"moe_rs: ids: rank {w.rank} has an id that names no expert", w.synchronize)
    tilelace.recover(w.group)
