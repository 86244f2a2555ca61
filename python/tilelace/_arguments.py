# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that only Python can make; peers are told of an error."""
from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _groups
from ._errors import call, usage
from ._table import COLLECTIVES, gathers

NO_GRADIENTS = ("out: tensors that need gradients cannot be used with it: "
                "call under torch.no_grad, or without out")
NAMES = ("x", "weight", "bias", "residual")
NORM_NAMES = ("x", "weight", "residual", "scale")
MOE_NAMES = {"ag_moe": ("x", "ids", "weights", "w13", "bias"),
             **dict.fromkeys(("moe_rs", "moe_ar"), ("act", "map", "w2", "bias", "add"))}
MAY_BE_NONE = ("bias", "residual", "scale", "add")
# Tensors of one kind: "x"; "weight", of which there may be several.
Operands = Sequence[tuple[str, Sequence[Any]]]


def tensors_of(args: Sequence[Any]) -> list[Any]:
    """Of x, weight or weights, then what may be none; the group comes last."""
    found: list[Any] = []
    for i, a in enumerate(args[:-1]):
        if isinstance(a, list):
            found += a
        elif i < 2 or a is not None:
            found.append(a)
    return found


def _operands(op: str, args: Sequence[Any], outs: Sequence[Any]) -> Operands:
    """Weights and biases are lists where the op takes several; without a bias there is none."""
    kinds: list[tuple[str, Sequence[Any]]] = []
    norms = op.startswith("all_reduce_norm")
    names = MOE_NAMES.get(op, NORM_NAMES if norms else NAMES)
    for name, a in zip(names, args[:-1]):
        several = gathers(op) and name != "x" and isinstance(a, list)
        missing = a is None and name in MAY_BE_NONE
        kinds.append((name, [] if missing else a if several else [a]))
    return [*kinds, ("out", outs if isinstance(outs, (list, tuple)) else [outs])]


def without_data(tensors: Sequence[Any]) -> bool:
    """Whether some are: torch's dispatcher would not call, and say nothing. All: shapes are asked."""
    some = [t for t in tensors if isinstance(t, Tensor) and t.is_meta]
    return 0 < len(some) < len(tensors)


def has_tangents(tensors: Sequence[Any]) -> bool:
    """Inside a level of forward-mode derivatives. The ops have none, and would drop them."""
    return any(isinstance(t, Tensor) and forward_ad.unpack_dual(t).tangent is not None for t in tensors)


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
                return f"{name}: got a tensor on {t.device}, expected one on {device}, like x"
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
                return f"{name}: got {value!r}, expected the number of a dimension"
        elif name in ("activation", "quant", "reduce_op"):
            if not isinstance(value, str):
                return f"{name.removeprefix('reduce_')}: got {value!r}, expected a string"
        elif name in ("sizes", "sends", "takes") and value is not None:
            if not isinstance(value, list) or not all(map(_is_number, value)):
                return f"{name}: got {value!r}, expected a list of whole numbers"
        elif name == "eps":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return f"eps: got {value!r}, expected a number"
        elif name in ("return_gathered", "return_normed") and not isinstance(value, bool):
            return f"{name}: got {value!r}, expected True or False"
    return ""


def _refuse(op: str, name: str, x: Any, text: str) -> None:
    """On x's device, or where it has none on the group's; in the place of the op."""
    known = isinstance(x, Tensor) and x.device.type in ("cpu", "cuda")
    device = x.device.type if known else _groups.device_of(name)
    stream = 0
    if device == "cuda":
        _groups.ensure(name, device, x.device.index if known else -1)
        stream = torch.cuda.current_stream(_groups.gpu_of(name)).cuda_stream
    else:
        _groups.ensure(name, device)
    call(torch.ops.tilelace._refuse, _groups.plain(name), device, text, stream,
         op.rstrip("_") in COLLECTIVES)


def refuse(op: str, args: Sequence[Any], text: str) -> NoReturn:
    """Raises here, and in the peers' call."""
    text = f"{op}: {text}"
    _refuse(op, args[-1], args[0], text)
    raise usage(text)


def what_is_wrong(
    op: str, args: Sequence[Any], outs: Sequence[Any], settings: dict[str, Any], error: Exception
) -> str:
    """Of a call that the dispatcher did not make: `error` says so in its own words."""
    return _wrong_tensor(_operands(op, args, outs)) or _wrong_setting(settings) or refused_by_torch(error)


def refused_by_torch(error: Exception) -> str:
    """The start of its text: peers get a few hundred characters."""
    first = str(error).strip().splitlines() or [type(error).__name__]
    words = first[0].split(". ")[0][:150]
    return f"torch refuses the call: {words}"


def told(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, whose peers are also told of a call that Python refuses: arguments that it has not."""
    signature = inspect.signature(fn)
    place = list(signature.parameters).index("group")

    @functools.wraps(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return fn(*args, **kwargs)
        try:
            return fn(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised inside
                raise
            text = str(error).replace("()", "")
        name = _groups.group_name(kwargs.get("group", args[place] if len(args) > place else None))
        text = f"{fn.__name__}: wrong arguments: {text}; the signature is {signature}"
        _refuse(fn.__name__, name, args[0] if args else kwargs.get("x"), text)
        raise usage(text)

    return checked
