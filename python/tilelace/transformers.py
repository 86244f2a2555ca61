# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers' tensor parallelism with its products fused.

    tilelace.transformers.enable()     # before from_pretrained
    model = AutoModelForCausalLM.from_pretrained(
        path, distributed_config=DistributedConfig(tp_size=2, tp_plan="auto"))

A "rowwise" layer is one gemm_ar. In training the sum of a "colwise" layer's input gradient is one, too.
Long prompts go through Llama's, Mistral's and Qwen's layers split by tokens: ag_gemm and gemm_rs.
Parameters stay transformers' DTensors, and checkpoints with them. Embeddings, the head's gather, experts
and what no op takes stay transformers' own.
"""
from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

from . import _fits, _rotary, _versions
from ._errors import usage
from ._split_prompt import Split, decoders
from .tensor_parallel import ColwiseParallel, RowwiseParallel, _Place, _place, _tell, _why_not_split

__all__ = ["Calls", "calls", "disable", "enable"]

# Our style for each of transformers', and how its input lies.
_OURS: dict[str, tuple[Any, Any]] = {
    "rowwise": (RowwiseParallel(), Shard(-1)),
    "colwise": (ColwiseParallel(), Replicate()),
}
# transformers' styles while ours are in their place.
_replaced: dict[str, Any] = {}
_QUANTISED = "_hf_quantized_needs_local_tp"  # transformers' mark
# Where models get their styles; and a prompt's least tokens to be split, 0: none is.
_TOGETHER = "apply_tensor_parallelism"
SPLIT_TOKENS = 2048
_split = {"tokens": 0}


class Calls(NamedTuple):
    """How often layers of loaded models were called since `enable`, but in compiled graphs.

    `forward`: gemm_ar of "rowwise" layers; ag_gemm and gemm_rs of prompts that are split. `backward`:
    "colwise" layers whose backward has a gemm_ar.
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


def _why_not(style: str, module: Any, args: tuple[Any, ...], place: _Place) -> str:
    """Why a call is transformers' own, "" where it is ours."""
    if getattr(module, _QUANTISED, False):
        return "got quantised weights, expected plain ones"
    if type(module).forward is not nn.Linear.forward:
        return "got a layer that overrides forward, expected nn.Linear's forward"
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
        return "no call before the capture had this many rows"
    return why


class _Known(NamedTuple):
    """A layer without gradients: what its calls were found to be, and its tensors on this rank."""

    kind: type
    weight: Any
    bias: Any
    dtype: torch.dtype
    device: torch.device
    local: torch.Tensor
    added: torch.Tensor | None

    @classmethod
    def of(cls, module: Any, x: torch.Tensor) -> _Known:
        weight, bias = module.weight, module.bias
        return cls(type(module), weight, bias, x.dtype, x.device, weight.to_local(),
                   None if bias is None else bias.to_local())

    def is_of(self, module: nn.Module, x: Any) -> bool:
        parameters = module._parameters
        return (parameters["weight"] is self.weight and parameters["bias"] is self.bias
                and type(module) is self.kind and _QUANTISED not in module.__dict__
                and type(x) is torch.Tensor and x.dtype is self.dtype and x.device == self.device
                and x.dim() > 1)


def _is_plain_call(args: Any, kwargs: Any) -> bool:
    """Whether nothing but the product of one tensor is asked for: no gradient, no cast, no graph."""
    if kwargs or len(args) != 1 or not isinstance(args[0], torch.Tensor):
        return False
    x = args[0]
    return not (torch.is_grad_enabled() or torch.compiler.is_compiling()
                or torch.is_autocast_enabled(x.device.type)
                or (x.is_cuda and torch.cuda.is_current_stream_capturing()))


def _row_forward(module: Any, stock: Any, place: _Place) -> Any:
    """The forward of a "rowwise" layer: ours while the switch is on, and where it can."""
    ours, layout = _OURS["rowwise"]
    known: list[_Known] = []  # checks in Python take as long as a product of few rows

    @functools.wraps(stock)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if "rowwise" not in _replaced:
            return stock(*args, **kwargs)
        plain = _is_plain_call(args, kwargs)
        if plain and known and known[0].is_of(module, args[0]):
            _counts["forward"] += 1
            return ours._summed(args[0], known[0].local, known[0].added, place)
        why = _why_not("rowwise", module, (*args, *kwargs), place)
        if why:
            known.clear()
            return _left("rowwise", module, why, stock(*args, **kwargs))
        _count("forward")
        if plain:
            known[:] = [_Known.of(module, args[0])]
        return ours._fused(args[0], layout, None, module.weight, module.bias, place, True)

    return forward


def _is_local(style: Any) -> bool:
    """Whether transformers' "colwise" style takes whole rows and leaves each rank its own columns."""
    return (getattr(style, "input_layouts", None) == Replicate()
            and getattr(style, "output_layouts", None) == Shard(-1)
            and getattr(style, "use_local_output", False) is True)


def _is_plain_linear(module: nn.Module) -> bool:
    """Whether its forward is nn.Linear's, of weights that are not quantised."""
    return type(module).forward is nn.Linear.forward and not getattr(module, _QUANTISED, False)


def _has_plain_columns(module: Any, place: _Place) -> bool:
    parameters = (p for p in (module.weight, module.bias) if p is not None)
    return _is_plain_linear(module) and not any(_why_not_split(p, place, Shard(0)) for p in parameters)


def _column_forward(module: Any, stock: Any, place: _Place, local: bool) -> Any:
    """The forward of a "colwise" layer: ours where it has a backward of its input, and where it can.

    Without gradients it is the product of what this rank has. transformers' own is, too, behind
    checks that take longer than the product of a token.
    """
    ours, layout = _OURS["colwise"]
    known: list[_Known] = []

    def alone(*args: Any, **kwargs: Any) -> Any:
        plain = local and _is_plain_call(args, kwargs)
        if plain and known and known[0].is_of(module, args[0]):
            return nn.functional.linear(args[0], known[0].local, known[0].added)
        result = stock(*args, **kwargs)
        known[:] = [_Known.of(module, args[0])] if plain and _has_plain_columns(module, place) else []
        return result

    @functools.wraps(stock)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if "colwise" not in _replaced:
            return stock(*args, **kwargs)
        if not torch.is_grad_enabled():
            return (stock if torch.compiler.is_compiling() else alone)(*args, **kwargs)
        why = _why_not("colwise", module, (*args, *kwargs), place)
        if why:
            return _left("colwise", module, why, stock(*args, **kwargs))
        if args[0].requires_grad:
            _count("backward")
        return ours._fused(args[0], layout, None, module.weight, module.bias, place, True)

    return forward


def _left(style: str, module: nn.Module, why: str, result: Any) -> Any:
    """A call that was transformers' own, and why."""
    _tell(f"transformers: {style} {type(module).__name__}: {why}: left to transformers")
    _count("stock")
    return result


def _forward(style: str, module: nn.Module, stock: Any, place: _Place, local: bool) -> Any:
    forward = (_row_forward(module, stock, place) if style == "rowwise"
               else _column_forward(module, stock, place, local))
    forward.problem = lambda m: _OURS[style][0]._problem(module, place, m)  # for tilelace.tune
    return forward


def _is_ours(module: nn.Linear) -> bool:
    """Whether it is as transformers made it, and no hook looks at its calls."""
    return (_is_plain_linear(module) and hasattr(module.forward, "problem")
            and not (module._forward_hooks or module._forward_pre_hooks))


def _apply(stock: Any) -> Any:
    """transformers' function that gives a model its styles; then its decoders can split prompts."""

    @functools.wraps(stock)
    def apply(model: nn.Module, mesh: Any, *more: Any, **named: Any) -> Any:  # 5.17.0 has no plan
        model = stock(model, mesh, *more, **named)
        for decoder in decoders(model) if mesh.ndim == 1 else []:
            linears = [m for layer in decoder.layers for m in layer.modules() if isinstance(m, nn.Linear)]
            if all(map(_is_ours, linears)):
                Split(decoder, _place(mesh), lambda: _split["tokens"], _is_ours, lambda: _count("forward"))
        return model

    return apply


def _in_place_of(style: str, stock: Any) -> Any:
    """transformers' style, which shards parameters, with our forward."""

    class Style(type(stock)):  # type: ignore[misc]
        def install_forward(self, module: nn.Module, mesh: Any) -> nn.Module:
            super().install_forward(module, mesh)
            if isinstance(module, nn.Embedding):  # 5.17 has them under the same name
                return module
            if mesh.ndim == 1:
                module.forward = _forward(style, module, module.forward, _place(mesh), _is_local(self))
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
        raise usage(f"tilelace.transformers.enable: transformers: got a version without tensor-parallel styles "
                    f"({error}), expected {first} or later") from None
    return ALL_PARALLEL_STYLES


def _mixin() -> Any:
    from transformers.distributed import mixin

    return mixin


def enable(*, split_tokens: int = SPLIT_TOKENS) -> None:
    """From here on models that transformers loads with a tp_plan run our ops, where those can.

    Before `from_pretrained`, on every rank. Products of bf16 and fp16 (on CPU ranks fp32, too) in
    layers whose forward is nn.Linear's own and whose features the ranks divide. All else stays
    transformers' own; the log "tilelace" says why, once for each kind of layer. `split_tokens`: tokens
    (sequences times their length) from which a prompt without gradients is split over the ranks between
    the products of Llama's, Mistral's, Qwen2's and Qwen3's layers; 0: never. Again, it counts from 0.
    Local; a model's first call joins its group, which is collective. Errors: usage (no transformers
    with a registry of styles, `split_tokens` below 0).
    """
    if not isinstance(split_tokens, int) or split_tokens < 0:
        raise usage(f"tilelace.transformers.enable: split_tokens: got {split_tokens!r}, expected a whole "
                    "number, 0 or more")
    styles = _styles()
    for style in _OURS:
        if style not in _replaced:
            stock = styles[style]
            styles.register(style, _in_place_of(style, stock))
            _replaced[style] = stock
    mixin = _mixin()
    if _TOGETHER not in _replaced and hasattr(mixin, _TOGETHER):
        _replaced[_TOGETHER] = getattr(mixin, _TOGETHER)
        setattr(mixin, _TOGETHER, _apply(_replaced[_TOGETHER]))
    _split["tokens"] = split_tokens
    _counts.update(dict.fromkeys(_counts, 0))


def disable() -> None:
    """From here on all is transformers' own, in models that were loaded before, too.

    Local: on every rank, between the same calls. Errors: none.
    """
    _split["tokens"] = 0
    _rotary.restore()
    if _replaced:
        together = _replaced.pop(_TOGETHER, None)
        if together is not None:
            setattr(_mixin(), _TOGETHER, together)
        styles = _styles()
        for style, stock in _replaced.items():
            styles.register(style, stock)
        _replaced.clear()
