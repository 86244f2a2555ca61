#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times torch._grouped_mm on one GPU at the rows of gpu_moe_bench: the same models, tokens and uniform
routing, in graphs, medians; activations rotate through more than L2. A JSON line each.

usage: grouped.py [--models NAME,...] [--m M,...] [--seconds S] [--json FILE]
"""
import argparse
import json
import statistics

import torch
from model_sizes import experts as sizes_of

BEYOND_L2 = 160 << 20


def median_us(calls, seconds):
    """Of a graph of these calls, each sample behind 40 ms of its own load."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(ms, guess):
        replays = max(1, round(ms * 1000 / guess / len(calls)))
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / replays / len(calls)

    guess = sample(1, 1000)
    samples = []
    for _ in range(max(3, round(seconds / 0.05))):
        sample(40, guess)
        samples.append(sample(8, guess))
    return statistics.median(samples)


def time_row(name, up, m, seconds):
    hidden, inner, experts, top_k = sizes_of(name)
    n, k = (2 * inner, hidden) if up else (hidden, inner)
    rows = m * top_k
    ids = torch.rand(m, experts, device="cuda").argsort(dim=1)[:, :top_k].flatten()
    ends = torch.bincount(ids, minlength=experts).cumsum(0).to(torch.int32)
    copies = max(1, min(8, BEYOND_L2 // (rows * k * 2) + 1))
    x = [torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    w = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    calls = [lambda a=a: torch._grouped_mm(a, w, offs=ends) for a in x]
    while len(calls) < 4:
        calls += calls
    us = median_us(calls, seconds)
    return {"schema": "tilelace.moe_bench/1", "model": name, "side": "up" if up else "down", "m": m,
            "form": "torch._grouped_mm", "us": us, "tflops": 2 * rows * n * k / us / 1e6,
            "device": torch.cuda.get_device_name(), "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="mixtral-8x7b,qwen3-30b-a3b,qwen3-235b-a22b,deepseek-v3/64")
    parser.add_argument("--m", default="1,64,512,2048,8192")
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--json")
    o = parser.parse_args()
    torch.manual_seed(1)
    for name in o.models.split(","):
        for m in map(int, o.m.split(",")):
            for up in (True, False):
                row = time_row(name, up, m, o.seconds)
                print(f"{name:16} {row['side']:4} m {m:5} torch {row['us']:9.1f} us {row['tflops']:4.0f} TF", flush=True)
                if o.json:
                    with open(o.json, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
