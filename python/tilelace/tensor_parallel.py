# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.tensor.parallel with fused products: change one import.

    from tilelace.tensor_parallel import ColwiseParallel, RowwiseParallel, parallelize_module

A linear layer with input Shard(sequence) runs as ag_gemm, one with output Shard(sequence) as gemm_rs,
one with output Replicate as gemm_ar; backward is fused, too. Parameters are DTensors as PyTorch's
styles make them, so checkpoints stay the same. A gather by PrepareModuleInput for several layers
stays PyTorch's; give the layers themselves input_layouts=Shard(1) to fuse it.

Sizes that the ranks do not divide are split as DTensors are: ceil(size / ranks) each, and the last
ranks have less or nothing. n and k must be equal on all ranks, so uneven features are padded with
zeros.
"""
from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel as _Colwise,
)
from torch.distributed.tensor.parallel import (
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel import (
    RowwiseParallel as _Rowwise,
)
from torch.distributed.tensor.placement_types import Placement
from torch.nn.modules.module import _has_any_global_hook

from . import _fits, _regions, ops
from ._log import tell_once
from ._tuning import Problem

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
        """The size of every rank's part of a dimension, as torch.chunk splits it; empty parts included."""
        width = self.width(size)
        return [max(0, min(width, size - rank * width)) for rank in range(self.ranks)]

    def sizes(self, size: int) -> list[int] | None:
        """None if the ops split the same way: a dynamic size then stays dynamic."""
        return self.parts(size) if size % self.ranks else None


def _place(mesh: DeviceMesh) -> _Place:
    return _Place(mesh, mesh.get_group().group_name, mesh.size(), mesh.get_local_rank())


def _padded(x: Tensor, dim: int, size: int, wanted: int) -> Tensor:
    """Pads with zeros up to `size`. A larger tensor is left alone: the op refuses it."""
    if size == wanted:
        return x
    return F.pad(x, [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, wanted - size])


def _local(x: Any, layout: Placement, place: _Place) -> tuple[Tensor, Placement, list[int] | None]:
    """This rank's tensor, its placement, and the ranks' sizes if they differ.

    A plain tensor counts as split evenly, as in PyTorch's styles.
    """
    if not isinstance(x, DTensor):
        return x, layout, None
    (placement,) = x.placements
    sizes = place.sizes(x.shape[placement.dim]) if isinstance(placement, Shard) else None
    return x.to_local(), placement, sizes


def _outgoing(y: Tensor, place: _Place, is_now: Placement, wanted: Placement, local: bool,
              size: int | None = None) -> Any:
    """`size`: the split dimension's size over all ranks, if its parts are uneven."""
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
    """The split dimension, if one is split and it is not the last."""
    dim = _split_dim(x, placement)
    return None if dim == x.dim() - 1 else dim


# As they are when this is imported: what is patched later is somebody else's forward.
_FORWARD, _LINEAR = nn.Linear.forward, F.linear
_PLAIN = (Tensor, nn.Parameter, FakeTensor, FunctionalTensor, AsyncCollectiveTensor)


def _own_forward(module: nn.Module) -> bool:
    """Whether the class uses nn.Linear's forward, and that calls torch's product."""
    return type(module).forward is _FORWARD and F.linear is _LINEAR


def _others_look(module: nn.Module) -> bool:
    """Whether hooks other than the style's see inputs, outputs or gradients."""
    return bool(len(module._forward_pre_hooks) > 1 or len(module._forward_hooks) > 1
                or module._backward_hooks or module._backward_pre_hooks or _has_any_global_hook())


class _Fused:
    """The fused forward of a linear layer. Calls the class's own forward if that is not nn.Linear's.

    PyTorch's hooks of the style stay on the module. They do nothing while this is the module's
    forward, and redistribute inputs and outputs for any other forward.
    """

    def __init__(self, module: nn.Linear, style: ColwiseParallel | RowwiseParallel, place: _Place) -> None:
        self.module, self.style, self.place = module, style, place

    def problem(self, m: int) -> tuple[str, Problem] | None:
        """The group's name and what a call of m rows asks of it. None: nothing."""
        return self.style._problem(self.module, self.place, m)

    def is_in_force(self) -> bool:
        return self.module.forward is self and _own_forward(self.module)

    def __call__(self, input: Any) -> Any:
        module, style = self.module, self.style
        if not self.is_in_force():
            _tell_left(module)
            return type(module).forward(module, input)
        weight: Any = module.weight
        bias: Any = module.bias
        x, layout, sizes = _local(input, style.input_layouts[0], self.place)
        why = style._why_not(x, layout, weight, bias, self.place)
        if why:
            _tell(f"{type(style).__name__}: PyTorch's style runs a layer: {why}")
            laid_out = style._prepare_input_fn(
                style.input_layouts, style.desired_input_layouts, None, (input,), self.place.mesh)
            return type(module).forward(module, laid_out)
        local = style.use_local_output and not _others_look(module)
        return style._fused(x, layout, sizes, weight, bias, self.place, local)


def _fused_of(module: Any) -> _Fused | None:
    forward = getattr(module, "forward", None)
    return forward if isinstance(forward, _Fused) and forward.is_in_force() else None


@torch.compiler.assume_constant_result
def _tell(text: str) -> bool:
    tell_once(logging.WARNING, text)
    return True


def _tell_left(module: nn.Module) -> None:
    _tell(f"tensor_parallel: {type(module).__name__}: it has a forward of its own, not nn.Linear's: "
          "PyTorch's style runs")


def _input(theirs: Any, layouts: Any, desired: Any, module: Any, inputs: Any, mesh: DeviceMesh) -> Any:
    """For the style's hook: a fused layer redistributes its input itself; other hooks see a DTensor."""
    if _fused_of(module) is None:
        return theirs._prepare_input_fn(layouts, desired, module, inputs, mesh)
    if inputs and _others_look(module) and not isinstance(inputs[0], DTensor):
        return DTensor.from_local(inputs[0], mesh, layouts, run_check=False)
    return None


def _output(theirs: Any, layouts: Any, local: bool, module: Any, outputs: Any, mesh: DeviceMesh) -> Any:
    if _fused_of(module) is not None and not isinstance(outputs, DTensor):
        return None
    return theirs._prepare_output_fn(layouts, local, module, outputs, mesh)


def _apply(module: nn.Module, style: Any, mesh: DeviceMesh) -> nn.Module:
    """Applies PyTorch's style, then replaces a linear layer's forward."""
    if isinstance(module, nn.Linear):
        if _own_forward(module) and "forward" not in module.__dict__:
            module.forward = _Fused(module, style, _place(mesh))  # type: ignore[method-assign]
        else:
            _tell_left(module)
    return module


def _why_not_split(t: Tensor, place: _Place, wanted: Placement) -> str:
    """Why it is no DTensor of plain tensors with this style's placement; "" if it is."""
    if not isinstance(t, DTensor):
        return f"is a {type(t).__name__}, expected a DTensor placed {wanted}"
    if t.device_mesh != place.mesh:
        return f"is on {t.device_mesh}, expected {place.mesh}"
    if t.placements != (wanted,):
        return f"is placed {t.placements}, expected ({wanted},)"
    if type(t._local_tensor) not in _PLAIN:
        return f"is a DTensor of {type(t._local_tensor).__name__}, expected plain tensors"
    return ""


def _why_not(op: str, x: Tensor, parameters: list[tuple[Any, Any]], place: _Place) -> str:
    """Why the op cannot replace torch's product; "" if it can. Parameters with their placements."""
    for p, wanted in parameters:
        if p is not None and (why := _why_not_split(p, place, wanted)):
            return f"{'the weight' if p is parameters[0][0] else 'the bias'} {why}"
    if type(x) not in _PLAIN or x.dim() < 2:
        return f"got a {type(x).__name__} of {x.dim()} dimensions, expected a plain tensor of two or more dimensions"
    weight, wanted = parameters[0]
    (dtype, other) = (t.dtype for t in _regions.as_autocast(x, weight.to_local()))
    if dtype != other:
        return f"the input is {dtype}, expected {other}, like the weight"
    size = list(weight.shape)
    size[wanted.dim] = place.width(size[wanted.dim])
    return _fits.why_not(op, dtype, x.device, size, place.ranks)


class ColwiseParallel(_Colwise):
    """PyTorch's ColwiseParallel; linear layers gather inside their product.

    PyTorch's style runs a layer with a forward other than nn.Linear's, and a call that no op takes
    (its type, its layout, parameters that are not plain tensors). The logger "tilelace" says so
    once. `regather`: gather the input again for the weight's gradient instead of keeping it.
    """

    def __init__(self, *, regather: bool = True, **layouts: Any) -> None:
        super().__init__(**layouts)
        self.regather = regather

    _prepare_input_fn = staticmethod(partial(_input, _Colwise))
    _prepare_output_fn = staticmethod(partial(_output, _Colwise))

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return _apply(super()._apply(module, device_mesh), self, device_mesh)

    def _why_not(self, x: Tensor, layout: Placement, weight: Any, bias: Any, place: _Place) -> str:
        whole = layout == Replicate()
        if not whole and _sharded(x, layout) is None:
            return (f"the input is laid out as {layout}, expected Replicate or Shard of a dimension "
                    "before the last")
        parameters = [(weight, Shard(0)), (bias, Shard(0))]
        return _why_not("gemm_ar" if whole else "ag_gemm", x, parameters, place)

    def _problem(self, module: nn.Linear, place: _Place, m: int) -> tuple[str, Problem] | None:
        if self.input_layouts[0] == Replicate():
            return None
        n = place.width(module.out_features)
        return place.name, Problem("ag_gemm", m, n, module.in_features, module.weight.dtype)

    def _fused(self, x: Tensor, layout: Placement, sizes: list[int] | None, weight: DTensor,
               bias: DTensor | None, place: _Place, local: bool) -> Any:
        n = weight.shape[0]
        mine, width = place.parts(n)[place.rank], place.width(n)
        w, b = (p if p is None else _padded(p.to_local(), 0, mine, width) for p in (weight, bias))
        x, w, b = _regions.as_autocast(x, w, b)
        if layout == Replicate():
            y = _regions.copy_linear(x, w, b, place.name)
        else:
            keep = torch.is_grad_enabled() and not self.regather
            _, (y,) = ops.ag_gemm(x, [w], None if b is None else [b], place.name,
                                  gather_dim=_sharded(x, layout), return_gathered=keep, sizes=sizes)
        if mine != width:
            y = y[..., :mine].contiguous()
        wanted = self.output_layouts[0]
        split = _split_dim(y, wanted)
        if split is not None:
            wanted = Shard(split)
        return _outgoing(y, place, Shard(y.dim() - 1), wanted, local, n if n % place.ranks else None)


class RowwiseParallel(_Rowwise):
    """PyTorch's RowwiseParallel; linear layers reduce inside their product.

    PyTorch's style runs the same layers and calls as for ColwiseParallel.
    """

    _prepare_input_fn = staticmethod(partial(_input, _Rowwise))
    _prepare_output_fn = staticmethod(partial(_output, _Rowwise))

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return _apply(super()._apply(module, device_mesh), self, device_mesh)

    def _why_not(self, x: Tensor, layout: Placement, weight: Any, bias: Any, place: _Place) -> str:
        if layout != Replicate() and _split_dim(x, layout) != x.dim() - 1:
            return f"the input is laid out as {layout}, expected Replicate or Shard of the last dimension"
        scatters = _sharded(x, self.output_layouts[0]) is not None
        parameters = [(weight, Shard(1)), (bias, Replicate())]
        return _why_not("gemm_rs" if scatters else "gemm_ar", x, parameters, place)

    def _problem(self, module: nn.Linear, place: _Place, m: int) -> tuple[str, Problem] | None:
        op = "gemm_ar" if self.output_layouts[0] == Replicate() else "gemm_rs"
        k = place.width(module.in_features)
        return place.name, Problem(op, m, module.out_features, k, module.weight.dtype)

    def _has_room(self, x: Tensor, weight: DTensor, bias: DTensor | None, place: _Place) -> bool:
        """Whether a replicated result can be made now: in a capture nothing can be prepared."""
        if not (x.is_cuda and torch.cuda.is_current_stream_capturing()):
            return True
        cast, local = _regions.as_autocast(x, weight.to_local())
        return _fits.should_run("gemm_ar", cast, local, place.name, bias=bias is not None)

    @staticmethod
    def _summed(x: Tensor, weight: Tensor, bias: Tensor | None, place: _Place) -> Tensor:
        return ops.gemm_ar(x, weight, bias, place.name)

    def _fused(self, x: Tensor, layout: Placement, _: list[int] | None, weight: DTensor,
               bias: DTensor | None, place: _Place, local: bool) -> Any:
        k = weight.shape[1]
        mine, width = place.parts(k)[place.rank], place.width(k)
        if layout == Replicate():
            x = _padded(x, -1, k, width * place.ranks)
            x = _regions.split_columns(x, place.name, place.ranks, place.rank)
        else:
            x = _padded(x, -1, mine, width)
        w = _padded(weight.to_local(), 1, mine, width)
        b = None if bias is None else bias.to_local()
        wanted = self.output_layouts[0]
        dim = _sharded(x, wanted)
        if dim is None:
            x, w, b = _regions.as_autocast(x, w, b)
            y = self._summed(x, w, b, place)
            return _outgoing(y, place, Replicate(), wanted, local)
        if b is not None:
            b = _regions.each_ranks(b, place.name)
        sizes = place.sizes(x.shape[dim])
        y = ops.gemm_rs(*_regions.as_autocast(x, w, b), place.name, scatter_dim=dim, sizes=sizes)
        return _outgoing(y, place, Shard(dim), Shard(dim), local, x.shape[dim] if sizes else None)
