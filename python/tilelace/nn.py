# SPDX-License-Identifier: Apache-2.0
"""Tensor-parallel layers with the arguments of Megatron-LM's.

Activations are [sequence, batch, hidden] (any dimensions; `sequence_dim` says which one sequence
parallelism splits). `config` may be Megatron's ModelParallelConfig, or anything with some of its
fields; keywords given here win over it. `tp_group` None: Megatron's tensor-parallel group where its
parallel_state is initialised, else the default group.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import _groups, _megatron, _regions, ops
from ._errors import usage
from ._groups import Group
from ._linear import ParallelLinear
from ._vocabulary import VocabParallelEmbedding, vocab_parallel_cross_entropy
from .norms import all_reduce_norm

__all__ = [
    "ColumnParallelLinear", "ParallelMLP", "QKVParallelLinear", "RMSNorm", "RowParallelLinear",
    "VocabParallelEmbedding", "vocab_parallel_cross_entropy",
]


class ColumnParallelLinear(ParallelLinear):
    """y = x * weight^T + bias, the weight [output_size / ranks, input_size] on each rank.

    With sequence_parallel x is this rank's part of the sequence (ag_gemm); without, the same on
    every rank. Returns (y, None), or (y without bias, bias) with skip_bias_add, or y alone with
    return_bias=False (vLLM's). `regather`: x is gathered again for the weight's gradient instead of
    kept. Collective where it communicates: with sequence_parallel, with gather_output, in backward.
    Errors: tilelace.Error.
    """

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None,
        init_method: Callable[[Tensor], Any] | None = None, bias: bool = True,
        gather_output: bool = False, skip_bias_add: bool = False,
        tp_comm_buffer_name: str | None = None, tp_group: Group = None,
        sequence_parallel: bool | None = None, gradient_accumulation_fusion: bool | None = None,
        regather: bool = True, sequence_dim: int = 0, stride: int = 1, return_bias: bool = True,
        output_dtype: torch.dtype | None = None, dtype: torch.dtype | None = None,
        device: torch.device | str | None = None, **unknown: Any,
    ) -> None:
        super().__init__(
            input_size, output_size, split_dim=0, config=config, bias=bias, init_method=init_method,
            skip_bias_add=skip_bias_add, tp_group=tp_group, sequence_parallel=sequence_parallel,
            gradient_accumulation_fusion=gradient_accumulation_fusion, sequence_dim=sequence_dim,
            stride=stride, return_bias=return_bias, output_dtype=output_dtype, dtype=dtype,
            device=device, unknown=unknown)
        self.gather_output, self.regather = gather_output, regather
        if gather_output:
            self._check_order("gather_output", True)
        self.output_size_per_partition = self.weight.shape[0]

    def forward(
        self, input_: Tensor, weight: Tensor | None = None,
        runtime_gather_output: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(y [.., m, .., output_size / ranks], bias or None) for input_ [.., m_r, .., input_size].

        `input_` has all rows without sequence_parallel. `weight`: used instead of the layer's own.
        `runtime_gather_output`: instead of gather_output. Collective as the class says.
        Errors: tilelace.Error.
        """
        used = self._used_weight(weight)
        own: Tensor | None = self.bias
        if torch.is_grad_enabled():
            used, own = self._shared(used), None if own is None else self._shared(own)
        x, used, bias = _regions.as_autocast(input_, used, None if self.skip_bias_add else own)
        if self.sequence_parallel:
            keep = torch.is_grad_enabled() and not self.regather
            _, (y,) = ops.ag_gemm(
                x, [used], None if bias is None else [bias], self.group_name,
                gather_dim=self.sequence_dim, return_gathered=keep)
        else:
            y = _regions.copy_linear(x, used, bias, self.group_name)
        gather = self.gather_output if runtime_gather_output is None else runtime_gather_output
        if gather:
            self._check_order("gather_output", True)
            y = _regions.gather_columns(y, self.group_name, self._ranks, self._rank)
        return self._returned(y, own)

    def _shared(self, rows: Tensor) -> Tensor:
        """Of the weight or the bias: what other ranks have, too, gets the sum of their gradients."""
        return rows


class QKVParallelLinear(ColumnParallelLinear):
    """Column-parallel q, k and v of an attention in one product, split by heads.

    The unsharded weight is all q rows, then all k rows, then all v rows, `head_size` a head. This rank
    has its part of each: `sizes` of y's last dimension, for y.split(layer.sizes, -1). Where there are
    fewer key and value heads than ranks each is on ranks / heads of them (rank r has head
    r * heads / ranks), and its gradient is the sum of theirs. Other arguments, results, communication:
    as ColumnParallelLinear's, without `gather_output` and `stride`. Errors: usage (heads that the ranks
    do not divide), tilelace.Error.
    """

    def __init__(
        self, hidden_size: int, head_size: int, total_num_heads: int,
        total_num_kv_heads: int | None = None, **arguments: Any,
    ) -> None:
        for name in ("gather_output", "stride"):
            if name in arguments:
                raise usage(f"QKVParallelLinear: {name}: got {arguments[name]!r}, expected no argument of "
                            "this name: every rank has heads of q, k and v")
        self.head_size, self.total_num_heads = head_size, total_num_heads
        self.total_num_kv_heads = total_num_kv_heads or total_num_heads
        super().__init__(
            hidden_size, (total_num_heads + 2 * self.total_num_kv_heads) * head_size, **arguments)
        self.sizes = [s.stop - s.start for s in self._shards]

    @classmethod
    def _of_size(cls, input_size: int, output_size: int, **arguments: Any) -> Any:
        layer = cls(input_size, **arguments)
        if layer.output_size != output_size:
            raise usage(f"QKVParallelLinear.from_linear: linear: got {output_size} output features, "
                        f"expected {layer.output_size} for the q, k and v heads")
        return layer

    def _shards_of(self, size: int, stride: int) -> list[slice]:
        q, kv, ranks = self.total_num_heads, self.total_num_kv_heads, self._ranks
        if q % ranks or (kv % ranks and ranks % kv):
            raise usage(f"QKVParallelLinear: heads: got {q} for queries and {kv} for keys and values, expected a "
                        f"multiple of the {ranks} ranks for queries, and a multiple or a divisor of the ranks for "
                        "keys and values")
        self.num_heads, self.num_kv_heads = q // ranks, max(1, kv // ranks)
        first = self._rank * kv // ranks
        starts = [(self._rank * self.num_heads, self.num_heads), (q + first, self.num_kv_heads),
                  (q + kv + first, self.num_kv_heads)]
        return [slice(s * self.head_size, (s + n) * self.head_size) for s, n in starts]

    def _shared(self, rows: Tensor) -> Tensor:
        heads = self.total_num_kv_heads
        if heads >= self._ranks:
            return rows
        return _regions.shared_rows(
            rows, self.sizes[0], self._rank * heads // self._ranks, heads, self.group_name)

    def sharded_state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Not there: Megatron has another order of q, k and v. Errors: usage."""
        raise usage("QKVParallelLinear: sharded_state_dict is not supported: the weight's rows are all q, then "
                    "all k and all v, but Megatron's linear_qkv has q, k and v by group of heads: use "
                    "ColumnParallelLinear for linear_qkv")


class RowParallelLinear(ParallelLinear):
    """y = x * weight^T + bias, the weight [output_size, input_size / ranks] on each rank.

    With sequence_parallel y is this rank's part of the sequence (gemm_rs), without it is the same
    on every rank (gemm_ar). Returns as ColumnParallelLinear. The bias's gradient under
    sequence_parallel is summed over the ranks, unless a config is given: then it carries Megatron's
    attribute `sequence_parallel` and Megatron sums it. Collective. Errors: tilelace.Error.
    """

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None,
        init_method: Callable[[Tensor], Any] | None = None, bias: bool = True,
        input_is_parallel: bool = True, skip_bias_add: bool = False,
        tp_comm_buffer_name: str | None = None, tp_group: Group = None,
        sequence_parallel: bool | None = None, gradient_accumulation_fusion: bool | None = None,
        sequence_dim: int = 0, stride: int = 1, return_bias: bool = True,
        output_dtype: torch.dtype | None = None,
        dtype: torch.dtype | None = None, device: torch.device | str | None = None, **unknown: Any,
    ) -> None:
        super().__init__(
            input_size, output_size, split_dim=1, config=config, bias=bias, init_method=init_method,
            skip_bias_add=skip_bias_add, tp_group=tp_group, sequence_parallel=sequence_parallel,
            gradient_accumulation_fusion=gradient_accumulation_fusion, sequence_dim=sequence_dim,
            stride=stride, return_bias=return_bias, output_dtype=output_dtype, dtype=dtype,
            device=device, unknown=unknown)
        if self.sequence_parallel and not input_is_parallel:
            raise usage(
                "RowParallelLinear: input_is_parallel: got False with sequence_parallel, "
                "expected True")
        self.input_is_parallel = input_is_parallel
        if not input_is_parallel:
            self._check_order("input_is_parallel", False)
        self.input_size_per_partition = self.weight.shape[1]
        own: Any = self.bias
        if own is not None:
            own.sequence_parallel = self.sequence_parallel

    def forward(
        self, input_: Tensor, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(y [.., m_r, .., output_size], bias or None) for input_ [.., m, .., input_size / ranks].

        y has all rows without sequence_parallel. `residual`: shaped as y, added to it before it is
        rounded; without sequence_parallel the same on every rank. Collective. Errors: tilelace.Error.
        """
        x = input_
        if not self.input_is_parallel:
            x = _regions.split_columns(x, self.group_name, self._ranks, self._rank)
        used = self._used_weight()
        bias: Tensor | None = self.bias
        if bias is not None and self.sequence_parallel and not self.megatron:
            bias = _regions.each_ranks(bias, self.group_name)
        x, used, added, residual = _regions.as_autocast(
            x, used, None if self.skip_bias_add else bias, residual)
        if self.sequence_parallel:
            y = ops.gemm_rs(
                x, used, added, self.group_name, scatter_dim=self.sequence_dim, residual=residual)
        else:
            y = ops.gemm_ar(x, used, added, self.group_name, residual=residual)
        return self._returned(y, bias)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class ParallelMLP(torch.nn.Module):
    """hidden -> ffn_hidden -> hidden, the hidden layer split over the group.

    `activation`: gelu, gelu_tanh, silu or none; "swiglu": silu(gate) * up, the unsharded weight of
    linear_fc1 is then all gate rows and then all up rows, of which this rank has its part of each.
    With sequence_parallel, and gradients off (torch.no_grad, torch.inference_mode), the activation
    runs inside the product; else PyTorch's own kernels run it. `regather`: as
    ColumnParallelLinear's. Returns as
    RowParallelLinear. Collective. Errors: tilelace.Error.
    """

    def __init__(
        self, hidden_size: int, ffn_hidden_size: int, *, config: Any = None,
        activation: str = "gelu", bias: bool = True, skip_bias_add: bool = False,
        tp_group: Group = None, sequence_parallel: bool | None = None, regather: bool = True,
        return_bias: bool = True, **arguments: Any,
    ) -> None:
        super().__init__()
        for name in ("gather_output", "input_is_parallel", "stride"):
            if name in arguments:
                raise usage(f"ParallelMLP: {name}: got {arguments[name]!r}, expected no argument of "
                            "this name: the hidden layer always stays split")
        if activation != "swiglu" and activation not in _ACTIVATIONS:
            raise usage(
                f'ParallelMLP: activation: got "{activation}", expected swiglu or one of '
                f"{', '.join(_ACTIVATIONS)}")
        self.activation, self.gated = activation, activation == "swiglu"
        common = dict(config=config, bias=bias, tp_group=tp_group,
                      sequence_parallel=sequence_parallel, **arguments)
        wide = 2 * ffn_hidden_size if self.gated else ffn_hidden_size
        self.linear_fc1 = ColumnParallelLinear(
            hidden_size, wide, regather=regather, stride=2 if self.gated else 1, **common)
        self.linear_fc2 = RowParallelLinear(
            ffn_hidden_size, hidden_size, skip_bias_add=skip_bias_add, return_bias=return_bias, **common)

    def _fused(self, x: Tensor) -> Tensor:
        fc1 = self.linear_fc1
        parts = 2 if self.gated else 1
        x, weight, bias = _regions.as_autocast(x, fc1.weight, fc1.bias)
        biases = None if bias is None else list(bias.chunk(parts))
        _, outs = ops.ag_gemm(
            x, list(weight.chunk(parts)), biases, fc1.group_name,
            gather_dim=fc1.sequence_dim, activation=self.activation)
        return outs[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(y, bias or None): x and y [.., m_r, .., hidden_size], all rows without sequence_parallel.

        Collective. Errors: tilelace.Error.
        """
        if self.linear_fc1.sequence_parallel and not torch.is_grad_enabled():
            return self.linear_fc2(self._fused(x))
        hidden, _ = self.linear_fc1(x)
        if self.gated:
            gate, up = hidden.chunk(2, dim=-1)
            return self.linear_fc2(F.silu(gate) * up)
        return self.linear_fc2(_ACTIVATIONS[self.activation](hidden))

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: Any = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """For Megatron's distributed checkpoints, as its MLP's. Local. Errors: usage (no Megatron)."""
        tensors: dict[str, Any] = {}
        layers: list[tuple[str, Any]] = list(self.named_children())
        for name, layer in layers:
            part = layer.sharded_state_dict(f"{prefix}{name}.", sharded_offsets, metadata)
            if self.gated and name == "linear_fc1":
                _megatron.gated(part, sharded_offsets, metadata)
            tensors.update(part)
        return tensors


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm behind a layer whose ranks have partial sums, which it adds up, too.

    forward(x, residual) of this rank's terms x [.., n] and a residual [.., n] that is the same on every
    rank gives (the norm, the next residual), both the same on every rank: residual + the sum of x,
    normed (tilelace.all_reduce_norm). Without a residual the next one is the sum. So the layer before
    it leaves its all-reduce out. bf16 and fp16, one dimension, a multiple of 8 up to 16384. `eps` None:
    torch's. Gradients, weight and state as torch's, the same on every rank. Collective.
    Errors: tilelace.Error.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, tp_group: Group = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        if len(self.normalized_shape) != 1:
            raise usage(f"RMSNorm: normalized_shape: got {self.normalized_shape}, expected one dimension")
        if tp_group is None:
            tp_group = _megatron.tensor_parallel_group()
        self.group_name = _groups.group_name(tp_group)

    def forward(  # type: ignore[override]
        self, x: Tensor, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(norm of the sum of x and the residual, that sum), as the class says. Collective.

        Errors: tilelace.Error.
        """
        weight = x.new_ones(self.normalized_shape) if self.weight is None else self.weight
        eps = torch.finfo(torch.float).eps if self.eps is None else self.eps
        normed, summed, *_ = all_reduce_norm(x, weight, self.group_name, residual=residual, eps=eps)
        return normed, summed
