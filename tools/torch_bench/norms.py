# SPDX-License-Identifier: Apache-2.0
"""all_reduce_norm beside an all_reduce and a norm that torch.compile makes: of partial sums alone
(`norms`), and behind the two products of a decode step that end in a sum (`decode`).

`apart`: our all_reduce, then the norm. `nccl`: NCCL's in place (an average, which stays finite), then
the norm. `decode`: a step is two products, each with its sum and norm, weights of their own.
"""
import os
import statistics
import time
from datetime import datetime, timezone

# Kernels of a line each: processes that compile beside take longer to begin.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F
from listed import Watch
from model_sizes import mlp
from rows import DEVICE, UNIT, drawn
from timing import GPUS, largest, make_way, meet, relative_error, settle, short
from ways import OPS, Ways

COLUMNS = (4096, 5120, 8192)
TOKENS = (1, 4, 7, 16, 33, 64, 256, 1000, 1024, 4096)
DECODED = (1, 2, 3, 4, 8, 16, 32, 64)
# hidden, then k of the products whose results are summed
STEPS = {short: (mlp(name)[0], *mlp(name)) for short, name in (("llama8b", "llama3.1-8b"), ("llama70b", "llama2-70b"))}
QUANTS = ("none", "token")
EPS, CALLS, SECONDS = 1e-6, 20, 140
LOAD_US, SAMPLE_US = 3e3, 5e3
E4M3 = torch.float8_e4m3fn
# Of the relative Frobenius error: roundings of sum, residual and norm; of e4m3.
BOUNDS = {"none": 1.5 * UNIT, "token": 0.05}


def normed(total, residual, weight):
    h = total + residual
    return F.rms_norm(h, h.shape[-1:], weight, EPS), h


def quantised(total, residual, weight):
    h = total + residual
    wide = h.float()
    v = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight.float()
    scales = (v.abs().amax(-1, keepdim=True) / 448).clamp(min=2.0**-126)
    return (v * scales.reciprocal()).clamp(-448, 448).to(E4M3), h, scales


def compiled(quant, n, notes):
    """With m as it comes, but 1, of which torch makes another. Where it cannot: as it stands."""
    fn = quantised if quant == "token" else normed
    if not GPUS:
        return fn
    try:
        made = torch.compile(fn, fullgraph=True)
        for m in (64, 1):
            rows = [drawn(m, n, 1.0, seed) for seed in (1, 2)]
            if m > 1:
                for t in rows:
                    torch._dynamo.mark_dynamic(t, 0)
            made(*rows, drawn(1, n, 1.0, 3)[0])
        wrong = ""
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    if largest(1.0 if wrong else 0.0) > 0:
        notes["compile"] = wrong or "another rank cannot"
        return fn
    return made


def nccl_sum(t):
    dist.all_reduce(t, op=dist.ReduceOp.AVG if GPUS else dist.ReduceOp.SUM)
    return t


def norm64(h, weight):
    h = h.double()
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS) * weight.double()


def value_of(result):
    """Of a norm, or of what is quantised with its scales behind it."""
    first, _, *scales = result
    return first.double() * scales[0] if scales else first


class Sums:
    """Partial sums of one size, as every rank has them, and their norms."""

    def __init__(self, m, n, quant, norm):
        self.m, self.n, self.quant, self.norm = m, n, quant, norm
        parts = [drawn(m, n, 1.0, 10 + r) for r in range(dist.get_world_size())]
        self.x, self.residual = parts[dist.get_rank()], drawn(m, n, 1.0, 1)
        self.weight = drawn(1, n, 1.0, 2)[0]
        self.y64 = norm64(sum(p.double() for p in parts) + self.residual.double(), self.weight)
        self.name = dist.group.WORLD.group_name
        self.total, self.mean = torch.empty_like(self.x), self.x.clone()
        self.out = torch.empty_like(self.x)
        made = OPS.all_reduce_norm(*(t.to("meta") for t in (self.x, self.weight)), None, None,
                                   self.name, quant=quant)
        self.results = [None if t is None else torch.empty_like(t, device=DEVICE) for t in made]

    def fused(self, _):
        normed, _, q, scales = self.results
        OPS.all_reduce_norm_out(self.x, self.weight, self.residual, None, self.name, eps=EPS,
                                quant=self.quant, normed=normed, out=self.out, quantised=q,
                                scales=scales)
        return (q, self.out, scales) if self.quant == "token" else (normed, self.out)

    def apart(self, _):
        OPS.all_reduce_out(self.x, self.name, out=self.total)
        return self.norm(self.total, self.residual, self.weight)

    def nccl(self, _):
        return self.norm(nccl_sum(self.mean), self.residual, self.weight)

    def ways(self, notes):
        names = {"tilelace": self.fused, "apart": self.apart, "nccl": self.nccl}
        return made_ways(names, notes)


class Step:
    """Two products, each with its sum over ranks, the residual and its norm, of m sequences."""

    def __init__(self, m, n, ks, norm):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.norm, self.all, self.residual = norm, Ways(), drawn(m, n, 1.0, 1)
        self.parts = [(drawn(m, k // ranks, 1.0, 100 * rank + k), drawn(n, k // ranks, k**-0.5, k + rank),
                       drawn(1, n, 1.0, 3)[0]) for k in ks]
        self.y64 = self._expected()

    def _expected(self):
        h = self.residual.double()
        for x, weight, scale in self.parts:
            total = x.double() @ weight.double().t()
            dist.all_reduce(total)
            h = h + total
            y = norm64(h, scale)
        return y

    def _run(self, sum_and_norm):
        h = self.residual
        for x, weight, scale in self.parts:
            y, h = sum_and_norm(x, weight, h, scale)
        return y, h

    def ways(self, notes):
        name, norm, ways = self.all.name, self.norm, self.all

        def fused(x, weight, h, scale):
            return OPS.all_reduce_norm(x @ weight.t(), scale, h, None, name, eps=EPS)[:2]

        sums = {"gemm_ar": ways.ar_tilelace, "nccl": ways.ar_nccl}
        if GPUS:
            sums["gemm_ar_out"] = ways.ar_tilelace_out
        steps = {"mm": fused} | {
            key: lambda x, weight, h, scale, fn=fn: norm(fn(x, weight), h, scale)
            for key, fn in sums.items()}
        return made_ways({key: lambda _, fn=fn: self._run(fn) for key, fn in steps.items()}, notes)


def made_ways(functions, notes):
    made = {name: make_way(name, fn, 1, notes, calls=CALLS) for name, fn in functions.items()}
    made = {name: way for name, way in made.items() if way is not None}
    notes.update({name: way.why for name, way in made.items() if way.why})
    return made


def times_of(made, timer):
    """{name: us} of the slowest rank, medians of rounds in turns."""
    samples = {name: [] for name in made}
    for _ in range(timer.rounds):
        for name, way in made.items():
            samples[name].append(timer.look(way, LOAD_US, SAMPLE_US))
    return {name: round(largest(statistics.median(s)), 2) for name, s in samples.items()}


def errors_of(made, y64, quant):
    """Not of NCCL's average, which `norms` has (`quant`)."""
    for way in made.values():
        way.replay()
    settle()
    tilelace.synchronize()
    return {name: relative_error(value_of(way.result), y64) for name, way in made.items()
            if not (name == "nccl" and quant is not None)}


def record_of(op, size, us, errors, bound, notes, timer):
    wrong = [name for name, e in errors.items() if not e <= bound]
    others = [t for name, t in us.items() if name != OURS[op]]
    ratio = round(min(others) / us[OURS[op]], 3) if others and OURS[op] in us else None
    return {
        "schema": "tilelace.norms/1", "op": op, "ranks": dist.get_world_size(), **size, "dtype": "bf16",
        "mode": "graph", "calls": CALLS, "us": us, "ratio": ratio, "errors": errors, "wrong": wrong,
        "verified": not wrong and OURS[op] in us, "notes": notes, "iterations": timer.rounds,
        "plan": "; ".join(tilelace.plans()),
        "device": torch.cuda.get_device_name() if GPUS else "cpu", "torch": torch.__version__,
        "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


OURS = {"norms": "tilelace", "decode": "mm"}
COLUMN_NAMES = {"norms": ("tilelace", "apart", "nccl"), "decode": ("mm", "gemm_ar", "gemm_ar_out", "nccl")}


def say(text):
    if dist.get_rank() == 0:
        print(text, flush=True)


def head(op):
    what = {"norms": "     n     m  quant", "decode": "   model     m"}[op]
    say(f"{op}, {dist.get_world_size()} ranks, us a {'call' if op == 'norms' else 'step'} in graphs of "
        f"{CALLS}, the slowest rank; ratio: the best other / {OURS[op]}")
    say(what + "".join(f"{name:>12}" for name in COLUMN_NAMES[op]) + "   ratio")


def show(op, record):
    first = (f"{record['n']:6} {record['m']:5} {record['quant']:>6}" if op == "norms"
             else f"{record['model']:>8} {record['m']:5}")
    figures = "".join(f"{record['us'][n]:12.2f}" if n in record["us"] else f"{'-':>12}"
                      for n in COLUMN_NAMES[op])
    say(first + figures + (f"{record['ratio']:8.2f}" if record["ratio"] else "       -")
        + (f"  WRONG {record['wrong']}" if record["wrong"] else "")
        + (f"  {short(record['notes'])[:30]}" if record["notes"] else ""))


def cases(op, asked):
    """(size, what makes its tensors, the bound of errors), sizes of one n together."""
    if op == "norms":
        for n in COLUMNS:
            yield n, [({"m": m, "n": n, "quant": q}, q, lambda norms, m=m, n=n, q=q: Sums(m, n, q, norms[q]))
                      for q in QUANTS for m in asked.tokens or TOKENS]
        return
    for model, (n, *ks) in STEPS.items():
        yield n, [({"model": model, "m": m, "n": n, "k": ks}, None,
                   lambda norms, m=m, n=n, ks=ks: Step(m, n, ks, norms["none"]))
                  for m in asked.tokens or DECODED]


def measure(asked, timer):
    op, left, watch = asked.what, [], Watch()
    end = asked.began + (asked.seconds or SECONDS)
    tilelace.join(device=DEVICE, timeout=20)
    head(op)
    for n, sizes in cases(op, asked):
        notes = {}
        if GPUS:
            torch._dynamo.reset()  # n would become one that changes
        norms = {q: compiled(q, n, notes) for q in (QUANTS if op == "norms" else QUANTS[:1])}
        for size, quant, make in sizes:
            watch.tick()
            if largest(time.monotonic() - end) > 0:
                left.append(" ".join(f"{key} {value}" for key, value in size.items() if key != "k"))
                continue
            row, why = make(norms), dict(notes)
            made = row.ways(why)
            us = times_of(made, timer)
            bound = BOUNDS[quant or "none"]
            record = record_of(op, size, us, errors_of(made, row.y64, quant), bound, why, timer)
            show(op, record)
            yield record
            del row, made
    meet()
    if left:
        say(f"torch_bench: {len(left)} rows left out behind {asked.seconds or SECONDS:.0f} s: {left[0]} ...")
