# SPDX-License-Identifier: Apache-2.0
"""Direct calls of torch.ops.tilelace: if torch refuses one for its signature, peers are told."""
from __future__ import annotations

import functools
from typing import Any

import torch

from . import _arguments, _table
from ._errors import Error, error_of, was_told


def _traced() -> bool:
    """Whether the call is one of shapes alone, or of a transformation: nothing runs."""
    return (torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
            or torch._C._functorch.peek_interpreter_stack() is not None)


def _told(op: str) -> None:
    packet = getattr(torch.ops.tilelace, op)
    arguments = packet.default._schema.arguments
    place = next(i for i, a in enumerate(arguments) if a.name == "group_name")
    call = packet._op

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            group = kwargs.get("group_name", args[place] if len(args) > place else None)
            if isinstance(error_of(error), Error) or was_told(error) or _traced() or (
                    not isinstance(group, str)):
                raise
            text = _arguments.refused_by_torch(error)
        _arguments.refuse(op, (args[0] if args else kwargs.get("x"), group), text)

    packet._op = checked


for _op in _table.CALLS:
    _told(_op)
