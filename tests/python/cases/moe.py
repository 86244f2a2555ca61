# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: values within derived bounds, exact integers, routings, shapes, errors."""
import itertools

import tilelace
import tilelace.moe as moe
import torch
from torch.library import opcheck

from .world import BOTH, GPU, UNIT, case, expect_raises

OPS = torch.ops.tilelace
FP32 = 2.0**-24
# No activation is steeper: gelu's steepest slope is 1.129.
STEEPEST = 1.13


class Layer:
    """A layer's tensors, of which every rank draws all ranks'."""

    def __init__(self, w, *, dtype=torch.float32, activation="swiglu", replicated=False, cut=False,
                 hidden=32, inner=16, experts=5, top_k=2, tokens=6, integers=False, biased=False):
        draw = (lambda *size: w.integers(*size).to(dtype)) if integers else (
            lambda *size: w.randn(*size, dtype=dtype))
        self.w, self.dtype, self.activation, self.replicated = w, dtype, activation, replicated
        self.experts, self.top_k, self.cut = experts, top_k, cut
        self.sizes = [tokens + r if r % 2 else max(0, tokens - r) for r in range(w.ranks)]
        self.m, self.integers = sum(self.sizes), integers
        self.x = draw(self.m, hidden)
        width = inner * (2 if activation.startswith("swiglu") else 1)
        self.parts = [(experts * r // w.ranks, experts * (r + 1) // w.ranks) if cut else (0, experts)
                      for r in range(w.ranks)]
        scale = 1 if integers else hidden**-0.5
        self.w13 = [draw(e - b, width, hidden) * scale for b, e in self.parts]
        self.w2 = [draw(e - b, hidden, inner) * scale for b, e in self.parts]
        self.b13 = [draw(e - b, width) if biased else None for b, e in self.parts]
        self.b2 = [draw(e - b, hidden) if biased else None for b, e in self.parts]
        self.add = [draw(self.m, hidden) for _ in self.parts]
        self.route(0)

    def route(self, kind):
        """Uniform; one expert for all; nobody; some nobody's; a token's slots are equal."""
        g, size = self.w.generator, (self.m, self.top_k)
        self.ids = torch.randint(0, self.experts, size, generator=g)
        if kind == 1:
            self.ids = torch.full(size, 1)
        elif kind == 2:
            self.ids = torch.full(size, -1)
        elif kind == 3:
            self.ids[torch.rand(size, generator=g) < 0.3] = -1
        elif kind == 4:
            self.ids = self.ids[:, :1].expand(size).contiguous()
        self.weights = torch.rand(size, generator=g)
        if self.integers:
            self.weights = torch.ones(size)
        self.weights[self.ids < 0] = float("nan")  # not read

    def mine(self, t):
        t = t.to(self.w.device)
        return t if self.replicated else t.split(self.sizes)[self.w.rank].contiguous()

    def first(self, **more):
        r = self.w.rank
        settings = {"experts": self.experts, "first": self.parts[r][0], "bias": self.b13[r],
                    "activation": self.activation, "replicated": self.replicated, "sizes": self.sizes}
        return moe.ag_moe(self.mine(self.x), self.mine(self.ids), self.mine(self.weights),
                          self.w13[r], self.w.group, **(settings | more))

    def second(self, act, map, scatters, **more):
        r = self.w.rank
        settings = {"experts": self.experts, "first": self.parts[r][0], "bias": self.b2[r],
                    "top_k": self.top_k, "add": self.add[r]}
        if scatters:
            return moe.moe_rs(act, map, self.w2[r], self.w.group, sizes=self.sizes, **(settings | more))
        return moe.moe_ar(act, map, self.w2[r], self.w.group, **(settings | more))

    def rows(self, rank):
        """(token, slot, expert here) of a rank's rows, in their order."""
        begin, end = self.parts[rank]
        kept = [(int(e), t, s) for t, slots in enumerate(self.ids) for s, e in enumerate(slots)
                if begin <= e < end]
        return [(t, s, e - begin) for e, t, s in sorted(kept)]

    def expect_first(self, act, map):
        rank = self.w.rank
        rows = self.rows(rank)
        assert map[self.parts[rank][1] - self.parts[rank][0]] == len(rows), map
        for r, (t, _, e) in enumerate(rows):
            y, off = dot(self.x[t], self.w13[rank], self.b13[rank], e)
            value, off = activated(self.activation, y, off)
            expect_within(act[r], *rounded(value, off, self.dtype), "act")

    def expect_second(self, acts, out, scatters):
        total, sizes, total_off = 0, 0, 0
        for rank in range(self.w.ranks):
            value = self.add[rank].double().clone()
            size, off = value.abs(), torch.zeros_like(value)
            for r, (t, s, e) in enumerate(self.rows(rank)):
                y, y_off = dot(acts[rank][r], self.w2[rank], self.b2[rank], e)
                weight = self.weights[t, s].double()
                y, y_off = rounded(y * weight, y_off * weight + FP32 * (y * weight).abs(), self.dtype)
                value[t] += y
                size[t] += y.abs() + y_off
                off[t] += y_off
            off = off + (self.top_k + 1) * FP32 * size
            value, off = rounded(value, off, self.dtype)
            total, sizes, total_off = total + value, sizes + value.abs() + off, total_off + off
        total_off = total_off + self.w.ranks * FP32 * sizes
        total, total_off = rounded(total, total_off, self.dtype)
        if scatters:
            total, total_off = (t.split(self.sizes)[self.w.rank] for t in (total, total_off))
        expect_within(out, total, total_off, "out")
        if self.integers:
            assert torch.equal(out.double(), total), "integers are exact"


def dot(x, weight, biases, e):
    x, weight = x.double(), weight[e].double()
    y, terms = weight @ x, weight.abs() @ x.abs()
    if biases is not None:
        y, terms = y + biases[e].double(), terms + biases[e].double().abs()
    return y, 16 * FP32 * terms


def rounded(value, off, dtype):
    least = 2.0**-25 if dtype == torch.float16 else 2.0**-126
    return value, off + UNIT[dtype] * (value.abs() + off) + least


def activated(name, y, off):
    half = y.shape[0] // 2
    if name == "none":
        return y, off
    if name in ("gelu", "gelu_tanh", "silu"):
        fn = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
              "gelu_tanh": lambda t: torch.nn.functional.gelu(t, approximate="tanh")}[name]
        return fn(y), STEEPEST * off + 16 * FP32 * fn(y).abs()
    if name == "swiglu":
        gate, up, gate_off, up_off = y[:half], y[half:], off[:half], off[half:]
        gated = torch.nn.functional.silu(gate)
    else:
        gate, up, gate_off, up_off = y[::2].clamp(max=7), y[1::2].clamp(-7, 7) + 1, off[::2], off[1::2]
        up_off = up_off + FP32 * 8
        gated = gate * torch.sigmoid(1.702 * gate)
    value = gated * up
    return value, (STEEPEST * gate_off * (up.abs() + up_off) + gated.abs() * up_off
                   + 16 * FP32 * (value.abs() + gate_off * up.abs()))


def expect_within(got, value, off, what):
    worst = ((got.double() - value).abs() - off).max().item() if value.numel() else -1
    assert got.shape == value.shape and worst <= 0, f"{what}: {worst} over the bound"


def everyones(w, act):
    return [t.to(w.device) for t in w.everyone(act.cpu())]


@case(2, 3, 4, on=BOTH)
def layers_are_within_their_bounds(w):
    activations = itertools.cycle(moe_activations())
    dtypes = (torch.bfloat16, torch.float16) if w.cuda else (torch.float32, torch.bfloat16, torch.float16)
    for dtype, replicated, cut, biased in itertools.product(
            dtypes, (False, True), (False, True), (False, True)):
        layer = Layer(w, dtype=dtype, activation=next(activations), replicated=replicated, cut=cut,
                      biased=biased)
        scatters = replicated == biased
        act, map = layer.first()
        layer.expect_first(act, map)
        layer.expect_second(everyones(w, act), layer.second(act, map, scatters), scatters)


def moe_activations():
    return "none", "gelu", "gelu_tanh", "silu", "swiglu", "swiglu_clamped"


@case(2, 3, 4, on=BOTH)
def integers_are_exact_whatever_the_routing(w):
    for dtype, cut in ((torch.bfloat16, True), (torch.float16 if w.cuda else torch.float32, False)):
        layer = Layer(w, dtype=dtype, activation="none", cut=cut, hidden=8, inner=8, integers=True)
        for kind in range(5):
            layer.route(kind)
            act, map = layer.first()
            for scatters in (False, True):
                layer.expect_second(everyones(w, act), layer.second(act, map, scatters), scatters)


@case(2)
def weights_on_the_input_are_applied_before_the_product(w):
    layer = Layer(w, activation="none", replicated=True, top_k=1)
    act, map = layer.first(weight_on_input=True)
    for r, (t, s, e) in enumerate(layer.rows(w.rank)):
        y, off = dot(layer.x[t] * layer.weights[t, s], layer.w13[w.rank], None, e)
        expect_within(act[r], *rounded(y, off, layer.dtype), "act")
    out = layer.second(act, map, False, weight_on_input=True)
    layer.weights = torch.ones_like(layer.weights)
    layer.expect_second(w.everyone(act), out, False)


@case(3)
def every_run_has_the_same_bits_in_graphs_too(w):
    layer = Layer(w, dtype=torch.bfloat16, activation="swiglu_clamped")

    def run():
        return layer.second(*layer.first(), True)

    before = run()
    for _ in range(10):
        assert torch.equal(run(), before)
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.equal(torch.compile(run, fullgraph=True, backend="aot_eager")(), before)


@case(2)
def shapes_are_those_of_the_calls(w):
    layer = Layer(w, experts=40)
    r = w.rank
    checks = ("test_schema", "test_faketensor")
    args = (layer.mine(layer.x), layer.mine(layer.ids), layer.mine(layer.weights).nan_to_num(),
            layer.w13[r], None, w.name)
    opcheck(OPS.ag_moe, args, {"experts": 40, "sizes": layer.sizes}, test_utils=checks[:1])
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
        like, words = OPS.ag_moe(*fakes, experts=40, sizes=layer.sizes)
        summed = OPS.moe_ar(like, words, mode.from_tensor(layer.w2[r]), None, None, w.name, experts=40,
                            top_k=2)
        mine = OPS.moe_rs(like, words, mode.from_tensor(layer.w2[r]), None, None, w.name, experts=40,
                          top_k=2, sizes=layer.sizes)
    act, map = layer.first()
    out, part = layer.second(act, map, False), layer.second(act, map, True)
    for fake, real in ((like, act), (words, map), (summed, out), (mine, part)):
        assert fake.shape == real.shape and fake.dtype == real.dtype, (fake.shape, real.shape)


@case(2)
def products_are_grouped_by_expert(w):
    for activation in moe_activations():
        n = 16 * (2 if activation.startswith("swiglu") else 1)
        x, weight, bias = w.randn(9, 24), w.randn(3, n, 24), w.randn(3, n)
        begins = torch.tensor([0, 4, 4, 7], dtype=torch.int32)
        scales, sources = torch.rand(12), torch.arange(9, 0, -1, dtype=torch.int32)
        out = moe.grouped_gemm(x, weight, begins, bias, activation=activation, scales=scales,
                               sources=sources)
        for r in range(7):
            y, off = activated(activation, *dot(x[r], weight, bias, 0 if r < 4 else 2))
            scale = scales[sources[r]].double()
            y, off = y * scale, off * scale + FP32 * (y * scale).abs()
            expect_within(out[r], *rounded(y, off, x.dtype), activation)
        opcheck(OPS.grouped_gemm, (x[:7].contiguous(), weight, begins, bias),
                {"activation": activation}, test_utils=("test_schema", "test_faketensor"))
    expect_raises("usage", "begins: got [3], expected [4]",
                  lambda: moe.grouped_gemm(x, weight, begins[:3], bias))
    expect_raises("usage", "begins: got 5 for expert 2, expected ascending", lambda: moe.grouped_gemm(
        x, weight, torch.tensor([0, 6, 5, 7], dtype=torch.int32)))
    expect_raises("usage", "sources: got 9, expected less than 3", lambda: moe.grouped_gemm(
        x, weight, begins, scales=scales[:3], sources=sources))
    expect_raises("usage", 'activation: got "relu"', lambda: moe.grouped_gemm(
        x, weight, begins, activation="relu"))
    expect_raises("usage", "gradients are not supported", lambda: moe.grouped_gemm(
        x.clone().requires_grad_(), weight, begins))


@case(3)
def ids_that_name_no_expert_are_refused_on_every_rank(w):
    layer = Layer(w)
    layer.ids[layer.sizes[0], 1] = 5
    expect_raises("usage", "that names no expert: expected -1 to 4", layer.first)
    layer.route(0)
    layer.second(*layer.first(), True)


@case(3)
def ranks_whose_routings_disagree_get_an_error(w):
    layer = Layer(w, replicated=True)
    kept = layer.ids.clone()
    if w.rank == 1:
        layer.ids[0, 0] = (layer.ids[0, 0] + 1) % 5
    act, map = layer.first()
    expect_raises("usage", ", routing ", lambda: layer.second(act, map, False))
    layer.ids = kept
    layer.second(*layer.first(), False)


@case(2)
def wrong_arguments_are_told_to_the_others(w):
    layer = Layer(w)
    good = layer.first()
    wrong = [("ids: got Float, expected Int or Long", "ids", lambda t: t.float()),
             ("weights: got Double, expected Float", "weights", lambda t: t.double()),
             ("hidden: got 31, expected a multiple of 8", "x", lambda t: t[:, :31])]
    for text, name, spoil in wrong:
        kept = getattr(layer, name)
        if w.rank == 1:
            setattr(layer, name, spoil(kept))
        expect_raises("usage", text, layer.first)
        setattr(layer, name, kept)
    more = [("activation: got \"relu\"", {"activation": "relu"}),
            ("experts of this rank", {"first": 1}),
            ("experts: got", {"experts": 0})]
    for text, settings in more:
        expect_raises("usage", text, lambda: layer.first(**(settings if w.rank == 1 else {})))
    expect_raises("usage", "map: got", lambda: layer.second(
        good[0], good[1][:-32] if w.rank == 1 else good[1], False))
    expect_raises("usage", "gradients are not supported", lambda: layer.second(
        good[0].clone().requires_grad_(w.rank == 1), good[1], False))
    layer.second(*layer.first(), True)


@case(2, on=GPU)
def graphs_take_any_routing(w):
    """Captured with one, replayed with others: the same bits as calls that are not captured."""
    layer = Layer(w, dtype=torch.bfloat16, hidden=256, inner=128, experts=16, top_k=4, tokens=40)
    x, ids, weights = (layer.mine(t) for t in (layer.x, layer.ids, layer.weights))
    r = w.rank

    def run():
        act, map = moe.ag_moe(x, ids, weights, layer.w13[r], w.group, experts=16, sizes=layer.sizes)
        return moe.moe_rs(act, map, layer.w2[r], w.group, experts=16, top_k=4, sizes=layer.sizes)

    with torch.no_grad():
        run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = run()
        for turn in range(30):
            layer.route(turn % 5)
            ids.copy_(layer.mine(layer.ids))
            weights.copy_(layer.mine(layer.weights))
            expected = run()
            graph.replay()
            graph.replay()
            assert torch.equal(out, expected), turn
    w.synchronize()


@case(2, on=GPU)
def gpus_tell_of_routings_that_disagree(w):
    layer = Layer(w, dtype=torch.bfloat16, replicated=True)
    kept = layer.ids.clone()
    for spoil in ((layer.ids[0, 0] + 1) % 5, torch.tensor(5)):
        if w.rank == 1:
            layer.ids[0, 0] = spoil
        layer.second(*layer.first(), False)
        expect_raises("usage", "", w.synchronize)
        tilelace.recover(w.group)
        layer.ids = kept.clone()
        act, map = layer.first()
        layer.expect_second(everyones(w, act), layer.second(act, map, False), False)
    local = Layer(w, dtype=torch.bfloat16)
    local.ids[0, 0] = 7  # on every rank
    local.second(*local.first(), True)
    expect_raises("usage", "", w.synchronize)
    tilelace.recover(w.group)
