# SPDX-License-Identifier: Apache-2.0
"""What calls and backward leave behind: tensors like any other, written to, copied, saved, given on."""
import copy
import io
import time

import tilelace
import tilelace.nn as tnn
import tilelace.tensor_parallel as styles
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.utils.flop_counter import FlopCounterMode

from .styles import mesh_of
from .world import case


def expect_ordinary(t, what):
    assert type(t) is torch.Tensor, f"{what}: {type(t)}"
    t = t.detach()
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    for other in (copy.deepcopy(t), torch.load(file, weights_only=True), torch.from_dlpack(t),
                  torch.from_numpy(t.numpy())):
        assert torch.equal(other, t), what


def calls(w, x, weight):
    """Every op, 2-d and 3-d, results of widths that need staging and of those that do not."""
    for dim in (0, 1) if x.dim() == 3 else (0,):
        gathered, (y,) = tilelace.ag_gemm(x, [weight], None, w.group, gather_dim=dim, return_gathered=True)
        yield from ((f"gathered {dim}", gathered), (f"ag_gemm {dim}", y))
        yield f"gemm_rs {dim}", tilelace.gemm_rs(x, weight, None, w.group, scatter_dim=dim)
        yield f"all_gather {dim}", tilelace.all_gather(x, w.group, gather_dim=dim)
        yield f"reduce_scatter {dim}", tilelace.reduce_scatter(x, w.group, scatter_dim=dim)
    yield "gemm_ar", tilelace.gemm_ar(x, weight, None, w.group)


@case(2)
def results(w):
    for size in ((6, 8), (4, 3, 8)):
        for n in (5, 8):
            x, weight = w.randn(*size), w.randn(n, 8)
            for what, y in calls(w, x, weight):
                expect_ordinary(y, what)
            # Written to in training, as residual_add_ and dropout do.
            for what, y in calls(w, x.requires_grad_(), weight.requires_grad_()):
                if "gathered" not in what:
                    y.mul_(2)
                y.sum().backward(retain_graph=True)
    expect_ordinary(tilelace.empty(3, 4, device="cpu", group=w.group), "empty")


@case(2)
def gradients(w):
    for sequence_parallel in (True, False):
        arguments = dict(sequence_parallel=sequence_parallel, tp_group=w.group)
        mlp = tnn.ParallelMLP(8, 8 * w.ranks, **arguments)
        x = w.randn(4, 8).requires_grad_()
        mlp(x)[0].square().sum().backward()
        for name, t in (("x", x), *mlp.named_parameters()):
            expect_ordinary(t.grad, f"{name} {sequence_parallel}")
    plan = {"0": styles.ColwiseParallel(input_layouts=Shard(0)),
            "1": styles.RowwiseParallel(output_layouts=Shard(0))}
    model = styles.parallelize_module(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), mesh_of(w), plan)
    x = w.randn(4, 8).requires_grad_()
    y = model(x)
    y.sum().backward()
    for name, t in (("result", y), ("x", x.grad), *((n, p.grad._local_tensor) for n, p in
                                                     model.named_parameters())):
        expect_ordinary(t, name)
    whole = styles.parallelize_module(nn.Linear(8, 8), mesh_of(w), styles.ColwiseParallel(
        output_layouts=Replicate()))(w.randn(4, 8))
    expect_ordinary(whole, "a result that was laid out anew")


@case(2)
def floating_point_operations_are_counted(w):
    x, weight = w.randn(6, 8).requires_grad_(), w.randn(4, 8).requires_grad_()
    for op, rows in (("gemm_ar", 6), ("gemm_rs", 6), ("ag_gemm", 12)):
        with FlopCounterMode(display=False) as counter:
            y = getattr(tilelace, op)(x, weight, None, w.group)
            (y[1][0] if op == "ag_gemm" else y).sum().backward()
        assert counter.get_total_flops() == 3 * 2 * rows * 4 * 8, f"{op}: {counter.get_total_flops()}"


@case(2)
def hundreds_of_shapes(w):
    """One after the other: right, and all of them prepared."""
    seconds = []
    for i in range(300):
        x, weight = torch.ones(4, 8 + 8 * (i % 20)), torch.ones(8 + 8 * (i // 20), 8 + 8 * (i % 20))
        start = time.perf_counter()
        y = tilelace.gemm_ar(x, weight, None, w.group)
        seconds.append(time.perf_counter() - start)
        assert y[0, 0] == w.ranks * x.shape[1]
    # That the last ones cost what the tenth does is counted, not timed, in tests/ranks.
    w.tell(tenth_ms=round(1e3 * min(seconds[9:39]), 2), last_ms=round(1e3 * min(seconds[-30:]), 2))
    assert len(tilelace.plans(w.group)) == 300
