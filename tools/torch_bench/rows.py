# SPDX-License-Identifier: Apache-2.0
"""Rows of the dense tables: one op, one layer, one m."""
import math
from datetime import datetime, timezone

import tilelace
import torch
import torch.distributed as dist
from model_sizes import mlp
from timing import GPUS, make_way, relative_error, short
from ways import Ways

# hidden, intermediate
MODELS = {"llama70b": mlp("llama2-70b"), "qwen32b": mlp("qwen3-32b"), "gpt3": mlp("gpt3-175b")}
TOKENS = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
LAYERS = {"ag_gemm": "up", "gemm_rs": "down", "gemm_ar": "down"}
OTHERS = {"ag_gemm": ("symm_mem",), "gemm_rs": ("symm_mem",), "gemm_ar": ("one_shot", "two_shot")}
# Ways of ours. tilelace_out: into memory that peers reach.
OURS = {"ag_gemm": ("tilelace",), "gemm_rs": ("tilelace",), "gemm_ar": ("tilelace", "tilelace_out")}
PREFIX = {"ag_gemm": "ag", "gemm_rs": "rs", "gemm_ar": "ar"}
SET_BYTES = 160 << 20  # of operands that rotate: three times the L2
MOST_ONE_SHOT = 1024  # rows: above, every rank reads far too much
UNIT = 2.0**-8
DEVICE = "cuda" if GPUS else "cpu"


def drawn(rows, cols, scale, seed):
    """The same on every rank."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    t = torch.randn(rows, cols, generator=generator, device=DEVICE, dtype=torch.float32)
    return (t * scale).bfloat16()


class Row:
    """Operands of one row, its rotating copies, and the result in fp64."""

    def __init__(self, op, m, n, k):
        self.op, self.m, self.n, self.k = op, m, n, k
        rank, ranks = dist.get_rank(), dist.get_world_size()
        x, weight = drawn(m, k, 1.0, 1), drawn(n, k, k**-0.5, 2)
        if op == "ag_gemm":
            weight = weight.chunk(ranks)[rank].contiguous()
            self.y64 = x.double() @ weight.double().t()
            x = x.chunk(ranks)[rank].contiguous()
        else:
            rows = x.chunk(ranks)[rank] if op == "gemm_rs" else x
            self.y64 = rows.double() @ weight.double().t()
            x, weight = (t.chunk(ranks, 1)[rank].contiguous() for t in (x, weight))
        count = max(1, math.ceil(SET_BYTES / (2 * (x.numel() + weight.numel()))))
        self.sets = [(x, weight)] + [(x.clone(), weight.clone()) for _ in range(count - 1)]

    def ways(self, ways, notes):
        op = PREFIX[self.op]
        made = {}
        for name in (*OURS[self.op], "nccl", *OTHERS[self.op]):
            if name == "one_shot" and self.m > MOST_ONE_SHOT:
                continue
            fn = getattr(ways, f"{op}_{name}")
            made[name] = make_way(name, lambda i, fn=fn: fn(*self.sets[i]), len(self.sets), notes)
        made.update(self._alone(notes))
        return {name: way for name, way in made.items() if way is not None}

    def _alone(self, notes):
        """The product without its collective, and the collective without its product."""
        ranks = dist.get_world_size()
        if self.op == "ag_gemm":
            whole = [x.repeat(ranks, 1) for x, _ in self.sets]

            def collective(i):
                dist.all_gather_into_tensor(whole[i], self.sets[i][0])
        else:
            whole = [x for x, _ in self.sets]
            sums = torch.randn(self.m, self.n, device="cuda").bfloat16()
            part = torch.empty(self.m // ranks, self.n, device="cuda", dtype=torch.bfloat16)

            def collective(i):
                if self.op == "gemm_rs":
                    dist.reduce_scatter_tensor(part, sums)
                else:
                    dist.all_reduce(sums, op=dist.ReduceOp.AVG)  # stays finite
        sets = len(self.sets)
        return {
            "gemm": make_way("gemm", lambda i: whole[i] @ self.sets[i][1].t(), sets, notes),
            "collective": make_way("collective", collective, 1, notes),
        }


def bound(op, name):
    """Of the relative Frobenius error: roundings of the result, and of partials that are summed."""
    if op == "ag_gemm":
        return 0.52 * UNIT
    if name in OURS[op]:
        return 0.72 * UNIT
    return 0.72 * UNIT * dist.get_world_size()  # a ring or tree that rounds at each hop


def record_of(op, model, row, graph_us, eager_us, errors, spread, notes):
    ours = {n: graph_us[n] for n in OURS[op] if n in graph_us}
    best = min(ours.values(), default=None)
    unfused, gemm = graph_us.get("nccl"), graph_us.get("gemm")
    ect = best - gemm if best is not None and gemm is not None else None
    efficiency = None
    if ect is not None and unfused is not None and unfused > gemm:
        efficiency = 1 - ect / (unfused - gemm)
    plans = tilelace.plans()
    wrong = [n for n, e in errors.items() if not e <= bound(op, n)]
    return {
        "schema": "tilelace.bench/1", "op": op, "model": model, "layer": LAYERS[op],
        "ranks": dist.get_world_size(), "m": row.m, "n": row.n, "k": row.k, "dtype": "bf16",
        "backend": "cuda", "mode": "graph", "gemm_us": gemm,
        "collective_us": graph_us.get("collective"), "unfused_us": unfused, "medium_us": None,
        "fused_us": best, "path": None, "ours": ours, "roof_us": None, "ect_us": ect, "efficiency": efficiency,
        "speedup": unfused / best if best and unfused else None,
        "peers": {n: graph_us.get(n, eager_us.get(n)) for n in OTHERS[op]}, "eager_us": eager_us, "notes": notes,
        "plan": plans[0] if plans else None, "transport": None, "error": max((errors[n] for n in OURS[op] if n in errors), default=None),
        "errors": errors, "wrong": wrong, "exact": None, "verified": not wrong and best is not None,
        "iterations": None, "spread": spread, "device": torch.cuda.get_device_name(),
        "driver": None, "torch": torch.__version__,
        "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def shown(us):
    return "       -" if us is None else f"{us:8.1f}"


def print_row(r):
    peers = list(r["peers"].values())
    eager = r["eager_us"]
    known = [us for us in (r["unfused_us"], *peers) if us is not None]
    ratio = f"{min(known) / r['fused_us']:5.2f}x" if known and r["fused_us"] else "    -"
    figures = [r["gemm_us"], r["unfused_us"], *peers, *r["ours"].values()]
    print(f"{r['model']:>9} {r['m']:>6} " + " ".join(shown(u) for u in figures) + f" {ratio}  eager"
          + " ".join(shown(u) for u in eager.values())
          + (f"  WRONG {r['wrong']}" if r["wrong"] else "")
          + (f"  {short(r['notes'])}" if r["notes"] else ""), flush=True)


def measure(asked, timer):
    op, ways = asked.what, Ways()
    names = (*OURS[op], "nccl", *OTHERS[op])
    if dist.get_rank() == 0:
        print(f"{op}, {dist.get_world_size()} ranks, us in graphs: gemm, nccl, {', '.join(OTHERS[op])}"
              f", {', '.join(OURS[op])}; best of the others / best of ours; eager: {', '.join(names)}", flush=True)
    for model in asked.models:
        hidden, wide = MODELS[model]
        n, k = (wide, hidden) if op == "ag_gemm" else (hidden, wide)
        for m in asked.tokens or TOKENS:
            tilelace.join(device="cuda", timeout=10)
            notes = {}
            row = Row(op, m, n, k)
            made = row.ways(ways, notes)
            notes.update({w.name: w.why for w in made.values() if w.why})
            graph_us, spread = timer.graphs(list(made.values()))
            eager_us = timer.eager([made[n] for n in names if n in made])
            for way in made.values():
                if way.graph is not None:
                    way.graph.replay()
            tilelace.synchronize()
            errors = {n: relative_error(made[n].result, row.y64) for n in names if n in made}
            record = record_of(op, model, row, graph_us, eager_us, errors, spread, notes)
            record["iterations"] = timer.rounds
            if dist.get_rank() == 0:
                print_row(record)
            yield record
            del row, made
            ways.forget()
