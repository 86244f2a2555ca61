# SPDX-License-Identifier: Apache-2.0
"""A product with its collective, in every way that is compared. Weights [n, k]; x [m, k]."""
import tilelace
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from timing import meet

OPS, SYMM = torch.ops.tilelace, torch.ops.symm_mem


class Ways:
    """Over the default group; `name` is how the ops know it."""

    def __init__(self):
        self.name = dist.group.WORLD.group_name
        self.ranks = dist.get_world_size()
        self._shared = {}

    def shared(self, rows, cols, like):
        """A buffer that peers reach, for products that torch then sums; every call's of this shape."""
        key = (rows, cols)
        if key not in self._shared:
            t = symm_mem.empty(rows, cols, dtype=like.dtype, device=like.device)
            symm_mem.rendezvous(t, self.name)
            self._shared[key] = t
        return self._shared[key]

    def result(self, rows, cols, like):
        """Where peers store their rows; every call's of this shape."""
        key = ("result", rows, cols)
        if key not in self._shared:
            self._shared[key] = tilelace.empty(rows, cols, dtype=like.dtype, device="cuda")
        return self._shared[key]

    def forget(self):
        """Behind a row, whose other tensors are gone: all memory is given back. Collective."""
        self._shared.clear()
        torch.cuda.synchronize()
        meet()
        tilelace.leave()
        torch.cuda.empty_cache()

    # x of this rank's rows; the result has all rows.
    def ag_tilelace(self, x, weight):
        return OPS.ag_gemm(x, [weight], None, self.name)[1][0]

    def ag_tilelace_swiglu(self, x, weight):
        return OPS.ag_gemm(x, list(weight.chunk(2)), None, self.name, activation="swiglu")[1][0]

    def ag_nccl(self, x, weight):
        whole = x.new_empty(x.shape[0] * self.ranks, x.shape[1])
        dist.all_gather_into_tensor(whole, x)
        return whole @ weight.t()

    def ag_symm_mem(self, x, weight):
        return SYMM.fused_all_gather_matmul(x, [weight.t()], 0, self.name, return_A=False)[1][0]

    # x of all rows and this rank's columns; the result has this rank's rows.
    def rs_tilelace(self, x, weight):
        return OPS.gemm_rs(x, weight, None, None, self.name)

    def rs_nccl(self, x, weight):
        partial = x @ weight.t()
        out = partial.new_empty(partial.shape[0] // self.ranks, partial.shape[1])
        dist.reduce_scatter_tensor(out, partial)
        return out

    def rs_symm_mem(self, x, weight):
        return SYMM.fused_matmul_reduce_scatter(x, weight.t(), "sum", 0, self.name)

    # The same; the result has all rows.
    def ar_tilelace(self, x, weight):
        return OPS.gemm_ar(x, weight, None, None, self.name)

    def ar_tilelace_out(self, x, weight):
        out = self.result(x.shape[0], weight.shape[0], x)
        OPS.gemm_ar_out(x, weight, None, None, self.name, out=out)
        return out

    def ar_nccl(self, x, weight):
        partial = x @ weight.t()
        dist.all_reduce(partial)
        return partial

    def ar_one_shot(self, x, weight):
        partial = self.shared(x.shape[0], weight.shape[0], x)
        torch.mm(x, weight.t(), out=partial)
        return SYMM.one_shot_all_reduce(partial, "sum", self.name)

    def ar_two_shot(self, x, weight):
        partial = self.shared(x.shape[0], weight.shape[0], x)
        torch.mm(x, weight.t(), out=partial)
        SYMM.two_shot_all_reduce_(partial, "sum", self.name)
        return partial
