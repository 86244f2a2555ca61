# SPDX-License-Identifier: Apache-2.0
"""can_run: whether a layer can use an op, asked once when it is built. should_run: whether a call can.

For servers with a fallback. The logger "tilelace" gets each reason for a False once.
"""
from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from . import _groups
from ._dtypes import DTYPES
from ._errors import Error, usage
from ._groups import Group
from ._library import CAPABILITIES, has_cuda
from ._log import tell_once
from ._table import OPS

MOST_RANKS = 8  # of GPUs
GRAIN = 8  # GPU kernels take n and k in multiples of it
_TYPES = {row.dtype: row.name for row in DTYPES}
_ON_GPUS = tuple(row.dtype for row in DTYPES if row.on_gpus)
# Why a group cannot join, by name and device.
_cannot_join: dict[tuple[str, str], str] = {}


def _say(reason: str) -> bool:
    """Logs the reason once, if there is one. Returns True if there is none."""
    if reason:
        tell_once(logging.WARNING, reason)
    return not reason


def _weights_of(op: str, weights: Tensor | Sequence[Tensor]) -> list[Tensor]:
    if op not in OPS:
        raise usage(f'can_run: op: got "{op}", expected one of {", ".join(OPS)}')
    return [weights] if isinstance(weights, Tensor) else list(weights)


def _gpu_reason(op: str, dtype: torch.dtype, device: torch.device, n: int, k: int, ranks: int) -> str:
    if not has_cuda():
        return f"{op}: device: got cuda, expected cpu: this build has CPU ranks only"
    if dtype not in _ON_GPUS:
        return f"{op}: weight: got {dtype}, expected {' or '.join(map(str, _ON_GPUS))} on GPUs"
    if n % GRAIN or k % GRAIN:
        return f"{op}: weight: got [{n}, {k}], expected multiples of {GRAIN} on GPUs"
    if ranks > MOST_RANKS:
        return f"{op}: group: got {ranks} ranks, expected at most {MOST_RANKS} GPUs"
    if torch.compiler.is_compiling():  # cannot be traced; joining asks, too
        return ""
    capability = torch.cuda.get_device_capability(device)
    if capability not in CAPABILITIES:
        expected = " or ".join(map(str, CAPABILITIES))
        return f"{op}: device: got compute capability {capability}, expected {expected}"
    return ""


def why_not(
    op: str, dtype: torch.dtype, device: torch.device, size: Sequence[int], ranks: int
) -> str:
    """Why the op does not take such weights; "" if it does."""
    if len(size) != 2:
        return f"{op}: weight: got {list(size)}, expected [n, k]"
    if dtype not in _TYPES:
        return f"{op}: weight: got {dtype}, expected one of {', '.join(map(str, _TYPES))}"
    if device.type == "cuda":
        n, k = size
        return _gpu_reason(op, dtype, device, n, k, ranks)
    return "" if device.type == "cpu" else f"{op}: weight: got a tensor on {device}, expected one on cpu or cuda"


def why_not_join(name: str, device: torch.device) -> str:
    """Joins where that was not done, and remembers why it could not be. The same on all ranks.

    For switches, behind which there is another way. Collective at first. Errors: peer, timeout.
    """
    key = (name, str(device))
    if key not in _cannot_join:
        try:
            _groups.ensure(name, device.type, _groups.index_in(device))
            return ""
        except Error as error:
            if error.kind not in ("usage", "system"):
                raise
            _cannot_join[key] = str(error)
    return _cannot_join[key]


def can_run(op: str, weights: Tensor | Sequence[Tensor], group: Group = None) -> bool:
    """Whether the op takes these weights ([n, k] each) on this machine. Local. Errors: usage."""
    ranks, _ = _groups.size_and_rank(_groups.group_name(group))
    return all(_say(why_not(op, w.dtype, w.device, w.shape, ranks)) for w in _weights_of(op, weights))


def should_run(
    op: str, x: Tensor, weights: Tensor | Sequence[Tensor], group: Group = None, *,
    bias: bool = False, activation: str = "none", return_gathered: bool = False,
) -> bool:
    """Whether the op can run with this x now; the other arguments are those of the op.

    False if x does not match the weights in type, device or k. Also False while a CUDA graph is
    captured, if no earlier call had at least as many rows: warm up with the largest m. Any number of
    rows is fine otherwise. Local; all ranks get the same answer if they make the same calls.
    Errors: usage.
    """
    listed = _weights_of(op, weights)
    name = _groups.group_name(group)
    for w in listed:
        if x.dtype != w.dtype or x.device != w.device or x.shape[-1] != w.shape[-1]:
            return _say(f"{op}: x: got {x.dtype} of k {x.shape[-1]} on {x.device}, expected "
                        f"{w.dtype} of k {w.shape[-1]} on {w.device}, like the weights")
    if not (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return True
    ranks, _ = _groups.size_and_rank(name)
    m = x.numel() // max(x.shape[-1], 1) * (ranks if OPS[op].gathers else 1)
    if torch.ops.tilelace._has_room(
            _groups.plain(name), "cuda", op, m, [w.shape[0] for w in listed], x.shape[-1],
            _TYPES[x.dtype], bias, activation, return_gathered):
        return True
    return _say(f"{op}: m: {m} rows are not prepared: make a call with this many rows before the capture")
