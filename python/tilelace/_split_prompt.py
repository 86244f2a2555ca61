# SPDX-License-Identifier: Apache-2.0
"""Long prompts through transformers' decoder layers with each rank's part of the tokens between products.

Sequence parallelism without gradients: a layer is four fused calls, ag_gemm and gemm_rs of the attention
and of the MLP, and norms and residuals see 1 / ranks of the rows. Attention itself has all tokens of this
rank's heads, as before, and so have its caches.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import _fits, _rotary, collectives, ops
from ._collective_shapes import part_of
from ._errors import usage
from ._tuning import Problem

# Layers whose code is known: attention asks its input for the shape and gives it to q, k and v alone.
_LAYERS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
_NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
_CHILDREN = {
    "": {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"},
    "self_attn": {"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"},
    "mlp": {"gate_proj", "up_proj", "down_proj", "act_fn"},
}
_TOGETHER = (("self_attn", ("q_proj", "k_proj", "v_proj")), ("mlp", ("gate_proj", "up_proj")))


def _is_known(layer: Any) -> bool:
    if type(layer).__name__ not in _LAYERS:
        return False
    for name, expected in _CHILDREN.items():
        found = {child for child, _ in layer.get_submodule(name).named_children()}
        if not found <= expected or any(c not in found for c in expected if c.endswith("_proj")):
            return False
    norms = (layer.input_layernorm, layer.post_attention_layernorm)
    return (type(layer.mlp.act_fn).__name__ in ("SiLU", "SiLUActivation")
            and all(type(norm).__name__ in _NORMS for norm in norms))


def _is_decoder(module: Any) -> bool:
    return (isinstance(getattr(module, "layers", None), nn.ModuleList)
            and type(getattr(module, "norm", None)).__name__ in _NORMS and len(module.layers) > 0
            and all(map(_is_known, module.layers)))


def decoders(model: nn.Module) -> list[Any]:
    """Modules with a list of layers that can be split, and a norm behind them."""
    return [m for m in model.modules() if _is_decoder(m)]


def _linears(layer: nn.Module) -> list[Any]:
    return [m for m in layer.modules() if isinstance(m, nn.Linear)]


def _operands(linears: Sequence[Any]) -> tuple[list[Tensor], list[Tensor] | None]:
    """This rank's weights, and biases where there are some."""
    biases = None if linears[0].bias is None else [m.bias.to_local() for m in linears]
    return [m.weight.to_local() for m in linears], biases


class Split:
    """A decoder's layers, and the prompt that is in them now.

    `fits(module)`: whether a linear layer is as transformers made it. `told(calls)` counts fused calls.
    """

    def __init__(self, decoder: Any, place: Any, least: Callable[[], int],
                 fits: Callable[[nn.Linear], bool], told: Callable[[], None]) -> None:
        self.layers, self.place, self.least, self.fits, self.told = decoder.layers, place, least, fits, told
        self.shape: tuple[Any, Any] | None = None  # [batch, tokens] while its rows are split
        self.sizes: list[int] | None = None  # the ranks' rows, where they differ
        self.parts: dict[str, Tensor] = {}  # q, k and v of the attention that is running
        self.whole: Tensor | None = None  # its input
        self.most = 0  # rows of prompts that have run: as many can be captured
        self.allowed = True  # by the decoder's call
        self.why: str | None = None  # no layer can be split, "" if all can; None: not known yet
        for layer in decoder.layers:
            self._wrap_attention(layer.self_attn)
            self._wrap_mlp(layer.mlp)
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                self._wrap_norm(norm, lambda y: y)
        self._wrap_first(decoder.layers[0])
        self._wrap_norm(decoder.norm, self.end)
        self._wrap_decoder(decoder)

    # --- which prompts

    def _why_not(self, x: Tensor) -> str:
        for parent, names in _TOGETHER:
            linears = [getattr(self.layers[0].get_submodule(parent), n) for n in names]
            if len({m.bias is None for m in linears}) > 1:
                return f"{parent}: some products have a bias and some have none"
        for m in _linears(self.layers[0]):
            n, k = m.weight.to_local().shape
            gathers = m.in_features == k
            if (m.out_features, m.in_features)[0 if gathers else 1] % self.place.ranks:
                return f"[{m.out_features}, {m.in_features}]: the split dimension is not a multiple of the ranks"
            if why := _fits.why_not("ag_gemm" if gathers else "gemm_rs", x.dtype, x.device, (n, k),
                                    self.place.ranks):
                return why
        return ""

    def takes(self, x: Any) -> bool:
        """Whether a prompt's rows x [batch, tokens, hidden] are split."""
        least = self.least()
        if torch.is_grad_enabled() or least <= 0 or not self.allowed:
            return False
        if not isinstance(x, Tensor) or x.dim() != 3:
            return False
        rows = x.shape[0] * x.shape[1]
        if rows < least or rows < self.place.ranks or torch.is_autocast_enabled(x.device.type):
            return False
        if not all(self.fits(m) for layer in self.layers for m in _linears(layer)):
            return False
        if self.why is None:
            self.why = self._why_not(x)
        if self.why or torch.compiler.is_compiling():
            return not self.why
        if _fits.why_not_join(self.place.name, x.device):
            return False
        captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
        if not captured:
            self.most = max(self.most, rows)
        return rows <= self.most

    # --- what the layers' modules do instead

    def _gather(self, x: Tensor, weights: list[Tensor], biases: list[Tensor] | None,
                **more: Any) -> tuple[Any, list[Tensor]]:
        self.told()
        return ops.ag_gemm(x, weights, biases, self.place.name, gather_dim=1, sizes=self.sizes, **more)

    def _scatter(self, x: Tensor, linear: Any) -> Tensor:
        bias = None if linear.bias is None else linear.bias.to_local()
        self.told()
        return ops.gemm_rs(x.reshape(1, -1, x.shape[-1]), linear.weight.to_local(), bias, self.place.name,
                           scatter_dim=1, sizes=self.sizes)

    def begin(self, x: Tensor) -> Tensor:
        """This rank's rows [1, rows, hidden] of the prompt."""
        batch, tokens, hidden = x.shape
        rows, ranks, rank = batch * tokens, self.place.ranks, self.place.rank
        sizes = [part_of(rows, ranks, r) for r in range(ranks)]
        self.shape, self.sizes = (batch, tokens), sizes if rows % ranks else None
        return x.reshape(1, rows, hidden).narrow(1, sum(sizes[:rank]), sizes[rank]).contiguous()

    def end(self, x: Tensor) -> Tensor:
        """All rows [batch, tokens, hidden] of this rank's."""
        shape, self.shape = self.shape, None
        assert shape is not None
        return collectives.all_gather(x, self.place.name, gather_dim=1, sizes=self.sizes).view(
            *shape, x.shape[-1])

    def _wrap_first(self, layer: nn.Module) -> None:
        stock = layer.forward

        @functools.wraps(stock)
        def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
            self.shape = None  # of a prompt that an exception ended
            if self.takes(hidden_states):
                hidden_states = self.begin(hidden_states)
            return stock(hidden_states, *args, **kwargs)

        layer.forward = forward

    def _wrap_decoder(self, decoder: nn.Module) -> None:
        stock = decoder.forward

        @functools.wraps(stock)
        def forward(*args: Any, **kwargs: Any) -> Any:
            self.allowed = not _asks_for_more(decoder.config, kwargs)
            return stock(*args, **kwargs)

        decoder.forward = forward

    def _wrap_norm(self, norm: Any, then: Callable[[Tensor], Tensor]) -> None:
        """`then`: what becomes of the rows; they are normed by one kernel where compilers do not make it."""
        stock = norm.forward

        @functools.wraps(stock)
        def forward(x: Tensor) -> Tensor:
            if self.shape is None:
                return stock(x)
            if torch.compiler.is_compiling() or norm.weight.dtype != x.dtype:
                return then(stock(x))
            return then(F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon))

        norm.forward = forward

    def _wrap_attention(self, attention: Any) -> None:
        stock = attention.forward
        linears = (attention.q_proj, attention.k_proj, attention.v_proj)

        @functools.wraps(stock)
        def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.shape is None:
                return stock(hidden_states, *args, **kwargs)
            # As one weight: a product of few columns alone leaves most of a GPU idle.
            weights, biases = _operands(linears)
            _, (y,) = self._gather(hidden_states, [torch.cat(weights)],
                                   None if biases is None else [torch.cat(biases)])
            # Its shape is all that is read.
            self.whole = hidden_states.new_full((), torch.nan).expand(*self.shape, hidden_states.shape[-1])
            parts = y.view(*self.shape, y.shape[-1]).split([w.shape[0] for w in weights], -1)
            self.parts = dict(zip("qkv", parts))
            try:
                with _rotation(attention):
                    return stock(self.whole, *args, **kwargs)
            finally:
                self.parts, self.whole = {}, None

        forward.problem = lambda m: self._problem(m, "ag_gemm", linears)  # type: ignore[attr-defined]
        attention.forward = forward
        for which, linear in zip("qkv", linears):
            self._wrap_part(which, linear)
        self._wrap_output(attention.o_proj)

    def _wrap_part(self, which: str, linear: Any) -> None:
        stock = linear.forward

        @functools.wraps(stock)
        def forward(x: Tensor) -> Tensor:
            if self.shape is None:
                return stock(x)
            if x is not self.whole:
                raise usage("tilelace.transformers: an attention layer changes its input before q, k and v, so "
                            "prompts cannot be split: call tilelace.transformers.enable(split_tokens=0)")
            return self.parts[which]

        linear.forward = forward

    def _wrap_output(self, linear: Any) -> None:
        stock = linear.forward

        @functools.wraps(stock)
        def forward(x: Tensor) -> Tensor:
            return stock(x) if self.shape is None else self._scatter(x, linear)

        linear.forward = forward
        self._ask_of_scatter(linear)

    def _wrap_mlp(self, mlp: Any) -> None:
        stock, linears = mlp.forward, (mlp.gate_proj, mlp.up_proj)

        @functools.wraps(stock)
        def forward(x: Tensor) -> Tensor:
            if self.shape is None:
                return stock(x)
            _, (hidden,) = self._gather(x, *_operands(linears), activation="swiglu")
            return self._scatter(hidden, mlp.down_proj)

        forward.problem = lambda m: self._problem(m, "ag_gemm", linears, True)  # type: ignore[attr-defined]
        mlp.forward = forward
        self._ask_of_scatter(mlp.down_proj)

    def _ask_of_scatter(self, linear: Any) -> None:
        """tilelace.tune then asks a rowwise layer for what a split prompt needs, else for its own."""
        plain = linear.forward.problem
        linear.forward.problem = lambda m: self._problem(m, "gemm_rs", (linear,)) or plain(m)

    def _problem(self, m: int, op: str, linears: Sequence[Any], swiglu: bool = False) -> Any:
        """What a prompt of m tokens asks of the group; None if it is not split."""
        if not 0 < self.least() <= m or self.why:
            return None
        shapes = [p.weight.to_local().shape for p in linears]
        n = [shape[0] for shape in shapes]
        return self.place.name, Problem(op, m, n if swiglu else sum(n), shapes[0][1],
                                        linears[0].weight.dtype, swiglu)


def _rotation(attention: Any) -> AbstractContextManager[None]:
    """q and k are rotated in place, where nobody else may have kept them."""
    if torch.compiler.is_compiling() or any(m._forward_hooks for m in attention.children()):
        return nullcontext()
    return _rotary.here(type(attention).__module__)


def _asks_for_more(config: Any, given: dict[str, Any]) -> bool:
    """Whether a call also returns what is between the layers, which here has a part of the rows."""
    return any(given.get(name, getattr(config, name, False))
               for name in ("output_hidden_states", "output_attentions"))
