# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: values within derived bounds, exact integers, routings, shapes, errors."""
import itertools
from pathlib import Path

import torch
from tilelace import moe
from torch.library import opcheck

from .moe_layer import (
    FP32,
    Layer,
    activated,
    dot,
    everyones,
    expect_within,
    moe_activations,
    rounded,
)
from .world import BOTH, case, expect_raises

OPS = torch.ops.tilelace


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


@case(2, 3, 4, on=BOTH)
def integers_are_exact_whatever_the_routing(w):
    for dtype, cut in ((torch.bfloat16, True), (torch.float16 if w.cuda else torch.float32, False)):
        layer = Layer(w, dtype=dtype, activation="none", cut=cut, hidden=8, inner=8, integers=True)
        for kind in range(5):
            layer.route(kind)
            act, map = layer.first()
            for scatters in (False, True):
                layer.expect_second(everyones(w, act), layer.second(act, map, scatters), scatters)


@case(2, on=BOTH)
def weights_on_the_input_are_applied_before_the_product(w):
    dtype = torch.bfloat16 if w.cuda else torch.float32
    layer = Layer(w, dtype=dtype, activation="none", replicated=True, top_k=1)
    act, map = layer.first(weight_on_input=True)
    layer.expect_first(act, map, on_input=True)
    out = layer.second(act, map, False, weight_on_input=True)
    layer.expect_second(everyones(w, act), out, False, on_input=True)


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


@case(2, on=BOTH)
def products_are_grouped_by_expert(w):
    for activation in moe_activations():
        n = 16 * (2 if activation.startswith("swiglu") else 1)
        x, weight, bias = w.randn(9, 24), w.randn(3, n, 24), w.randn(3, n)
        begins = torch.tensor([0, 4, 4, 7], dtype=torch.int32, device=w.device)
        scales = torch.rand(12, device=w.device)
        sources = torch.arange(9, 0, -1, dtype=torch.int32, device=w.device)
        out = moe.grouped_gemm(x, weight, begins, bias, activation=activation, scales=scales,
                               sources=sources)
        experts = torch.tensor([0] * 4 + [2] * 3, device=w.device)
        y, off = activated(activation, *dot(x[:7], weight, bias, experts))
        scale = scales[sources[:7].long()].double()[:, None]
        y, off = y * scale, off * scale + FP32 * (y * scale).abs()
        expect_within(out[:7], *rounded(y, off, x.dtype), activation)
        opcheck(OPS.grouped_gemm, (x[:7].contiguous(), weight, begins, bias),
                {"activation": activation}, test_utils=("test_schema", "test_faketensor"))
    if w.cuda:
        return  # what is in begins and sources is not looked at
    expect_raises("usage", "begins: got [3], expected [4]",
                  lambda: moe.grouped_gemm(x, weight, begins[:3], bias))
    expect_raises("usage", "begins: got 5 at index 2, expected ascending", lambda: moe.grouped_gemm(
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
    expect_raises("usage", "an id that names no expert", layer.first)
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


@case(2)
def a_rank_without_memory_tells_the_others(w):
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        return  # then there is memory for everybody, it says
    tokens, columns = 1 << 17, (1 << 17 if w.rank == 0 else 8)  # a terabyte of results, or little
    x, ids, weights = torch.zeros(tokens, 8), torch.zeros(tokens, 8, dtype=torch.int32), torch.zeros(tokens, 8)
    expect_raises("system" if w.rank == 0 else "usage", "no memory for a tensor [2097152, 131072]",
                  lambda: moe.ag_moe(x, ids, weights, torch.zeros(1, columns, 8), w.group,
                                     experts=1, activation="none"))
    layer = Layer(w)
    layer.second(*layer.first(), True)
