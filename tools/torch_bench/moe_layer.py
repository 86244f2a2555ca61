# SPDX-License-Identifier: Apache-2.0
"""A layer of experts in tensor parallelism beside NCCL and torch._grouped_mm, both in CUDA graphs.

python -m torch.distributed.run --standalone --nproc-per-node N tools/torch_bench/moe_layer.py
  [--models A,B] [--tokens A,B] [--seconds S] [--json FILE] [--commit ID]
Every rank has half (1 / N) of each expert's width, and its own tokens. Ours: ag_moe and moe_rs. Theirs:
all-gathers of tokens, ids and weights, a stable sort, rows by index, the gated product, silu(gate) * up,
the second product, weights, a sum in the order of slots, a reduce-scatter. Medians of graphs of one layer,
ways interleaved, the slowest rank counts; weights exceed L2. `q`: rows of tiles of 128 over real rows.
"""
import argparse
import json
import os
import time

os.environ.update(TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NCCL_NVLS_ENABLE="0", NVSHMEM_DISABLE_NVLS="1")

import torch
import torch.distributed as dist
import torch.nn.functional as F
from model_sizes import experts
from tilelace import moe

TIMED = ["mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3/64"]


class Layer:
    def __init__(self, sizes, m, kind):
        hidden, half, self.experts, self.top_k = sizes
        ranks, rank = dist.get_world_size(), dist.get_rank()
        g = torch.Generator("cuda").manual_seed(7 + rank)
        inner = 2 * half // ranks

        def draw(*size):
            return torch.randn(*size, generator=g, device="cuda").bfloat16() * size[-1] ** -0.5

        self.x = torch.randn(m // ranks, hidden, generator=g, device="cuda").bfloat16()
        logits = torch.rand(m // ranks, self.experts, generator=g, device="cuda")
        if kind == "zipf":
            logits = logits ** (torch.arange(self.experts, device="cuda") + 1).float().sqrt()
        self.ids = logits.topk(self.top_k, -1).indices
        if kind == "one":
            self.ids = torch.arange(self.top_k, device="cuda").expand_as(self.ids).contiguous()
        self.weights = torch.rand(m // ranks, self.top_k, generator=g, device="cuda")
        self.w13, self.w2 = draw(self.experts, 2 * inner, hidden), draw(self.experts, hidden, inner)
        self.ranks, self.m, self.hidden, self.inner = ranks, m, hidden, inner

    def ours(self):
        act, map = moe.ag_moe(self.x, self.ids, self.weights, self.w13, experts=self.experts)
        return moe.moe_rs(act, map, self.w2, experts=self.experts, top_k=self.top_k)

    def gathered(self, t):
        whole = t.new_empty(self.m, *t.shape[1:])
        dist.all_gather_into_tensor(whole, t)
        return whole

    def theirs(self):
        x, ids, weights = map(self.gathered, (self.x, self.ids, self.weights))
        flat = ids.flatten()
        order = flat.argsort(stable=True)
        ends = torch.searchsorted(flat[order], torch.arange(self.experts, device="cuda"), right=True).int()
        gate, up = torch._grouped_mm(x[order // self.top_k], self.w13.mT, offs=ends).chunk(2, -1)
        rows = torch._grouped_mm(F.silu(gate) * up, self.w2.mT, offs=ends)
        terms = torch.empty_like(rows)
        terms[order] = rows * weights.flatten()[order, None].to(rows.dtype)
        total = terms.view(self.m, self.top_k, -1).sum(1, dtype=torch.float32).to(rows.dtype)
        part = total.new_empty(self.m // self.ranks, self.hidden)
        dist.reduce_scatter_tensor(part, total)
        return part

    def padded(self):
        counts = torch.bincount(self.gathered(self.ids).flatten(), minlength=self.experts).float()
        return ((counts / 128).ceil() * 128).sum().item() / counts.sum().item()


def captured(fn):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fn()
    return graph, out


def largest(value):
    t = torch.tensor([value], device="cuda", dtype=torch.float64)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    return t.item()


def timed(graphs, seconds):
    samples = {name: [] for name in graphs}
    begin, more = time.monotonic(), True
    while more:
        for name, graph in graphs.items():
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            first.record()
            for _ in range(4):
                graph.replay()
            last.record()
            torch.cuda.synchronize()
            samples[name].append(largest(first.elapsed_time(last) * 250))
        more = largest(time.monotonic() - begin) < seconds or len(samples[name]) < 5
    return {name: sorted(s)[len(s) // 2] for name, s in samples.items()}


def row(model, m, kind, asked):
    layer = Layer(experts(model), m, kind)
    ours, theirs = captured(layer.ours), captured(layer.theirs)
    us = timed({"ours": ours[0], "nccl + _grouped_mm": theirs[0]}, asked.seconds)
    for graph, _ in (ours, theirs):
        graph.replay()
    torch.cuda.synchronize()
    error = ((ours[1].double() - theirs[1].double()).norm() / theirs[1].double().norm()).item()
    return {"schema": "tilelace.moe_layer/1", "model": model, "m": m, "routing": kind, "ranks": layer.ranks,
            "us": us, "ratio": us["nccl + _grouped_mm"] / us["ours"], "q": layer.padded(),
            "difference": error, "verified": error < 2.0**-6, "device": torch.cuda.get_device_name(),
            "torch": torch.__version__, "commit": asked.commit}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--models", type=lambda s: s.split(","), default=TIMED)
    parser.add_argument("--tokens", type=lambda s: [int(m) for m in s.split(",")], default=[8192])
    parser.add_argument("--routings", type=lambda s: s.split(","), default=["uniform"])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", default="")
    parser.add_argument("--commit", default=None)
    asked = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    with torch.no_grad():
        for model in asked.models:
            for m in asked.tokens:
                for kind in asked.routings:
                    found = row(model, m, kind, asked)
                    if dist.get_rank() == 0:
                        print(f"{model} m {m} {kind}: ours {found['us']['ours']:.0f}, theirs "
                              f"{found['us']['nccl + _grouped_mm']:.0f} us, {found['ratio']:.3f}x, q {found['q']:.3f}, "
                              f"difference {found['difference']:.5f}", flush=True)
                        if asked.json:
                            with open(asked.json, "a") as out:
                                out.write(json.dumps(found) + "\n")
                    torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
