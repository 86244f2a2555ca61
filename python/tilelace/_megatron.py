# SPDX-License-Identifier: Apache-2.0
"""What Megatron-LM expects of its layers beside their products: its group, device, checkpoints.

Nothing here imports Megatron before it is asked for a sharded state dict.
"""
from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

import torch
import torch.distributed as dist

from . import _groups
from ._errors import usage


def tensor_parallel_group() -> Any:
    """Megatron's, where it is in use: with data parallelism the default group is larger."""
    state = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return None
    return state.get_tensor_model_parallel_group()


def mark_split(parameter: Any, dim: int, stride: int) -> None:
    """As Megatron looks for it: every rank has its part of this dimension."""
    parameter.tensor_model_parallel = True
    parameter.partition_dim, parameter.partition_stride = dim, stride


def check_size(layer: str, config: Any, ranks: int) -> None:
    size = getattr(config, "tensor_model_parallel_size", None)
    if size is not None and size != ranks:
        raise usage(
            f"{layer}: tp_group: got a group of {ranks} ranks, expected one of {size} "
            "(config.tensor_model_parallel_size)")


def device(config: Any, given: Any, name: str) -> Any:
    """The current GPU, as there, unless the ranks are CPU ranks or something else is asked for."""
    if (given is not None or config is None or getattr(config, "use_cpu_initialization", False)
            or not torch.cuda.is_available()):
        return given
    # "cpu:gloo,cuda:nccl"; gloo alone claims CUDA tensors, too.
    backends = dist.get_backend_config(_groups._group_of(_groups.plain(name))).split(",")
    on_gpus = any(b.startswith("cuda:") and b != "cuda:gloo" for b in backends)
    return torch.device("cuda", torch.cuda.current_device()) if on_gpus else None


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"megatron.core.{name}")
    except ImportError as error:
        raise usage(
            f"sharded_state_dict needs Megatron-LM's megatron.core ({error}): "
            "install megatron-core, or use state_dict()") from None


def sharded_tensors(
    layer: Layer, axes: dict[str, int], prefix: str, offsets: Any, metadata: dict[str, Any] | None
) -> dict[str, Any]:
    """Megatron's sharded tensors; `axes`: which dimension of a parameter is split."""
    make = _module("transformer.utils").make_sharded_tensors_for_checkpoint
    groups = {}
    # Versions whose helper takes no groups find them themselves.
    if "tp_group" in inspect.signature(make).parameters:
        data = (metadata or {}).get("dp_cp_group")
        if data is None:
            data = _module("parallel_state").get_data_parallel_group(with_context_parallel=True)
        groups = {"tp_group": layer.tp_group, "dp_cp_group": data}
    return make(layer.state_dict(prefix="", keep_vars=True), prefix, axes, offsets, **groups)


def gated(tensors: dict[str, Any], offsets: Any, metadata: dict[str, Any] | None) -> None:
    """Of a layer with gate rows and then up rows: each half is sharded for itself."""
    factory = _module("transformer.mlp").apply_swiglu_sharded_factory
    more = (True,) if (metadata or {}).get("singleton_local_shards") else ()
    for key, tensor in tensors.items():
        if key.endswith((".weight", ".bias")):
            tensors[key] = factory(tensor, offsets, *more)


def _without_extra_state(layer: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
    if not layer.megatron:
        state.pop(f"{prefix}_extra_state", None)


def _any_extra_state(layer: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    state.setdefault(f"{prefix}_extra_state", None)


class Layer(torch.nn.Module):
    """A layer that Megatron's checkpoints take.

    There `_extra_state` (None) is a key of state dicts. It is one here where the layer was given a
    config; without one state dicts stay those of torch.nn.Linear. Both kinds load into both.
    `group_name`: of the layer's tensor-parallel group. `megatron`: whether it was given a config.
    """

    group_name: str
    megatron: bool

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_without_extra_state)
        self.register_load_state_dict_pre_hook(_any_extra_state)

    @property
    def tp_group(self) -> dist.ProcessGroup:
        """The layer's tensor-parallel group. Local. Errors: usage (the group is gone)."""
        return _groups._group_of(_groups.plain(self.group_name))

    def get_extra_state(self) -> None:
        """None: Megatron's key `_extra_state` has no value here. Local. Errors: none."""
        return

    def set_extra_state(self, state: Any) -> None:
        """Does nothing: there is no extra state. Local. Errors: none."""

    def backward_dw(self) -> None:
        """Does nothing: weight gradients are never delayed. Local. Errors: none."""
