# SPDX-License-Identifier: Apache-2.0
"""oneDNN beside torch's own: on processors without AVX-512 both set up tables by code of the same
name, and whose code runs is a matter of the order in which libraries are linked."""
import os
import subprocess
import sys

PROGRAM = """
import torch
import torch.distributed as dist
import tilelace
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
for dtype in (torch.float32, torch.bfloat16):
    x, w = torch.ones(4, 8, dtype=dtype), torch.ones(16, 8, dtype=dtype)
    assert torch.equal(x @ w.t(), tilelace.gemm_ar(x, w, None, dist.group.WORLD)), dtype
"""


def test_products_without_avx512():
    environment = {**os.environ, "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
