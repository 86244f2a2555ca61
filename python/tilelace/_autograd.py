# SPDX-License-Identifier: Apache-2.0
"""Gradients: that of a gather is a reduction, that of a reduction a gather.

Each rank's tensors get the derivative of the sum of all ranks' losses. A result that is the same on
every rank (gemm_ar) counts once. A bias of gemm_rs gets the gradient of this rank's rows. The formulas
use ops that have gradients themselves, so derivatives of any order are right.
"""
from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from . import _groups, _regions
from ._arguments import NO_GRADIENTS, has_tangents
from ._errors import call, usage
from ._kernels import LIB
from ._table import CALLS, OPS, Op


class _Ops:
    """torch.ops.tilelace with errors of our type, also from autograd's own threads."""

    def __getattr__(self, name: str) -> Any:
        return partial(call, getattr(torch.ops.tilelace, name))


_OPS = _Ops()


def _flat(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1])


def _product_grad(grad: Tensor, x: Tensor) -> Tensor:
    """Of y = x * w^T with respect to w."""
    return _flat(grad).t().mm(_flat(x))


def _column_sum(grad: Tensor) -> Tensor:
    return _flat(grad).sum(0)


def _before_silu(grad: Tensor, before: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(grad, before)
    # torch's kernel has no derivative.
    b = before.float()
    s = torch.sigmoid(b)
    return (grad.float() * s * (1 + b * (1 - s))).to(grad.dtype)


def _before(grad: Tensor, activation: str, before: Tensor) -> Tensor:
    """The gradient of what went into the activation."""
    if activation == "silu":
        return _before_silu(grad, before)
    how = "tanh" if activation == "gelu_tanh" else "none"
    return torch.ops.aten.gelu_backward(grad, before, approximate=how)


# --- ag_gemm


def _save_gather(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, weights, biases, ctx.group = inputs
    _keep_gather(ctx, x, weights, biases, keyword_only_inputs, output[0])


def _save_gather_like(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, weights, ctx.group, like = inputs
    _keep_gather(ctx, x, weights, None, keyword_only_inputs, output[0], like)


def _keep_gather(ctx: Any, x: Tensor, weights: Any, biases: Any, settings: Any, kept: Any,
                 *like: Tensor) -> None:
    ctx.settings = dict(settings)
    ctx.dim = ctx.settings["gather_dim"] % x.dim()
    ctx.kept, ctx.weights = kept is not None, len(weights)
    ctx.biases, ctx.like = len(biases or ()), len(like)
    ctx.has_bias = biases is not None
    # What was returned is reused for the weights' gradient; else x is gathered once more.
    ctx.save_for_backward(x if kept is None else kept, *weights, *(biases or ()), *like)
    ctx.set_materialize_grads(False)


def _before_gather_activation(
    activation: str, grads: list[Any], gathered: Tensor, weights: Any, biases: Any
) -> list[Any]:
    before = [
        F.linear(gathered, w, biases[i] if biases else None) for i, w in enumerate(weights)
    ]
    if activation != "swiglu":
        pairs = zip(grads, before)
        return [None if g is None else _before(g, activation, b) for g, b in pairs]
    gate, up = before
    return [_before_silu(grads[0] * up, gate), grads[0] * F.silu(gate)]


def _gather_backward(ctx: Any, grad_gathered: Any, grad_outs: Any) -> Any:
    kept, *rest = ctx.saved_tensors
    weights, like = rest[: ctx.weights], rest[ctx.weights + ctx.biases:]
    biases = rest[ctx.weights: ctx.weights + ctx.biases]
    need_x, need_weights = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
    need_biases = ctx.needs_input_grad[2] if ctx.has_bias else None
    sizes, activation = ctx.settings.get("sizes"), ctx.settings.get("activation", "none")
    wanted = any(g is not None for g in grad_outs)
    gathered: Any = kept if ctx.kept else None
    if gathered is None and wanted and (activation != "none" or any(need_weights)):
        if like:
            gathered = _OPS._all_gather_like(kept, ctx.group, *like, gather_dim=ctx.dim)
        else:
            gathered = _OPS.all_gather(kept, ctx.group, gather_dim=ctx.dim, sizes=sizes)
    grads: list[Tensor | None] = list(grad_outs)
    if wanted and activation != "none":
        grads = _before_gather_activation(activation, grads, gathered, weights, biases)
    grad_x = None
    if need_x and wanted:
        pairs = [(g, w) for g, w in zip(grads, weights) if g is not None]
        grad = pairs[0][0] if len(pairs) == 1 else torch.cat([g for g, _ in pairs], -1)
        weight = pairs[0][1] if len(pairs) == 1 else torch.cat([w for _, w in pairs], 0)
        grad_x = _OPS.gemm_rs(
            grad, weight.t(), None, None, ctx.group, scatter_dim=ctx.dim, sizes=sizes)
    if need_x and grad_gathered is not None:
        part = _OPS.reduce_scatter(grad_gathered, ctx.group, scatter_dim=ctx.dim, sizes=sizes)
        grad_x = part if grad_x is None else grad_x + part
    grad_weights = [
        _product_grad(g, gathered) if need and g is not None else None
        for g, need in zip(grads, need_weights)
    ]
    grad_biases = [
        _column_sum(g) if need and g is not None else None
        for g, need in zip(grads, need_biases or ())
    ]
    return grad_x, grad_weights, grad_biases if ctx.has_bias else None, None


# --- gemm_rs and gemm_ar


def _save_reduce(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, weight, _, _, ctx.group = inputs
    ctx.settings = dict(keyword_only_inputs)
    ctx.dim = ctx.settings.get("scatter_dim", 0) % x.dim()
    bias = inputs[2] if ctx.settings["activation"] != "none" else None
    ctx.save_for_backward(x, weight, bias)


def _scatter_backward(ctx: Any, grad: Tensor) -> Any:
    x, weight, bias = ctx.saved_tensors
    need_x, need_weight, need_bias, need_residual = ctx.needs_input_grad[:4]
    sizes, activation = ctx.settings["sizes"], ctx.settings["activation"]
    if activation != "none":
        before = _OPS.gemm_rs(x, weight, bias, None, ctx.group, scatter_dim=ctx.dim, sizes=sizes)
        grad = _before(grad, activation, before)
    grad_x: Any = None
    gathered: Any = None
    if need_x and sizes is None:
        gathered, (grad_x,) = _OPS._ag_gemm_like(
            grad, [weight.t()], ctx.group, x, gather_dim=ctx.dim, return_gathered=need_weight)
    elif need_x:
        gathered, (grad_x,) = _OPS.ag_gemm(
            grad, [weight.t()], None, ctx.group, gather_dim=ctx.dim, sizes=sizes,
            return_gathered=need_weight)
    elif need_weight and sizes is None:
        gathered = _OPS._all_gather_like(grad, ctx.group, x, gather_dim=ctx.dim)
    elif need_weight:
        gathered = _OPS.all_gather(grad, ctx.group, gather_dim=ctx.dim, sizes=sizes)
    grad_weight = _product_grad(gathered, x) if need_weight else None
    grad_bias = _column_sum(grad) if need_bias else None
    return grad_x, grad_weight, grad_bias, grad if need_residual else None, None


def _all_reduce_backward(ctx: Any, grad: Tensor) -> Any:
    x, weight, bias = ctx.saved_tensors
    need_x, need_weight, need_bias, need_residual = ctx.needs_input_grad[:4]
    activation = ctx.settings["activation"]
    if activation != "none":
        grad = _before(grad, activation, _OPS.gemm_ar(x, weight, bias, None, ctx.group))
    # The result's gradient is the same on every rank.
    return (
        _regions.copy_linear(grad, weight.t(), None, ctx.group) if need_x else None,
        _product_grad(_regions.each_ranks(grad, ctx.group), x) if need_weight else None,
        _column_sum(grad) if need_bias else None,
        grad if need_residual else None,  # it, too, is the same on every rank
        None,
    )


def _no_backward(*_: Any) -> Any:
    raise usage("ops without weights have no gradient: call them under torch.no_grad")


# --- the collectives alone: what a rank's loss needs of the others' tensors comes from them, and the
# losses of all ranks count, as in torch.distributed._functional_collectives


def _save_alone(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.group, ctx.settings = inputs[1], dict(keyword_only_inputs)


def _gather_alone_backward(ctx: Any, grad: Tensor) -> Any:
    grad_x = _OPS.reduce_scatter(
        grad, ctx.group, scatter_dim=ctx.settings["gather_dim"], sizes=ctx.settings.get("sizes"))
    return grad_x, *[None] * (len(ctx.needs_input_grad) - 1)


def _save_scatter_alone(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    _save_alone(ctx, inputs, keyword_only_inputs, output)
    ctx.save_for_backward(inputs[0])


def _of_sums(name: str, ctx: Any) -> str:
    """The reduction, which has a gradient."""
    op: str = ctx.settings.get("reduce_op", "sum")
    if op == "max":
        raise usage(f"{name}: op max has no gradient: use sum or avg")
    return op


def _scatter_alone_backward(ctx: Any, grad: Tensor) -> Any:
    if _of_sums("reduce_scatter", ctx) == "avg":
        grad = grad / _groups.size_and_rank(ctx.group)[0]
    dim, sizes = ctx.settings["scatter_dim"], ctx.settings["sizes"]
    if sizes is not None:
        return _OPS.all_gather(grad, ctx.group, gather_dim=dim, sizes=sizes), None
    return _OPS._all_gather_like(grad, ctx.group, ctx.saved_tensors[0], gather_dim=dim), None


def _all_reduce_alone_backward(ctx: Any, grad: Tensor) -> Any:
    return _OPS.all_reduce(grad, ctx.group, reduce_op=_of_sums("all_reduce", ctx)), None


def _all_to_all_backward(ctx: Any, grad: Tensor) -> Any:
    sends, takes = ctx.settings["sends"], ctx.settings["takes"]
    return _OPS.all_to_all(grad, ctx.group, sends=takes, takes=sends), None


# --- all_reduce_norm, whose results are the same on every rank


def _save_norm(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    _, weight, residual, _, ctx.group = inputs
    ctx.eps, ctx.has_residual = keyword_only_inputs["eps"], residual is not None
    ctx.save_for_backward(output[1], weight)
    ctx.set_materialize_grads(False)


def _before_norm(grad: Tensor, h: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """In fp32: the gradient of what was normed, and the terms of the weight's, a row each."""
    h, grad = h.float(), grad.float()
    root = torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
    unit, scaled = h * root, grad * weight.float()
    return root * (scaled - unit * (scaled * unit).mean(-1, keepdim=True)), grad * unit


def _norm_backward(ctx: Any, grad_normed: Any, grad_h: Any, *of_quantised: Any) -> Any:
    if any(g is not None for g in of_quantised):
        raise usage("all_reduce_norm: quantised results have no gradient: use the normed result (quant "
                    "none, or return_normed) and the residual")
    h, weight = ctx.saved_tensors
    grad_weight = None
    if grad_normed is not None:
        before, terms = _before_norm(grad_normed, h, weight, ctx.eps)
        grad_h = (before if grad_h is None else before + grad_h.float()).to(h.dtype)
        if ctx.needs_input_grad[1]:
            grad_weight = _column_sum(terms).to(weight.dtype)
    grad_x = None
    if ctx.needs_input_grad[0] and grad_h is not None:
        grad_x = _regions.each_ranks(grad_h, ctx.group)
    return grad_x, grad_weight, grad_h if ctx.has_residual else None, None, None


class _Registration:
    """Where torch.library puts a formula: kernels that refuse what they would drop silently."""

    @staticmethod
    def impl(name: str, kernel: Any, key: str, **more: Any) -> None:
        def checked(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if forward_ad._current_level >= 0 and has_tangents(tree_leaves(args)):
                raise usage(f"{name}: forward-mode derivatives are not supported: use reverse mode")
            return kernel(keyset, *args, **kwargs)

        LIB.impl(name, checked, key, **more)


def _formulas(op: Op) -> list[tuple[str, Any, Any]]:
    """Calls, their gradients and what these need of the call."""
    if op.gathers:
        like, *like_alone = op.like_calls
        backward = _gather_backward if op.multiplies else _no_backward
        alone = [] if op.alone is None else [op.alone, *like_alone]
        return [(op.name, backward, _save_gather), (like, backward, _save_gather_like),
                *((name, _gather_alone_backward, _save_alone) for name in alone)]
    if op.shares:
        return [(op.name, _all_reduce_backward, _save_reduce)]
    alone = [] if op.alone is None else [op.alone]
    return [(op.name, _scatter_backward, _save_reduce),
            *((name, _scatter_alone_backward, _save_scatter_alone) for name in alone)]


_OF_COLLECTIVES = [
    ("all_reduce", _all_reduce_alone_backward, _save_alone),
    ("all_gather", _gather_alone_backward, _save_alone),
    ("_all_gather_like", _gather_alone_backward, _save_alone),
    ("reduce_scatter", _scatter_alone_backward, _save_scatter_alone),
    ("all_to_all", _all_to_all_backward, _save_alone),
    ("all_reduce_norm", _norm_backward, _save_norm),
]


def _no_moe_backward(*_: Any) -> Any:
    raise usage("mixtures of experts: gradients are not supported: call under torch.no_grad")


def _save_nothing(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    pass


_OF_EXPERTS = [(name, _no_moe_backward, _save_nothing)
               for name in ("ag_moe", "moe_rs", "moe_ar", "grouped_gemm")]

def _refuse_gradients(name: str) -> None:
    """Of a call that writes results: gradients through it would be wrong without a word."""
    op = getattr(torch.ops.tilelace, name).default

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(
                isinstance(t, Tensor) and t.requires_grad for t in tree_leaves((args, kwargs))):
            raise usage(f"{name}: {NO_GRADIENTS}")
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    LIB.impl(name, kernel, "Autograd", with_keyset=True)


for _name in CALLS:
    if _name.endswith("_out"):
        _refuse_gradients(_name)
for _formulas_of in (*map(_formulas, OPS.values()), _OF_COLLECTIVES, _OF_EXPERTS):
    for _name, _backward, _save in _formulas_of:
        torch.library.register_autograd(
            f"tilelace::{_name}", _backward, setup_context=_save,
            lib=_Registration)
