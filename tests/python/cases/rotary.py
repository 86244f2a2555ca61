# SPDX-License-Identifier: Apache-2.0
"""The kernel that rotates queries and keys: on GPUs, and on CPU ranks by Triton's interpreter."""
import contextlib
import os
from unittest.mock import patch

import torch
from tilelace import _rotary

from .world import UNIT, case


@contextlib.contextmanager
def kernel_for(w):
    """What Triton makes of the kernel depends on this when the kernel is imported."""
    with patch.dict(os.environ, {} if w.cuda else {"TRITON_INTERPRET": "1"}):
        import tilelace._rotary_kernel  # noqa: F401

        yield


def rotated(x, cos, sin):
    """In fp64: the result, and the sum of its terms' magnitudes."""
    x, cos, sin = x.double(), cos.double().unsqueeze(1), sin.double().unsqueeze(1)
    half = x.shape[-1] // 2
    other = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + other * sin, (x * cos).abs() + (other * sin).abs()


@case(2, on=("cpu", "cuda"))
def rotation_rounds_once(w):
    """Heads of a wider row, as a product of q, k and v leaves them; what lies beside them stays."""
    for batch, heads, tokens, size, angles in ((1, 4, 7, 64, 1), (2, 3, 5, 128, 2), (3, 1, 2, 32, 1)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with kernel_for(w):
                y = w.randn(batch, tokens, heads * size + 8, dtype=dtype)
                x = y[..., :heads * size].view(batch, tokens, heads, size).transpose(1, 2)
                cos, sin = (w.randn(angles, tokens, size, dtype=dtype) for _ in range(2))
                (expected, terms), beside = rotated(x, cos, sin), y[..., heads * size:].clone()
                assert _rotary._can_rotate(x, cos, sin)
                _rotary.rotate(x, cos, sin)
                cut = 2 if dtype is torch.bfloat16 and not w.cuda else 1  # the interpreter does not round to bf16
                bound = cut * UNIT[dtype] * expected.abs() + 4 * 2.0**-24 * terms
                assert ((x.double() - expected).abs() <= bound).all() and torch.equal(y[..., heads * size:], beside)


@case(2, on=("cpu", "cuda"))
def what_the_kernel_cannot_take_is_left(w):
    x, angles = w.randn(1, 2, 4, 64), w.randn(1, 4, 64)
    assert _rotary._can_rotate(x, angles, angles.clone())
    odd = w.randn(1, 4, 65)[..., 1:]
    for q, cos, sin in ((x, odd, odd.clone()), (x, angles, angles.double()), (x, angles[:, :3], angles[:, :3]),
                        (x, angles.expand(3, 4, 64), angles.expand(3, 4, 64)), (w.randn(1, 2, 4, 48), angles, angles),
                        (w.randn(1, 2, 4, 96), w.randn(1, 4, 96), w.randn(1, 4, 96)),
                        (w.randn(1, 2, 4, 128)[..., ::2], angles, angles), (x[:, :1].expand(1, 2, 4, 64), angles, angles)):
        assert not _rotary._can_rotate(q, cos, sin), (q.shape, cos.shape)
