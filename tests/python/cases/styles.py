# SPDX-License-Identifier: Apache-2.0
"""tilelace.tensor_parallel beside torch.distributed.tensor.parallel: the same plan, one import."""
import copy

import tilelace
import tilelace.tensor_parallel as ours
import torch
import torch.distributed.tensor.parallel as theirs
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from .layers import close
from .world import case, expect_raises


class Block(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 4 * ranks)
        self.down = torch.nn.Linear(4 * ranks, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


def plan(styles, sequence_parallel):
    if not sequence_parallel:
        return {"up": styles.ColwiseParallel(), "down": styles.RowwiseParallel()}
    return {
        "norm": styles.SequenceParallel(),
        "up": styles.ColwiseParallel(input_layouts=Shard(1)),
        "down": styles.RowwiseParallel(output_layouts=Shard(1)),
    }


def full(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


@case(2, 4)
def one_import_changes(w):
    mesh = DeviceMesh.from_group(w.group, "cpu")
    x = w.randn(2, 2 * w.ranks, 8)
    for sequence_parallel in (False, True):
        torch.manual_seed(4)
        whole = Block(w.ranks)
        mine = w.mine(x, 1) if sequence_parallel else x
        results = []
        for styles in (theirs, ours):
            model = copy.deepcopy(whole)
            model = styles.parallelize_module(model, mesh, plan(styles, sequence_parallel))
            y = model(mine)
            y.square().sum().backward()
            results.append((y, {n: full(p.grad) for n, p in model.named_parameters()}, model))
        (y1, grads1, m1), (y2, grads2, m2) = results
        close(full(y2), full(y1), "result")
        assert grads1.keys() == grads2.keys()
        for name, grad in grads1.items():
            close(grads2[name], grad, name)
        for (name, p1), (_, p2) in zip(m1.state_dict().items(), m2.state_dict().items()):
            assert type(p1) is type(p2) and full(p1).equal(full(p2)), name
        expected = {"gemm_ar"} if not sequence_parallel else {"ag_gemm", "gemm_rs"}
        assert expected <= {p.split()[0] for p in tilelace.plans(w.group)}


@case(2)
def dtensors_and_other_layouts(w):
    mesh = DeviceMesh.from_group(w.group, "cpu")
    torch.manual_seed(5)
    whole, x = torch.nn.Linear(8, 6), w.randn(4, 8)
    column = ours.parallelize_module(
        copy.deepcopy(whole), mesh,
        ours.ColwiseParallel(output_layouts=Replicate(), use_local_output=False))
    y = column(DTensor.from_local(w.mine(x), mesh, (Shard(0),)))
    assert isinstance(y, DTensor) and y.placements == (Replicate(),)
    close(y.to_local(), whole(x), "gathered columns")
    row = ours.parallelize_module(
        copy.deepcopy(whole), mesh, ours.RowwiseParallel(input_layouts=Replicate()))
    close(row(x), whole(x), "split input")
    wrong = ours.parallelize_module(
        copy.deepcopy(whole), mesh, ours.RowwiseParallel(input_layouts=Shard(0)))
    expect_raises("usage", "RowwiseParallel: input: got", lambda: wrong(x))
    odd = ours.ColwiseParallel()
    expect_raises("usage", "out_features: got 7, expected a multiple of the 2 ranks",
                  lambda: ours.parallelize_module(torch.nn.Linear(8, 7), mesh, odd))
    table = ours.parallelize_module(torch.nn.Embedding(10, 4), mesh, ours.RowwiseParallel())
    assert isinstance(table.weight, DTensor)
