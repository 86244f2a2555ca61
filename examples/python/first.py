# SPDX-License-Identifier: Apache-2.0
"""The README's program: a tensor-parallel MLP whose two collectives run inside its two GEMMs.

    torchrun --nproc-per-node 4 examples/python/first.py
"""
# README begins
import tilelace
import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # "nccl" for CUDA tensors
rank, ranks = dist.get_rank(), dist.get_world_size()
x = torch.randn(250, 512)  # this rank's tokens
up, down = torch.randn(2048 // ranks, 512), torch.randn(512, 2048 // ranks)  # its parts of two weights
_, (h,) = tilelace.ag_gemm(x, up, activation="gelu")  # all-gather inside the product
y = tilelace.gemm_rs(h, down)  # product, reduce-scatter inside it
print(f"rank {rank}: {tuple(h.shape)} -> {tuple(y.shape)}")
# README ends
dist.destroy_process_group()
