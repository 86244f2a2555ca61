# SPDX-License-Identifier: Apache-2.0
"""For vLLM, SGLang and other servers: layers without autograd, any number of tokens, one warm-up.

    torchrun --nproc-per-node 2 examples/python/for_serving.py [--device cuda]
"""
import sys

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F

device = "cuda" if "cuda" in sys.argv else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(rank)
dtype = torch.bfloat16
hidden, wide, max_tokens = 64, 128, 64
group = dist.group.WORLD  # of a server: tp_group.device_group
tilelace.join(group, device=device, timeout=60)


class RowParallel:
    """The linear method of a row-parallel layer: weight [n, k / ranks], as checkpoints have it."""

    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias
        # Once, at load time; the log says why not.
        self.fused = tilelace.can_run("gemm_ar", weight, group)

    def __call__(self, x, out=None):
        # In a capture that no warm-up came before: no. The log says so.
        if self.fused and tilelace.should_run("gemm_ar", x, self.weight, group, bias=True):
            return tilelace.gemm_ar(x, self.weight, self.bias, group, out=out)
        y = F.linear(x, self.weight)
        dist.all_reduce(y, group=group)
        return y + self.bias


class Graphs:
    """A captured graph for each number of tokens, as servers keep them; without GPUs the call."""

    def __init__(self, fn, sizes):
        self.fn, self.graphs = fn, {}
        for tokens in sizes if device == "cuda" else ():
            x = torch.zeros(tokens, hidden, device=device, dtype=dtype)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = fn(x)
            self.graphs[tokens] = graph, x, y

    def __call__(self, x):
        if len(x) not in self.graphs:
            return self.fn(x)
        graph, place, y = self.graphs[len(x)]
        place.copy_(x)
        graph.replay()
        return y


torch.manual_seed(0)
w1, w2 = torch.randn(wide, hidden) / 8, torch.randn(hidden, wide) / 8
bias = torch.randn(hidden)
up = w1.chunk(ranks)[rank].to(device, dtype)
down = RowParallel(w2.chunk(ranks, 1)[rank].contiguous().to(device, dtype), bias.to(device, dtype))
assert down.fused

with torch.inference_mode():
    def mlp(x):
        return down(F.silu(x @ up.t()))

    # Warm-up with the largest size: buffers are made here and not again.
    mlp(torch.zeros(max_tokens, hidden, device=device, dtype=dtype))
    prepared = tilelace.plans(group, device)
    layer = Graphs(mlp, (1, 7, max_tokens))
    for tokens in (1, 7, 33, max_tokens, 7):
        x = torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(tokens))
        y = layer(x.to(device, dtype))
        expected = F.silu(x @ w1.t()) @ w2.t() + bias
        error = (y.float().cpu() - expected).norm() / expected.norm()
        # Operands, the hidden layer, partial sums and the result, each rounded to bf16.
        assert error < 5 * 2.0**-8, (tokens, error)
    assert tilelace.plans(group, device) == prepared
    # A layer of a type that no kernel takes goes the other way.
    wide_layer = RowParallel(w2.chunk(ranks, 1)[rank].double().to(device), bias.double().to(device))
    assert not wide_layer.fused
    part = torch.ones(3, wide // ranks, dtype=torch.float64, device=device)
    torch.testing.assert_close(
        wide_layer(part).cpu(), w2.double().sum(1).expand(3, hidden) + bias.double())
if rank == 0:
    print("ok:", prepared[0])
dist.destroy_process_group()
