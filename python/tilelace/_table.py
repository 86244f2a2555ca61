# SPDX-License-Identifier: Apache-2.0
"""The table of ops, as the library has it: what is one for each op iterates it."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from . import _library  # noqa: F401  (registers _op_lines)

# Collectives by themselves, and their forms that write results.
COLLECTIVES: tuple[str, ...] = tuple(torch.ops.tilelace._collective_names())


@dataclass(frozen=True)
class Op:
    name: str
    collective: str  # the op without its product
    gathers: bool  # shards of x travel, before the product
    sums: bool  # what ranks have of the product is added up
    shares: bool  # the finished sums travel to all ranks
    multiplies: bool  # rows by weights; without, a result is as wide as x

    @property
    def calls(self) -> tuple[str, ...]:
        """In torch.ops.tilelace, for users."""
        return (self.name, self.name + "_out", *(() if self.alone is None else (self.alone,)))

    @property
    def alone(self) -> str | None:
        """The op without its product, where it is no call that `COLLECTIVES` has."""
        return None if self.shares or self.collective in COLLECTIVES else self.collective

    @property
    def like_calls(self) -> tuple[str, ...]:
        """Those whose gathered size is that of another tensor."""
        if not self.gathers:
            return ()
        return (f"_{self.name}_like", *(() if self.alone is None else (f"_{self.alone}_like",)))


def _op_of(line: str) -> Op:
    name, collective, *does = line.split()
    return Op(name, collective, "gathers" in does, "sums" in does, "shares" in does,
              "multiplies" in does)


OPS = {op.name: op for op in map(_op_of, torch.ops.tilelace._op_lines())}
CALLS = (*(name for op in OPS.values() for name in op.calls),
         *(name for name in COLLECTIVES if not name.startswith("_")))


def gathers(call: str) -> bool:
    """Whether it takes several weights, and rows of one rank."""
    return call in OPS and OPS[call].gathers
