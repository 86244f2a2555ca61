# SPDX-License-Identifier: Apache-2.0
"""Steps between tensors that are split over a group and tensors that are the same on every rank.

A tensor that is the same on every rank counts once in the loss, as in Megatron: its gradient is
the same on every rank.
"""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import _functional_collectives as functional

from . import collectives, ops
from ._errors import usage


def slice_of(size: int, ranks: int, rank: int) -> slice:
    """This rank's part of `size`. Errors: usage (the ranks do not divide it)."""
    if size % ranks:
        raise usage(f"layer: size of the split dimension: got {size}, expected a multiple of the {ranks} ranks")
    part = size // ranks
    return slice(rank * part, (rank + 1) * part)


def as_autocast(x: Tensor, *others: Tensor | None) -> Any:
    """All of them in the type that autocast gives to products on x's device, where it is on.

    A cast's gradient has the type from before it.
    """
    device = x.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return x, *others
    dtype = torch.get_autocast_dtype(device)

    def cast(t: Tensor | None) -> Tensor | None:
        if t is None or not t.is_floating_point() or t.dtype == torch.float64:
            return t  # as torch's own products: fp64 stays
        return t.to(dtype)

    return tuple(cast(t) for t in (x, *others))


def _gather_last(x: Tensor, name: str, ranks: int) -> Tensor:
    whole = collectives.all_gather(x.reshape(-1, x.shape[-1]), name)
    return whole.view(ranks, *x.shape).movedim(0, -2).flatten(-2)


class _CopyLinear(torch.autograd.Function):
    """x * weight^T where x is the same on every rank and weight is split by rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, name: str) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.name = name
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        need_x, need_weight, need_bias, _ = ctx.needs_input_grad
        flat = grad.reshape(-1, grad.shape[-1])
        grad_x = ops.gemm_ar(grad, weight.t(), None, ctx.name) if need_x else None
        grad_weight = None
        if need_weight:
            grad_weight = flat.t().mm(each_ranks(x, ctx.name).reshape(-1, x.shape[-1]))
        return grad_x, grad_weight, flat.sum(0) if need_bias else None, None


class _GatherColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, ranks: int, rank: int) -> Tensor:
        ctx.place = name, ranks, rank
        return _gather_last(x, name, ranks)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return split_columns(grads[0], *ctx.place), None, None, None


class _SplitColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, ranks: int, rank: int) -> Tensor:
        ctx.place = name, ranks, rank
        return x[..., slice_of(x.shape[-1], ranks, rank)].contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return gather_columns(grads[0], *ctx.place), None, None, None


class _EachRanks(torch.autograd.Function):
    """A tensor that is the same on every rank, used separately by each: gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        ctx.name = name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _SumOfRanks.apply(grads[0], ctx.name), None


class _SumOfRanks(torch.autograd.Function):
    """The sum of every rank's own tensor; the result is the same on every rank."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: Any) -> Tensor:
        ctx.name = name
        # Waited for: a tensor that waits when it is used can be neither saved nor given away.
        return functional.wait_tensor(functional.all_reduce(x, "sum", name))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _EachRanks.apply(grads[0], ctx.name), None


class _Shared(torch.autograd.Function):
    """Rows of a weight of which some ranks have the same: gradients of those are summed.

    The rows from `first` on are `part` of `parts`; ranks with the same part share it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, first: int, part: int, parts: int, name: str) -> Tensor:
        ctx.place = first, part, parts, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _SumShared.apply(grads[0], *ctx.place), None, None, None, None


class _SumShared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, first: int, part: int, parts: int, name: str) -> Tensor:
        ctx.place = first, part, parts, name
        mine = x[first:]
        everyones = mine.new_zeros(parts, *mine.shape)
        everyones[part] = mine
        return torch.cat([x[:first], collectives.all_reduce(everyones, name)[part]])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _Shared.apply(grads[0], *ctx.place), None, None, None, None


class _IntoMainGrad(torch.autograd.Function):
    """The gradient goes into weight.main_grad, which has its own, wider type."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.weight = weight
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        weight = ctx.weight
        if torch.is_grad_enabled():
            raise usage("gradient_accumulation_fusion: main_grad has no second derivative: "
                        "run backward without create_graph")
        weight.main_grad.add_(grads[0])
        if hasattr(weight, "grad_added_to_main_grad"):
            weight.grad_added_to_main_grad = True
            return torch.zeros_like(weight)
        return None


def copy_linear(x: Tensor, weight: Tensor, bias: Tensor | None, name: str) -> Tensor:
    return _CopyLinear.apply(x, weight, bias, name)


# Ranks and rank are asked for when a layer is made: torch.compile cannot trace that question.
def gather_columns(x: Tensor, name: str, ranks: int, rank: int) -> Tensor:
    return _GatherColumns.apply(x, name, ranks, rank)


def split_columns(x: Tensor, name: str, ranks: int, rank: int) -> Tensor:
    return _SplitColumns.apply(x, name, ranks, rank)


def each_ranks(x: Tensor, name: str) -> Tensor:
    """x, the same on every rank, for separate use by each rank: its gradient is summed over the ranks."""
    return _EachRanks.apply(x, name)


def sum_of_ranks(x: Tensor, name: str) -> Tensor:
    """The sum of what each rank has of its own, the same on every rank."""
    return _SumOfRanks.apply(x, name)


def shared_rows(x: Tensor, first: int, part: int, parts: int, name: str) -> Tensor:
    """x, whose rows from `first` on are the same on all ranks of the same `part` of `parts`."""
    return _Shared.apply(x, first, part, parts, name)


def into_main_grad(weight: Tensor) -> Tensor:
    return _IntoMainGrad.apply(weight)
