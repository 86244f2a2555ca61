# SPDX-License-Identifier: Apache-2.0
"""For users of torch.ops.symm_mem: the same calls, and what they could not do.

    torchrun --nproc-per-node 2 examples/python/from_symm_mem.py
"""
import torch
import torch.distributed as dist

# Was: symm_mem.enable_symm_mem_for_group(name); torch.ops.symm_mem.fused_all_gather_matmul(...)
from tilelace.compat import symm_mem

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
name = dist.group.WORLD.group_name
torch.manual_seed(0)
tokens, hidden, wide = 12, 32, 64
x = torch.randn(tokens, hidden)
w1 = torch.randn(hidden, wide).chunk(ranks, 1)[rank].contiguous()  # [k, n], as symm_mem takes it
w2 = torch.randn(wide, hidden).chunk(ranks, 0)[rank].contiguous()

_, (h,) = symm_mem.fused_all_gather_matmul(x.chunk(ranks)[rank], [w1], 0, name, return_A=False)
y = symm_mem.fused_matmul_reduce_scatter(h.relu(), w2, "sum", 0, name)

expected = (x @ w1).relu() @ w2
dist.all_reduce(expected)
torch.testing.assert_close(y, expected.chunk(ranks)[rank])

# Sizes that the ranks do not divide: the first ranks get one row more.
odd = symm_mem.fused_matmul_reduce_scatter(h[:7], w2, "sum", 0, name)
assert len(odd) == (7 + ranks - 1 - rank) // ranks
# Gradients.
w2.requires_grad_()
symm_mem.fused_matmul_reduce_scatter(h, w2, "sum", 0, name).sum().backward()
torch.testing.assert_close(w2.grad, h.t() @ torch.ones(tokens, hidden))
# GEMM + all-reduce, for decoding.
z = symm_mem.fused_matmul_all_reduce(h.relu(), w2.detach(), "sum", name)
torch.testing.assert_close(z, expected)
if rank == 0:
    print("ok")
dist.destroy_process_group()
