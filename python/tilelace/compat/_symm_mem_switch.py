# SPDX-License-Identifier: Apache-2.0
"""torch.ops.symm_mem's fused ops, made by ours where ours can, while that is switched on."""
from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _fits, ops
from .._errors import usage
from .._log import tell_once


class Calls(NamedTuple):
    """How often torch.ops.symm_mem's fused ops were called since `install`.

    `fused`: made by ours. `torchs`: left to torch's own kernels.
    """

    fused: int
    torchs: int


_counts = dict.fromkeys(Calls._fields, 0)


def calls() -> Calls:
    """How many calls were ours and how many torch's since `install`. Local. Errors: none."""
    return Calls(**_counts)


# --- whether a call is ours; the answer is the same on every rank, as calls that match are


def _why_not(op: str, a: Tensor, weights: Sequence[Tensor], group_name: str, gathered: bool) -> str:
    ranks = ops.ranks_of(group_name)
    for b in weights:
        if b.dim() != 2 or b.dtype != a.dtype or b.shape[0] != a.shape[-1]:
            return (f"A and B: got [..., {a.shape[-1]}] of {a.dtype} and {list(b.shape)} of "
                    f"{b.dtype}, expected [..., k] and [k, n] with the same k and the same type")
        why = _fits.why_not(op, a.dtype, a.device, (b.shape[1], b.shape[0]), ranks)
        if why:
            return why
    why = _fits.why_not_join(group_name, a.device)
    listed = [b.t() for b in weights]
    if why or not a.is_cuda or _fits.should_run(op, a, listed, group_name, return_gathered=gathered):
        return why
    return "no call before the capture had this many rows"


def _why_not_gather(op: str, a: Tensor, weights: Sequence[Tensor], dim: int, group_name: str, *,
                    return_A: bool = True) -> str:
    if a.is_cuda and dim in (a.dim() - 1, -1):
        return f"gather_dim: got the last dimension ({dim}), expected another one"
    return _why_not(op, a, weights, group_name, return_A)


def _why_not_scatter(
    op: str, a: Tensor, b: Tensor, reduce_op: str, dim: int, group_name: str
) -> str:
    if reduce_op not in ("sum", "avg"):
        return f'reduce_op: got "{reduce_op}", expected sum or avg'
    return _why_not(op, a, [b], group_name, False)


def _scaled(*_: Any, **__: Any) -> str:
    return "dtype: got scaled operands (fp8), expected bfloat16, float16 or float32"


_WHY_NOT: dict[str, Callable[..., str]] = {
    "fused_all_gather_matmul": _why_not_gather,
    "fused_matmul_reduce_scatter": _why_not_scatter,
    "fused_all_gather_scaled_matmul": _scaled,
    "fused_scaled_matmul_reduce_scatter": _scaled,
}


def _kernel(name: str, op: str, ours: Callable[..., Any], torchs: Any) -> Callable[..., Any]:
    """`name`: of torch's op; `op`: of ours behind it. `torchs`: torch's kernel, None: there is none."""
    why_not = _WHY_NOT[name]

    def either(keys: Any, *args: Any, **kwargs: Any) -> Any:
        why = why_not(op, *args, **kwargs)
        if not why:
            _counts["fused"] += 1
            return ours(*args, **kwargs)
        if torchs is None:
            raise usage(f"symm_mem.{name}: {why} (torch has no kernel for CPU tensors)")
        tell_once(logging.WARNING, f"symm_mem.{name}: {why}; torch's own kernel runs")
        _counts["torchs"] += 1
        return torchs.call_boxed(keys, *args, **kwargs)

    return either


# The library whose end takes our kernels away, while they are there.
_library: list[torch.library.Library] = []


def install(ours: dict[str, tuple[str, Callable[..., Any]]]) -> None:
    """`ours`: for each of torch's ops the name of ours and the function that calls it."""
    import torch.distributed._symmetric_memory

    _counts.update(dict.fromkeys(_counts, 0))
    if _library:
        return
    if not hasattr(torch.library, "get_kernel"):
        raise usage(f"tilelace.compat.symm_mem.install: torch: got {torch.__version__}, which has "
                    "no torch.library.get_kernel, expected 2.10 or later")
    library = torch.library.Library("symm_mem", "IMPL")
    for name, (op, function) in ours.items():
        for key in ("CPU", "CUDA"):
            torchs = None
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"symm_mem::{name}", key):
                torchs = torch.library.get_kernel(f"symm_mem::{name}", key)
            library.impl(name, _kernel(name, op, function, torchs), key, with_keyset=True,
                         allow_override=True)
    _library.append(library)


def uninstall() -> None:
    """The ops are torch's own again. Local; nothing happens the second time. Errors: none."""
    if _library:
        _library.pop()._destroy()
