# SPDX-License-Identifier: Apache-2.0
"""What servers run behind a product with a gate: one kernel, as vLLM's silu_and_mul."""
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _gate(both, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(both + row * 2 * n + cols, mask=cols < n).to(tl.float32)
    up = tl.load(both + row * 2 * n + n + cols, mask=cols < n).to(tl.float32)
    tl.store(out + row * n + cols, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=cols < n)


def gated(both, out):
    rows, n = out.shape
    _gate[(rows, triton.cdiv(n, BLOCK))](both, out, n, BLOCK=BLOCK)
