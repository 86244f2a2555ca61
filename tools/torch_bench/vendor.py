# SPDX-License-Identifier: Apache-2.0
"""cuBLASLt and NCCL by their own functions, where torch has no door to what they do best: algorithms
that are searched, memory that is a window. The libraries are those that torch has loaded.
"""
import ctypes
import time
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

import torch
import torch.distributed as dist

# cublasLt.h, library_types.h
COMPUTE_32F, R_32F, R_16BF, TRANSA, OP_T, WORKSPACE = 68, 0, 14, 3, 1, 1
WORKSPACE_BYTES = 64 << 20
# nccl.h, driver_types.h
BFLOAT16, SUM, IN_PROGRESS, SYMMETRIC, ON_DEVICE = 9, 0, 7, 1, 2
REGISTER_SECONDS = 20


def check(status, what):
    if status != 0:
        raise RuntimeError(f"{what}: got status {status}, expected success")


def stream():
    return c_void_p(torch.cuda.current_stream().cuda_stream)


class Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int),
                ("waves", c_float), ("reserved", c_int * 4)]


class Blas:
    """out[m, n] = x[m, k] weight[n, k]^T of bf16 tensors, by each algorithm that cuBLASLt proposes."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcublasLt.so.13")
        self.handle = c_void_p()
        check(self.lib.cublasLtCreate(byref(self.handle)), "cublasLtCreate")
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def product(self, m, n, k, wanted):
        return BlasProduct(self, m, n, k, wanted)


class BlasProduct:
    def __init__(self, blas, m, n, k, wanted):
        self.blas, lib = blas, blas.lib
        self.desc = c_void_p()
        check(lib.cublasLtMatmulDescCreate(byref(self.desc), COMPUTE_32F, R_32F), "a product's description")
        check(lib.cublasLtMatmulDescSetAttribute(self.desc, TRANSA, byref(c_int(OP_T)), c_size_t(4)), "transposing")
        # Columns first, as cuBLAS sees it: out^T[n, m] = weight[n, k] x^T[k, m].
        self.weight, self.x, self.out = (self._layout(*shape) for shape in ((k, n), (k, m), (n, m)))
        preference = c_void_p()
        check(lib.cublasLtMatmulPreferenceCreate(byref(preference)), "a preference")
        check(lib.cublasLtMatmulPreferenceSetAttribute(
            preference, WORKSPACE, byref(c_size_t(WORKSPACE_BYTES)), c_size_t(8)), "a workspace")
        self.found, got = (Heuristic * wanted)(), c_int()
        status = self._heuristic(preference, wanted, got)
        lib.cublasLtMatmulPreferenceDestroy(preference)
        check(status, f"algorithms of m {m} n {n} k {k}")
        self.count = sum(f.state == 0 for f in self.found[:got.value])

    def _layout(self, rows, cols):
        layout = c_void_p()
        check(self.blas.lib.cublasLtMatrixLayoutCreate(
            byref(layout), R_16BF, c_uint64(rows), c_uint64(cols), c_int64(rows)), "a layout")
        return layout

    def _heuristic(self, preference, wanted, got):
        return self.blas.lib.cublasLtMatmulAlgoGetHeuristic(
            self.blas.handle, self.desc, self.weight, self.x, self.out, self.out, preference, wanted,
            self.found, byref(got))

    def run(self, algorithm, x, weight, out):
        one, zero = c_float(1), c_float(0)
        at = [c_void_p(t.data_ptr()) for t in (weight, x, out)]
        check(self.blas.lib.cublasLtMatmul(
            self.blas.handle, self.desc, byref(one), at[0], self.weight, at[1], self.x, byref(zero),
            at[2], self.out, at[2], self.out, byref(self.found[algorithm]),
            c_void_p(self.blas.workspace.data_ptr()), c_size_t(WORKSPACE_BYTES), stream()), "cublasLtMatmul")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class _Memory:
    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False),
                                         "version": 3}


class Nccl:
    """A communicator of its own, and one range of memory that it knows: a window where it can be."""

    def __init__(self, size):
        self.lib = ctypes.CDLL("libnccl.so.2")
        mine = UniqueId()
        if dist.get_rank() == 0:
            check(self.lib.ncclGetUniqueId(byref(mine)), "ncclGetUniqueId")
        told = torch.frombuffer(bytearray(bytes(mine)), dtype=torch.uint8)
        dist.broadcast(told, 0)
        ctypes.memmove(byref(mine), told.numpy().tobytes(), 128)
        self.comm = c_void_p()
        self.lib.ncclCommInitRank.argtypes = [c_void_p, c_int, UniqueId, c_int]
        check(self.lib.ncclCommInitRank(byref(self.comm), dist.get_world_size(), mine, dist.get_rank()),
              "ncclCommInitRank")
        self.window, address = c_void_p(), c_void_p()
        check(self.lib.ncclMemAlloc(byref(address), c_size_t(size)), "ncclMemAlloc")
        check(self.lib.ncclCommWindowRegister(self.comm, address, c_size_t(size), byref(self.window),
                                              SYMMETRIC), "ncclCommWindowRegister")
        self._settle()
        self.memory = torch.as_tensor(_Memory(address.value, size), device="cuda")
        self.name = "nccl_window" if self._is_window() else "nccl_buffer"

    def _settle(self):
        """NCCL 2.28 returns success while a thread of its own still registers."""
        state, begin = c_int(IN_PROGRESS), time.monotonic()
        while state.value == IN_PROGRESS:
            check(self.lib.ncclCommGetAsyncError(self.comm, byref(state)), "ncclCommGetAsyncError")
            if time.monotonic() - begin > REGISTER_SECONDS:
                raise RuntimeError(f"ncclCommWindowRegister: got no end in {REGISTER_SECONDS} s")
            time.sleep(1e-3)
        check(state.value, "ncclCommWindowRegister")

    def _is_window(self):
        """Where it makes none NCCL says success, and returns nothing on the device."""
        kind = (c_int * 32)()
        cudart = ctypes.CDLL("libcudart.so.13")
        return bool(self.window) and cudart.cudaPointerGetAttributes(kind, self.window) == 0 and kind[0] == ON_DEVICE

    def tensors(self, *shapes):
        """Of bf16, at the same places on all ranks; those of the last call are overwritten."""
        at, made = 0, []
        for rows, cols in shapes:
            made.append(self.memory[at:at + 2 * rows * cols].view(torch.bfloat16).view(rows, cols))
            at += -(-2 * rows * cols // 4096) * 4096
        return made

    def all_gather(self, whole, part):
        check(self.lib.ncclAllGather(c_void_p(part.data_ptr()), c_void_p(whole.data_ptr()),
                                     c_size_t(part.numel()), BFLOAT16, self.comm, stream()), "ncclAllGather")

    def reduce_scatter(self, part, whole):
        check(self.lib.ncclReduceScatter(c_void_p(whole.data_ptr()), c_void_p(part.data_ptr()),
                                         c_size_t(part.numel()), BFLOAT16, SUM, self.comm, stream()),
              "ncclReduceScatter")

    def all_reduce(self, out, partial):
        check(self.lib.ncclAllReduce(c_void_p(partial.data_ptr()), c_void_p(out.data_ptr()),
                                     c_size_t(out.numel()), BFLOAT16, SUM, self.comm, stream()), "ncclAllReduce")
