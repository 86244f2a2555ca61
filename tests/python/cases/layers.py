# SPDX-License-Identifier: Apache-2.0
"""tilelace.nn against the unsharded layers."""
import itertools

import tilelace.nn as tnn
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend

from .world import BOTH, GPU, case, expect_raises


def close(ours, theirs, what):
    """fp32 results of some tens of terms: 16 * 2^-24 of sums below 100."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=100 * 16 * 2.0**-24,
                               msg=lambda m: f"{what}: {m}")


def near(ours, theirs, what, share):
    """Results that were rounded to bf16 on the way: within a share of the largest."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (
        f"{what}: got {ours.dtype} {list(ours.shape)}, expected {theirs.dtype} {list(theirs.shape)}")
    if theirs.numel():
        largest = theirs.double().abs().max()
        if largest == 0:
            assert torch.equal(ours, theirs), f"{what}: got other values, expected zeros"
            return
        worst = (ours.double() - theirs.double()).abs().max() / largest
        assert worst <= share, f"{what}: {worst} of the largest, expected at most {share}"


def pair(w, hidden=12):
    torch.manual_seed(3)
    return torch.nn.Linear(hidden, 6 * w.ranks), torch.nn.Linear(6 * w.ranks, hidden)


def gradients(w, layers, plain):
    """Of column and row against this rank's part of the plain layers': what, ours, theirs."""
    (column, row), (fc1, fc2) = layers, plain
    yield "column weight", column.weight.grad, w.mine(fc1.weight.grad)
    yield "column bias", column.bias.grad, w.mine(fc1.bias.grad)
    yield "row weight", row.weight.grad, w.mine(fc2.weight.grad, 1)
    yield "row bias", row.bias.grad, fc2.bias.grad


def both(w, sequence_parallel, skip, regather=True, dim=0):
    """A column and a row layer and the same unsharded: results and gradients."""
    fc1, fc2 = pair(w)
    arguments = dict(sequence_parallel=sequence_parallel, tp_group=w.group, skip_bias_add=skip,
                     sequence_dim=dim)
    column = tnn.ColumnParallelLinear.from_linear(fc1, regather=regather, **arguments)
    row = tnn.RowParallelLinear.from_linear(fc2, **arguments)
    whole = w.randn(2 * w.ranks, 2 * w.ranks, 12).requires_grad_()
    mine = w.mine(whole.detach(), dim) if sequence_parallel else whole.detach().clone()
    mine.requires_grad_()

    def ours(x):
        y, bias = column(x)
        assert (bias is not None) == skip
        y, bias = row(F.gelu(y if bias is None else y + bias))
        return y if bias is None else y + bias

    expected = fc2(F.gelu(fc1(whole)))
    result = ours(mine)
    close(result, w.mine(expected, dim) if sequence_parallel else expected, "result")
    expected.square().sum().backward()
    result.square().sum().backward()
    close(mine.grad, w.mine(whole.grad, dim) if sequence_parallel else whole.grad, "input")
    for what, ours, theirs in gradients(w, (column, row), (fc1, fc2)):
        close(ours, theirs, what)


@case(2, 3)
def column_and_row(w):
    for sequence_parallel, skip in itertools.product((False, True), (False, True)):
        both(w, sequence_parallel, skip)
    both(w, True, False, regather=False)
    both(w, True, False, dim=1)


@case(2, 4)
def outputs_gathered_and_inputs_split(w):
    fc1, fc2 = pair(w)
    column = tnn.ColumnParallelLinear.from_linear(fc1, gather_output=True, tp_group=w.group)
    row = tnn.RowParallelLinear.from_linear(fc2, input_is_parallel=False, tp_group=w.group)
    x = w.randn(5, 12).requires_grad_()
    y, _ = column(x)
    z, _ = row(y)
    close(z, fc2(fc1(x)), "result")
    (ours,) = torch.autograd.grad(z.square().sum(), x, retain_graph=True)
    (theirs,) = torch.autograd.grad(fc2(fc1(x)).square().sum(), x)
    close(ours, theirs, "input")
    close(column(x, runtime_gather_output=False)[0], w.mine(fc1(x), 1), "not gathered")
    # As Megatron's output layer: the sequence split before, nothing split behind.
    column = tnn.ColumnParallelLinear.from_linear(fc1, gather_output=True, tp_group=w.group,
                                                  sequence_parallel=True)
    whole = w.randn(2 * w.ranks, 12).requires_grad_()
    mine = w.mine(whole.detach()).requires_grad_()
    y, expected = column(mine)[0], fc1(whole)
    close(y, expected, "gathered twice")
    (ours,), (theirs,) = (torch.autograd.grad(t.square().sum(), x)
                          for t, x in ((y, mine), (expected, whole)))
    close(ours, w.mine(theirs), "input of a split sequence")


@case(2, 4, on=GPU)
def column_and_row_on_integers(w):
    """Forward and backward are exact in bf16: sums of few ones."""
    hidden, wide = 32, 16 * w.ranks
    for sequence_parallel, regather in ((False, True), (True, True), (True, False)):
        fc1, fc2 = torch.nn.Linear(hidden, wide), torch.nn.Linear(wide, hidden)
        with torch.no_grad():
            for t in (fc1.weight, fc2.weight, fc1.bias[None], fc2.bias[None]):
                t.copy_(w.integers(*t.shape))
        fc1, fc2 = fc1.to(w.device, w.dtype), fc2.to(w.device, w.dtype)
        arguments = dict(sequence_parallel=sequence_parallel, tp_group=w.group)
        column = tnn.ColumnParallelLinear.from_linear(fc1, regather=regather, **arguments)
        row = tnn.RowParallelLinear.from_linear(fc2, **arguments)
        whole = w.integers(2 * w.ranks, 3, hidden).requires_grad_()
        mine = w.mine(whole.detach()) if sequence_parallel else whole.detach().clone()
        mine.requires_grad_()
        grad = w.integers(2 * w.ranks, 3, hidden, ones=1)
        expected, (y, _) = fc2(F.relu(fc1(whole))), row(F.relu(column(mine)[0]))
        expected.backward(grad)
        y.backward(w.mine(grad) if sequence_parallel else grad)
        w.synchronize()
        part = w.mine if sequence_parallel else lambda t: t
        for what, ours, theirs in (
                ("result", y, part(expected)), ("input", mine.grad, part(whole.grad)),
                *gradients(w, (column, row), (fc1, fc2))):
            assert torch.equal(ours, theirs), (what, sequence_parallel, regather)


@case(2, on=GPU)
def a_gated_mlp_on_gpus(w):
    x = w.randn(3 * w.ranks, 2, 32)
    for sequence_parallel in (False, True):
        torch.manual_seed(2)
        layer = tnn.ParallelMLP(32, 16 * w.ranks, activation="swiglu", tp_group=w.group,
                                sequence_parallel=sequence_parallel).to(w.device, w.dtype)
        mine = w.mine(x) if sequence_parallel else x
        trained = layer(mine)[0]
        with torch.no_grad():
            fused = layer(mine)[0]
        fc1, fc2 = w.gather(layer.linear_fc1.weight), w.gather(layer.linear_fc2.weight, 1)
        gate, up = (F.linear(x.double(), fc1.double())
                    .view(*x.shape[:2], w.ranks, 2, 16).unbind(3))
        hidden = (F.silu(gate) * up).flatten(2)
        expected = F.linear(hidden, fc2.double())
        # The hidden layer is rounded up to four times (gate, up, silu, product) and meets |fc2|.
        u = 2.0**-8
        slack = (1.1 * gate.abs() * up.abs()).flatten(2)
        bound = 5 * u * F.linear(slack + hidden.abs(), fc2.double().abs()) + 2 * u * expected.abs()
        if sequence_parallel:
            expected, bound = w.mine(expected), w.mine(bound)
        for what, y in (("in training", trained), ("outside of training", fused)):
            assert ((y.double() - expected).abs() <= bound).all(), (what, sequence_parallel)


@case(2, 4, on=BOTH)
def gathers_and_splits_are_whole_graphs(w):
    torch.manual_seed(6)
    column = tnn.ColumnParallelLinear(16, 8 * w.ranks, gather_output=True, tp_group=w.group)
    row = tnn.RowParallelLinear(8 * w.ranks, 16, input_is_parallel=False, tp_group=w.group)
    for layer in (column.to(w.device, w.dtype), row.to(w.device, w.dtype)):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(layer, backend=counter, fullgraph=True, dynamic=True)
        for rows in (4, 6, 9):
            x = w.randn(rows, 2, layer.input_size).requires_grad_()
            results = []
            for fn in (layer, compiled):
                y, _ = fn(x)
                results.append([y, *torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))])
            for eager, traced in zip(*results, strict=True):
                near(traced, eager, "compiled", 2.0**-6 if w.cuda else 0)
        assert counter.frame_count == 1, f"{counter.frame_count} graphs for three sizes"


@case(2, 3, on=BOTH)
def autocast_as_of_plain_layers(w):
    torch.manual_seed(8)
    fc1, fc2 = torch.nn.Linear(16, 8 * w.ranks), torch.nn.Linear(8 * w.ranks, 16)
    fc1, fc2 = fc1.to(w.device), fc2.to(w.device)
    for sequence_parallel in (False, True):
        arguments = dict(sequence_parallel=sequence_parallel, tp_group=w.group)
        column = tnn.ColumnParallelLinear.from_linear(fc1, **arguments)
        row = tnn.RowParallelLinear.from_linear(fc2, **arguments)
        part = w.mine if sequence_parallel else lambda t: t
        x = w.randn(2 * w.ranks, 3, 16, dtype=torch.float32).requires_grad_()
        mine = part(x.detach()).clone().requires_grad_()
        fc1.zero_grad(), fc2.zero_grad()
        with torch.autocast(w.device, dtype=torch.bfloat16):
            expected, (y, _) = fc2(F.gelu(fc1(x))), row(F.gelu(column(mine)[0]))
        expected.float().square().sum().backward()
        y.float().square().sum().backward()
        assert y.dtype == torch.bfloat16
        for what, ours, theirs in (
                ("result", y, part(expected)), ("input", mine.grad, part(x.grad)),
                *gradients(w, (column, row), (fc1, fc2))):
            near(ours, theirs, what, 2.0**-5)
        mlp = tnn.ParallelMLP(16, 8 * w.ranks, activation="swiglu", **arguments).to(w.device)
        with torch.no_grad(), torch.autocast(w.device, dtype=torch.bfloat16):
            fused = mlp(mine)[0]
        with torch.autocast(w.device, dtype=torch.bfloat16):
            near(fused, mlp(mine)[0].detach(), "outside of training", 2.0**-5)


@case(2)
def initial_values_are_the_unsharded_layers(w):
    torch.manual_seed(11)
    layer = tnn.ColumnParallelLinear(8, 6, tp_group=w.group)
    torch.manual_seed(11)
    assert torch.equal(layer.weight, w.mine(torch.nn.Linear(8, 6, bias=False).weight))


@case(2, activation="gelu")
@case(3, activation="swiglu")
def mlp(w, activation):
    x = w.randn(3 * w.ranks, 2, 8)
    for sequence_parallel in (False, True):
        torch.manual_seed(2)
        layer = tnn.ParallelMLP(8, 6 * w.ranks, activation=activation, tp_group=w.group,
                                sequence_parallel=sequence_parallel)
        fc1 = w.gather(layer.linear_fc1.weight)
        fc2 = w.gather(layer.linear_fc2.weight, 1)
        hidden = F.linear(x, fc1)
        if activation == "swiglu":
            # Each rank has gate rows and then up rows.
            gate, up = hidden.view(*x.shape[:2], w.ranks, 2, 6).unbind(3)
            hidden = (F.silu(gate) * up).flatten(2)
        else:
            hidden = F.gelu(hidden)
        expected = F.linear(hidden, fc2)
        mine, expected = (w.mine(x), w.mine(expected)) if sequence_parallel else (x, expected)
        close(layer(mine)[0], expected, "in training")
        with torch.no_grad():
            close(layer(mine)[0], expected, "outside of training")


@case(2)
def an_mlp_that_keeps_what_it_gathered(w):
    x, results = w.randn(2, 3, 8), []
    for regather in (True, False):
        torch.manual_seed(2)
        layer = tnn.ParallelMLP(8, 6 * w.ranks, tp_group=w.group, sequence_parallel=True,
                                regather=regather)
        assert layer.linear_fc1.regather == regather
        y, _ = layer(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    for again, kept in zip(*results, strict=True):
        close(kept, again, "kept")
    for name in ("gather_output", "input_is_parallel"):
        expect_raises("usage", f"ParallelMLP: {name}: got True", lambda: tnn.ParallelMLP(
            8, 12, tp_group=w.group, **{name: True}))
