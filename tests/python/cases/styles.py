# SPDX-License-Identifier: Apache-2.0
"""tilelace.tensor_parallel beside torch.distributed.tensor.parallel: the same plan, one import.

Features are multiples of 8 a rank where cases run on GPUs.
"""
import copy

import tilelace
import tilelace.tensor_parallel as ours
import torch
import torch.distributed.tensor.parallel as theirs
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from .layers import close, near
from .world import BOTH, case, expect_raises


class Block(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 8 * ranks)
        self.down = torch.nn.Linear(8 * ranks, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


def plan(styles, sequence_parallel, **down):
    if not sequence_parallel:
        return {"up": styles.ColwiseParallel(), "down": styles.RowwiseParallel()}
    return {
        "norm": styles.SequenceParallel(),
        "up": styles.ColwiseParallel(input_layouts=Shard(1)),
        "down": styles.RowwiseParallel(output_layouts=Shard(1), **down),
    }


def mesh_of(w):
    # DTensor's caches keep meshes, also of a case whose group is gone: the name tells them apart.
    return DeviceMesh.from_group(w.group, w.device, mesh_dim_names=(f"group{w.name}",))


def full(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def alike(ours, theirs, what):
    """PyTorch's partial sums are rounded, ours not always: several times in bf16."""
    assert ours.dtype == theirs.dtype and isinstance(ours, DTensor) == isinstance(theirs, DTensor), what
    if isinstance(ours, DTensor):
        assert ours.placements == theirs.placements and ours.shape == theirs.shape, what
        ours, theirs = ours.to_local(), theirs.to_local()
    if ours.dtype == torch.float32:
        close(ours, theirs, what)
    else:
        near(ours, theirs, what, 2.0**-4)


def trained(model, x):
    mine = x.detach().clone().requires_grad_()
    y = model(mine)
    full(y).square().sum().backward()
    return y, mine.grad, model


def trained_by_torch(w, module, plans, x):
    """With PyTorch's styles; none where this torch's cannot (uneven parts before 2.15)."""
    text = ""
    try:
        model = theirs.parallelize_module(copy.deepcopy(module), mesh_of(w), plans(theirs))
        result = trained(model, x)
    except RuntimeError as error:
        text = str(error)
    texts = [t for t in w.everyone(text) if t]
    if not texts:
        return result
    assert torch.__version__ < "2.15", texts
    w.tell(torch_cannot=texts[0][:80])
    return None


def compare(w, module, plans, x):
    """The styles of both on the same module: result, gradients, parameters. Returns our result."""
    by_torch = trained_by_torch(w, module, plans, x)
    y2, x2, m2 = trained(
        ours.parallelize_module(copy.deepcopy(module), mesh_of(w), plans(ours)), x)
    if by_torch is not None:
        alike(y2, by_torch[0], "result")
    # Without PyTorch's: the unsharded module's; a part of its result is what the gradients tell.
    _, x1, m1 = by_torch or trained(copy.deepcopy(module), full(x))
    alike(full(x2), full(x1), "input")
    for (name, p1), (other, p2) in zip(m1.named_parameters(), m2.named_parameters(), strict=True):
        assert name == other and full(p1).equal(full(p2)), name
        assert by_torch is None or type(p1) is type(p2), name
        alike(full(p2.grad), full(p1.grad), name)
    return y2


@case(2, 4, on=BOTH)
def one_import_changes(w):
    x = w.randn(2, 2 * w.ranks, 8)
    for sequence_parallel in (False, True):
        torch.manual_seed(4)
        whole = Block(w.ranks).to(w.device, w.dtype)
        compare(w, whole, lambda styles: plan(styles, sequence_parallel),
                w.mine(x, 1) if sequence_parallel else x)
        expected = {"gemm_ar"} if not sequence_parallel else {"ag_gemm", "gemm_rs"}
        assert expected <= {p.split()[0] for p in tilelace.plans(w.group)}
    assert set(theirs.__all__) <= set(ours.__all__)
    assert all(hasattr(ours, name) for name in ours.__all__)


@case(2, 3, 4, on=BOTH)
def sequences_that_the_ranks_do_not_divide(w):
    torch.manual_seed(4)
    whole = Block(w.ranks).to(w.device, w.dtype)
    for length in (7, 5, 1):  # of four ranks, 5 leave one with none, and of more than one, 1 does
        x = distribute_tensor(w.randn(2, length, 8), mesh_of(w), [Shard(1)])
        y = compare(w, whole, lambda styles: plan(styles, True, use_local_output=False), x)
        parts = w.everyone(y.to_local().shape[1])
        assert parts == [t.shape[1] for t in torch.empty(2, length, 8).chunk(w.ranks, 1)] + [0] * (
            w.ranks - len(torch.empty(length).chunk(w.ranks))), parts
    row = ours.parallelize_module(
        torch.nn.Linear(8 * w.ranks, 8).to(w.device, w.dtype), mesh_of(w),
        ours.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)))
    y = row(w.randn(w.ranks + 1, 8 * w.ranks))
    assert w.everyone(y.shape[0])[:2] == [2, 2 if w.ranks > 2 else 1]


@case(2, 3, 4)
def features_that_the_ranks_do_not_divide(w):
    torch.manual_seed(6)
    mesh = mesh_of(w)
    # PyTorch's own fails where features and a sequence that is split behind are both uneven.
    x, split = w.randn(2, 12, 8), distribute_tensor(w.randn(2, 7, 8), mesh, [Shard(1)])
    for n in (7, 5, 1):
        up, down = torch.nn.Linear(8, n), torch.nn.Linear(n, 8)
        for arguments in ({}, {"output_layouts": Replicate()}, {"use_local_output": False},
                          {"output_layouts": Shard(1), "use_local_output": False}):
            compare(w, up, lambda s: s.ColwiseParallel(**arguments), x)
            if arguments.get("output_layouts") != Shard(1):
                compare(w, up, lambda s: s.ColwiseParallel(**arguments), split)
        wide = w.randn(2, 12, n)
        for arguments in ({}, {"output_layouts": Shard(1), "use_local_output": False}):
            compare(w, down, lambda s: s.RowwiseParallel(input_layouts=Replicate(), **arguments), wide)
            compare(w, down, lambda s: s.RowwiseParallel(**arguments),
                    distribute_tensor(wide, mesh, [Shard(2)]))
        both = torch.nn.Sequential(up, torch.nn.GELU(), down)
        expected = both(x)
        ours.parallelize_module(both, mesh, {"0": ours.ColwiseParallel(), "2": ours.RowwiseParallel()})
        close(both(x), expected, "plain tensors between uneven layers")


@case(2, on=BOTH)
def dtensors_and_other_layouts(w):
    mesh = mesh_of(w)
    torch.manual_seed(5)
    whole, x = torch.nn.Linear(16, 16).to(w.device, w.dtype), w.randn(4, 16)
    column = ours.parallelize_module(
        copy.deepcopy(whole), mesh,
        ours.ColwiseParallel(output_layouts=Replicate(), use_local_output=False))
    y = column(DTensor.from_local(w.mine(x), mesh, (Shard(0),)))
    assert isinstance(y, DTensor) and y.placements == (Replicate(),)
    alike(y.to_local(), whole(x), "gathered columns")
    row = ours.parallelize_module(
        copy.deepcopy(whole), mesh, ours.RowwiseParallel(input_layouts=Replicate()))
    alike(row(x), whole(x), "split input")
    # What no op takes is left to PyTorch's style.
    compare(w, whole, lambda s: s.RowwiseParallel(input_layouts=Shard(0)), w.mine(x))
    table = ours.parallelize_module(torch.nn.Embedding(10, 4).to(w.device), mesh,
                                    ours.RowwiseParallel())
    assert isinstance(table.weight, DTensor)


@case(2)
def inputs_of_a_wrong_width_raise(w):
    """No padding hides them: uneven layers see the number of columns that they want, or raise."""
    for k in (8, 7):
        for layout in (Replicate(), Shard(-1)):
            row = ours.parallelize_module(torch.nn.Linear(k, 6), mesh_of(w),
                                          ours.RowwiseParallel(input_layouts=layout))
            for wrong in (k - 5, k + 2):
                expect_raises("usage", "got", lambda: row(torch.zeros(4, wrong)))


def expect_whole_graphs(w, model, width, graphs):
    """`graphs`: how many there are after a call of so many rows."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for rows, expected in graphs.items():
        x = w.randn(rows, 3, width).requires_grad_()
        results = []
        for fn in (model, compiled):
            y = fn(x)
            grads = torch.autograd.grad(y.square().sum(), (x, *model.parameters()))
            results.append([y, *map(full, grads)])
        for eager, traced in zip(*results, strict=True):
            near(traced, eager, "compiled", 2.0**-6 if w.cuda else 0)
        assert counter.frame_count == expected, f"{rows} rows: {counter.frame_count} graphs"


@case(2, on=BOTH)
def styles_are_whole_graphs(w):
    torch.manual_seed(6)
    up, down = (torch.nn.Linear(16, 16).to(w.device, w.dtype) for _ in range(2))
    both = ours.parallelize_module(
        torch.nn.Sequential(copy.deepcopy(up), copy.deepcopy(down)), mesh_of(w), {
            "0": ours.ColwiseParallel(output_layouts=Replicate()),
            "1": ours.RowwiseParallel(input_layouts=Replicate())})
    expect_whole_graphs(w, both, 16, {4: 1, 6: 1, 9: 1})
    row = ours.parallelize_module(down, mesh_of(w), ours.RowwiseParallel(output_layouts=Shard(0)))
    # One graph for what the ranks divide, and one for all other sizes.
    expect_whole_graphs(w, row, 8, {6: 1, 10: 1, 7: 2, 14: 2, 9: 2})


@case(2, on=BOTH)
def styles_follow_autocast(w):
    torch.manual_seed(9)
    whole = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    whole.to(w.device)
    x = w.randn(4, 3, 16, dtype=torch.float32)
    for layouts in ((Replicate(), Replicate()), (Shard(0), Shard(0))):
        model = ours.parallelize_module(copy.deepcopy(whole), mesh_of(w), {
            "0": ours.ColwiseParallel(input_layouts=layouts[0]),
            "2": ours.RowwiseParallel(output_layouts=layouts[1])})
        part = (lambda t: t) if layouts[0] == Replicate() else w.mine
        results = []
        for fn, given in ((whole, x), (model, part(x))):
            fn.zero_grad()
            given = given.clone().requires_grad_()
            with torch.autocast(w.device, dtype=torch.bfloat16):
                y = fn(given)
            y.float().square().sum().backward()
            results.append([y, given.grad, *(full(p.grad) for p in fn.parameters())])
        (y1, x1, *grads1), (y2, x2, *grads2) = results
        for what, mine, expected in (("result", y2, part(y1)), ("input", x2, part(x1)),
                                     *zip(("up", "up bias", "down", "down bias"), grads2, grads1)):
            near(mine, expected, what, 2.0**-5)
