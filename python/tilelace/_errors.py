# SPDX-License-Identifier: Apache-2.0
"""The one exception of the package, as the library's: a kind, and a text that says what happened and what to do."""
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
    usable; on GPUs, where ranks made different calls or one was refused a call that others made,
    after tilelace.recover on every rank. After the other kinds it refuses calls with the first
    reason.

    `Error(text)`, as code that adds to a text raises it again: the kind is that of the Error that is
    being handled, "system" where there is none.
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
    """The Error behind what torch's dispatcher made a RuntimeError; others as they are."""
    import torch

    if isinstance(error, Error):
        return error
    text = torch.ops.tilelace._last_text()
    kind = torch.ops.tilelace._last_kind()
    return Error(KINDS[kind], text) if kind in KINDS and text and text in str(error) else error


def was_told(error: Exception) -> bool:
    """Whether the library threw it, or saw it pass: the peers then know of it."""
    import torch

    text = torch.ops.tilelace._last_text()
    return bool(text) and text in str(error)


@contextmanager
def translated() -> Iterator[None]:
    """Inside, errors of the library that come through torch's dispatcher are tilelace.Error.

    For torch.ops.tilelace by hand and for compiled graphs, which raise RuntimeError with the same
    text on CUDA tensors. Local. Other errors pass as they are. Errors: tilelace.Error, those translated.
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
    """op(*args) as in `translated`."""
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
