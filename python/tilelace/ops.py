# SPDX-License-Identifier: Apache-2.0
"""The ops as functions: torch.ops.tilelace with a group of any kind and tilelace.Error.

Shapes: tensors have at least two dimensions. The last one is multiplied. One of the others
(`gather_dim`, `scatter_dim`) is split over the ranks. A gathered dimension is split evenly. A
scattered one is too, and the first ranks get one more where it does not divide. `sizes` gives other
splits; a size may be zero. m is the dimension's size over all ranks, m_r this rank's part. In the
traffic m and m_r count all rows.

When: a call on CPU tensors returns when its results are complete. A call on CUDA tensors is enqueued
on the current stream: later work in that stream sees the results. An error during the call is raised
by the group's next call or by `synchronize`.

Activations: "none", "gelu", "gelu_tanh", "silu". ag_gemm with two weights also takes "swiglu".

`out` has the result's shape, type and device, and no two of its elements share memory. A call with
`out` has no gradients. Any strides: if the kernels cannot write `out` in place, the result is copied.

Errors: tilelace.Error of kind usage (wrong arguments, ranks that disagree), system, peer, timeout.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _arguments, _groups, _table
from ._errors import Error, error_of, was_told
from ._groups import Group

# Asked once, when a graph is compiled.
_qualified = torch.compiler.assume_constant_result(_groups.qualified)


@torch.compiler.assume_constant_result
def ranks_of(group: Group) -> int:
    """The number of ranks in a group. Local. Errors: usage (not a group)."""
    return _groups.size_and_rank(_groups.group_name(group))[0]


def _list(values: Any) -> Any:
    """Anything else than a sequence is passed on: the call raises the error."""
    try:
        return values if values is None else list(values)
    except TypeError:
        return values


def _name(group: Group, x: Tensor) -> str:
    if torch.compiler.is_compiling():
        return _qualified(group)
    name = group if isinstance(group, str) else _groups.group_name(group)
    if isinstance(x, Tensor) and x.is_cuda:
        _groups.ensure(name, "cuda", x.device.index)
    return name


_OPS = {name: getattr(torch.ops.tilelace, name).default for name in _table.CALLS}


def _run(
    op: str, args: Sequence[Any], settings: dict[str, Any], outs: Sequence[Tensor] = (), **results: Any
) -> Any:
    """Calls torch.ops.tilelace's `op`, or its form with outputs if `results` has an `out`."""
    fn = _OPS[op + "_out" if "out" in results else op]
    if torch.compiler.is_compiling():
        # A graph keeps the op alone; its errors are RuntimeErrors with the same text on GPUs.
        if not outs:
            return fn(*args, **settings, **results)
        fn(*args, **settings, **results, after=torch.ops.tilelace._order_before(args[0]))
        return torch.ops.tilelace._order_after(outs)
    tensors = _arguments.tensors_of(args)
    try:
        tensors += outs
        if any([t.is_meta for t in tensors]) and _arguments.without_data(tensors):
            raise TypeError("some tensors are meta and some have data: pass only meta tensors, or none")
        if forward_ad._current_level >= 0 and _arguments.has_tangents(tensors):
            raise TypeError("forward-mode derivatives are not supported: use reverse mode")
        if not torch.is_grad_enabled() or not any([t.requires_grad for t in tensors]):
            # The kernel of autograd is Python, and would take as long as the rest of the call.
            with torch._C._AutoDispatchBelowAutograd():
                result = fn(*args, **settings, **results)
            for t in outs:
                if not t.is_inference():
                    torch.autograd.graph.increment_version(t)
            return result
        if not outs:
            return fn(*args, **settings, **results)
        wrong = _arguments.NO_GRADIENTS
    except (AttributeError, RuntimeError, TypeError) as error:
        ours = error_of(error)
        if isinstance(ours, Error):
            if getattr(args[0], "is_cuda", False):  # (on CPU the kernel has)
                _groups.tell_failed(args[-1], "cuda", ours)
            try:
                raise ours from None
            finally:
                del ours  # a cycle with the traceback would keep the callers' groups
        if was_told(error):
            raise
        wrong = _arguments.what_is_wrong(op, args, outs, settings | results, error)
    # What the dispatcher could not make a call of, the peers are told.
    _arguments.refuse(op, args, wrong)


def _gathered_like(x: Tensor, outs: list[Tensor], dim: int) -> Tensor | None:
    try:
        size = list(x.shape)
        size[dim] = outs[0].shape[dim]
        return x.new_empty(size)
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return None  # the call says what is wrong


@_arguments.told
def ag_gemm(
    x: Tensor,
    weights: Tensor | Sequence[Tensor],
    biases: Tensor | Sequence[Tensor] | None = None,
    group: Group = None,
    *,
    gather_dim: int = 0,
    activation: str = "none",
    return_gathered: bool = False,
    sizes: Sequence[int] | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor | None, list[Tensor]]:
    """All-gather and product: out_i = act(x of all ranks * weight_i^T + bias_i) on every rank.

    `x` [.., m_r, .., k], `weights` [n_i, k] each (or views of that shape), `biases` [n_i]; out_i
    [.., m, .., n_i]; activation "swiglu" takes two weights (gate, up) and gives one result.
    `sizes`: size of `gather_dim` on every rank, if they differ. `out`: one tensor for each result.
    Returns (the gathered x [.., m, .., k] or None, the results). Collective. In training
    `return_gathered` also decides whether the weights' gradient reuses the gathered x or gathers it
    again. CUDA tensors: enqueued on the current stream; later work there sees the results. Any
    strides: tensors that kernels cannot read in place are copied. Traffic: (ranks - 1) * m_r * k
    elements leave each rank. Errors: tilelace.Error of kind usage, system, peer, timeout.
    """
    name = _name(group, x)
    weights = [weights] if isinstance(weights, Tensor) else _list(weights)
    biases = [biases] if isinstance(biases, Tensor) else _list(biases)
    settings = {"gather_dim": gather_dim, "activation": activation, "sizes": _list(sizes)}
    args = (x, weights, biases, name)
    if out is None:
        return _run("ag_gemm", args, settings, return_gathered=return_gathered)
    outs = _list(out)
    gathered = _gathered_like(x, outs, gather_dim) if return_gathered else None
    _run("ag_gemm", args, settings, outs, out=outs, gathered=gathered)
    return gathered, outs


@_arguments.told
def gemm_rs(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    group: Group = None,
    *,
    scatter_dim: int = 0,
    activation: str = "none",
    sizes: Sequence[int] | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product and reduce-scatter: this rank's rows of act(sum over ranks of x * weight^T + bias).

    `x` [.., m, .., k] (this rank's columns of the operand), `weight` [n, k], `bias` [n], added
    once; result and `out` [.., m_r, .., n]. `residual`: shaped as the result, added to it in fp32
    before it is rounded; no activation then. `sizes`: size of `scatter_dim` in every rank's result.
    Without it the split is even, and the first ranks get one more where m does not divide. The sum
    runs in fp32 in rank order and is rounded once. Collective; stream and strides as for ag_gemm.
    Traffic: (m - m_r) * n partials leave each rank. Errors: as ag_gemm.
    """
    name = _name(group, x)
    settings = {"scatter_dim": scatter_dim, "activation": activation, "sizes": _list(sizes)}
    args = (x, weight, bias, residual, name)
    if out is None:
        return _run("gemm_rs", args, settings)
    _run("gemm_rs", args, settings, (out,), out=out)
    return out


@_arguments.told
def gemm_ar(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    group: Group = None,
    *,
    activation: str = "none",
    residual: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product and all-reduce: act(sum over ranks of x * weight^T + bias), the same bits everywhere.

    `x` [.., k] (this rank's columns of the operand), `weight` [n, k], `bias` [n], added once; result
    and `out` [.., n]. `residual`: [.., n], the same on every rank, added once in fp32 before the
    result is rounded; no activation then. On GPUs an `out` from `tilelace.empty` or a `mem_pool` saves a copy.
    Collective; stream and strides as for ag_gemm. Traffic: (ranks - 1) / ranks * m * n partials and
    the same number of results leave each rank. Few rows on GPUs with transport pull:
    (ranks - 1) * m * n partials. Errors: as ag_gemm.
    """
    name = _name(group, x)
    settings = {"activation": activation}
    args = (x, weight, bias, residual, name)
    if out is None:
        return _run("gemm_ar", args, settings)
    _run("gemm_ar", args, settings, (out,), out=out)
    return out
