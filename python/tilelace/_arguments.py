# SPDX-License-Identifier: Apache-2.0
"""What only Python can see of a call's arguments, told to the peers where it is wrong."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from . import _groups
from ._errors import call, usage

NAMES = ("x", "weight", "bias")
# Tensors of one kind: "x"; "weight", of which there may be several.
Operands = Sequence[tuple[str, Sequence[Any]]]


def tensors_of(args: Sequence[Any]) -> list[Any]:
    """Of x, weight or weights, bias or biases, and what else is no list."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, list):
            found += a
        elif a is not None and not isinstance(a, str):
            found.append(a)
    return found


def _operands(op: str, args: Sequence[Any], outs: Sequence[Any]) -> Operands:
    """Weights and biases are lists where the op takes several."""
    kinds = []
    for name, a in zip(NAMES, [a for a in args if not isinstance(a, str)]):
        several = op == "ag_gemm" and name != "x" and isinstance(a, list)
        kinds.append((name, [] if a is None else a if several else [a]))
    return [*kinds, ("out", list(outs))]


def without_data(tensors: Sequence[Any]) -> bool:
    """Whether some are: torch's dispatcher would not call, and say nothing. All: shapes are asked."""
    some = [t for t in tensors if isinstance(t, Tensor) and t.is_meta]
    return 0 < len(some) < len(tensors)


def _wrong_tensor(operands: Operands) -> str:
    """What is wrong with the first wrong one; "" where none is."""
    device = ""
    for what, tensors in operands:
        for i, t in enumerate(tensors):
            name = f"{what} {i}" if len(tensors) > 1 else what
            if not isinstance(t, Tensor):
                return f"{name}: got {type(t).__name__}, expected a torch.Tensor"
            if hasattr(t, "to_local"):
                return f"{name}: got a DTensor, expected this rank's tensor (to_local)"
            if t.layout is not torch.strided:
                return f"{name}: got a tensor of layout {t.layout}, expected torch.strided"
            device = device or t.device.type
            if t.device.type != device:
                return f"{name}: got a tensor on {t.device}, expected one on {device}, as x"
    if device not in ("cpu", "cuda"):
        return f"x: got a tensor on {device}, expected one on cpu or cuda"
    return ""


def _is_number(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _wrong_setting(settings: dict[str, Any]) -> str:
    for name, value in settings.items():
        if name in ("gather_dim", "scatter_dim"):
            if not _is_number(value):
                return f"{name}: got {value!r}, expected a dimension's number"
        elif name == "activation":
            if not isinstance(value, str):
                return f"{name}: got {value!r}, expected its name"
        elif name == "sizes" and value is not None:
            if not all(map(_is_number, value)):
                return f"{name}: got {list(value)}, expected whole numbers"
    return ""


def refuse(op: str, args: Sequence[Any], text: str) -> NoReturn:
    """Raises here, and in the peers' call."""
    text = f"{op}: {text}"
    x, group = args[0], next(a for a in args if isinstance(a, str))
    known = isinstance(x, Tensor) and x.device.type in ("cpu", "cuda")
    device = x.device.type if known else _groups.device_of(group)
    _groups.ensure(group, device)
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    call(torch.ops.tilelace._refuse, _groups.plain(group), device, text, stream)
    raise usage(text)


def what_is_wrong(
    op: str, args: Sequence[Any], outs: Sequence[Any], settings: dict[str, Any]
) -> str:
    """Of a call that the dispatcher did not make; "" where that is not known."""
    return _wrong_tensor(_operands(op, args, outs)) or _wrong_setting(settings)
