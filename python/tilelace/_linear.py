# SPDX-License-Identifier: Apache-2.0
"""What tilelace.nn's two linear layers share."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from . import _groups, _megatron, _regions
from ._errors import usage
from ._groups import Group
from ._log import log


# Arguments of Megatron's layers that ask for nothing here, and the values that do so.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "stride": (1,),
    "keep_master_weight_for_test": (False,),
    "skip_weight_param_allocation": (False,),
    "embedding_activation_buffer": (None,),
    "grad_output_buffer": (None,),
    "is_expert": (False,),
    "disable_grad_reduce": (False,),
}


def _linear_init(weight: Tensor) -> None:
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))


def _no_values(weight: Tensor) -> None:
    """For a weight that gets its values later."""


class ParallelLinear(_megatron.Layer):
    """What the two layers share: group, settings, this rank's part of weight and bias."""

    def __init__(
        self, input_size: int, output_size: int, *, split_dim: int, config: Any, bias: bool,
        init_method: Callable[[Tensor], Any] | None, skip_bias_add: bool, tp_group: Group,
        sequence_parallel: bool | None, gradient_accumulation_fusion: bool | None,
        sequence_dim: int, dtype: torch.dtype | None, device: torch.device | str | None,
        unknown: dict[str, Any],
    ) -> None:
        super().__init__()
        for name, value in unknown.items():
            if name not in _WITHOUT_EFFECT or value not in _WITHOUT_EFFECT[name]:
                expected = "an argument of Megatron's layer" if name not in _WITHOUT_EFFECT else (
                    f"one of {_WITHOUT_EFFECT[name]}")
                raise usage(f"{type(self).__name__}: {name}: got {value!r}, expected {expected}")

        def setting(given: Any, field: str, default: Any) -> Any:
            return given if given is not None else getattr(config, field, default)

        if tp_group is None:
            tp_group = _megatron.tensor_parallel_group()
        self.group_name = _groups.group_name(tp_group)
        self._ranks, self._rank = _groups.size_and_rank(self.group_name)
        _megatron.check_size(type(self).__name__, config, self._ranks)
        self.config, self.input_size, self.output_size = config, input_size, output_size
        self.skip_bias_add, self.sequence_dim = skip_bias_add, sequence_dim
        self.sequence_parallel = bool(setting(sequence_parallel, "sequence_parallel", False))
        self.gradient_accumulation_fusion = bool(
            setting(gradient_accumulation_fusion, "gradient_accumulation_fusion", False))
        self._told_of_main_grad = False
        # Megatron adds up such gradients itself, later; it looks for the attributes below.
        self.megatron = config is not None
        self._split_dim = split_dim
        self._shard = _regions.slice_of((output_size, input_size)[split_dim], self._ranks, self._rank)
        init_method = init_method or _linear_init
        if not getattr(config, "perform_initialization", True):
            init_method = _no_values
        self._make_parameters(
            init_method, bias, dtype=setting(dtype, "params_dtype", None),
            device=_megatron.device(config, device, self.group_name))

    def _make_parameters(
        self, init_method: Callable[[Tensor], Any], bias: bool, **where: Any
    ) -> None:
        size = [self.output_size, self.input_size]
        if init_method is _no_values:
            size[self._split_dim] = self._shard.stop - self._shard.start
            self.weight = Parameter(torch.empty(size, **where))
        else:
            # Every rank makes the whole weight and keeps its part: the unsharded layer's values.
            whole = torch.empty(size, **where)
            with torch.no_grad():
                init_method(whole)
            self.weight = Parameter(self._part(whole.detach()).clone())
        if bias:
            self.bias = Parameter(torch.zeros(self.weight.shape[0], **where))
        else:
            self.register_parameter("bias", None)
        split = [self.weight] if self._split_dim == 1 or self.bias is None else [
            self.weight, self.bias]
        for parameter in split:
            parameter.tensor_model_parallel = True
            parameter.partition_dim, parameter.partition_stride = self._split_dim, 1
        for parameter in self.parameters():
            parameter.allreduce = True  # over all of data parallelism: no expert's

    def _part(self, whole: Tensor) -> Tensor:
        return whole[self._shard] if self._split_dim == 0 else whole[:, self._shard]

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, **arguments: Any) -> Any:
        """This rank's part of a layer that every rank has. Local."""
        layer = cls(
            linear.in_features, linear.out_features, bias=linear.bias is not None,
            init_method=_no_values, dtype=linear.weight.dtype, device=linear.weight.device,
            **arguments)
        with torch.no_grad():
            layer.weight.copy_(layer._part(linear.weight))
            if layer.bias is not None:
                column = layer._split_dim == 0
                layer.bias.copy_(linear.bias[layer._shard] if column else linear.bias)
        return layer

    def _used_weight(self, given: Tensor | None = None) -> Tensor:
        weight = self.weight if given is None else given
        if not (self.gradient_accumulation_fusion and torch.is_grad_enabled()
                and weight.requires_grad):
            return weight
        if hasattr(weight, "main_grad"):
            return _regions.into_main_grad(weight)
        # A graph has no place for a log; docs/pytorch.md says so.
        if not torch.compiler.is_compiling() and not self._told_of_main_grad:
            self._told_of_main_grad = True
            log.warning(
                "%s: gradient_accumulation_fusion: got a weight without main_grad, expected "
                "Megatron's DDP to have made it: the gradient goes to weight.grad",
                type(self).__name__)
        return weight

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: Any = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """For Megatron's distributed checkpoints. Errors: usage (no Megatron)."""
        axes = {"weight": 0, "bias": 0} if self._split_dim == 0 else {"weight": 1}
        return _megatron.sharded_tensors(self, axes, prefix, sharded_offsets, metadata)

    def extra_repr(self) -> str:
        return (
            f"{self.input_size}, {self.output_size}, bias={self.bias is not None}, "
            f"sequence_parallel={self.sequence_parallel}, group={self.group_name}")
