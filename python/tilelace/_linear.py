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


def _is_conv1d(linear: torch.nn.Module) -> bool:
    """GPT-2's linear layer in transformers, its weight [k, n]."""
    kind = type(linear)
    return kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def _require_plain(layer: str, linear: torch.nn.Linear) -> None:
    hooks = (linear._forward_pre_hooks, linear._forward_hooks, linear._backward_pre_hooks,
             linear._backward_hooks)
    wrong = ""
    if torch.nn.utils.parametrize.is_parametrized(linear):
        wrong = "parametrizations"
    elif "forward" in linear.__dict__ or not (
            type(linear).forward is torch.nn.Linear.forward or _is_conv1d(linear)):
        wrong = f"a forward of its own ({type(linear).__name__})"
    elif any(hooks):
        wrong = "hooks"
    elif type(linear.weight) not in (Tensor, Parameter):
        wrong = f"a weight that is a {type(linear.weight).__name__}"
    if wrong:
        raise usage(f"{layer}.from_linear: linear has {wrong}, which the new layer would drop: "
                    "make a layer and copy the weights")


def _shards(size: int, stride: int, ranks: int, rank: int) -> list[slice]:
    """This rank's part of each of `stride` equal blocks, as gate and up are two."""
    if not isinstance(stride, int) or stride < 1 or size % stride:
        raise usage(f"layer: stride: got {stride!r}, expected a whole number that divides {size}")
    block = size // stride
    part = _regions.slice_of(block, ranks, rank)
    return [slice(b * block + part.start, b * block + part.stop) for b in range(stride)]


class ParallelLinear(_megatron.Layer):
    """What the two layers share: group, settings, this rank's part of weight and bias."""

    def __init__(
        self, input_size: int, output_size: int, *, split_dim: int, config: Any, bias: bool,
        init_method: Callable[[Tensor], Any] | None, skip_bias_add: bool, tp_group: Group,
        sequence_parallel: bool | None, gradient_accumulation_fusion: bool | None,
        sequence_dim: int, stride: int, return_bias: bool, output_dtype: torch.dtype | None,
        dtype: torch.dtype | None, device: torch.device | str | None, unknown: dict[str, Any],
    ) -> None:
        super().__init__()
        unknown.pop("name", None)  # what Megatron calls the layer in its logs
        collection = unknown.pop("pg_collection", None)
        for name, value in unknown.items():
            if name not in _WITHOUT_EFFECT or value not in _WITHOUT_EFFECT[name]:
                expected = "no argument of this name" if name not in _WITHOUT_EFFECT else (
                    f"one of {_WITHOUT_EFFECT[name]}")
                raise usage(f"{type(self).__name__}: {name}: got {value!r}, expected {expected}")

        def setting(given: Any, field: str, default: Any) -> Any:
            return given if given is not None else getattr(config, field, default)

        if tp_group is None:
            tp_group = getattr(collection, "tp", None) or _megatron.tensor_parallel_group()
        self.group_name = _groups.group_name(tp_group)
        self._ranks, self._rank = _groups.size_and_rank(self.group_name)
        _megatron.check_size(type(self).__name__, config, self._ranks)
        self.config, self.input_size, self.output_size = config, input_size, output_size
        self.skip_bias_add, self.sequence_dim = skip_bias_add, sequence_dim
        self.return_bias = return_bias
        if skip_bias_add and not return_bias:
            raise usage(f"{type(self).__name__}: return_bias: got False with skip_bias_add, expected "
                        "True: the bias would be lost")
        self.sequence_parallel = bool(setting(sequence_parallel, "sequence_parallel", False))
        self.gradient_accumulation_fusion = bool(
            setting(gradient_accumulation_fusion, "gradient_accumulation_fusion", False))
        self._told_of_main_grad = False
        # Megatron adds up such gradients itself, later; it looks for the attributes below.
        self.megatron = config is not None
        self.output_dtype = output_dtype
        self._split_dim, self._stride = split_dim, stride
        self._shards = self._shards_of((output_size, input_size)[split_dim], stride)
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
            size[self._split_dim] = sum(s.stop - s.start for s in self._shards)
            self.weight = Parameter(torch.empty(size, **where))
        else:
            # Every rank makes the whole weight and keeps its part: the unsharded layer's values.
            whole = torch.empty(size, **where)
            with torch.no_grad():
                init_method(whole)
            self.weight = Parameter(self._part(whole.detach()))
        if bias:
            self.bias = Parameter(torch.zeros(self.weight.shape[0], **where))
        else:
            self.register_parameter("bias", None)
        split = [self.weight] if self._split_dim == 1 or self.bias is None else [
            self.weight, self.bias]
        for parameter in split:
            _megatron.mark_split(parameter, self._split_dim, self._stride)
        parameters: list[Any] = list(self.parameters())
        for parameter in parameters:
            parameter.allreduce = True  # over all of data parallelism: no expert's

    def _shards_of(self, size: int, stride: int) -> list[slice]:
        return _shards(size, stride, self._ranks, self._rank)

    def _part(self, whole: Tensor) -> Tensor:
        """This rank's, of each block of the dimension that is split; a copy."""
        blocks = [whole.narrow(self._split_dim, s.start, s.stop - s.start) for s in self._shards]
        return torch.cat(blocks, self._split_dim)

    def _check_order(self, name: str, value: Any) -> None:
        """Of columns that go from split to whole or back: one block a rank."""
        if self._stride > 1:
            raise usage(f"{type(self).__name__}: {name}: got {value} with stride {self._stride}, "
                        f"expected {not value}: with a stride each rank has parts of several blocks")

    def _returned(self, y: Tensor, bias: Tensor | None) -> Any:
        """What forward gives; `bias`: the layer's, or this rank's view of it."""
        if self.output_dtype is not None:
            y = y.to(self.output_dtype)
        return (y, bias if self.skip_bias_add else None) if self.return_bias else y

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, **arguments: Any) -> Any:
        """This rank's part of a layer that every rank has, frozen where that is. Local.

        `linear`: a torch.nn.Linear or transformers' Conv1D, whose weight is taken transposed.
        Errors: usage (a layer of whose work a copy of its weights would lose a part: a forward of its
        own, hooks, parametrizations).
        """
        _require_plain(cls.__name__, linear)
        weight = linear.weight.t() if _is_conv1d(linear) else linear.weight
        layer = cls._of_size(
            weight.shape[1], weight.shape[0], bias=linear.bias is not None,
            init_method=_no_values, dtype=weight.dtype, device=weight.device, **arguments)
        with torch.no_grad():
            layer.weight.copy_(layer._part(weight))
            if layer.bias is not None:
                column = layer._split_dim == 0
                layer.bias.copy_(layer._part(linear.bias) if column else linear.bias)
                layer.bias.requires_grad_(linear.bias.requires_grad)
        layer.weight.requires_grad_(linear.weight.requires_grad)
        return layer

    @classmethod
    def _of_size(cls, input_size: int, output_size: int, **arguments: Any) -> Any:
        return cls(input_size, output_size, **arguments)

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
                "%s: gradient_accumulation_fusion: the weight has no main_grad, which Megatron's "
                "DDP makes: the gradient goes to weight.grad",
                type(self).__name__)
        return weight

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: Any = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """For Megatron's distributed checkpoints. Local. Errors: usage (no Megatron)."""
        axes = {"weight": 0, "bias": 0} if self._split_dim == 0 else {"weight": 1}
        return _megatron.sharded_tensors(self, axes, prefix, sharded_offsets, metadata)

    def extra_repr(self) -> str:
        """Sizes and settings, for print(layer). Local. Errors: none."""
        return (
            f"{self.input_size}, {self.output_size}, bias={self.bias is not None}, "
            f"sequence_parallel={self.sequence_parallel}, group={self.group_name}")
