# SPDX-License-Identifier: Apache-2.0
"""Loads the library, which registers torch.ops.tilelace."""
from __future__ import annotations

from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER / "_tilelace_torch.so"

if not LIBRARY.is_file():
    raise ImportError(
        f"tilelace: {FOLDER} has no {LIBRARY.name}: this folder has only the sources: install the package "
        "(pip install .) and start Python in another folder"
    )
torch.ops.load_library(str(LIBRARY))


_PARTS: list[int] = torch.ops.tilelace._capabilities()
# Compute capabilities that there are kernels for.
CAPABILITIES: list[tuple[int, int]] = list(zip(_PARTS[::2], _PARTS[1::2]))
_HAS_CUDA: bool = torch.ops.tilelace._has_cuda()


def has_cuda() -> bool:
    """Whether this build has the CUDA backend. Without it all ranks run on CPUs. Local. Errors: none."""
    return _HAS_CUDA
