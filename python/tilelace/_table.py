# SPDX-License-Identifier: Apache-2.0
"""The table of ops, as the library has it: what is one for each op iterates it."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from . import _library  # noqa: F401  (registers _op_lines)


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
        """In torch.ops.tilelace, for users; the collective of finished sums is torch's own."""
        return (self.name, self.name + "_out", *(() if self.shares else (self.collective,)))

    @property
    def like_calls(self) -> tuple[str, ...]:
        """Those whose gathered size is that of another tensor."""
        return (f"_{self.name}_like", f"_{self.collective}_like") if self.gathers else ()


def _op_of(line: str) -> Op:
    name, collective, *does = line.split()
    return Op(name, collective, "gathers" in does, "sums" in does, "shares" in does,
              "multiplies" in does)


OPS = {op.name: op for op in map(_op_of, torch.ops.tilelace._op_lines())}
CALLS = tuple(name for op in OPS.values() for name in op.calls)


def gathers(call: str) -> bool:
    """Whether it takes several weights, and rows of one rank."""
    return call in OPS and OPS[call].gathers
