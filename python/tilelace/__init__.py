# SPDX-License-Identifier: Apache-2.0
"""Tensor-parallel communication inside the tiles of a GEMM."""
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from ._library import has_cuda  # isort: skip  (registers the ops that the next line completes)
from . import _autograd, _by_hand, _flops, _joins, _kernels, moe  # noqa: F401
from ._errors import Error, translated
from ._fits import can_run, should_run
from ._groups import abort, group_name, join, leave, plans, recover, synchronize
from ._override import override_collectives
from ._tuning import Problem, Tuned, tune
from .collectives import all_gather, all_reduce, all_reduce_, all_to_all, reduce_scatter
from .memory import empty, mem_pool
from .norms import Normed, all_reduce_norm, all_reduce_norm_
from .ops import ag_gemm, gemm_ar, gemm_rs

try:
    __version__ = version("tilelace")
except PackageNotFoundError:
    __version__ = "0"

__all__ = [
    "Error", "Normed", "Problem", "Tuned", "abort", "ag_gemm", "all_gather", "all_reduce",
    "all_reduce_", "all_reduce_norm", "all_reduce_norm_", "all_to_all", "can_run", "empty", "gemm_ar",
    "gemm_rs", "group_name", "has_cuda", "join", "leave", "mem_pool", "moe", "override_collectives", "plans",
    "recover", "reduce_scatter", "should_run", "synchronize", "translated", "tune",
]

_MODULES = {"compat", "inductor", "megatron", "nn", "tensor_parallel", "transformers"}


def __getattr__(name: str) -> ModuleType:
    # `tilelace.nn` after `import tilelace` alone; what it needs is loaded when it is first named.
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES.union(globals()))
