# SPDX-License-Identifier: Apache-2.0
"""What an eager call keeps the host busy with: through torch's dispatcher, and in C++ without torch."""
import re
import subprocess
import sys
import time
from datetime import datetime, timezone

import tilelace
import torch
import torch.distributed as dist
from rows import drawn
from timing import largest, meet

OPS = torch.ops.tilelace
CALLS, ROUNDS = 40, 300  # what the launch queue has room for; the fastest round counts
ROWS = (("gemm_ar", 16), ("gemm_rs", 16), ("ag_gemm", 16), ("ag_gemm", 8192))
N, K = 2048, 1024


def host_us(fn):
    """The best of many rounds, of the fastest rank and of the slowest."""
    best = float("inf")
    for _ in range(CALLS):  # what a first look would time is not the call
        fn()
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        meet()
        start = time.perf_counter()
        for _ in range(CALLS):
            fn()
        best = min(best, (time.perf_counter() - start) / CALLS * 1e6)
    tilelace.synchronize()
    return [round(-largest(-best), 1), round(largest(best), 1)]


def forms(op, m, ranks):
    """The call in the forms that users have; sizes are one rank's."""
    name = dist.group.WORLD.group_name
    if op == "ag_gemm":
        x, weight = drawn(m // ranks, K, 1.0, 1), drawn(N // ranks, K, 1.0, 2)
        return (lambda: OPS.ag_gemm(x, [weight], None, name),
                lambda: tilelace.ag_gemm(x, weight))
    x, weight = drawn(m, K // ranks, 1.0, 1), drawn(N, K // ranks, 1.0, 2)
    raw, function = getattr(OPS, op), getattr(tilelace, op)
    return lambda: raw(x, weight, None, None, name), lambda: function(x, weight)


def in_cpp(op, m, ranks):
    """`tilelace bench`'s figure, in processes without torch; None: it printed none."""
    command = [sys.executable, "-m", "tilelace", "bench", op, "--backend", "cuda", "--tp", str(ranks),
               "--m", str(m), "--n", str(N), "--k", str(K), "--no-check"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"Host time of an eager call of fused: ([0-9.]+)", done.stdout)
    return float(found[1]) if found else None


def measure(asked, timer):
    ranks = dist.get_world_size()
    tilelace.join(device="cuda", timeout=20)
    records = []
    x, weight = drawn(16, K, 1.0, 1), drawn(N, K, 1.0, 2)
    mm = host_us(lambda: torch.mm(x, weight.t()))
    for op, m in ROWS:
        raw, function = forms(op, m, ranks)
        peers = {"torch.ops": host_us(raw), "tilelace": host_us(function)}
        with torch.inference_mode(False):
            raw, function = forms(op, m, ranks)
            peers |= {"torch.ops, grad mode": host_us(raw), "tilelace, grad mode": host_us(function)}
        records.append((op, m, peers))
    tilelace.leave()
    for op, m, peers in records:
        meet()
        cpp = in_cpp(op, m, ranks) if dist.get_rank() == 0 else None
        if dist.get_rank() == 0:
            print(f"{op}, {ranks} ranks, m {m}: host us a call, C++ {cpp} on the slowest rank; "
                  "on the fastest and the slowest: "
                  + ", ".join(f"{n} {a} {b}" for n, (a, b) in (peers | {"torch.mm": mm}).items()),
                  flush=True)
        yield {
            "schema": "tilelace.host/1", "op": op, "ranks": ranks, "m": m, "n": N, "k": K, "dtype": "bf16",
            "cpp_us": cpp, "fastest_and_slowest_rank_us": peers | {"torch.mm": mm},
            "dispatcher_adds_us": None if cpp is None else round(peers["torch.ops"][1] - cpp, 1),
            "verified": cpp is not None or dist.get_rank() != 0,
            "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
