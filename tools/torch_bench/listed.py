# SPDX-License-Identifier: Apache-2.0
"""Rows of a list: ours beside the best that NCCL, cuBLASLt and PyTorch's symmetric memory make.

Ours: torch.ops.tilelace; gemm_ar also into memory of tilelace.empty. Peers, each with the fastest
product of torch.mm and cuBLASLt's algorithms, several weights as one: `nccl` (in place where it
gathers), `nccl_window` (on memory that NCCL knows), symm_mem's fused ops, `one_shot`, `two_shot`
(the product writes into symmetric memory). Where the ranks do not divide m, peers of ag_gemm and gemm_rs
get it rounded up (`peer_m`), ours does not. Of swiglu ours is in the product, the peers' a kernel.
"""
import math
import os
import statistics
import threading
import time
from datetime import datetime, timezone

import tilelace
import torch
import torch.distributed as dist
from products import Products, find_gate
from row_list import mixed, read
from rows import DEVICE, UNIT, bound, drawn
from timing import GPUS, each_largest, largest, make_way, meet, relative_error, settle, short
from vendor import Nccl
from ways import OPS, SYMM

if GPUS:
    import torch.distributed._symmetric_memory as symm_mem

OURS = ("tilelace", "tilelace_out")
OPS_IN_TURN = ("ag_gemm", "gemm_rs", "gemm_ar")
SET_BYTES = 160 << 20  # of operands that take turns: three times the L2
MOST_ONE_SHOT = 1024
GRAPH_FLOPS_PER_US, GRAPH_US, MOST_CALLS = 600e6, 10e3, 16
FACTOR = 1.2  # a peer that is so far behind the best peer has two samples
CHECKED = 768  # rows of a result, from where on not all are checked
STUCK_SECONDS = 75


def rank_and_ranks():
    return dist.get_rank(), dist.get_world_size()


def parts_of(m, ranks):
    return [m // ranks + (r < m % ranks) for r in range(ranks)]


def some_rows(t):
    """Those that are checked: all, or about so many, the first and the last among them."""
    count = t.shape[0]
    if count <= CHECKED:
        return t
    step = -(-count // CHECKED)
    return torch.cat((t[::step], t[-1:]))


class Row:
    """Operands of one row and what is expected of them, in fp64, on some rows."""

    def __init__(self, asked, most_calls):
        rank, ranks = rank_and_ranks()
        self.asked, self.op, self.m = asked, asked.op, asked.m
        self.peer_m = asked.m if asked.op == "gemm_ar" else -(-asked.m // ranks) * ranks
        self.sizes = parts_of(asked.m, ranks)
        gathers = asked.op == "ag_gemm"
        self.n = sum(asked.n) // (ranks if gathers else 1)  # of a rank
        self.k = asked.k if gathers else asked.k // ranks
        self.widths = [n // ranks for n in asked.n] if gathers else list(asked.n)
        us = 2.0 * self.m * self.n * self.k / GRAPH_FLOPS_PER_US
        self.calls = next((c for c in (16, 8) if c <= most_calls and us * c <= GRAPH_US), min(4, most_calls))
        whole = drawn(self.peer_m, asked.k, 1.0, 1)
        weights = [drawn(n, asked.k, asked.k**-0.5, 2 + i) for i, n in enumerate(asked.n)]
        if gathers:
            weights = [w.chunk(ranks)[rank] for w in weights]
        weight = torch.cat(weights)
        begin = sum(self.sizes[:rank])
        self.own = slice(begin, begin + self.sizes[rank])
        half = self.peer_m // ranks
        self.peer_own = slice(rank * half, rank * half + half)
        self.expected, self.peer_expected = self._expected(whole, weight)
        x = whole
        if not gathers:
            x, weight = (t.narrow(1, rank * self.k, self.k).contiguous() for t in (whole, weight))
        self.whole = x  # of ag_gemm gathered; else this rank's columns
        count = math.ceil(SET_BYTES / (2 * (x.numel() + weight.numel())))
        self.weights = [weight.clone() for _ in range(max(1, min(self.calls, count)))]
        mine, theirs = (x[self.own], x[self.peer_own]) if gathers else (x[:self.m], x)
        self.xs = [mine.clone() for _ in self.weights]
        self.peer_xs = self.xs if mine.shape == theirs.shape else [theirs.clone() for _ in self.weights]

    def _expected(self, whole, weight):
        """Of ours, and of peers, which have more rows where they must."""
        def product(rows):
            y = some_rows(rows).double() @ weight.double().t()
            if self.asked.swiglu:
                gate, up = y.chunk(2, 1)
                y = torch.nn.functional.silu(gate) * up
            return y
        if self.op == "gemm_rs":
            ours = product(whole[self.own])
            return ours, ours if self.own == self.peer_own else product(whole[self.peer_own])
        ours = product(whole[:self.m])
        return ours, ours

    def error(self, name, result):
        if isinstance(result, (tuple, list)):
            result = torch.cat(list(result), 1)
        ours = name in OURS
        if self.op == "ag_gemm":
            result = result[:self.m]
        return relative_error(some_rows(result), self.expected if ours else self.peer_expected)

    def bound(self, name):
        if self.asked.swiglu and name not in OURS:
            return 1.2 * UNIT  # the product is rounded, too
        return bound(self.op, name)


class Memory:
    """What peers reach, made once for the largest row: it takes time, and ranks do it together."""

    def __init__(self, rows, without, notes):
        ranks = dist.get_world_size()
        sums = [2 * sum(r.n) * (r.m + ranks) for r in rows if r.op != "ag_gemm"]
        gathered = [2 * r.k * (r.m + ranks) for r in rows if r.op == "ag_gemm"]
        shared = [2 * sum(r.n) * r.m for r in rows if r.op == "gemm_ar"]
        self.nccl = self.symm = self.out = None
        self.group = dist.group.WORLD.group_name
        if GPUS and "nccl_window" not in without:
            self.nccl = self._made("nccl_window", notes, lambda: Nccl(2 * max(sums + gathered) + (1 << 20)))
        if GPUS and shared:
            self.symm = self._made("symm_mem", notes, lambda: self._symmetric(max(shared)))
        if shared:
            self.out = tilelace.empty(max(shared) // 2, dtype=torch.bfloat16, device=DEVICE)

    @staticmethod
    def _made(name, notes, make):
        made, why = None, ""
        try:
            made = make()
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        if largest(1.0 if why else 0.0):
            notes[name] = why or "failed on a peer"
            return None
        return made

    def _symmetric(self, size):
        t = symm_mem.empty(size // 2, dtype=torch.bfloat16, device="cuda")
        symm_mem.rendezvous(t, self.group)
        return t


class Ways:
    """{name: function of the i-th operands} of a row."""

    def __init__(self, row, memory, product, gate):
        self.row, self.memory, self.product, self.gate = row, memory, product, gate
        self.name, (self.rank, self.ranks) = memory.group, rank_and_ranks()
        self.out = row.whole.new_empty(row.peer_m, row.n)
        self.gated = row.whole.new_empty(row.peer_m, row.n // 2) if row.asked.swiglu else None

    def all(self):
        made = {"tilelace": getattr(self, f"{self.row.op}_ours")}
        if self.row.op == "gemm_ar":
            made["tilelace_out"] = self.into_shared()
        made["nccl"] = getattr(self, f"{self.row.op}_nccl")(None)
        if self.memory.nccl is not None:
            made[self.memory.nccl.name] = getattr(self, f"{self.row.op}_nccl")(self.memory.nccl)
        if GPUS and self.row.op != "gemm_ar":
            made["symm_mem"] = getattr(self, f"{self.row.op}_symm_mem")
        if self.memory.symm is not None and self.row.op == "gemm_ar":
            if self.row.m <= MOST_ONE_SHOT:
                made["one_shot"] = self.shots(SYMM.one_shot_all_reduce)
            made["two_shot"] = self.shots(SYMM.two_shot_all_reduce_)
        return made

    def activated(self, y):
        if self.gated is None:
            return y
        self.gate(y, self.gated)
        return self.gated

    def turn(self, i):
        return self.row.xs[i], self.row.weights[i]

    # Ours
    def ag_gemm_ours(self, i):
        x, weight = self.turn(i)
        return OPS.ag_gemm(x, list(weight.split(self.row.widths)), None, self.name, sizes=self.row.sizes,
                           activation="swiglu" if self.row.asked.swiglu else "none")[1]

    def gemm_rs_ours(self, i):
        return OPS.gemm_rs(*self.turn(i), None, None, self.name)

    def gemm_ar_ours(self, i):
        return OPS.gemm_ar(*self.turn(i), None, None, self.name)

    def into_shared(self):
        out = self.memory.out[:self.row.m * self.row.n].view(self.row.m, self.row.n)

        def call(i):
            OPS.gemm_ar_out(*self.turn(i), None, None, self.name, out=out)
            return out
        return call

    # NCCL: by torch on any memory, or by itself on memory that it knows
    def ag_gemm_nccl(self, nccl):
        whole = torch.empty_like(self.row.whole)
        if nccl is not None:
            whole, = nccl.tensors(whole.shape)
        part = whole[self.row.peer_own]
        whole.fill_(math.nan)
        part.copy_(self.row.peer_xs[0])
        gather = nccl.all_gather if nccl is not None else dist.all_gather_into_tensor

        def call(i):
            gather(whole, part)
            self.product.run(whole, self.row.weights[i], self.out)
            return self.activated(self.out)
        return call

    def gemm_rs_nccl(self, nccl):
        shapes = (self.row.peer_m, self.row.n), (self.row.peer_m // self.ranks, self.row.n)
        partial, out = [self.out.new_empty(s) for s in shapes] if nccl is None else nccl.tensors(*shapes)
        scatter = nccl.reduce_scatter if nccl is not None else dist.reduce_scatter_tensor

        def call(i):
            self.product.run(self.row.peer_xs[i], self.row.weights[i], partial)
            scatter(out, partial)
            return out
        return call

    def gemm_ar_nccl(self, nccl):
        shape = (self.row.m, self.row.n)
        partial, out = (self.out, self.out) if nccl is None else nccl.tensors(shape, shape)

        def call(i):
            self.product.run(*self.turn(i), partial)
            dist.all_reduce(partial) if nccl is None else nccl.all_reduce(out, partial)
            return out
        return call

    # PyTorch's symmetric memory
    def ag_gemm_symm_mem(self, i):
        return self.activated(SYMM.fused_all_gather_matmul(
            self.row.peer_xs[i], [self.row.weights[i].t()], 0, self.name, return_A=False)[1][0])

    def gemm_rs_symm_mem(self, i):
        return SYMM.fused_matmul_reduce_scatter(self.row.peer_xs[i], self.row.weights[i].t(), "sum", 0, self.name)

    def shots(self, all_reduce):
        partial = self.memory.symm[:self.row.m * self.row.n].view(self.row.m, self.row.n)

        def call(i):
            self.product.run(*self.turn(i), partial)
            return all_reduce(partial, "sum", self.name)
        return call


class Watch:
    """Ends the process where nothing has happened for long: the next one goes on behind this row."""

    def __init__(self):
        self.seen = time.monotonic()
        threading.Thread(target=self._look, daemon=True).start()

    def tick(self):
        self.seen = time.monotonic()

    def _look(self):
        while time.monotonic() - self.seen < STUCK_SECONDS:
            time.sleep(1)
        print(f"torch_bench: rank {os.environ.get('RANK')}: got nothing for {STUCK_SECONDS} s, "
              "expected a way's time", flush=True)
        os._exit(4)


class Bench:
    def __init__(self, asked, timer, rows):
        self.asked, self.timer, self.notes, self.watch = asked, timer, {}, Watch()
        tilelace.join(device=DEVICE, timeout=20)
        for op in OPS_IN_TURN:
            self._prepare([r for r in rows if r.op == op])
        self.watch.tick()
        self.memory = Memory(rows, asked.without, self.notes)
        self.watch.tick()
        self.products = Products(timer, "cublasLt" not in asked.without, self.notes)
        self.gate = find_gate(self.notes) if any(r.swiglu for r in rows) else None

    @staticmethod
    def _prepare(rows):
        """The largest call comes first: staging that grows later stays beside the graphs of before."""
        if not rows:
            return
        (rank, ranks), name = rank_and_ranks(), dist.group.WORLD.group_name
        largest_row = max(rows, key=lambda r: r.m * (r.k if r.op == "ag_gemm" else r.n[0]))
        m, n, k, sizes = largest_row.m, largest_row.n[0], largest_row.k, parts_of(largest_row.m, ranks)
        if largest_row.op == "ag_gemm":
            shapes = (sizes[rank], k), (n // ranks, k)
        else:
            shapes = (m, k // ranks), (n, k // ranks)
        x, weight = (torch.zeros(shape, dtype=torch.bfloat16, device=DEVICE) for shape in shapes)
        if largest_row.op == "ag_gemm":
            OPS.ag_gemm(x, [weight], None, name, sizes=sizes)
        else:
            getattr(OPS, largest_row.op)(x, weight, None, None, name)
        tilelace.synchronize()

    def row(self, asked):
        self.watch.tick()
        row, notes = Row(asked, self.asked.calls), {}
        xs = [row.whole] if asked.op == "ag_gemm" else row.peer_xs
        product = self.products.best(xs, row.weights, row.calls)
        self.watch.tick()
        made = {}
        for name, fn in Ways(row, self.memory, product, self.gate).all().items():
            if name in self.asked.without:
                continue
            way = make_way(name, fn, len(row.weights), notes, calls=row.calls)
            if way is not None:
                made[name] = way
            if way is not None and way.why:
                notes[name] = "eager: " + way.why
        settle()
        samples = self.timer.race(list(made.values()), OURS, FACTOR)
        self.watch.tick()
        errors = {}
        for name, way in made.items():
            for t in way.result if isinstance(way.result, (tuple, list)) else [way.result]:
                t.fill_(math.nan)
            way.replay()
            settle()
            errors[name] = row.error(name, way.result)
        tilelace.synchronize()
        return self._record(row, product, samples, errors, notes)

    def _record(self, row, product, samples, errors, notes):
        names, asked = list(samples), row.asked
        took = dict(zip(names, each_largest([statistics.median(samples[n]) for n in names])))
        spreads = dict(zip(names, each_largest([max(samples[n]) / min(samples[n]) for n in names])))
        ours = {n: us for n, us in took.items() if n in OURS}
        peers = {n: us for n, us in took.items() if n not in OURS}
        best = min(ours.values(), default=None)
        unfused = min((us for n, us in peers.items() if n.startswith("nccl")), default=None)
        wrong = [n for n, e in errors.items() if not e <= row.bound(n)]
        return {
            "schema": "tilelace.bench/1", "op": asked.op, "model": asked.model, "layer": asked.layer,
            "ranks": dist.get_world_size(), "m": asked.m, "n": sum(asked.n), "k": asked.k, "dtype": "bf16",
            "weights": list(asked.n), "activation": "swiglu" if asked.swiglu else "none",
            "backend": DEVICE, "mode": "graph" if GPUS else "eager", "calls": row.calls, "peer_m": row.peer_m,
            "gemm_us": product.us, "product": product.name, "mm_us": product.mm_us,
            "collective_us": None, "unfused_us": unfused, "beside_us": None, "medium_us": None,
            "fused_us": best, "ours": ours, "peers": peers, "path": None, "transport": None, "plan": None,
            "roof_us": None, "ect_us": None, "efficiency": None,
            "speedup": unfused / best if best and unfused else None,
            "samples": {n: len(samples[n]) for n in names}, "iterations": self.timer.rounds,
            "spread": max((spreads[n] for n in ours), default=None), "spreads": spreads,
            "error": max((errors[n] for n in ours), default=None), "errors": errors, "wrong": wrong,
            "exact": None, "verified": not wrong and "tilelace" in ours, "notes": self.notes | notes, "of_row": notes,
            "tuning": os.path.basename(os.environ.get("TILELACE_TUNING", "")) or None,
            "device": torch.cuda.get_device_name() if GPUS else "cpu", "driver": None, "torch": torch.__version__,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if GPUS else None,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def print_row(r, seconds):
    best = min(r["peers"].values(), default=None)
    ratio = f"{best / r['fused_us']:5.2f}x" if best and r["fused_us"] else "    -"
    times = " ".join(f"{n} {us:.1f}" for n, us in (r["ours"] | r["peers"]).items())
    print(f"{r['op']} {r['model']}.{r['layer']} m {r['m']}: {ratio}  {times}  ({r['product']} {r['gemm_us'] or 0:.1f};"
          f" {seconds:.1f} s)" + (f"  WRONG {r['wrong']}" if r["wrong"] else "")
          + (f"  {short(r['of_row'])}" if r["of_row"] else ""), flush=True)


class Begun:
    """Which rows an earlier run of the same file began: done, or the end of it."""

    def __init__(self, path):
        self.path = f"{path}.begun" if path not in ("", "-") else None
        self.keys = set()
        if self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.keys = set(file.read().splitlines())

    def add(self, key):
        if self.path and dist.get_rank() == 0:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(key + "\n")


def rows_to_do(asked, begun):
    rows, ranks = [row for path in asked.rows for row in mixed(read(path))], dist.get_world_size()
    for row in rows:
        if any(size % ranks for size in (row.n if row.op == "ag_gemm" else (row.k,))):
            raise SystemExit(f"torch_bench: {row.key}: got {ranks} ranks, expected a number that divides its "
                             + ("n" if row.op == "ag_gemm" else "k"))
    if asked.tokens:
        rows = [row for row in rows if row.m in asked.tokens]
    return [row for row in dict.fromkeys(rows) if row.key not in begun.keys]


def measure(asked, timer):
    begin, begun = asked.began, Begun(asked.json)
    rows = rows_to_do(asked, begun)
    meet()  # before one writes what another reads
    if not rows:
        print("torch_bench: done, got no row that was not begun before", flush=True)
        return
    bench = Bench(asked, timer, rows)
    lead = dist.get_rank() == 0
    if lead:
        print(f"{len(rows)} rows, {len(begun.keys)} were begun before; ready after {time.monotonic() - begin:.1f} s"
              + (f"; {short(bench.notes)}" if bench.notes else ""), flush=True)
    for number, row in enumerate(rows):
        start = time.monotonic()
        if asked.seconds and largest(start - begin) > asked.seconds:
            if lead:
                print(f"{len(rows) - number} of {len(rows)} rows left out, {asked.seconds:.0f} s are over: "
                      + "; ".join(r.key for r in rows[number:]), flush=True)
            break
        begun.add(row.key)
        record = bench.row(row)
        if lead:
            print_row(record, time.monotonic() - start)
        del record["of_row"]
        yield record
        if GPUS and number % 8 == 7:
            torch.cuda.empty_cache()
    bench.watch.seen = math.inf
    if lead:
        print(f"torch_bench: done after {time.monotonic() - begin:.1f} s", flush=True)
