# SPDX-License-Identifier: Apache-2.0
"""What torch.utils.flop_counter counts for the ops: this rank's products, 2 m n k each."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from . import _groups
from ._table import OPS


def _rows(shape: Any) -> Any:
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows


def _gather(x: Any, weights: Any, *args: Any, gather_dim: int = 0, sizes: Any = None,
            **_: Any) -> Any:
    name = next(a for a in args if isinstance(a, str))
    rows = _rows(x) * _groups.size_and_rank(name)[0]
    if sizes is not None and x[gather_dim]:
        rows = _rows(x) // x[gather_dim] * sum(sizes)
    return sum(2 * rows * n * k for n, k in weights)


def _gather_like(x: Any, weights: Any, _: str, like: Any, *, gather_dim: int = 0, **__: Any) -> Any:
    rows = _rows(x) // max(x[gather_dim], 1) * like[gather_dim]
    return sum(2 * rows * n * k for n, k in weights)


def _reduce(x: Any, weight: Any, *_: Any, **__: Any) -> Any:
    return 2 * _rows(x) * weight[0] * weight[1]


for _op in OPS.values():
    for _name in (_op.name, _op.name + "_out"):
        register_flop_formula(getattr(torch.ops.tilelace, _name))(_gather if _op.gathers else _reduce)
    for _name in _op.like_calls[:1]:
        register_flop_formula(getattr(torch.ops.tilelace, _name))(_gather_like)
