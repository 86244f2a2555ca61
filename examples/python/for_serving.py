# SPDX-License-Identifier: Apache-2.0
"""For vLLM, SGLang and other servers: layers without autograd, any number of tokens, one warm-up.

    torchrun --nproc-per-node 2 examples/python/for_serving.py [--device cuda]
"""
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

import tilelace

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

    def can_run(self):
        """Once, at load time."""
        grain = 16 // self.weight.element_size()
        return self.weight.device.type == device and not any(s % grain for s in self.weight.shape)

    def __call__(self, x, out=None):
        return tilelace.gemm_ar(x, self.weight, self.bias, group, out=out)


torch.manual_seed(0)
w1, w2 = torch.randn(wide, hidden) / 8, torch.randn(hidden, wide) / 8
bias = torch.randn(hidden)
up = w1.chunk(ranks)[rank].to(device, dtype)
down = RowParallel(w2.chunk(ranks, 1)[rank].contiguous().to(device, dtype), bias.to(device, dtype))
assert down.can_run()

with torch.inference_mode():
    # Warm-up with the largest size: buffers are made here and not again.
    down(torch.zeros(max_tokens, wide // ranks, device=device, dtype=dtype))
    prepared = tilelace.plans(group, device)
    for tokens in (1, 7, 33, max_tokens):
        x = torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(tokens))
        y = down(F.silu(x.to(device, dtype) @ up.t()))
        expected = F.silu(x @ w1.t()) @ w2.t() + bias
        error = (y.float().cpu() - expected).norm() / expected.norm()
        # Operands, the hidden layer, partial sums and the result, each rounded to bf16.
        assert error < 5 * 2.0**-8, (tokens, error)
    assert tilelace.plans(group, device) == prepared
if rank == 0:
    print("ok:", prepared[0])
dist.destroy_process_group()
