# SPDX-License-Identifier: Apache-2.0
"""For users of torch.ops.symm_mem: the same calls, and what they could not do.

    torchrun --nproc-per-node 2 examples/python/from_symm_mem.py [cuda]
"""
import sys

import torch
import torch.distributed as dist

# Was: symm_mem.enable_symm_mem_for_group(name); torch.ops.symm_mem.fused_all_gather_matmul(...)
from tilelace.compat import symm_mem

device = "cuda" if "cuda" in sys.argv else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(rank)
dtype = torch.bfloat16 if device == "cuda" else torch.float32
name = dist.group.WORLD.group_name
torch.manual_seed(0)
tokens, hidden, wide = 12, 32, 64
x = torch.randn(tokens, hidden).to(device, dtype)
w1, w2 = (torch.randn(hidden, wide) / 8).to(device, dtype), (torch.randn(wide, hidden) / 8).to(device, dtype)
w1 = w1.chunk(ranks, 1)[rank].contiguous()  # [k, n], as symm_mem takes it
w2 = w2.chunk(ranks, 0)[rank].contiguous()


def expect_close(ours, theirs):
    """Some roundings to bf16 of values of about 1, or fp32's."""
    loose = {"rtol": 2.0**-6, "atol": 2.0**-5} if device == "cuda" else {}
    torch.testing.assert_close(ours, theirs, **loose)


_, (h,) = symm_mem.fused_all_gather_matmul(x.chunk(ranks)[rank], [w1], 0, name, return_A=False)
y = symm_mem.fused_matmul_reduce_scatter(h.relu(), w2, "sum", 0, name)

expected = (x @ w1).relu() @ w2
dist.all_reduce(expected)
expect_close(y, expected.chunk(ranks)[rank])

# Sizes that the ranks do not divide: the first ranks get one row more.
odd = symm_mem.fused_matmul_reduce_scatter(h[:7], w2, "sum", 0, name)
assert len(odd) == (7 + ranks - 1 - rank) // ranks
# Gradients.
w2.requires_grad_()
symm_mem.fused_matmul_reduce_scatter(h, w2, "sum", 0, name).sum().backward()
expect_close(w2.grad, h.t() @ torch.ones(tokens, hidden, device=device, dtype=dtype))
# GEMM + all-reduce, for decoding.
z = symm_mem.fused_matmul_all_reduce(h.relu(), w2.detach(), "sum", name)
expect_close(z, expected)
if rank == 0:
    print("ok")
dist.destroy_process_group()
