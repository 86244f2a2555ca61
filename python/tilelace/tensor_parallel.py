# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.tensor.parallel with its products fused: change one import.

    from tilelace.tensor_parallel import ColwiseParallel, RowwiseParallel, parallelize_module

A linear layer whose input is Shard(sequence) is one ag_gemm, one whose output is Shard(sequence) a
gemm_rs, one whose output is Replicate a gemm_ar; backward the same. Parameters are DTensors as
PyTorch's styles make them, so checkpoints stay as they are. Where PyTorch's plans gather once with
PrepareModuleInput for several layers, that gather stays PyTorch's; give the layers themselves
input_layouts=Shard(1) to fuse it.

Sizes that the ranks do not divide are split as DTensors are: ceil(size / ranks) each, the last ranks
less or nothing. Products of ranks agree on n and k, so uneven features are padded with zeros.
"""
from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel as _Colwise,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
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
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]


class _Place(NamedTuple):
    """A mesh of one dimension, the name of its group, and where this rank is in it."""

    mesh: DeviceMesh
    name: str
    ranks: int
    rank: int

    def width(self, size: int) -> int:
        return -(-size // self.ranks)

    def parts(self, size: int) -> list[int]:
        """Every rank's part of a dimension, as torch.chunk makes them, empty ones too."""
        width = self.width(size)
        return [max(0, min(width, size - rank * width)) for rank in range(self.ranks)]

    def sizes(self, size: int) -> list[int] | None:
        """None where the ops split the same way: a dynamic size then stays one."""
        return self.parts(size) if size % self.ranks else None


def _place(mesh: DeviceMesh) -> _Place:
    return _Place(mesh, mesh.get_group().group_name, mesh.size(), mesh.get_local_rank())


def _padded(x: Tensor, dim: int, size: int, wanted: int) -> Tensor:
    """With as many zeros behind as `size` lacks; a wrong size stays one, for the op to refuse."""
    if size == wanted:
        return x
    return F.pad(x, [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, wanted - size])


def _local(x: Any, layout: Placement, place: _Place) -> tuple[Tensor, Placement, list[int] | None]:
    """The rank's tensor, how it lies and the ranks' sizes if uneven, whatever the module was given.

    A tensor that is no DTensor counts as one of even parts, as PyTorch's styles take it.
    """
    if not isinstance(x, DTensor):
        return x, layout, None
    (placement,) = x.placements
    sizes = place.sizes(x.shape[placement.dim]) if isinstance(placement, Shard) else None
    return x.to_local(), placement, sizes


def _outgoing(y: Tensor, place: _Place, is_now: Placement, wanted: Placement, local: bool,
              size: int | None = None) -> Any:
    """`size`: of the dimension that is split, over all ranks, where its parts are uneven."""
    if local and is_now == wanted:
        return y
    whole: dict[str, Any] = {}
    if size is not None and isinstance(is_now, Shard):
        y = y.contiguous()
        shape = torch.Size((*y.shape[:is_now.dim], size, *y.shape[is_now.dim + 1:]))
        whole = {"shape": shape, "stride": torch.empty(shape, device="meta").stride()}
    y = DTensor.from_local(y, place.mesh, (is_now,), run_check=False, **whole)
    if is_now != wanted:
        y = y.redistribute(placements=(wanted,))
    return y.to_local() if local else y


def _split_dim(x: Tensor, placement: Placement) -> int | None:
    """The dimension that is split, counted from the first."""
    if not isinstance(placement, Shard):
        return None
    # torch.compile may take a placement's dim for a dynamic number, and makes no Shard of one.
    for dim in range(x.dim()):
        if dim == placement.dim % x.dim():
            return dim
    return None


def _sharded(x: Tensor, placement: Placement) -> int | None:
    """Which dimension but the last is split, if one is."""
    dim = _split_dim(x, placement)
    return None if dim == x.dim() - 1 else dim


def _parameters(module: nn.Linear) -> list[Tensor | None]:
    return [p.to_local() if isinstance(p, DTensor) else p for p in (module.weight, module.bias)]


def _colwise_forward(module: nn.Linear, style: ColwiseParallel, place: _Place, input: Any) -> Any:
    x, layout, sizes = _local(input, style.input_layouts[0], place)
    n = module.out_features
    mine, width = place.parts(n)[place.rank], place.width(n)
    weight, bias = (p if p is None else _padded(p, 0, mine, width) for p in _parameters(module))
    x, weight, bias = _regions.as_autocast(x, weight, bias)
    dim = _sharded(x, layout)
    if dim is not None:
        keep = torch.is_grad_enabled() and not style.regather
        _, (y,) = ops.ag_gemm(x, [weight], None if bias is None else [bias], place.name,
                              gather_dim=dim, return_gathered=keep, sizes=sizes)
    elif layout == Replicate():
        y = _regions.copy_linear(x, weight, bias, place.name)
    else:
        raise usage(f"ColwiseParallel: input: got {layout}, expected Replicate() or Shard(dim) of a "
                    "dimension before the last")
    if mine != width:
        y = y[..., :mine].contiguous()
    is_now: Placement = Shard(y.dim() - 1)
    wanted = style.output_layouts[0]
    split = _split_dim(y, wanted)
    if split is not None:
        wanted = Shard(split)
    return _outgoing(y, place, is_now, wanted, style.use_local_output,
                     n if n % place.ranks else None)


def _rowwise_input(module: nn.Linear, layout: Placement, x: Tensor, place: _Place) -> Tensor:
    """This rank's columns, of the same number on every rank."""
    k = module.in_features
    width = place.width(k)
    if layout == Replicate():
        x = _padded(x, -1, k, width * place.ranks)
        return _regions.split_columns(x, place.name, place.ranks, place.rank)
    if _split_dim(x, layout) != x.dim() - 1:
        raise usage(f"RowwiseParallel: input: got {layout}, expected Shard(-1) or Replicate()")
    return _padded(x, -1, place.parts(k)[place.rank], width)


def _rowwise_forward(module: nn.Linear, style: RowwiseParallel, place: _Place, input: Any) -> Any:
    x, layout, _ = _local(input, style.input_layouts[0], place)
    x = _rowwise_input(module, layout, x, place)
    k = module.in_features
    weight, bias = _parameters(module)
    weight = _padded(weight, 1, place.parts(k)[place.rank], place.width(k))
    wanted = style.output_layouts[0]
    dim = _sharded(x, wanted)
    if dim is None:
        y = ops.gemm_ar(*_regions.as_autocast(x, weight, bias), place.name)
        return _outgoing(y, place, Replicate(), wanted, style.use_local_output)
    if bias is not None:
        bias = _regions.summed_gradient(bias, place.name)
    sizes = place.sizes(x.shape[dim])
    y = ops.gemm_rs(*_regions.as_autocast(x, weight, bias), place.name, scatter_dim=dim, sizes=sizes)
    return _outgoing(y, place, Shard(dim), Shard(dim), style.use_local_output,
                     x.shape[dim] if sizes else None)


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
        distribute_module(module, device_mesh, self._partition_linear_fn)
        module.forward = partial(_colwise_forward, module, self, _place(device_mesh))
        return module


class RowwiseParallel(_Rowwise):
    """PyTorch's RowwiseParallel; linear layers reduce inside their product."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, nn.Linear):
            return super()._apply(module, device_mesh)
        distribute_module(module, device_mesh, self._partition_linear_fn)
        module.forward = partial(_rowwise_forward, module, self, _place(device_mesh))
        return module
