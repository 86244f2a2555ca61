# SPDX-License-Identifier: Apache-2.0
"""all_reduce_norm: bits, quants, layouts, places, gradients, compiled, the module, errors."""
import itertools

import tilelace
import tilelace.nn
import torch
from torch.library import opcheck

from .gpu_wrong import told
from .world import BOTH, GPU, case, expect_raises

OPS = torch.ops.tilelace
TYPES = (torch.bfloat16, torch.float16)
QUANTS = ("none", "token", "block", "given")
E4M3 = torch.float8_e4m3fn


def divided(a, b):
    """By a tensor: by a number torch may multiply."""
    return a / torch.full_like(a, b)


def inverse_root(h, eps):
    """1 / sqrt(mean square + eps) of rows, in the order of tilelace/all_reduce_norm.h."""
    squares = h.square().unflatten(-1, (-1, 8))
    total = squares[..., 0]
    for i in range(1, 8):
        total = total + squares[..., i]
    units = 1 << (total.shape[-1] - 1).bit_length()
    total = torch.nn.functional.pad(total, (0, units - total.shape[-1]))
    while total.shape[-1] > 1:
        total = total[..., ::2] + total[..., 1::2]
    share = divided(torch.ones_like(total), h.shape[-1])
    return (1 / (total * share + torch.tensor(eps)).double().sqrt()).float()


def quantised(v, quant, scale):
    """e4m3 and the scales that are written."""
    scales = scale
    if quant != "given":
        v = v.unflatten(-1, (-1, 128)) if quant == "block" else v
        scales = divided(v.abs().amax(-1, keepdim=True), 448).clamp(min=2.0**-126)
    q = (v * (torch.ones_like(scales) / scales)).clamp(-448, 448).to(E4M3)
    if quant == "block":
        return q.flatten(-2), scales.squeeze(-1)
    return q, None if quant == "given" else scales


def expected_of(parts, weight, residual=None, eps=1e-6, quant="none", scale=None):
    """All results, on the CPU and bit for bit; every operation in fp32, rounded by itself."""
    dtype = weight.dtype
    h = parts[0].cpu().float()
    for p in parts[1:]:
        h = h + p.cpu().float()
    h = h.to(dtype).float()
    if residual is not None:
        h = (h + residual.cpu().float()).to(dtype).float()
    v = h * inverse_root(h, eps) * weight.cpu().float()
    q, scales = (None, None) if quant == "none" else quantised(v, quant, scale and scale.cpu())
    return tilelace.Normed(v.to(dtype), h.to(dtype), q, scales)


def expect_same(got, expected, *what):
    for name, a, b in zip(tilelace.Normed._fields, got, expected):
        assert (a is None) == (b is None), (what, name, a)
        if a is None:
            continue
        assert a.dtype == b.dtype and a.shape == b.shape, (what, name, a.dtype, a.shape)
        bits = torch.uint8 if a.dtype == E4M3 else a.dtype
        assert torch.equal(a.cpu().view(bits), b.view(bits)), (what, name, a.cpu(), b)


class Inputs:
    """Of all ranks, and what is to come of them."""

    def __init__(self, w, *size, dtype=torch.bfloat16, residual=True):
        self.parts = [w.randn(*size, dtype=dtype) for _ in range(w.ranks)]
        self.x = self.parts[w.rank]
        self.weight = w.randn(size[-1], dtype=dtype)
        self.residual = w.randn(*size, dtype=dtype) if residual else None

    def expected(self, **more):
        return expected_of(self.parts, self.weight, self.residual, **more)


def settings_of(w, quant):
    given = {"scale": torch.full((), 0.013, device=w.device)} if quant == "given" else {}
    return {"quant": quant, "eps": 1e-5, **given}


def without_norm(results):
    return results._replace(normed=None)


@case(2, 3, on=BOTH)
def bits_are_those_of_the_header(w):
    sizes = ((1, 8), (5, 24), (2, 3, 1000), (0, 64), (2, 0, 3, 256), (40,), (3, 4096), (1, 16384))
    for dtype, quant, size in itertools.product(TYPES, QUANTS, sizes):
        if quant == "block" and size[-1] % 128:
            size = (*size[:-1], 384)
        for residual in (True, False):
            t, s = Inputs(w, *size, dtype=dtype, residual=residual), settings_of(w, quant)
            kept = [v.clone() for v in (t.x, t.weight)]
            got = tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual, **s)
            expected = t.expected(**s)
            what = dtype, quant, size, residual
            expect_same(got, expected if quant == "none" else without_norm(expected), *what)
            both = tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual,
                                            return_normed=True, **s)
            expect_same(both, expected, *what)
            assert torch.equal(t.x, kept[0]) and torch.equal(t.weight, kept[1])
    normed, residual, *none = tilelace.all_reduce_norm(t.x, t.weight, w.group)
    assert none == [None, None] and normed.is_contiguous() and residual.is_contiguous()


@case(2, 3, on=BOTH)
def extremes_stay_themselves(w):
    t = Inputs(w, 5, 128)
    for p in t.parts:
        p[0] = 0
        p[1] *= 1e-30
        p[2] *= 1e15
        p[3, 7] = float("nan")
    t.residual[:2] = 0
    for quant in ("none", "token"):
        got = tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual, quant=quant)
        expected = t.expected(quant=quant)
        rows = [0, 1, 2, 4]
        pick = lambda r: tilelace.Normed(*(None if v is None else v[rows] for v in r))
        expect_same(pick(got), pick(expected if quant == "none" else without_norm(expected)), quant)
        if quant == "none":
            assert got.normed[3].isnan().all() and got.residual[3, 7].isnan()


@case(2, 3, on=BOTH)
def any_layout_is_taken(w):
    t = Inputs(w, 6, 4, 64)
    expected = t.expected()
    wide = torch.stack([t.weight, t.weight], -1)[:, 0]
    off = t.x.new_empty(t.x.numel() + 1)[1:].view_as(t.x).copy_(t.x)  # 2 bytes off
    for x, r in ((t.x.transpose(0, 1).contiguous().transpose(0, 1), t.residual),
                 (off, torch.cat([t.residual, t.residual], -1)[..., :64]),
                 (torch.stack([t.x, t.x], -1)[..., 0], t.residual.expand_as(t.residual))):
        expect_same(tilelace.all_reduce_norm(x, wide, w.group, residual=r), expected)
    with torch.inference_mode():
        expect_same(tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual), expected)
    meta = tilelace.all_reduce_norm(t.x.to("meta"), t.weight.to("meta"), w.group, quant="token")
    assert meta.normed is None and meta.quantised.is_meta and meta.quantised.dtype == E4M3
    assert meta.residual.shape == t.x.shape and meta.scales.shape == (6, 4, 1)


def empty_results(t, quant):
    """Of values that no result has."""
    like = tilelace.all_reduce_norm(t.x.to("meta"), t.weight.to("meta"), None, quant=quant,
                                    return_normed=True)
    return [None if v is None else torch.zeros(v.shape, dtype=v.dtype, device=t.x.device)
            for v in like]


@case(2, 3, on=BOTH)
def results_go_where_they_are_wanted(w):
    for quant in QUANTS:
        t, s = Inputs(w, 3, 2, 256), settings_of(w, quant)
        expected = t.expected(**s)
        out = empty_results(t, quant)
        got = tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual, out=out, **s)
        assert all(a is b for a, b in zip(got, out))
        expect_same(got, expected, quant)
        # With gaps, and the residual left out.
        gaps = [v if v is None else torch.stack([v, v], -1)[..., 0] for v in out]
        gaps[1] = None
        tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual, out=gaps, **s)
        expect_same(gaps, expected._replace(residual=None), quant)
        # In place of x, of the residual; overlapping otherwise.
        x, residual = t.x.clone(), t.residual.clone()
        versions = x._version, residual._version
        got = tilelace.all_reduce_norm_(x, t.weight, w.group, residual=residual, **s)
        assert got.residual is residual and residual._version > versions[1]
        assert quant != "none" or (got.normed is x and x._version > versions[0])
        expect_same(got, expected if quant == "none" else without_norm(expected), quant)
        longer = torch.cat([t.x, t.x[:1]])
        residual = t.residual.clone()
        out = [longer[1:], residual.transpose(0, 1).contiguous().transpose(0, 1), *out[2:]]
        tilelace.all_reduce_norm(longer[:-1], t.weight, w.group, residual=residual, out=out, **s)
        expect_same(out, expected, quant)


@case(2, on=BOTH)
def checks_of_torch(w):
    for quant, residual in itertools.product(QUANTS, (True, False)):
        t, s = Inputs(w, 3, 128, residual=residual), settings_of(w, quant)
        scale = s.pop("scale", None)
        args = (t.x, t.weight, t.residual, scale, w.name)
        # Eager and compiled gradients of bf16 differ by roundings.
        opcheck(OPS.all_reduce_norm, args, s | {"return_normed": residual},
                test_utils=("test_schema", "test_autograd_registration", "test_faketensor",
                            "test_aot_dispatch_dynamic"))
    t = Inputs(w, 3, 128)
    grads = [v.clone().requires_grad_() for v in (t.x, t.weight, t.residual)]
    opcheck(OPS.all_reduce_norm, (*grads, None, w.name))
    opcheck(OPS.all_reduce_norm_out, (t.x, t.weight, t.residual, None, w.name),
            {"normed": torch.empty_like(t.x), "out": torch.empty_like(t.x)})


@case(2, 3, on=BOTH)
def gradients_are_those_of_one_norm(w):
    """Of bf16: the formula in fp32 on the very h, each result rounded once (and sums of fp32)."""
    t = Inputs(w, 4, 5, 64)
    upstream = [w.randn(4, 5, 64, dtype=torch.bfloat16) for _ in range(2)]
    leaves = [v.clone().requires_grad_() for v in (t.x, t.weight, t.residual)]
    normed, residual, *_ = tilelace.all_reduce_norm(leaves[0], leaves[1], w.group, residual=leaves[2])
    grads = torch.autograd.grad([normed, residual], leaves, upstream)
    h = t.expected().residual.double().to(w.device).requires_grad_()
    weight = t.weight.double().requires_grad_()
    y = torch.nn.functional.rms_norm(h, (64,), weight, 1e-6)
    of_h, of_weight = torch.autograd.grad([y, h * 1], [h, weight], [u.double() for u in upstream])
    for got, right in zip(grads, (of_h, of_weight, of_h)):
        bound = 2.0**-8 * right.abs() + 1e-4
        assert ((got.double() - right).abs() <= bound).all(), (got, right)
    # Alone: the sum is used, or the norm.
    (only,) = torch.autograd.grad(
        tilelace.all_reduce_norm(leaves[0], t.weight, w.group).residual, leaves[0], upstream[0])
    assert torch.equal(only, upstream[0])
    # What is quantised has none.
    both = tilelace.all_reduce_norm(leaves[0], t.weight, w.group, quant="token", return_normed=True)
    assert torch.autograd.grad(both.normed, leaves[0], upstream[0], retain_graph=True)[0] is not None
    expect_raises("usage", "quantised results have no gradient", both.scales.sum().backward)
    expect_raises("usage", "tensors that need gradients", lambda: tilelace.all_reduce_norm_(
        leaves[0], t.weight, w.group, residual=t.residual))


@case(2)
def derivatives_of_any_order(w):
    """Of the second: beside autograd's own through the formula on one rank."""
    t = Inputs(w, 3, 16, dtype=torch.float16)
    x, weight = t.x.clone().requires_grad_(), t.weight.clone().requires_grad_()
    u = w.randn(3, 16, dtype=torch.float16)
    y = tilelace.all_reduce_norm(x, weight, w.group, residual=t.residual).normed
    (first,) = torch.autograd.grad(y, weight, u, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    h = t.expected().residual.double().requires_grad_()
    v = t.weight.double().requires_grad_()
    z = torch.nn.functional.rms_norm(h, (16,), v, 1e-6)
    (first64,) = torch.autograd.grad(z, v, u.double(), create_graph=True)
    (right,) = torch.autograd.grad(first64.square().sum(), h)
    torch.testing.assert_close(second.double(), right, rtol=2e-2, atol=2e-2)


@case(2, 3, on=("cpu",))
def compiled_graphs_are_whole(w):
    def fn(x, weight, residual, y, r):
        first = tilelace.all_reduce_norm(x, weight, w.group, residual=residual)
        q = tilelace.all_reduce_norm(first.normed, weight, w.group, residual=first.residual,
                                     quant="token")
        placed = tilelace.all_reduce_norm_(y, weight, w.group, residual=r)
        return *first, q.residual, q.quantised.view(torch.uint8), q.scales, *placed

    def results(f, t):
        y, r = t.x.clone(), t.residual.clone()
        return [v for v in (*f(t.x, t.weight, t.residual, y, r), y, r) if v is not None]

    for backend in ("aot_eager", "inductor") if w.ranks == 2 else ("aot_eager",):
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend=backend, fullgraph=True, dynamic=True)
        with torch.no_grad():
            for m in (3, 6):
                t = Inputs(w, m, 2, 128)
                for a, b in zip(results(compiled, t), results(fn, t), strict=True):
                    assert torch.equal(a, b), (backend, m)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, a: tilelace.all_reduce_norm(x, a, w.group)[:2],
                             backend="aot_eager", fullgraph=True)
    x, a = t.x.clone().requires_grad_(), t.weight.clone().requires_grad_()
    ours, eager = (torch.autograd.grad([v.sum() for v in f(x, a)], (x, a)) for f in (
        compiled, lambda x, a: tilelace.all_reduce_norm(x, a, w.group)[:2]))
    for g, e in zip(ours, eager):
        assert torch.equal(g, e)


@case(2, on=BOTH)
def the_module(w):
    t = Inputs(w, 4, 64)
    layer = tilelace.nn.RMSNorm(64, 1e-5, dtype=torch.bfloat16, device=w.device, tp_group=w.group)
    assert [n for n, _ in layer.named_parameters()] == ["weight"] and bool((layer.weight == 1).all())
    with torch.no_grad():
        layer.weight.copy_(t.weight)
        normed, residual = layer(t.x, t.residual)
    expect_same((normed, residual), t.expected(eps=1e-5)[:2])
    layer(t.x)[0].float().sum().backward()
    assert layer.weight.grad.shape == (64,)
    plain = tilelace.nn.RMSNorm((64,), elementwise_affine=False, tp_group=w.group)
    ones = torch.ones_like(t.weight)
    expected = expected_of(t.parts, ones, eps=torch.finfo(torch.float32).eps)
    expect_same(plain(t.x), expected[:2])
    assert not list(plain.parameters())
    expect_raises("usage", "normalized_shape: got (2, 64)",
                  lambda: tilelace.nn.RMSNorm((2, 64), tp_group=w.group))


def wrong_calls(w, t):
    """What the error says, and the wrong call."""
    norm, x, weight, residual = tilelace.all_reduce_norm, t.x, t.weight, t.residual

    def of(text, *args, **more):
        return text, lambda: norm(*args, w.group, **more)

    out = empty_results(t, "token")
    return (
        of("x: got NoneType", None, weight),
        of("x: got Float, expected BFloat16 or Half", x.float(), weight),
        of("x: got []", x[0, 0], weight),
        of("n: got 12, expected a multiple of 8", x[:, :12], weight[:12]),
        of("n: got 0, expected a multiple of 8", x[:, :0], weight[:0]),
        of("n: got 16392", x.new_ones(1, 16392), x.new_ones(16392)),
        of("expected a multiple of 128", x[:, :64], weight[:64], quant="block"),
        of("weight: got [64], expected [128]", x, weight[:64]),
        of("weight: got Float, expected BFloat16", x, weight.float()),
        of("weight: got NoneType", x, None),
        of("residual: got [1, 128], expected [4, 128]", x, weight, residual=residual[:1]),
        of("residual: got Half, expected BFloat16", x, weight, residual=residual.half()),
        of("residual: got int, expected a torch.Tensor", x, weight, residual=3),
        of('quant: got "row", expected none, token, block or given', x, weight, quant="row"),
        of("quant: got 3, expected a string", x, weight, quant=3),
        of('scale: got none, expected a tensor for quant "given"', x, weight, quant="given"),
        of("scale: got a tensor, expected none if quant is none", x, weight, scale=x[0, 0]),
        of("scale: got [2], expected one element", x, weight, quant="given", scale=x.new_ones(2)),
        of("scale: got BFloat16, expected Float", x, weight, quant="given", scale=x[0, 0]),
        of("eps: got -1, expected 0 or more", x, weight, eps=-1),
        of("eps: got '1', expected a number", x, weight, eps="1"),
        of("return_normed: got 'no', expected True or False", x, weight, return_normed="no"),
        of("out: got 3 tensors", x, weight,
           out=out[:3]),
        of("out: got int, expected a Normed or four tensors", x, weight, out=3),
        of("normed: got none, expected a tensor if quant is none", x, weight, out=[None] * 4),
        of("quantised: got a tensor, expected none if quant is none", x, weight, out=out),
        of("quantised: got none, expected a tensor if quant is token", x, weight, quant="token",
           out=[None] * 4),
        of("quantised: got BFloat16, expected Float8_e4m3fn", x, weight, quant="token",
           out=[None, None, x, out[3]]),
        of("scales: got [4], expected [4, 1]", x,
           weight, quant="token", out=[None, None, out[2], out[3][:, 0]]),
        of("normed: got [1, 128], expected [4, 128]", x, weight, out=[x[:1], None, None, None]),
        of("normed: its elements overlap in memory", x, weight,
           out=[x[:1].expand(4, 128), None, None, None]),
        of("normed overlaps out", x, weight, out=[x, x, None, None]),
        of("all_reduce_norm: wrong arguments", x, weight, dim=0),
        ("all_reduce_norm_: wrong arguments", lambda: tilelace.all_reduce_norm_(
            x, weight, w.group)),
    )


@case(2, 3)
def wrong_calls_are_errors_everywhere(w):
    t = Inputs(w, 4, 128)
    last = w.rank == w.ranks - 1

    def right():
        return tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual)

    for text, wrong in wrong_calls(w, t):
        expect_raises("usage", text, wrong if last else right)
        expect_same(right(), t.expected())
    # Right by themselves.
    for other in (dict(eps=1e-3), dict(quant="token"), dict(residual=None)):
        more = dict(residual=t.residual) | (other if last else {})
        expect_raises("usage", "all_reduce_norm",
                      lambda: tilelace.all_reduce_norm(t.x, t.weight, w.group, **more))
        expect_same(right(), t.expected())


@case(2, 4, on=GPU)
def replays_of_changing_inputs(w):
    """In place and beside products, all quants, in one graph."""
    for m in (1, 17, 400):
        t = Inputs(w, m, 4096)
        x, residual, q = t.x.clone(), t.residual.clone(), {}

        def calls():
            tilelace.all_reduce_norm_(x, t.weight, w.group, residual=residual)
            for quant in QUANTS[1:]:
                q[quant] = tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual,
                                                    scale=scale if quant == "given" else None,
                                                    quant=quant)

        scale = torch.full((1,), 0.013, device=w.device)
        calls()
        w.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            calls()
        for _ in range(3):
            new = Inputs(w, m, 4096)
            t.x.copy_(new.x), t.residual.copy_(new.residual)
            x.copy_(new.x), residual.copy_(new.residual)
            new.weight = t.weight
            graph.replay()
            w.synchronize()
            expect_same((x, residual), new.expected()[:2], m)
            for quant in QUANTS[1:]:
                expected = new.expected(quant=quant, scale=scale if quant == "given" else None)
                expect_same(q[quant], without_norm(expected), m, quant)


@case(2, on=GPU)
def errors_of_gpus_say_the_same(w):
    """On both ranks, then on one: the other one hears of it later."""
    t = Inputs(w, 4, 128)

    def right():
        return tilelace.all_reduce_norm(t.x, t.weight, w.group, residual=t.residual)

    right()
    for text, wrong in wrong_calls(w, t):
        expect_raises("usage", text, wrong)
        expect_same(right(), t.expected())
    for _, wrong in wrong_calls(w, t)[5:10]:
        texts = w.everyone(told(w, lambda g, fn=wrong: fn() if w.rank == 1 else right()))
        assert all(text.startswith("usage: ") for text in texts), texts
        told(w, lambda g: None)
        tilelace.recover(w.group)
        expect_same(right(), t.expected())
