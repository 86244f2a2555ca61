# SPDX-License-Identifier: Apache-2.0
"""Element types that the ops take, as the library's table has them (include/tilelace/dtype.h)."""
from __future__ import annotations

from typing import NamedTuple

import torch

from . import _library  # noqa: F401 (registers the ops)


class DType(NamedTuple):
    dtype: torch.dtype
    name: str
    on_gpus: bool


def _row(text: str) -> DType:
    long_name, name, where = text.split()
    return DType(getattr(torch, long_name), name, where == "gpus")


DTYPES = tuple(_row(text) for text in torch.ops.tilelace._dtypes())
