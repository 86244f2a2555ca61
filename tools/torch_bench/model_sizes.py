# SPDX-License-Identifier: Apache-2.0
"""Sizes of models, from the configs in models/, which lie beside tools/ in packs, too."""
import json
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "models"


def config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))


def mlp(name):
    """Hidden width, the MLP's width."""
    c = config(name)
    return (c["n_embd"], c["n_inner"]) if c["model_type"] == "gpt2" else (c["hidden_size"], c["intermediate_size"])


def attention(name):
    """Heads, heads of k and v, a head's size."""
    c = config(name)
    heads = c["num_attention_heads"]
    return heads, c["num_key_value_heads"], c.get("head_dim", c["hidden_size"] // heads)


def experts(name):
    """Hidden width, half of an expert's width, experts, choices a token. NAME/N: of N experts alone."""
    model, _, some = name.partition("/")
    c = config(f"moe/{model}")
    width = c.get("moe_intermediate_size", c["intermediate_size"])
    all_of = next(c[key] for key in ("num_local_experts", "num_experts", "n_routed_experts") if key in c)
    return c["hidden_size"], width // 2, int(some or all_of), c["num_experts_per_tok"]
