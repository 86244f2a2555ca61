# SPDX-License-Identifier: Apache-2.0
"""Layers of Qwen2.5-72B's shapes, whole, in one CUDA graph: prefill of one sequence of m tokens, and
decode of m sequences with a filled cache. The same code for every way but its two kinds of products
("swiglu": and the activation, in the product's epilogue).
"""
import math
from datetime import datetime, timezone

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rows import UNIT, drawn, shown
from timing import Way, make_way, relative_error, short
from ways import Ways

HIDDEN, WIDE, HEADS, KV_HEADS, HEAD, LAYERS, CONTEXT = 8192, 29568, 64, 8, 128, 4, 1024
PREFILL, DECODE = (4096, 8192), (16, 64)
# Of one layer: norm, qkv, weights of attention, attention, partial, sum, residual; norm, gate and up,
# silu, times, partial, sum, residual. And a ring or tree rounds each of the two sums at each hop.
ROUNDINGS = 14
# Names: with the rows split between products (ag_gemm, gemm_rs), or on every rank (gemm_ar).
SPLIT = {"tilelace, split": ("ag_tilelace", "rs_tilelace"), "nccl, split": ("ag_nccl", "rs_nccl"),
         "async TP": ("ag_symm_mem", "rs_symm_mem"),
         "tilelace, split, swiglu": ("ag_tilelace", "rs_tilelace", "ag_tilelace_swiglu")}
WHOLE = {"tilelace": "ar_tilelace", "tilelace, out": "ar_tilelace_out", "nccl": "ar_nccl",
         "one_shot": "ar_one_shot", "two_shot": "ar_two_shot"}


class Layer:
    """This rank's heads and columns; `ranks` 1: all of them."""

    def __init__(self, number, rank, ranks):
        q, kv, wide = HEADS * HEAD // ranks, KV_HEADS * HEAD // ranks, WIDE // ranks

        def part(rows, cols, seed, dim, size):
            whole = drawn(rows, cols, cols**-0.5, 100 * number + seed)
            return whole.narrow(dim, rank * size, size).contiguous()

        self.qkv = torch.cat((part(HEADS * HEAD, HIDDEN, 1, 0, q),
                              part(KV_HEADS * HEAD, HIDDEN, 2, 0, kv),
                              part(KV_HEADS * HEAD, HIDDEN, 3, 0, kv)))
        self.out = part(HIDDEN, HEADS * HEAD, 4, 1, q)
        self.gate_up = torch.cat((part(WIDE, HIDDEN, 5, 0, wide), part(WIDE, HIDDEN, 6, 0, wide)))
        self.down = part(HIDDEN, WIDE, 7, 1, wide)
        self.sizes = (q, kv, kv)
        self.cache = None

    def fill_cache(self, number, m, rank, ranks):
        heads = KV_HEADS // ranks
        self.cache = []
        for seed in (8, 9):
            whole = drawn(m * KV_HEADS * CONTEXT, HEAD, 1.0, 100 * number + seed)
            whole = whole.view(m, KV_HEADS, CONTEXT, HEAD)
            self.cache.append(whole.narrow(1, rank * heads, heads).contiguous())

    def attend(self, qkv):
        """Causal within one sequence; with a cache, a token of each of m sequences on it."""
        q, k, v = (t.unflatten(-1, (-1, HEAD)) for t in qkv.split(self.sizes, -1))
        if self.cache is None:
            q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
            if q.dtype == torch.float32:  # all heads at once would fill the device with scores
                group = q.shape[1] // k.shape[1]
                y = torch.cat([F.scaled_dot_product_attention(
                    q[:, i * group:(i + 1) * group], k[:, i:i + 1], v[:, i:i + 1], is_causal=True,
                    enable_gqa=True) for i in range(k.shape[1])], 1)
            else:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return y[0].transpose(0, 1).flatten(1)
        # The new token's key and value take the last place.
        keys, values = self.cache
        keys[:, :, -1], values[:, :, -1] = k, v
        y = F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)
        return y.flatten(1)

    def forward(self, x, column, row, gated=None):
        norm = (HIDDEN,)
        x = x + row(self.attend(column(F.rms_norm(x, norm), self.qkv)), self.out)
        wide = F.rms_norm(x, norm)
        if gated is not None:
            return x + row(gated(wide, self.gate_up), self.down)
        gate, up = column(wide, self.gate_up).chunk(2, -1)
        return x + row(F.silu(gate) * up, self.down)


def forward(layers, x, *products):
    for layer in layers:
        x = layer.forward(x, *products)
    return x


def plain(x, weight):
    return x @ weight.t()


def reference(x, m, decode):
    """One rank's, whole weights, products in fp32 of the same bf16 weights; a layer at a time."""
    x = x.float()
    for number in range(LAYERS):
        layer = Layer(number, 0, 1)
        for name in ("qkv", "out", "gate_up", "down"):
            setattr(layer, name, getattr(layer, name).float())
        if decode:
            layer.fill_cache(number, m, 0, 1)
            layer.cache = [t.float() for t in layer.cache]
        x = layer.forward(x, plain, plain)
        del layer
        torch.cuda.empty_cache()
    return x.double()


class Stack:
    def __init__(self, m, decode):
        self.rank, self.ranks, self.m = dist.get_rank(), dist.get_world_size(), m
        self.x = drawn(m, HIDDEN, 1.0, 7)
        self.expected = reference(self.x, m, decode)
        self.layers = [Layer(i, self.rank, self.ranks) for i in range(LAYERS)]
        for i, layer in enumerate(self.layers if decode else ()):
            layer.fill_cache(i, m, self.rank, self.ranks)
        self.mine = self.x.chunk(self.ranks)[self.rank].contiguous()
        self.expected_mine = self.expected.chunk(self.ranks)[self.rank]

    def ways(self, ways, decode, notes):
        made = {}
        for name, products in SPLIT.items():
            made[name] = self._way(name, self.mine, [getattr(ways, p) for p in products], notes)
        for name, row in WHOLE.items():
            if decode or name.startswith(("tilelace", "nccl")):
                made[name] = self._way(name, self.x, (plain, getattr(ways, row)), notes)
        return {n: w for n, w in made.items() if w is not None}

    def _way(self, name, x, products, notes) -> Way:
        return make_way(name, lambda _: forward(self.layers, x, *products), 1, notes,
                        graph_us=1.0)  # one stack a graph

    def errors(self, made):
        return {n: relative_error(w.result, self.expected_mine if n in SPLIT else self.expected)
                for n, w in made.items()}


def record_of(m, decode, times, spread, errors, notes, rounds):
    ours = {n: us for n, us in times.items() if n.startswith("tilelace")}
    nccl = {n: us for n, us in times.items() if n.startswith("nccl")}
    best, base = min(ours.values(), default=None), min(nccl.values(), default=None)
    # Independent errors add up as squares; norms keep a layer from making them larger.
    bound = 0.52 * UNIT * math.sqrt((ROUNDINGS + 2 * dist.get_world_size()) * LAYERS)
    wrong = [n for n, e in errors.items() if not e <= bound]
    return {
        "schema": "tilelace.bench/1", "op": "stack", "model": "qwen2.5-72b",
        "layer": f"{LAYERS} layers, {'decode' if decode else 'prefill'}",
        "ranks": dist.get_world_size(), "m": m, "n": HIDDEN, "k": HIDDEN, "dtype": "bf16",
        "backend": "cuda", "mode": "graph", "gemm_us": None, "collective_us": None,
        "unfused_us": base, "medium_us": None, "fused_us": best,
        "path": min(ours, key=ours.get) if ours else None, "roof_us": None, "ect_us": None,
        "efficiency": None, "speedup": base / best if best and base else None, "peers": times,
        "plan": "; ".join(tilelace.plans()), "transport": None, "notes": notes,
        "error": max((errors[n] for n in ours if n in errors), default=None), "errors": errors,
        "wrong": wrong, "exact": None, "verified": not wrong and best is not None,
        "iterations": rounds, "spread": spread, "device": torch.cuda.get_device_name(),
        "driver": None, "torch": torch.__version__,
        "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def measure(asked, timer):
    ranks = dist.get_world_size()
    if KV_HEADS % ranks or math.gcd(WIDE // ranks, 8) != 8:
        raise SystemExit(f"stack: got {ranks} ranks, expected 1, 2 or 4: heads and columns divide")
    ways = Ways()
    for m in asked.tokens or (*PREFILL, *DECODE):
        decode, notes = m <= max(DECODE), {}
        tilelace.join(device="cuda", timeout=10)
        stack = Stack(m, decode)
        made = stack.ways(ways, decode, notes)
        notes.update({w.name: w.why for w in made.values() if w.why})
        times, spread = timer.graphs(list(made.values()))
        for way in made.values():
            if way.graph is not None:
                way.graph.replay()
        tilelace.synchronize()
        record = record_of(m, decode, times, spread, stack.errors(made), notes, timer.rounds)
        if dist.get_rank() == 0:
            print(f"stack, {ranks} ranks, {record['layer']}, m {m}: "
                  + ", ".join(f"{n}{shown(us)}" for n, us in times.items())
                  + f" us; over nccl {record['speedup'] or 0:.3f}x; spread {spread:.3f}; errors "
                  + " ".join(f"{e:.4f}" for e in record["errors"].values())
                  + (f"; WRONG {record['wrong']}" if record["wrong"] else "")
                  + (f"; {short(notes)}" if notes else ""), flush=True)
        yield record
        del stack, made
        ways.forget()
