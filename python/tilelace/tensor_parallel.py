# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.tensor.parallel with its products fused: change one import.

    from tilelace.tensor_parallel import ColwiseParallel, RowwiseParallel, parallelize_module

A linear layer whose input is Shard(sequence) is one ag_gemm, one whose output is Shard(sequence) a
gemm_rs, one whose output is Replicate a gemm_ar; backward the same. Parameters are DTensors as
PyTorch's styles make them, so checkpoints stay as they are. Where PyTorch's plans gather once with
PrepareModuleInput for several layers, that gather stays PyTorch's; give the layers themselves
input_layouts=Shard(1) to fuse it.
"""
from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel as _Colwise,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel as _Rowwise,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import Placement

from . import _regions, ops
from ._errors import usage

__all__ = [
    "ColwiseParallel", "PrepareModuleInput", "PrepareModuleOutput", "RowwiseParallel",
    "SequenceParallel", "loss_parallel", "parallelize_module",
]


def _local(style: str, x: Any, layout: Placement) -> tuple[Tensor, Placement]:
    """The rank's tensor and how it lies, whatever the module was given."""
    if not isinstance(x, DTensor):
        return x, layout
    (placement,) = x.placements
    if isinstance(placement, Shard) and x.shape[placement.dim] % x.device_mesh.size():
        raise usage(
            f"{style}: input: got a DTensor of {list(x.shape)} over {x.device_mesh.size()} ranks, "
            "expected a sharded dimension that they divide")
    return x.to_local(), placement


def _outgoing(y: Tensor, mesh: DeviceMesh, is_now: Placement, wanted: Placement, local: bool) -> Any:
    if local and is_now == wanted:
        return y
    y = DTensor.from_local(y, mesh, (is_now,), run_check=False)
    if is_now != wanted:
        y = y.redistribute(placements=(wanted,))
    return y.to_local() if local else y


def _require_divisible(style: str, what: str, size: int, mesh: DeviceMesh) -> None:
    if size % mesh.size():
        raise usage(f"{style}: {what}: got {size}, expected a multiple of the {mesh.size()} ranks")


def _sharded(x: Tensor, placement: Placement) -> int | None:
    """Which dimension but the last is split, if one is."""
    if not isinstance(placement, Shard):
        return None
    dim = placement.dim % x.dim()
    return None if dim == x.dim() - 1 else dim


def _parameter(parameter: Any) -> Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def _colwise_forward(module: nn.Linear, style: ColwiseParallel, mesh: DeviceMesh, name: str,
                     input: Any) -> Any:
    x, layout = _local("ColwiseParallel", input, style.input_layouts[0])
    weight = _parameter(module.weight)
    bias = None if module.bias is None else _parameter(module.bias)
    dim = _sharded(x, layout)
    if dim is not None:
        keep = torch.is_grad_enabled() and not style.regather
        _, (y,) = ops.ag_gemm(x, [weight], None if bias is None else [bias], name, gather_dim=dim,
                              return_gathered=keep)
    elif layout == Replicate():
        y = _regions.copy_linear(x, weight, bias, name)
    else:
        raise usage(f"ColwiseParallel: input: got {layout}, expected Replicate() or Shard(dim) of a "
                    "dimension before the last")
    is_now: Placement = Shard(y.dim() - 1)
    wanted = style.output_layouts[0]
    if isinstance(wanted, Shard):
        wanted = Shard(wanted.dim % y.dim())
    return _outgoing(y, mesh, is_now, wanted, style.use_local_output)


def _rowwise_forward(module: nn.Linear, style: RowwiseParallel, mesh: DeviceMesh, name: str,
                     input: Any) -> Any:
    x, layout = _local("RowwiseParallel", input, style.input_layouts[0])
    if layout == Replicate():
        x = _regions.split_columns(x, name)
    elif not isinstance(layout, Shard) or layout.dim % x.dim() != x.dim() - 1:
        raise usage(f"RowwiseParallel: input: got {layout}, expected Shard(-1) or Replicate()")
    weight = _parameter(module.weight)
    bias = None if module.bias is None else _parameter(module.bias)
    wanted = style.output_layouts[0]
    dim = _sharded(x, wanted)
    if dim is None:
        y = ops.gemm_ar(x, weight, bias, name)
        return _outgoing(y, mesh, Replicate(), wanted, style.use_local_output)
    _require_divisible("RowwiseParallel", f"input dimension {dim}", x.shape[dim], mesh)
    if bias is not None:
        bias = _regions.summed_gradient(bias, name)
    y = ops.gemm_rs(x, weight, bias, name, scatter_dim=dim)
    return _outgoing(y, mesh, Shard(dim), Shard(dim), style.use_local_output)


class ColwiseParallel(_Colwise):
    """PyTorch's ColwiseParallel; linear layers gather inside their product.

    `regather`: the input is gathered again for the weight's gradient instead of kept.
    """

    def __init__(self, *, regather: bool = True, **layouts: Any) -> None:
        super().__init__(**layouts)
        self.regather = regather

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, nn.Linear):
            return super()._apply(module, device_mesh)
        _require_divisible("ColwiseParallel", "out_features", module.out_features, device_mesh)
        distribute_module(module, device_mesh, self._partition_linear_fn)
        name = device_mesh.get_group().group_name
        module.forward = partial(_colwise_forward, module, self, device_mesh, name)
        return module


class RowwiseParallel(_Rowwise):
    """PyTorch's RowwiseParallel; linear layers reduce inside their product."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, nn.Linear):
            return super()._apply(module, device_mesh)
        _require_divisible("RowwiseParallel", "in_features", module.in_features, device_mesh)
        distribute_module(module, device_mesh, self._partition_linear_fn)
        name = device_mesh.get_group().group_name
        module.forward = partial(_rowwise_forward, module, self, device_mesh, name)
        return module
