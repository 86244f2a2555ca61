# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Llama of 3.1-8B's sizes, 8 layers of random weights, over the ranks by its tp_plan.

The same loaded model in every way: transformers' own forward, eager and compiled; tilelace.transformers,
eager, compiled, and compiled with shorter prompts split, too; tilelace.inductor on transformers' own; and beside them what transformers could do
with the same weights: a product and NCCL's all_reduce, and PyTorch's symmetric memory (one and two shots).
m tokens are one prompt from 777 on, else m sequences of a token each, without a cache: decoding but for
its attention. Times are of CUDA graphs and of eager calls; a dry run without GPUs is tiny.
"""
import importlib.metadata
import shutil
import tempfile
import time
from datetime import datetime, timezone
from functools import partial, wraps

import tilelace
import tilelace.inductor
import tilelace.transformers as switch
import torch
import torch.distributed as dist
from model_sizes import attention, config
from timing import GPUS, largest, make_way, relative_error, short
from ways import Ways

PREFILL = 777  # and more tokens: one prompt
OF_LLAMA = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
SIZES = dict({key: config("llama3.1-8b")[key] for key in OF_LLAMA}, head_dim=attention("llama3.1-8b")[2],
             num_hidden_layers=8, vocab_size=32000, max_position_embeddings=16384)
TINY = dict(SIZES, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, num_hidden_layers=2, vocab_size=128)
TOKENS = (2048, 1, 7, 33, 129, 777, 4096, 8192) if GPUS else (1, 7, 33)
LIMIT_S = 180  # unless told; compiling takes most of it
STOCK = ("stock", "stock_compile", "nccl", "one_shot", "two_shot")
OURS = ("tilelace", "tilelace_compile", "tilelace_inductor", "tilelace_split")
SPLIT = 256  # tokens of a prompt from which tilelace_split, compiled, splits it; the switch says itself


class Chosen:
    """Which way is on; compiled graphs are made for each of them."""

    way = "stock"


def products(ways):
    """A row-parallel product with its sum, by way."""
    found = {"nccl": ways.ar_nccl}
    return found | {"one_shot": ways.ar_one_shot, "two_shot": ways.ar_two_shot} if GPUS else found


def in_ways(module, rowwise, by_way):
    """The module's forward by hand where the way has a product of its own."""
    loaded = module.forward

    @wraps(loaded)
    def forward(x):
        product = by_way.get(Chosen.way)
        if product is None:
            return loaded(x)
        weight = module.weight.to_local()
        if not rowwise:
            return torch.nn.functional.linear(x, weight)
        y = product(x.reshape(-1, x.shape[-1]), weight)
        return y.view(*x.shape[:-1], y.shape[-1])

    module.forward = forward


def load(ways):
    """transformers' own loading, of weights that rank 0 draws and saves."""
    from transformers import LlamaConfig, LlamaModel
    from transformers.distributed import DistributedConfig

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)
    if dist.get_rank() == 0:
        torch.manual_seed(0)
        with torch.device("cuda" if GPUS else "cpu"):
            made = LlamaModel(LlamaConfig(**(SIZES if GPUS else TINY))).to(torch.bfloat16)
        made.cpu().save_pretrained(folder[0])
        del made
    dist.barrier()
    model = LlamaModel.from_pretrained(
        folder[0], dtype=torch.bfloat16, attn_implementation="sdpa",
        distributed_config=DistributedConfig(tp_size=dist.get_world_size(), tp_plan="auto"))
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])
    by_way = products(ways)
    for layer in model.layers:
        for name, module in (*layer.self_attn.named_children(), *layer.mlp.named_children()):
            if name.endswith("_proj"):
                in_ways(module, name in ("o_proj", "down_proj"), by_way)
    return model.eval()


def choose(way):
    """Our switch, and our pass for graphs that are compiled from here on; nothing where it is on."""
    if way != Chosen.way:
        Chosen.way = way
        tokens = {"tilelace": switch.SPLIT_TOKENS, "tilelace_compile": switch.SPLIT_TOKENS,
                  "tilelace_split": SPLIT}.get(way)
        switch.disable() if tokens is None else switch.enable(split_tokens=tokens)
        (tilelace.inductor.enable if way == "tilelace_inductor" else tilelace.inductor.disable)()


def call(model, way, x, _):
    choose(way)
    with torch.no_grad():
        return model(inputs_embeds=x, use_cache=False).last_hidden_state


def made_ways(model, x, notes):
    made = []
    for way in (*STOCK, *OURS):
        if way in ("one_shot", "two_shot") and not GPUS:
            continue
        if way == "tilelace_split" and not SPLIT <= x.shape[0] * x.shape[1] < switch.SPLIT_TOKENS:
            continue
        compiles = way.endswith(("_compile", "_inductor", "_split"))
        torch._dynamo.reset() if compiles else None
        run = torch.compile(model, dynamic=False, backend="inductor" if GPUS else "eager") if compiles else model
        way_made = make_way(way, partial(call, run, way, x), 1, notes, graph_us=1.0)
        if way_made is not None:
            made.append(way_made)
            if way_made.why:
                notes[way] = way_made.why
    return made


def ratio(times, ours, others):
    """The fastest of `others` over the fastest of `ours`, with names; None where one side is missing."""
    some = {n: t for n, t in times.items() if n in ours}, {n: t for n, t in times.items() if n in others}
    if not all(some):
        return None
    fast = [min(s, key=s.get) for s in some]
    return {"ours": fast[0], "other": fast[1], "ratio": times[fast[1]] / times[fast[0]]}


def bars(m, eager, graphs):
    """What is asked: a prompt by eager calls, decoding in graphs."""
    if m >= 2048:
        return {"beside the fastest, 1.05": ratio(eager, OURS, STOCK),
                "beside stock eager, 1.3": ratio(eager, OURS, ("stock",))}
    return {"beside the fastest in graphs, " + ("1.00" if m < PREFILL else "0.98"): ratio(graphs, OURS, STOCK)}


def measure(asked, timer):
    with torch.inference_mode(False):
        ways = Ways()
        switch.enable()
        model = load(ways)
    hidden, layers = model.config.hidden_size, model.config.num_hidden_layers
    for m in asked.tokens or TOKENS:
        if largest(time.monotonic() - asked.began) > (asked.seconds or LIMIT_S):
            print(f"hugging_face: m {m} left out: the time is over", flush=True) if dist.get_rank() == 0 else None
            continue
        with torch.inference_mode(False):
            yield one_size(model, layers, hidden, m, timer)


def one_size(model, layers, hidden, m, timer):
    shape = (1, m, hidden) if m >= PREFILL else (m, 1, hidden)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(m)).bfloat16()
    x = x.to("cuda" if GPUS else "cpu")
    notes = {}
    choose("stock")
    call(model, "tilelace", x, 0)
    calls = switch.calls()
    made = made_ways(model, x, notes)
    graphs, spread = timer.graphs(made)
    eager = timer.eager(made)
    errors = {w.name: relative_error(w.fn(0), made[0].fn(0).double()) for w in made}
    wrong = [n for n, e in errors.items() if not e < 2.0**-5]  # roundings to bf16 in another order
    reached = bars(m, eager, graphs)
    if dist.get_rank() == 0:
        shown = "\n    ".join(f"{n}: eager {eager[n]:.0f}, graph {graphs.get(n, float('nan')):.0f} us, error "
                              f"{errors[n]:.4f}" for n in eager)
        print(f"llama3.1-8b, {layers} layers, {'prompt' if m >= PREFILL else 'decode'}, m {m}: {calls}\n    {shown}\n"
              f"    {reached}{'; WRONG ' + str(wrong) if wrong else ''}; spread {spread:.3f} {short(notes)}", flush=True)
    fused = (4 if m >= switch.SPLIT_TOKENS else 2) * layers
    return {"schema": "tilelace.hugging_face/1", "model": "llama3.1-8b" if GPUS else "tiny", "layers": layers,
            "ranks": dist.get_world_size(), "m": m, "dtype": "bf16", "eager_us": eager, "graph_us": graphs,
            "bars": reached, "fused_calls": calls.forward, "stock_calls": calls.stock, "errors": errors,
            "wrong": wrong, "verified": not wrong and calls == (fused, 0, 0), "notes": notes,
            "spread": spread, "iterations": timer.rounds, "plan": "; ".join(_plans()),
            "device": torch.cuda.get_device_name() if GPUS else "cpu", "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _plans():
    try:
        return tilelace.plans(device="cuda" if GPUS else "cpu")
    except tilelace.Error:
        return []
