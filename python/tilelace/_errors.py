# SPDX-License-Identifier: Apache-2.0
"""The package's one exception: a kind, and a text that says what happened and what to do."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KINDS = {1: "usage", 2: "system", 3: "peer", 4: "timeout"}


class Error(RuntimeError):
    """What went wrong in a call of tilelace.

    `kind`: "usage" (a wrong argument; ranks that disagree), "system" (the machine), "peer" (another
    rank died or gave up) or "timeout" (a wait reached its bound). After "usage" the group stays
    usable. On GPUs call tilelace.recover on every rank first, if ranks made different calls or one
    rank's call was refused. After the other kinds the group refuses calls with the first reason.

    `Error(text)` without a kind takes the kind of the Error being handled, "system" if there is none:
    for code that adds to a text and raises again.
    """

    def __init__(self, *args: Any) -> None:
        with_kind = len(args) == 2 and args[0] in tuple(KINDS.values())
        super().__init__(*(args[1:] if with_kind else args))
        handled = sys.exc_info()[1]
        self.kind: str = (args[0] if with_kind
                          else handled.kind if isinstance(handled, Error) else "system")

    def __reduce__(self) -> tuple[Any, ...]:
        return Error, (self.kind, str(self))


def usage(text: str) -> Error:
    return Error("usage", text)


def error_of(error: Exception) -> Exception:
    """The Error that torch's dispatcher turned into a RuntimeError; other exceptions unchanged."""
    import torch

    if isinstance(error, Error):
        return error
    text = torch.ops.tilelace._last_text()
    kind = torch.ops.tilelace._last_kind()
    return Error(KINDS[kind], text) if kind in KINDS and text and text in str(error) else error


def was_told(error: Exception) -> bool:
    """Whether the library raised or saw this error: peers then know of it."""
    import torch

    text = torch.ops.tilelace._last_text()
    return bool(text) and text in str(error)


@contextmanager
def translated() -> Iterator[None]:
    """Raises the library's errors inside the block as tilelace.Error.

    For direct calls of torch.ops.tilelace and for compiled graphs: on CUDA tensors these raise
    RuntimeError with the same text. Other errors are not changed. Local. Errors: tilelace.Error.
    """
    try:
        yield
    except RuntimeError as error:
        other = error_of(error)
        if other is error:
            raise
        try:
            raise other from None
        finally:
            del other  # a cycle with the traceback would keep the callers' groups


def call(op: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls op(*args) inside `translated`."""
    try:
        return op(*args, **kwargs)
    except RuntimeError as error:
        other = error_of(error)
        if other is error:
            raise
        try:
            raise other from None
        finally:
            del other  # a cycle with the traceback would keep the callers' groups
