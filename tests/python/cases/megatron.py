# SPDX-License-Identifier: Apache-2.0
"""What tilelace.nn takes over from Megatron-LM, beside a stand-in for the modules that it looks at."""
import contextlib
import logging
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import tilelace
import tilelace.nn as tnn
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from .world import BOTH, case, expect_raises


@contextlib.contextmanager
def megatron(**modules):
    """megatron.core's modules (a_b: megatron.core.a.b) with these contents; None: missing."""
    names = {f"megatron.core.{n.replace('transformer_', 'transformer.')}": c
             for n, c in modules.items()}
    before = {name: sys.modules.get(name) for name in names}
    for name, contents in names.items():
        sys.modules[name] = None if contents is None else ModuleType(name)
        if contents is not None:
            vars(sys.modules[name]).update(contents)
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def parallel_state(group, initialized=True):
    return {"model_parallel_is_initialized": lambda: initialized,
            "get_tensor_model_parallel_group": lambda: group,
            "get_data_parallel_group": lambda with_context_parallel: f"data {with_context_parallel}"}


@case(2, on=BOTH)
def megatrons_config_and_main_grad(w):
    config = SimpleNamespace(sequence_parallel=True, gradient_accumulation_fusion=True,
                             params_dtype=torch.bfloat16)
    layer = tnn.RowParallelLinear(
        16, 8, config=config, init_method=torch.nn.init.ones_, bias=True, input_is_parallel=True,
        skip_bias_add=False, stride=1, is_expert=False, tp_comm_buffer_name="proj",
        tp_group=w.group, device=w.device)
    assert layer.weight.dtype == torch.bfloat16 and layer.weight.tensor_model_parallel
    assert layer.bias.sequence_parallel and layer.weight.partition_dim == 1
    layer.weight.main_grad = torch.zeros(8, 8, device=w.device)
    for _ in range(2):
        y, _ = layer(torch.ones(4, 8, dtype=torch.bfloat16, device=w.device))
        y.sum().backward()
    assert torch.equal(layer.weight.main_grad, torch.full_like(layer.weight.main_grad, 8.0))
    assert layer.weight.grad is None
    # Two calls, two rows each on this rank: Megatron sums them over the ranks.
    assert torch.equal(layer.bias.grad, torch.full_like(layer.bias, 4.0))
    expect_raises("usage", "RowParallelLinear: is_expert: got True", lambda: tnn.RowParallelLinear(
        8, 6, is_expert=True, tp_group=w.group))
    expect_raises("usage", "nonsense: got 1, expected no argument of this name",
                  lambda: tnn.ColumnParallelLinear(8, 6, nonsense=1, tp_group=w.group))
    expect_raises("usage", "got 7, expected a multiple of the 2 ranks",
                  lambda: tnn.ColumnParallelLinear(8, 7, tp_group=w.group))


@case(4, on=BOTH)
def the_group_is_megatrons(w):
    """Two of four ranks are tensor-parallel, the pairs are data-parallel."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[w.rank // 2]
    whole, x = torch.nn.Linear(16, 16), w.integers(4, 16) + w.rank // 2
    with torch.no_grad():
        whole.weight.copy_(w.integers(16, 16)), whole.bias.copy_(w.integers(1, 16)[0])
    whole.to(w.device, w.dtype)
    with megatron(parallel_state=parallel_state(mine)):
        column = tnn.ColumnParallelLinear.from_linear(whole, gather_output=True)
        row = tnn.RowParallelLinear.from_linear(whole, input_is_parallel=False)
        mlp = tnn.ParallelMLP(16, 32)
        tnn.ColumnParallelLinear(16, 16, config=SimpleNamespace(tensor_model_parallel_size=2))
        expect_raises(
            "usage", "RowParallelLinear: tp_group: got a group of 2 ranks, expected one of 4",
            lambda: tnn.RowParallelLinear(
                16, 16, config=SimpleNamespace(tensor_model_parallel_size=4)))
        given = tnn.ColumnParallelLinear(16, 16, tp_group=w.group)
    assert column.weight.shape == (8, 16) and row.weight.shape == (16, 8)
    assert mlp.linear_fc1.weight.shape == (16, 16) and given.weight.shape == (4, 16)
    assert column.tp_group is mine and given.tp_group is w.group
    for layer in (column, row):
        assert torch.equal(layer(x)[0], whole(x)), layer
    tilelace.synchronize(mine)
    with megatron(parallel_state=parallel_state(mine, initialized=False)):
        assert tnn.ColumnParallelLinear(16, 16).weight.shape == (4, 16)
    tilelace.leave(mine)
    dist.destroy_process_group(mine)


@case(2, on=BOTH)
def layers_with_a_config_are_made_on_the_ranks_device(w):
    for made in (tnn.ColumnParallelLinear, tnn.RowParallelLinear):
        layer = made(16, 16, config=SimpleNamespace(), tp_group=w.group)
        assert {p.device.type for p in layer.parameters()} == {w.device}
        on_cpu = SimpleNamespace(use_cpu_initialization=True)
        for arguments in (dict(config=on_cpu), dict(config=SimpleNamespace(), device="cpu"), {}):
            layer = made(16, 16, tp_group=w.group, **arguments)
            assert {p.device.type for p in layer.parameters()} == {"cpu"}


@case(2)
def gloo_alone_is_no_reason_for_a_gpu(w):
    """gloo claims CUDA tensors, too."""
    for backends, expected in (("cpu:gloo,cuda:gloo", None), ("cpu:gloo", None),
                               ("cpu:gloo,cuda:nccl", "cuda:1"), ("cuda:nccl", "cuda:1")):
        with patch("torch.cuda.is_available", lambda: True), patch(
                "torch.cuda.current_device", lambda: 1), patch(
                "torch.distributed.get_backend_config", lambda group: backends):
            device = tilelace._megatron.device(SimpleNamespace(), None, w.name)
        assert device == (expected and torch.device(expected)), (backends, device)


class Allocated(TorchDispatchMode):
    """The largest tensor that was made inside."""

    largest = 0

    def __torch_dispatch__(self, fn, types, args=(), kwargs=None):
        result = fn(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


@case(2)
def without_initialization_there_is_no_whole_weight(w):
    config = SimpleNamespace(perform_initialization=False)
    linear = torch.nn.Linear(8, 6)
    for made, shape in ((tnn.ColumnParallelLinear, (3, 8)), (tnn.RowParallelLinear, (6, 4))):
        with Allocated() as seen:
            layer = made(8, 6, config=config, init_method=lambda t: 1 / 0, tp_group=w.group)
        assert layer.weight.shape == shape and seen.largest == 24
        with Allocated() as seen:
            made(8, 6, init_method=torch.nn.init.ones_, tp_group=w.group)
        assert seen.largest == 48
        for arguments in ({}, {"config": config}):
            with Allocated() as seen:
                layer = made.from_linear(linear, tp_group=w.group, **arguments)
            assert torch.equal(layer.weight, w.mine(linear.weight, 0 if shape[0] == 3 else 1))
            assert seen.largest == 24


@case(2)
def parameters_say_how_they_are_split(w):
    column = tnn.ColumnParallelLinear(8, 6, config=SimpleNamespace(), tp_group=w.group)
    row = tnn.RowParallelLinear(8, 6, config=SimpleNamespace(), tp_group=w.group)
    for parameter, dim in ((column.weight, 0), (column.bias, 0), (row.weight, 1)):
        assert parameter.tensor_model_parallel and parameter.partition_stride == 1
        assert parameter.partition_dim == dim
    assert not hasattr(row.bias, "tensor_model_parallel")
    assert all(p.allreduce for p in (*column.parameters(), *row.parameters()))
    assert column.output_size_per_partition == 3 and row.input_size_per_partition == 4


@case(2)
def state_dicts_load_into_plain_layers_and_back(w):
    plain = tnn.ColumnParallelLinear(8, 6, tp_group=w.group)
    theirs = tnn.ColumnParallelLinear(8, 6, config=SimpleNamespace(), tp_group=w.group)
    linear = torch.nn.Linear(8, 3)
    assert list(plain.state_dict()) == ["weight", "bias"]
    assert theirs.state_dict(prefix="a.")["a._extra_state"] is None
    linear.load_state_dict(plain.state_dict())
    assert torch.equal(linear.weight, plain.weight)
    for source in (torch.nn.Linear(8, 3), theirs):
        plain.load_state_dict(source.state_dict())
        assert torch.equal(plain.weight, source.weight)
    for source in (torch.nn.Linear(8, 3), plain):
        theirs.load_state_dict(source.state_dict())
        assert torch.equal(theirs.weight, source.weight)


@case(2)
def sharded_state_dicts_are_megatrons(w):
    def make(state, prefix, axes, offsets, tp_group=None, dp_cp_group=None):
        return {prefix + k: (axes.get(k), offsets, tp_group, dp_cp_group) for k in state}

    def older(state, prefix, axes, offsets):
        return {prefix + k: (axes.get(k), offsets) for k in state}

    with_config = dict(config=SimpleNamespace(), tp_group=w.group)
    column = tnn.ColumnParallelLinear(8, 6, **with_config)
    row = tnn.RowParallelLinear(8, 6, **with_config)
    mlp = tnn.ParallelMLP(8, 6, activation="swiglu", **with_config)
    state, offsets = parallel_state(w.group), ((0, 1, 2),)
    with megatron(parallel_state=state, transformer_utils={
            "make_sharded_tensors_for_checkpoint": make}, transformer_mlp={
            "apply_swiglu_sharded_factory": lambda t, offsets: ("halves", t, offsets)}):
        rest = (offsets, w.group, "of data")
        assert column.sharded_state_dict("c.", offsets, {"dp_cp_group": "of data"}) == {
            "c.weight": (0, *rest), "c.bias": (0, *rest), "c._extra_state": (None, *rest)}
        rest = ((), w.group, "data True")
        assert row.sharded_state_dict() == {
            "weight": (1, *rest), "bias": (None, *rest), "_extra_state": (None, *rest)}
        tensors = mlp.sharded_state_dict("m.")
        assert tensors["m.linear_fc1.weight"] == ("halves", (0, *rest), ())
        assert tensors["m.linear_fc1.bias"] == ("halves", (0, *rest), ())
        assert tensors["m.linear_fc2.weight"] == (1, *rest) and len(tensors) == 6
    with megatron(transformer_utils={"make_sharded_tensors_for_checkpoint": older}):
        assert row.sharded_state_dict()["weight"] == (1, ())
    with megatron(transformer_utils=None):
        expect_raises("usage", "sharded_state_dict needs Megatron-LM's megatron.core",
                      column.sharded_state_dict)


@case(2)
def fusion_without_main_grad_is_said_once(w):
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    log = logging.getLogger("tilelace")
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        layers = [tnn.RowParallelLinear(16, 8, gradient_accumulation_fusion=True, tp_group=w.group)
                  for _ in range(3)]
        layers[2].weight.main_grad = torch.zeros(8, 8)
        x = torch.ones(4, 8)
        with torch.no_grad():
            layers[0](x)
        assert not told
        for layer in layers * 2:
            layer(x)[0].sum().backward()
        text = "RowParallelLinear: gradient_accumulation_fusion: the weight has no main_grad"
        assert len(told) == 2 and all(t.startswith(text) for t in told), told
        assert layers[0].weight.grad is not None and layers[2].weight.grad is None
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def megatrons_shard(whole, stride, ranks, rank, dim):
    """As megatron-core cuts a weight of several blocks: pieces dealt to the ranks in turn."""
    pieces = torch.split(whole, whole.shape[dim] // ranks // stride, dim)
    return torch.cat(pieces[rank::ranks], dim)


@case(2, 3)
def what_newer_megatrons_pass(w):
    """Of gated layers stride 2; a name, a collection of groups, a type of the result."""
    config = SimpleNamespace(sequence_parallel=False, gradient_accumulation_fusion=False,
                             params_dtype=torch.float32)
    drawn = {}

    def init(weight):
        torch.manual_seed(3)
        drawn["whole"] = torch.nn.init.normal_(weight)

    groups = SimpleNamespace(tp=w.group)
    for kind, n, k, dim in ((tnn.ColumnParallelLinear, 4 * w.ranks, 6, 0),
                            (tnn.RowParallelLinear, 6, 4 * w.ranks, 1)):
        for stride in (1, 2, 4):
            layer = kind(k, n, config=config, init_method=init, stride=stride, name="decoder.mlp",
                         pg_collection=groups, output_dtype=torch.float64)
            expected = megatrons_shard(drawn["whole"], stride, w.ranks, w.rank, dim)
            assert torch.equal(layer.weight, expected), f"{kind.__name__} {stride}"
            assert layer.weight.partition_stride == stride and layer.tp_group is w.group
            x = w.randn(2, k // w.ranks if dim else k)
            assert layer(x)[0].dtype == torch.float64
        for stride in (0, 5, 1.0, "2"):
            expect_raises("usage", "stride: got", lambda: kind(k, n, stride=stride, tp_group=w.group))
        expect_raises("usage", "with stride 2", lambda: kind(
            k, n, stride=2, tp_group=w.group,
            **({"input_is_parallel": False} if dim else {"gather_output": True})))


@case(2, 3, 4)
def gated_layers_have_the_unsharded_values(w):
    """At every number of ranks, one too, by init_method and from_linear; so is their result."""
    hidden, ffn = 6, 12
    torch.manual_seed(5)
    fc1, fc2 = torch.nn.Linear(hidden, 2 * ffn), torch.nn.Linear(ffn, hidden)

    def init(weight):
        with torch.no_grad():
            weight.copy_(fc1.weight if len(weight) == 2 * ffn else fc2.weight)

    x = w.randn(5, hidden)
    gate, up = fc1(x).chunk(2, -1)
    expected = fc2(torch.nn.functional.silu(gate) * up)
    alone = [dist.new_group([r]) for r in range(w.ranks)]
    for group in (w.group, alone[w.rank]):
        mlp = tnn.ParallelMLP(hidden, ffn, activation="swiglu", init_method=init, tp_group=group)
        column = tnn.ColumnParallelLinear.from_linear(fc1, stride=2, tp_group=group)
        assert torch.equal(mlp.linear_fc1.weight, column.weight)
        with torch.no_grad():
            mlp.linear_fc1.bias.copy_(column.bias)
            mlp.linear_fc2.bias.copy_(fc2.bias)
        torch.testing.assert_close(mlp(x)[0], expected)
