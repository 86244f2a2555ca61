# SPDX-License-Identifier: Apache-2.0
"""Megatron-Core's layers with their products fused.

    pretrain_gpt.py --spec tilelace.megatron llama_layer ...

or in code `GPTModel(config, transformer_layer_spec=tilelace.megatron.layer_spec(config), ...)`. The column-
and row-parallel layers of attention and MLP are tilelace.nn's: without sequence parallelism gemm_ar
forward and backward, with it ag_gemm and gemm_rs. Experts, embedding and the head stay Megatron's.

`gpt_layer`: LayerNorm; `llama_layer`: RMSNorm; `qwen3_layer`: RMSNorm, also of queries and keys. Each is
a ModuleSpec of Megatron's own modules (its "local" ones), as --spec takes it.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from . import _versions
from ._errors import usage
from .nn import ColumnParallelLinear, RowParallelLinear

_versions.check("megatron-core", "tilelace.megatron")

from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel import layers as _stock
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.spec_utils import ModuleSpec

__all__ = ["gpt_layer", "layer_spec", "llama_layer", "qwen3_layer", "with_fused_layers"]

_OURS = {_stock.ColumnParallelLinear: ColumnParallelLinear, _stock.RowParallelLinear: RowParallelLinear}


def with_fused_layers(spec: Any) -> Any:
    """A copy of a ModuleSpec, or of submodules, with our column- and row-parallel layers.

    Those of experts, and layers of other classes (TransformerEngine's), stay as they are. Local.
    Errors: none.
    """
    if isinstance(spec, type):
        return _OURS.get(spec, spec)
    if isinstance(spec, ModuleSpec):
        if isinstance(spec.module, type) and issubclass(spec.module, MoELayer):
            return spec
        return dataclasses.replace(
            spec, module=with_fused_layers(spec.module), submodules=with_fused_layers(spec.submodules))
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        return dataclasses.replace(
            spec, **{f.name: with_fused_layers(getattr(spec, f.name)) for f in dataclasses.fields(spec)})
    return spec


def layer_spec(config: Any) -> Any:
    """The spec of one layer for GPTModel, as Megatron's TransformerConfig asks for it. Local.

    Read: normalization, qk_layernorm, multi_latent_attention, num_moe_experts (then all layers have
    experts, which stay Megatron's). Errors: usage (moe_layer_freq other than 1).
    """
    if config.num_moe_experts is not None and config.moe_layer_freq != 1:
        raise usage(f"megatron.layer_spec: moe_layer_freq: got {config.moe_layer_freq}, expected 1: make "
                    "Megatron's block spec and give it to with_fused_layers")
    return with_fused_layers(get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts, qk_layernorm=config.qk_layernorm,
        multi_latent_attention=config.multi_latent_attention, normalization=config.normalization))


gpt_layer = with_fused_layers(get_gpt_layer_local_spec())
llama_layer = with_fused_layers(get_gpt_layer_local_spec(normalization="RMSNorm"))
qwen3_layer = with_fused_layers(get_gpt_layer_local_spec(normalization="RMSNorm", qk_layernorm=True))
