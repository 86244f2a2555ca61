# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2's encoder with its linear layers split over the ranks: real sentences' embeddings
equal the unsharded model's.

    torchrun --nproc-per-node 4 examples/python/minilm.py FOLDER [--device cpu|cuda]

FOLDER holds model.safetensors and tokenizer.json (./quickstart keeps one under .cache). Needs
safetensors and tokenizers. Exit code 0: the embeddings agree.
"""
import argparse
import copy
from pathlib import Path

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file
from tilelace.nn import ColumnParallelLinear, RowParallelLinear
from tokenizers import Tokenizer
from torch import nn

HIDDEN, WIDE, HEADS, LAYERS, EPS = 384, 1536, 12, 6, 1e-12
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A fast auburn fox leaped above a sleepy hound.",
    "Tensor parallelism splits each matrix product over several devices.",
    "It rained all week, so the concert was moved indoors.",
    "Why?",
]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, WIDE), nn.Linear(WIDE, HIDDEN)
        self.norm1, self.norm2 = (nn.LayerNorm(HIDDEN, eps=EPS) for _ in range(2))

    def forward(self, x, mask):
        """x [tokens, sentences, hidden], or this rank's tokens of it."""
        q, k, v = (apply(layer, x) for layer in (self.q, self.k, self.v))
        heads = lambda t: t.unflatten(-1, (-1, HIDDEN // HEADS)).permute(1, 2, 0, 3)
        a = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=mask)
        x = self.norm1(x + apply(self.out, a.permute(2, 0, 1, 3).flatten(2)))
        return self.norm2(x + apply(self.down, F.gelu(apply(self.up, x))))


def apply(layer, x):
    y = layer(x)
    return y[0] if isinstance(y, tuple) else y  # parallel layers: (result, bias or None)


class Encoder(nn.Module):
    def __init__(self, vocabulary, positions):
        super().__init__()
        self.words = nn.Embedding(vocabulary, HIDDEN)
        self.positions = nn.Embedding(positions, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=EPS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.split = False

    def forward(self, ids, real):
        """ids and real (1 for a token, 0 for padding) [sentences, tokens] -> [sentences, hidden]."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.positions(places) + self.types.weight[0])
        mask = real.bool()[:, None, None, :]
        x = x.transpose(0, 1)
        if self.split:
            x = x.chunk(dist.get_world_size())[dist.get_rank()].contiguous()
        for layer in self.layers:
            x = layer(x, mask)
        if self.split:
            x = tilelace.all_gather(x)
        weights = real.t()[:, :, None].to(x.dtype)
        return F.normalize((x * weights).sum(0) / weights.sum(0), dim=-1)


def load(model, folder):
    tensors = load_file(folder / "model.safetensors")
    names = {
        "words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
        "types": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm",
    }
    parts = {
        "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
        "out": "attention.output.dense", "norm1": "attention.output.LayerNorm",
        "up": "intermediate.dense", "down": "output.dense", "norm2": "output.LayerNorm",
    }
    for i in range(LAYERS):
        names.update({f"layers.{i}.{ours}": f"encoder.layer.{i}.{theirs}"
                      for ours, theirs in parts.items()})
    model.load_state_dict({
        name: tensors[names[name.rsplit(".", 1)[0]] + "." + name.rsplit(".", 1)[1]]
        for name in model.state_dict()})


def parallelize(model):
    """Every linear layer becomes this rank's part; what is between them works on its tokens."""
    model = copy.deepcopy(model)
    for layer in model.layers:
        for name in ("q", "k", "v", "up"):
            setattr(layer, name, ColumnParallelLinear.from_linear(
                getattr(layer, name), sequence_parallel=True))
        for name in ("out", "down"):
            setattr(layer, name, RowParallelLinear.from_linear(
                getattr(layer, name), sequence_parallel=True))
    model.split = True
    return model


def tokens_of(folder, ranks):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows = [e.ids for e in tokenizer.encode_batch(SENTENCES)]
    longest = -(-max(map(len, rows)) // ranks) * ranks
    ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
    return ids, torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows])


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments = parser.parse_args()
    dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    if arguments.device == "cuda":
        torch.cuda.set_device(dist.get_rank())
    # GPUs have no fp32 products.
    dtype = torch.bfloat16 if arguments.device == "cuda" else torch.float32
    tensors = load_file(arguments.folder / "model.safetensors")
    exact = Encoder(tensors["embeddings.word_embeddings.weight"].shape[0],
                    tensors["embeddings.position_embeddings.weight"].shape[0])
    load(exact, arguments.folder)
    ids, real = (t.to(arguments.device) for t in tokens_of(arguments.folder, dist.get_world_size()))
    one_rank = copy.deepcopy(exact).to(arguments.device, dtype)
    whole = one_rank(ids, real)
    split = parallelize(one_rank)(ids, real)
    truth = exact.double().to(arguments.device)(ids, real)
    off_whole, off_split = ((t.double() - truth).norm(dim=1).max().item() for t in (whole, split))
    # Sums in another order: no further from fp64 than a rank by itself, within a factor.
    good = off_split <= 2 * off_whole
    if dist.get_rank() == 0:
        print("similarity to the first sentence:",
              " ".join(f"{s:.3f}" for s in (split @ split[0]).tolist()))
        print(f"{dist.get_world_size()} ranks: embeddings off from fp64 by {off_split:.2g}, one "
              f"rank's by {off_whole:.2g}: {'as good' if good else 'WORSE'}")
    dist.destroy_process_group()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
