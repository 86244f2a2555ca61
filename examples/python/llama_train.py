# SPDX-License-Identifier: Apache-2.0
"""A small model of Llama's architecture trained with tensor and sequence parallelism: the loss curve
is one rank's.

    torchrun --nproc-per-node 4 examples/python/llama_train.py [--steps 50]

Activations are [sequence, batch, hidden]; each rank has its part of the sequence between the
products, and its heads and hidden columns inside them. Exit code 0: the curves agree.
"""
import argparse

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tilelace.nn import ParallelMLP, RowParallelLinear
from torch import nn

VOCABULARY, HIDDEN, HEADS, WIDE, LAYERS, SEQUENCE, BATCH = 96, 64, 4, 128, 2, 32, 4
TEXT = (__doc__ + "In tensor parallelism every layer is a product with a collective. ") * 8


def rotated(x, start):
    """Rotary positions of x [sequence, batch, heads, head]."""
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = (start + torch.arange(x.shape[0], dtype=x.dtype))[:, None] * frequency
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def attend(q, k, v):
    """Of local heads [sequence, batch, heads * head]; every rank has the whole sequence here."""
    heads = [t.unflatten(-1, (-1, HIDDEN // HEADS)) for t in (q, k, v)]
    q, k, v = (t.permute(1, 2, 0, 3) for t in (rotated(heads[0], 0), rotated(heads[1], 0), heads[2]))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).permute(2, 0, 1, 3).flatten(2)


class Attention(nn.Module):
    """One rank's; with `split`, each rank has HEADS / ranks heads."""

    def __init__(self, whole=None, split=False):
        super().__init__()
        self.split = split
        if not split:
            self.qkv = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(3))
            self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
            return
        part = HIDDEN // dist.get_world_size()
        mine = slice(dist.get_rank() * part, (dist.get_rank() + 1) * part)
        self.qkv = nn.ParameterList(layer.weight[mine].detach().clone() for layer in whole.qkv)
        self.out = RowParallelLinear.from_linear(whole.out, sequence_parallel=True)

    def forward(self, x):
        if not self.split:
            return self.out(attend(*(layer(x) for layer in self.qkv)))
        _, qkv = tilelace.ag_gemm(x, list(self.qkv))  # one gather feeds three products
        return self.out(attend(*qkv))[0]


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(HIDDEN, WIDE, bias=False) for _ in range(2))
        self.down = nn.Linear(WIDE, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def parallel_mlp(whole):
    mlp = ParallelMLP(HIDDEN, WIDE, activation="swiglu", bias=False, sequence_parallel=True)
    ranks, rank = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        mlp.linear_fc1.weight.copy_(torch.cat(
            [layer.weight.chunk(ranks)[rank] for layer in (whole.gate, whole.up)]))
        mlp.linear_fc2.weight.copy_(whole.down.weight.chunk(ranks, 1)[rank])
    return mlp


class Block(nn.Module):
    def __init__(self, whole=None):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        split = whole is not None
        self.attention = Attention(whole.attention, True) if split else Attention()
        self.mlp = parallel_mlp(whole.mlp) if split else MLP()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.mlp(self.norm2(x))
        return x + (y[0] if isinstance(y, tuple) else y)


class Llama(nn.Module):
    """With `whole`, this rank's part of it."""

    def __init__(self, whole=None):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(
            Block(whole.blocks[i] if whole else None) for i in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        # What every rank has whole, and uses for its part of the sequence alone.
        self.shared = [self.words.weight, self.norm.weight, self.head.weight]
        self.shared += [b.norm1.weight for b in self.blocks] + [b.norm2.weight for b in self.blocks]
        if whole:
            with torch.no_grad():
                for ours, theirs in zip(self.shared, whole.shared):
                    ours.copy_(theirs)

    def forward(self, ids, targets):
        """Of [sequence, batch] or this rank's part: its share of the mean loss of all tokens."""
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                               reduction="sum") / (SEQUENCE * BATCH)


def batches(steps):
    letters = torch.tensor([min(max(ord(c) - 32, 0), VOCABULARY - 1) for c in TEXT])
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        starts = torch.randint(len(letters) - SEQUENCE - 1, (BATCH,), generator=generator)
        rows = torch.stack([letters[s : s + SEQUENCE + 1] for s in starts.tolist()], 1)
        yield rows[:-1], rows[1:]


def train(model, steps, split):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    ranks, rank, losses = dist.get_world_size(), dist.get_rank(), []
    for ids, targets in batches(steps):
        if split:
            ids, targets = ids.chunk(ranks)[rank], targets.chunk(ranks)[rank]
        loss = model(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        total = loss.detach().double()
        if split:
            dist.all_reduce(total)
            for parameter in model.shared:
                dist.all_reduce(parameter.grad)
        optimizer.step()
        losses.append(total.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    curves = {}
    for name, dtype, split in (("fp64", torch.float64, False), ("one rank", torch.float32, False),
                               ("split", torch.float32, True)):
        torch.manual_seed(0)
        model = Llama()
        model = Llama(model) if split else model
        curves[name] = train(model.to(dtype), steps, split)
    off = {name: max(abs(a - b) for a, b in zip(curve, curves["fp64"]))
           for name, curve in curves.items()}
    ranks = dist.get_world_size()
    # Rounding alone: as far from fp64 as one rank's fp32 is, for each of the ranks whose sums meet.
    good = off["split"] <= ranks * off["one rank"] and curves["split"][-1] < curves["split"][0]
    if dist.get_rank() == 0:
        for step in range(0, steps, max(1, steps // 5)):
            print(f"step {step:3}: one rank {curves['one rank'][step]:.6f}, "
                  f"{ranks} ranks {curves['split'][step]:.6f}")
        print(f"off from fp64 at most: one rank {off['one rank']:.2g}, {ranks} ranks "
              f"{off['split']:.2g}: {'equal within rounding' if good else 'TOO FAR'}")
    dist.destroy_process_group()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
