# SPDX-License-Identifier: Apache-2.0
"""A layer of experts for cases: its tensors, its calls, and what each must be, with derived bounds."""
import torch
from tilelace import moe

from .world import UNIT

FP32 = 2.0**-24
# No activation is steeper: gelu's steepest slope is 1.129.
STEEPEST = 1.13


def everyones(w, act):
    return [t.to(w.device) for t in w.everyone(act.cpu())]


def moe_activations():
    return "none", "gelu", "gelu_tanh", "silu", "swiglu", "swiglu_clamped"


class Layer:
    """A layer's tensors, of which every rank draws all ranks'."""

    def __init__(self, w, *, dtype=torch.float32, activation="swiglu", replicated=False, cut=False,
                 hidden=32, inner=16, experts=5, top_k=2, tokens=6, integers=False, biased=False, added=True,
                 narrow=False):
        draw = (lambda *size: w.integers(*size).to(dtype)) if integers else (
            lambda *size: w.randn(*size, dtype=dtype))
        self.w, self.dtype, self.activation, self.replicated = w, dtype, activation, replicated
        self.experts, self.top_k, self.cut = experts, top_k, cut
        self.sizes = [tokens + r if r % 2 else max(0, tokens - r) for r in range(w.ranks)]
        self.m, self.integers, self.added, self.narrow = sum(self.sizes), integers, added, narrow
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
            self.ids = torch.full(size, min(1, self.experts - 1))
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
        ids = self.ids.int() if self.narrow else self.ids
        return moe.ag_moe(self.mine(self.x), self.mine(ids), self.mine(self.weights),
                          self.w13[r], self.w.group, **(settings | more))

    def second(self, act, map, scatters, **more):
        r = self.w.rank
        settings = {"experts": self.experts, "first": self.parts[r][0], "bias": self.b2[r],
                    "top_k": self.top_k, "add": self.add[r] if self.added else None}
        if scatters:
            return moe.moe_rs(act, map, self.w2[r], self.w.group, sizes=self.sizes, **(settings | more))
        return moe.moe_ar(act, map, self.w2[r], self.w.group, **(settings | more))

    def rows(self, rank):
        """Token, slot and expert there of a rank's rows, in their order."""
        begin, end = self.parts[rank]
        ids = self.ids.flatten()
        kept = ((ids >= begin) & (ids < end)).nonzero().flatten()
        kept = kept[ids[kept].argsort(stable=True)]
        return [t.to(self.w.device) for t in (kept // self.top_k, kept % self.top_k, ids[kept] - begin)]

    def weights_of(self, tokens, slots):
        return self.weights.to(self.w.device)[tokens, slots].double()[:, None]

    def expect_first(self, act, map, on_input=False):
        rank = self.w.rank
        tokens, slots, experts = self.rows(rank)
        assert map[self.parts[rank][1] - self.parts[rank][0]] == len(tokens), map
        x = self.x[tokens]
        if on_input:
            x = (x.float() * self.weights_of(tokens, slots).float()).to(self.dtype)
        value, off = activated(self.activation, *dot(x, self.w13[rank], self.b13[rank], experts))
        expect_within(act[:len(tokens)], *rounded(value, off, self.dtype), "act")

    def expect_second(self, acts, out, scatters, on_input=False):
        total, sizes, total_off = 0, 0, 0
        for rank in range(self.w.ranks):
            value = self.add[rank].double() if self.added else torch.zeros_like(self.x).double()
            size, off = value.abs(), torch.zeros_like(value)
            tokens, slots, experts = self.rows(rank)
            y, y_off = dot(acts[rank][:len(tokens)], self.w2[rank], self.b2[rank], experts)
            weights = 1 if on_input else self.weights_of(tokens, slots)
            y, y_off = rounded(y * weights, y_off * weights + FP32 * (y * weights).abs(), self.dtype)
            value, size = value.index_add(0, tokens, y), size.index_add(0, tokens, y.abs() + y_off)
            off = off.index_add(0, tokens, y_off) + (self.top_k + 1) * FP32 * size
            value, off = rounded(value, off, self.dtype)
            total, sizes, total_off = total + value, sizes + value.abs() + off, total_off + off
        total, total_off = rounded(total, total_off + self.w.ranks * FP32 * sizes, self.dtype)
        if scatters:
            total, total_off = (t.split(self.sizes)[self.w.rank] for t in (total, total_off))
        expect_within(out, total, total_off, "out")
        if self.integers:
            assert torch.equal(out.double(), total), "integers are exact"


def dot(x, weight, biases, experts):
    """Products of rows with their experts' weights, in fp64, and how far off they may be."""
    x = x.double()
    y = x.new_zeros(x.shape[0], weight.shape[1])
    terms = torch.zeros_like(y)
    for e in experts.unique().tolist():
        at, its = experts == e, weight[e].double().t()
        y[at], terms[at] = x[at] @ its, x[at].abs() @ its.abs()
        if biases is not None:
            y[at] += biases[e].double()
            terms[at] += biases[e].double().abs()
    return y, 16 * FP32 * terms


def rounded(value, off, dtype):
    least = 2.0**-25 if dtype == torch.float16 else 2.0**-126
    return value, off + UNIT[dtype] * (value.abs() + off) + least


def activated(name, y, off):
    half = y.shape[-1] // 2
    if name == "none":
        return y, off
    if name in ("gelu", "gelu_tanh", "silu"):
        fn = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
              "gelu_tanh": lambda t: torch.nn.functional.gelu(t, approximate="tanh")}[name]
        return fn(y), STEEPEST * off + 16 * FP32 * fn(y).abs()
    if name == "swiglu":
        gate, up, gate_off, up_off = y[..., :half], y[..., half:], off[..., :half], off[..., half:]
        gated = torch.nn.functional.silu(gate)
    else:
        gate, up, gate_off, up_off = y[..., ::2].clamp(max=7), y[..., 1::2].clamp(-7, 7) + 1, off[..., ::2], off[..., 1::2]
        up_off = up_off + FP32 * 8
        gated = gate * torch.sigmoid(1.702 * gate)
    value = gated * up
    return value, (STEEPEST * gate_off * (up.abs() + up_off) + gated.abs() * up_off
                   + 16 * FP32 * (value.abs() + gate_off * up.abs()))


def expect_within(got, value, off, what):
    worst = ((got.double() - value).abs() - off).max().item() if value.numel() else -1
    assert got.shape == value.shape and worst <= 0, f"{what}: {worst} over the bound"
