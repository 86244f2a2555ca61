# SPDX-License-Identifier: Apache-2.0
"""Llama layers under torch.distributed.tensor.parallel and under tilelace.tensor_parallel: the same
plan, one import changed. Eager and compiled, forward and forward + backward.

    python -m torch.distributed.run --standalone --nproc-per-node 2 tools/torch_bench/tp_layers.py \
        --json layers.jsonl --commit $(git describe --always)

  --model llama3.1-8b | llama3.1-70b | tiny   --layers N (4)   --tokens A,B   --training A,B (tokens)
  --transformers: Hugging Face's LlamaModel, not the plain layers below   --rounds N (9)
  --ways A,B: of torch, torch_compile, tilelace, tilelace_compile, torch_compile_fused
  --json FILE: a line a size, appended ("-": standard output)   --commit ID   --seconds S: begin no size later
torch_compile_fused: PyTorch's styles, compiled under tilelace.inductor.enable().
Time: of the host's clock from a start together to the GPU's end, the slowest rank, median over rounds
in which all ways take turns. Every way's result is compared with PyTorch's eager one.
Without GPUs a dry run: tiny sizes by default, on CPU ranks. Exit: 0 right, 1 a result was wrong, 2 usage.
"""
import argparse
import json
import os
import statistics
import sys
import time
from datetime import datetime, timezone

BEGAN = time.monotonic()
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # before NCCL looks at it: NVLink multicast stays off

import tilelace
import tilelace.inductor
import tilelace.tensor_parallel as tilelace_styles
import torch
import torch.distributed as dist
import torch.distributed.tensor.parallel as torch_styles
import torch.nn.functional as F
from model_sizes import attention, mlp
from torch import nn

# Hidden, MLP, heads, heads of k and v, a head's size.
MODELS = {name: (*mlp(name), *attention(name)) for name in ("llama3.1-8b", "llama3.1-70b")} | {"tiny": (64, 128, 4, 2, 16)}
WAYS = {"torch": (torch_styles, False), "torch_compile": (torch_styles, True), "tilelace": (tilelace_styles, False),
        "tilelace_compile": (tilelace_styles, True), "torch_compile_fused": (torch_styles, True)}
GPUS = torch.cuda.is_available()
SAMPLE_S = 0.05


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, head):
        super().__init__()
        self.head = head
        self.q_proj, self.o_proj = nn.Linear(hidden, heads * head, bias=False), nn.Linear(heads * head, hidden, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(hidden, kv_heads * head, bias=False) for _ in range(2))

    def forward(self, x, cos, sin):
        q, k, v = (layer(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (t * cos + torch.cat((-t[..., self.head // 2:], t[..., :self.head // 2]), -1) * sin for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, hidden, wide):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(hidden, wide, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, hidden, wide, heads, kv_heads, head):
        super().__init__()
        self.self_attn, self.mlp = Attention(hidden, heads, kv_heads, head), MLP(hidden, wide)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Plain(nn.Module):
    """Layers with the names of transformers' LlamaModel."""

    def __init__(self, layers, sizes):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer(*sizes) for _ in range(layers)), sizes[-1]

    def forward(self, x):
        half = torch.arange(self.head // 2, device=x.device, dtype=torch.float32)
        angle = torch.arange(x.shape[1], device=x.device)[:, None] * 500000.0 ** (-2 * half / self.head)
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


class Theirs(nn.Module):
    """transformers' LlamaModel on embeddings."""

    def __init__(self, layers, sizes):
        from transformers import LlamaConfig, LlamaModel

        super().__init__()
        hidden, wide, heads, kv_heads, head = sizes
        self.model = LlamaModel(LlamaConfig(
            hidden_size=hidden, intermediate_size=wide, num_attention_heads=heads, num_key_value_heads=kv_heads,
            head_dim=head, num_hidden_layers=layers, vocab_size=32, attn_implementation="sdpa"))
        self.layers = self.model.layers

    def forward(self, x):
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


def plan_of(styles):
    """Everything that differs between the ways is where `styles` was imported from."""
    column, row = styles.ColwiseParallel, styles.RowwiseParallel
    return {"self_attn.q_proj": column(), "self_attn.k_proj": column(), "self_attn.v_proj": column(),
            "self_attn.o_proj": row(), "mlp.gate_proj": column(), "mlp.up_proj": column(), "mlp.down_proj": row()}


def model_of(way, asked, mesh, device):
    styles, compiled = WAYS[way]
    torch.manual_seed(0)  # the same weights on all ranks and in every way
    with torch.device(device):
        model = (Theirs if asked.transformers else Plain)(asked.layers, MODELS[asked.model]).to(torch.bfloat16)
    for layer in model.layers:
        styles.parallelize_module(layer, mesh, plan_of(styles))
    return torch.compile(model, dynamic=False) if compiled else model


def largest(value, device):
    """Over ranks."""
    t = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


class Step:
    """Forward, or forward and backward, of one way at one size."""

    def __init__(self, way, model, x, training):
        self.way, self.model, self.x, self.training = way, model, x, training
        fused = way == "torch_compile_fused"
        if fused:
            tilelace.inductor.enable()
        try:
            for _ in range(3):
                self.result = self()
        finally:
            if fused:
                tilelace.inductor.disable()

    def __call__(self):
        if not self.training:
            with torch.no_grad():
                return self.model(self.x)
        x = self.x.detach().requires_grad_()
        y = self.model(x)
        y.float().square().mean().backward()
        self.model.zero_grad(set_to_none=True)
        return torch.cat((y.detach(), x.grad), -1)

    def seconds(self, times, device):
        if GPUS:
            torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            self()
        if GPUS:
            torch.cuda.synchronize()
        return largest((time.perf_counter() - begin) / times, device)


def difference(a, b):
    """Of the halves (result, gradient) each: relative, the larger."""
    parts = zip(a.double().chunk(2, -1), b.double().chunk(2, -1))
    return max((p - q).norm().item() / max(q.norm().item(), 1e-30) for p, q in parts)


def measure(asked, models, tokens, training, device):
    x = torch.randn(1, tokens, MODELS[asked.model][0], generator=torch.Generator().manual_seed(tokens))
    x = x.to(device, torch.bfloat16)
    notes, steps = {}, []
    torch._dynamo.reset()  # each size has graphs of its own
    for way, model in models.items():
        try:
            steps.append(Step(way, model, x, training))
        except Exception as error:  # what one way cannot do is no reason to lose the others
            notes[way] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    times = {s.way: max(1, int(SAMPLE_S / max(s.seconds(1, device), 1e-6))) for s in steps}
    samples = {s.way: [] for s in steps}
    for _ in range(asked.rounds):
        for s in steps:
            samples[s.way].append(s.seconds(times[s.way], device))
    errors = {s.way: largest(difference(s.result, steps[0].result), device) for s in steps}
    limit = 2.0**-5  # a few roundings to bf16 a layer, in another order
    wrong = [way for way, error in errors.items() if not error < limit]
    return {"schema": "tilelace.layers/1", "model": asked.model, "layers": asked.layers,
            "code": "transformers" if asked.transformers else "plain", "ranks": dist.get_world_size(), "dtype": "bf16",
            "step": "forward + backward" if training else "forward", "tokens": tokens,
            "ms": {way: statistics.median(of) * 1e3 for way, of in samples.items()},
            "spread": {way: max(of) / min(of) for way, of in samples.items()}, "rounds": asked.rounds,
            "errors": errors, "wrong": wrong, "verified": not wrong, "notes": notes,
            "device": torch.cuda.get_device_name() if GPUS else "cpu", "torch": torch.__version__,
            "commit": asked.commit, "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def arguments():
    def numbers(text):
        return [int(n) for n in text.split(",") if n]

    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model", choices=MODELS, default="llama3.1-8b" if GPUS else "tiny")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=numbers, default=[1, 64, 777, 2048, 8192] if GPUS else [1, 7])
    parser.add_argument("--training", type=numbers, default=[4096] if GPUS else [8])
    parser.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--json", default="")
    parser.add_argument("--commit", default=None)
    asked = parser.parse_args()
    if unknown := [w for w in asked.ways if w not in WAYS]:
        parser.error(f"--ways: got {', '.join(unknown)}, expected of {', '.join(WAYS)}")
    return asked


def main():
    asked = arguments()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if GPUS else torch.device("cpu")
    if GPUS:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if GPUS else "gloo")
    mesh = dist.device_mesh.init_device_mesh(device.type, (dist.get_world_size(),))
    models = {way: model_of(way, asked, mesh, device) for way in asked.ways}
    right = True
    for training, sizes in ((False, asked.tokens), (True, asked.training)):
        for tokens in sizes:
            if asked.seconds and largest(time.monotonic() - BEGAN, device) > asked.seconds:
                print(f"left out: {tokens} tokens", flush=True) if dist.get_rank() == 0 else None
                continue
            record = measure(asked, models, tokens, training, device)
            right = right and record["verified"]
            if dist.get_rank() == 0:
                shown = ", ".join(f"{way} {ms:.2f}" for way, ms in record["ms"].items())
                print(f"{record['step']}, {tokens} tokens, ms: {shown}"
                      + "".join(f"\n  {w}: WRONG, off by {record['errors'][w]:.2g}" for w in record["wrong"])
                      + "".join(f"\n  {w}: {why}" for w, why in record["notes"].items()), flush=True)
                if asked.json == "-":
                    print(json.dumps(record))
                elif asked.json:
                    with open(asked.json, "a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
    dist.destroy_process_group()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
