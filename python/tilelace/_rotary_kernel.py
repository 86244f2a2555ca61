# SPDX-License-Identifier: Apache-2.0
"""The kernel of _rotary.py, in Triton."""
from __future__ import annotations

import triton
import triton.language as tl

# Strides count eights of elements. One kernel for all of them: a capture cannot compile another.
_ANY = ["heads", "tokens", "of_batch", "of_head", "of_token", "angles_of_batch", "angles_of_token"]


@triton.jit(do_not_specialize=_ANY)
def rotate_tokens(x, cos, sin, heads, tokens, of_batch, of_head, of_token,  # type: ignore[no-untyped-def]
                  angles_of_batch, angles_of_token, HALF: tl.constexpr):
    """A program rotates a token's heads: x1, x2 = x1 * cos1 - x2 * sin1, x2 * cos2 + x1 * sin2."""
    batch = (tl.program_id(0) // tokens).to(tl.int64)
    token = (tl.program_id(0) % tokens).to(tl.int64)
    low = tl.arange(0, HALF)
    at = (batch * angles_of_batch + token * angles_of_token) * 8 + low
    cos1 = tl.load(cos + at).to(tl.float32)
    cos2 = tl.load(cos + at + HALF).to(tl.float32)
    sin1 = tl.load(sin + at).to(tl.float32)
    sin2 = tl.load(sin + at + HALF).to(tl.float32)
    row = (batch * of_batch + token * of_token) * 8
    for _ in range(heads):
        to = x + row + low
        x1 = tl.load(to).to(tl.float32)
        x2 = tl.load(to + HALF).to(tl.float32)
        tl.store(to, (x1 * cos1 - x2 * sin1).to(x.dtype.element_ty))
        tl.store(to + HALF, (x2 * cos2 + x1 * sin2).to(x.dtype.element_ty))
        row += of_head.to(tl.int64) * 8
