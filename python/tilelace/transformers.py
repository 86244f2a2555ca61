# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers' tensor parallelism with its products fused.

    tilelace.transformers.enable()     # before from_pretrained
    model = AutoModelForCausalLM.from_pretrained(
        path, distributed_config=DistributedConfig(tp_size=2, tp_plan="auto"))

A "rowwise" layer is one gemm_ar. In training the sum of a "colwise" layer's input gradient is one, too.
Parameters stay transformers' DTensors, and checkpoints with them. Embeddings, the head's gather, experts
and what no op takes stay transformers' own.
"""
from __future__ import annotations

import functools
import logging
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

from . import _fits, _versions
from ._errors import usage
from ._log import tell_once
from .tensor_parallel import ColwiseParallel, RowwiseParallel, _place, _Place

__all__ = ["Calls", "calls", "disable", "enable"]

# Our style for each of transformers', and how its input lies.
_OURS: dict[str, tuple[Any, Any]] = {
    "rowwise": (RowwiseParallel(), Shard(-1)),
    "colwise": (ColwiseParallel(), Replicate()),
}
# transformers' styles while ours are in their place.
_replaced: dict[str, Any] = {}


class Calls(NamedTuple):
    """How often layers of loaded models were called since `enable`, but in compiled graphs.

    `forward`: "rowwise" layers by gemm_ar. `backward`: "colwise" layers whose backward has one.
    `stock`: layers of these two styles that were left to transformers.
    """

    forward: int
    backward: int
    stock: int


_counts = dict.fromkeys(Calls._fields, 0)


def calls() -> Calls:
    """How many calls were fused and how many were left to transformers. Local. Errors: none."""
    return Calls(**_counts)


def _count(what: str) -> None:
    if not torch.compiler.is_compiling():  # a graph would be made anew for each number
        _counts[what] += 1


@torch.compiler.assume_constant_result
def _tell(text: str) -> bool:
    tell_once(logging.WARNING, text)
    return True


def _why_not(style: str, module: nn.Module, args: tuple[Any, ...], place: _Place) -> str:
    """Why a call is transformers' own, "" where it is ours."""
    if getattr(module, "_hf_quantized_needs_local_tp", False):
        return "got quantised weights, expected plain ones"
    if type(module).forward is not nn.Linear.forward:
        return "got a forward of its own, expected nn.Linear's"
    features = module.in_features if style == "rowwise" else module.out_features
    if features % place.ranks:
        return f"got {features} features to split, expected a multiple of the {place.ranks} ranks"
    if len(args) != 1:
        return f"got {len(args)} arguments, expected one"
    ours, layout = _OURS[style]
    why = ours._why_not(args[0], layout, module.weight, module.bias, place)
    if why or torch.compiler.is_compiling():
        return why
    why = _fits.why_not_join(place.name, args[0].device)
    if not why and style == "rowwise" and not ours._has_room(args[0], module.weight, module.bias, place):
        return "got a capture, expected a call of as many rows before it"
    return why


def _forward(style: str, module: nn.Module, stock: Any, place: _Place) -> Any:
    """The forward of a layer: ours while the switch is on, and where it can."""
    ours, layout = _OURS[style]

    @functools.wraps(stock)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if style not in _replaced:
            return stock(*args, **kwargs)
        why = _why_not(style, module, (*args, *kwargs), place)
        if why:
            _tell(f"transformers: {style} {type(module).__name__}: {why}: left to transformers")
            _count("stock")
            return stock(*args, **kwargs)
        x = args[0]
        if style == "rowwise":
            _count("forward")
        elif torch.is_grad_enabled() and x.requires_grad:
            _count("backward")
        return ours._fused(x, layout, None, module.weight, module.bias, place, True)

    forward.problem = lambda: ours._problem(module, place)  # type: ignore[attr-defined]  # for tilelace.tune
    return forward


def _in_place_of(style: str, stock: Any) -> Any:
    """transformers' style, which shards parameters, with our forward."""

    class Style(type(stock)):  # type: ignore[misc]
        def install_forward(self, module: nn.Module, mesh: Any) -> nn.Module:
            super().install_forward(module, mesh)
            if isinstance(module, nn.Embedding):  # 5.17 has them under the same name
                return module
            if mesh.ndim == 1:
                module.forward = _forward(style, module, module.forward, _place(mesh))
            else:
                _tell(f"transformers: {style}: got a mesh of {mesh.ndim} dimensions, expected one: "
                      "left to transformers")
            return module

    ours = Style.__new__(Style)
    ours.__dict__.update(stock.__dict__)
    return ours


def _styles() -> Any:
    _versions.check("transformers", "tilelace.transformers.enable")
    try:
        from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES
    except ImportError as error:
        first = _versions.TESTED["transformers"][0]
        raise usage(f"tilelace.transformers.enable: transformers: got one without a registry of styles "
                    f"({error}), expected {first} or later") from None
    return ALL_PARALLEL_STYLES


def enable() -> None:
    """From here on models that transformers loads with a tp_plan run our ops, where those can.

    Before `from_pretrained`, on every rank. Products of bf16 and fp16 (on CPU ranks fp32, too) in
    layers whose forward is nn.Linear's own and whose features the ranks divide. All else stays
    transformers' own; the log "tilelace" says why, once for each kind of layer. Again, it counts from
    0. Local; a model's first call joins its group, which is collective. Errors: usage (no transformers
    with a registry of styles).
    """
    styles = _styles()
    for style in _OURS:
        if style not in _replaced:
            stock = styles[style]
            styles.register(style, _in_place_of(style, stock))
            _replaced[style] = stock
    _counts.update(dict.fromkeys(_counts, 0))


def disable() -> None:
    """From here on all is transformers' own, in models that were loaded before, too.

    Local: on every rank, between the same calls. Errors: none.
    """
    if _replaced:
        styles = _styles()
        for style, stock in _replaced.items():
            styles.register(style, stock)
        _replaced.clear()
