# SPDX-License-Identifier: Apache-2.0
"""Tensor-parallel layers with the arguments of Megatron-LM's.

Activations are [sequence, batch, hidden] (any dimensions; `sequence_dim` says which one sequence
parallelism splits). `config` may be Megatron's ModelParallelConfig, or anything with some of its
fields; keywords given here win over it.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter

from . import _groups, _regions, ops
from ._errors import usage
from ._groups import Group


def _linear_init(weight: Tensor) -> None:
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))


class _ParallelLinear(torch.nn.Module):
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

        self.group_name = _groups.group_name(tp_group)
        self.input_size, self.output_size = input_size, output_size
        self.skip_bias_add, self.sequence_dim = skip_bias_add, sequence_dim
        self.sequence_parallel = bool(setting(sequence_parallel, "sequence_parallel", False))
        self.gradient_accumulation_fusion = bool(
            setting(gradient_accumulation_fusion, "gradient_accumulation_fusion", False))
        # Megatron adds up such gradients itself, later; it looks for the attribute below.
        self.megatron = config is not None
        dtype = setting(dtype, "params_dtype", None)
        self._shard = _regions.slice_of((output_size, input_size)[split_dim], self.group_name)
        whole = torch.empty(output_size, input_size, dtype=dtype, device=device)
        # Every rank makes the whole weight and keeps its part: the unsharded layer's values.
        with torch.no_grad():
            (init_method or _linear_init)(whole)
        part = whole[self._shard] if split_dim == 0 else whole[:, self._shard]
        self.weight = Parameter(part.detach().clone())
        self.weight.tensor_model_parallel = True
        self.weight.partition_dim, self.weight.partition_stride = split_dim, 1
        if bias:
            size = self.weight.shape[0]
            self.bias = Parameter(torch.zeros(size, dtype=dtype, device=device))
        else:
            self.register_parameter("bias", None)

    def _used_weight(self, given: Tensor | None = None) -> Tensor:
        weight = self.weight if given is None else given
        fused = self.gradient_accumulation_fusion and torch.is_grad_enabled()
        return _regions.into_main_grad(weight) if fused and hasattr(weight, "main_grad") else weight

    def extra_repr(self) -> str:
        return (
            f"{self.input_size}, {self.output_size}, bias={self.bias is not None}, "
            f"sequence_parallel={self.sequence_parallel}, group={self.group_name}")


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


class ColumnParallelLinear(_ParallelLinear):
    """y = x * weight^T + bias, the weight [output_size / ranks, input_size] on each rank.

    With sequence_parallel x is this rank's part of the sequence (ag_gemm); without, the same on
    every rank. Returns (y, None), or (y without bias, bias) with skip_bias_add. `regather`: x is
    gathered again for the weight's gradient instead of kept. Collective where it communicates: with
    sequence_parallel, with gather_output, in backward. Errors: tilelace.Error.
    """

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None,
        init_method: Callable[[Tensor], Any] | None = None, bias: bool = True,
        gather_output: bool = False, skip_bias_add: bool = False, tp_comm_buffer_name: str | None = None,
        tp_group: Group = None, sequence_parallel: bool | None = None,
        gradient_accumulation_fusion: bool | None = None, regather: bool = True,
        sequence_dim: int = 0, dtype: torch.dtype | None = None,
        device: torch.device | str | None = None, **unknown: Any,
    ) -> None:
        super().__init__(
            input_size, output_size, split_dim=0, config=config, bias=bias, init_method=init_method,
            skip_bias_add=skip_bias_add, tp_group=tp_group, sequence_parallel=sequence_parallel,
            gradient_accumulation_fusion=gradient_accumulation_fusion, sequence_dim=sequence_dim,
            dtype=dtype, device=device, unknown=unknown)
        if gather_output and self.sequence_parallel:
            raise usage(
                "ColumnParallelLinear: gather_output: got it with sequence_parallel, "
                "expected one of the two")
        self.gather_output, self.regather = gather_output, regather
        if self.bias is not None:
            self.bias.tensor_model_parallel = True

    def forward(
        self, input_: Tensor, weight: Tensor | None = None,
        runtime_gather_output: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        used = self._used_weight(weight)
        bias = None if self.skip_bias_add else self.bias
        if self.sequence_parallel:
            keep = torch.is_grad_enabled() and not self.regather
            _, (y,) = ops.ag_gemm(
                input_, [used], None if bias is None else [bias], self.group_name,
                gather_dim=self.sequence_dim, return_gathered=keep)
        else:
            y = _regions.copy_linear(input_, used, bias, self.group_name)
        gather = self.gather_output if runtime_gather_output is None else runtime_gather_output
        if gather:
            y = _regions.gather_columns(y, self.group_name)
        return y, self.bias if self.skip_bias_add else None

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, **arguments: Any) -> ColumnParallelLinear:
        """This rank's part of a layer that every rank has. Local."""
        layer = cls(
            linear.in_features, linear.out_features, bias=linear.bias is not None,
            init_method=lambda w: w.copy_(linear.weight), dtype=linear.weight.dtype,
            device=linear.weight.device, **arguments)
        if layer.bias is not None:
            with torch.no_grad():
                layer.bias.copy_(linear.bias[layer._shard])
        return layer


class RowParallelLinear(_ParallelLinear):
    """y = x * weight^T + bias, the weight [output_size, input_size / ranks] on each rank.

    With sequence_parallel y is this rank's part of the sequence (gemm_rs), without it is the same
    on every rank (gemm_ar). Returns (y, None), or (y without bias, bias) with skip_bias_add. The
    bias's gradient under sequence_parallel is summed over the ranks, unless a config is given: then
    it carries Megatron's attribute `sequence_parallel` and Megatron sums it. Collective.
    Errors: tilelace.Error.
    """

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None,
        init_method: Callable[[Tensor], Any] | None = None, bias: bool = True,
        input_is_parallel: bool = True, skip_bias_add: bool = False, tp_comm_buffer_name: str | None = None,
        tp_group: Group = None, sequence_parallel: bool | None = None,
        gradient_accumulation_fusion: bool | None = None, sequence_dim: int = 0,
        dtype: torch.dtype | None = None, device: torch.device | str | None = None, **unknown: Any,
    ) -> None:
        super().__init__(
            input_size, output_size, split_dim=1, config=config, bias=bias, init_method=init_method,
            skip_bias_add=skip_bias_add, tp_group=tp_group, sequence_parallel=sequence_parallel,
            gradient_accumulation_fusion=gradient_accumulation_fusion, sequence_dim=sequence_dim,
            dtype=dtype, device=device, unknown=unknown)
        if self.sequence_parallel and not input_is_parallel:
            raise usage(
                "RowParallelLinear: input_is_parallel: got False with sequence_parallel, "
                "expected True")
        self.input_is_parallel = input_is_parallel
        if self.bias is not None:
            self.bias.sequence_parallel = self.sequence_parallel

    def forward(self, input_: Tensor) -> tuple[Tensor, Tensor | None]:
        x = input_
        if not self.input_is_parallel:
            x = _regions.split_columns(x, self.group_name)
        used, bias = self._used_weight(), self.bias
        if bias is not None and self.sequence_parallel and not self.megatron:
            bias = _regions.summed_gradient(bias, self.group_name)
        added = None if self.skip_bias_add else bias
        if self.sequence_parallel:
            y = ops.gemm_rs(x, used, added, self.group_name, scatter_dim=self.sequence_dim)
        else:
            y = ops.gemm_ar(x, used, added, self.group_name)
        return y, bias if self.skip_bias_add else None

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, **arguments: Any) -> RowParallelLinear:
        """This rank's part of a layer that every rank has. Local."""
        layer = cls(
            linear.in_features, linear.out_features, bias=linear.bias is not None,
            init_method=lambda w: w.copy_(linear.weight), dtype=linear.weight.dtype,
            device=linear.weight.device, **arguments)
        if layer.bias is not None:
            with torch.no_grad():
                layer.bias.copy_(linear.bias)
        return layer


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class ParallelMLP(torch.nn.Module):
    """hidden -> ffn_hidden -> hidden, the hidden layer split over the group.

    `activation`: gelu, gelu_tanh, silu or none; "swiglu": silu(gate) * up, linear_fc1's weight then
    holds this rank's gate rows and then its up rows. Outside of training the activation runs inside
    the product. Returns (y, bias or None) as RowParallelLinear. Collective. Errors: tilelace.Error.
    """

    def __init__(
        self, hidden_size: int, ffn_hidden_size: int, *, config: Any = None,
        activation: str = "gelu", bias: bool = True, skip_bias_add: bool = False,
        tp_group: Group = None, sequence_parallel: bool | None = None, **arguments: Any,
    ) -> None:
        super().__init__()
        if activation != "swiglu" and activation not in _ACTIVATIONS:
            raise usage(
                f'ParallelMLP: activation: got "{activation}", expected swiglu or one of '
                f"{', '.join(_ACTIVATIONS)}")
        self.activation, self.gated = activation, activation == "swiglu"
        common = dict(config=config, bias=bias, tp_group=tp_group,
                      sequence_parallel=sequence_parallel, **arguments)
        wide = 2 * ffn_hidden_size if self.gated else ffn_hidden_size
        self.linear_fc1 = ColumnParallelLinear(hidden_size, wide, **common)
        self.linear_fc2 = RowParallelLinear(
            ffn_hidden_size, hidden_size, skip_bias_add=skip_bias_add, **common)

    def _fused(self, x: Tensor) -> Tensor:
        fc1 = self.linear_fc1
        parts = 2 if self.gated else 1
        biases = None if fc1.bias is None else list(fc1.bias.chunk(parts))
        _, outs = ops.ag_gemm(
            x, list(fc1.weight.chunk(parts)), biases, fc1.group_name,
            gather_dim=fc1.sequence_dim, activation=self.activation)
        return outs[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.linear_fc1.sequence_parallel and not torch.is_grad_enabled():
            return self.linear_fc2(self._fused(x))
        hidden, _ = self.linear_fc1(x)
        if self.gated:
            gate, up = hidden.chunk(2, dim=-1)
            return self.linear_fc2(F.silu(gate) * up)
        return self.linear_fc2(_ACTIVATIONS[self.activation](hidden))
