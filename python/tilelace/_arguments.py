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

# Tensors of one kind: "x"; "weight", of which there may be several.
Operands = Sequence[tuple[str, Sequence[Any]]]


def _fine(tensors: Sequence[Any]) -> bool:
    """The usual case, soon."""
    device = tensors[0].device if isinstance(tensors[0], Tensor) else None
    for t in tensors:
        if not isinstance(t, Tensor) or t.layout is not torch.strided or t.device != device:
            return False
    return device is not None and device.type in ("cpu", "cuda")


def _wrong_tensor(operands: Operands) -> str:
    """What is wrong with the first wrong one; "" where none is."""
    device = ""
    for what, tensors in operands:
        for i, t in enumerate(tensors):
            name = f"{what} {i}" if len(tensors) > 1 else what
            if not isinstance(t, Tensor):
                return f"{name}: got {type(t).__name__}, expected a torch.Tensor"
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


def refuse(op: str, group: str, operands: Operands, text: str) -> NoReturn:
    """Raises here, and in the peers' call."""
    text = f"{op}: {text}"
    x = operands[0][1][0]
    known = isinstance(x, Tensor) and x.device.type in ("cpu", "cuda")
    device = x.device.type if known else _groups.device_of(group)
    _groups.ensure(group, device)
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    call(torch.ops.tilelace._refuse, _groups.plain(group), device, text, stream)
    raise usage(text)


def check(
    op: str, group: str, operands: Operands, tensors: Sequence[Any], outs: Sequence[Any],
    settings: dict[str, Any], needs_grad: bool,
) -> None:
    """`tensors` are those of `operands`, and `outs`. Collective where something is wrong, as the
    call it stands for. Errors: usage."""
    wrong = "" if _fine(tensors) else _wrong_tensor((*operands, ("out", outs)))
    wrong = wrong or _wrong_setting(settings)
    if not wrong and outs and needs_grad:
        wrong = ("out: got it with tensors that need gradients, expected none that do "
                 "(torch.no_grad, or a call without out)")
    if wrong:
        refuse(op, group, operands, wrong)
