# SPDX-License-Identifier: Apache-2.0
"""tilelace.compat.symm_mem.install, beside a stand-in for torch's kernels; what torchtitan's and SGLang's
own functions give with it."""
import contextlib
import functools
import logging
from types import SimpleNamespace

import tilelace
import torch
import torch.distributed as dist
import torch.nn.functional as F
from stacks import module_of, stubbed, version
from tilelace import _log
from tilelace.compat import symm_mem
from torch.distributed import _functional_collectives as functional

from .world import BOTH, case, expect_close, expect_raises, product, with_partials

OPS = torch.ops.symm_mem
SWITCH = "tilelace.compat.symm_mem.install()"


@contextlib.contextmanager
def switch():
    symm_mem.install()
    try:
        yield
    finally:
        symm_mem.uninstall()


@contextlib.contextmanager
def told():
    """Lines of the log, all of them new."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    _log.told.clear()
    _log.log.addHandler(handler)
    propagate, _log.log.propagate = _log.log.propagate, False
    try:
        yield lines
    finally:
        _log.log.removeHandler(handler)
        _log.log.propagate = propagate


@case(2, 3, on=BOTH)
def torchs_ops_are_ours(w):
    a, b1, b2 = w.randn(8 * w.ranks, 16), w.randn(16, 8), w.randn(16, 24)
    with switch():
        gathered, (y1, y2) = OPS.fused_all_gather_matmul(w.mine(a), [b1, b2], 0, w.name)
        none, _ = OPS.fused_all_gather_matmul(w.mine(a), [b1], 0, w.name, return_A=False)
        summed = OPS.fused_matmul_reduce_scatter(a, b1, "sum", 0, w.name)
        mean = OPS.fused_matmul_reduce_scatter(a, b1, "avg", 0, w.name)
        w.synchronize()
        assert symm_mem.calls() == (4, 0)
    assert torch.equal(gathered, a) and none is None
    expect_close(y1, *product(a, b1.t()), "first")
    expect_close(y2, *product(a, b2.t()), "second")
    y64, terms = product(a * w.ranks, b1.t())
    terms = with_partials(terms, a.dtype)
    expect_close(summed, w.mine(y64), w.mine(terms), "sum")
    expect_close(mean, w.mine(y64) / w.ranks, w.mine(terms) / w.ranks, "avg", roundings=2)
    ours = symm_mem.fused_matmul_reduce_scatter(a, b1, "sum", 0, w.name)
    assert torch.equal(ours, summed)


@case(2)
def what_cannot_be_ours_is_torchs(w):
    """And is said once; after uninstall all is torch's, bit for bit."""
    a, b = w.randn(4, 16), w.randn(16, 8)
    seen = []

    def torchs(a, b, reduce_op, scatter_dim, group_name):
        seen.append(a.dtype)
        return a @ b + 1

    mine = torch.library.Library("symm_mem", "IMPL")
    mine.impl("fused_matmul_reduce_scatter", torchs, "CPU")
    before = OPS.fused_matmul_reduce_scatter(a, b, "sum", 0, w.name)
    with told() as lines, switch():
        for _ in range(2):
            y = OPS.fused_matmul_reduce_scatter(a.double(), b.double(), "sum", 0, w.name)
            OPS.fused_matmul_reduce_scatter(a, b, "max", 0, w.name)
        assert torch.equal(y, a.double() @ b.double() + 1) and len(seen) == 5
        assert len(lines) == 2 and "got torch.float64" in lines[0] and '"max"' in lines[1], lines
        ours = OPS.fused_matmul_reduce_scatter(a, b, "sum", 0, w.name)
        assert ours.shape == (2, 8) and symm_mem.calls() == (1, 4)
        symm_mem.install()
        assert symm_mem.calls() == (0, 0)
        scale = torch.ones(1)
        expect_raises("usage", "torch has no kernel for CPU", lambda: OPS.fused_all_gather_scaled_matmul(
            a, [b], scale, [scale], 0, w.name, [None], [None], [None], [False]))
    assert torch.equal(OPS.fused_matmul_reduce_scatter(a, b, "sum", 0, w.name), before)
    mine._destroy()
    symm_mem.uninstall()


@case(2)
def a_group_that_cannot_join_stays_torchs(w):
    """All ranks of it, for the same reason."""
    a, b = w.randn(4, 16), w.randn(16, 8)
    group = dist.new_group()
    mine = torch.library.Library("symm_mem", "IMPL")
    mine.impl("fused_matmul_reduce_scatter", lambda a, b, op, dim, name: a @ b, "CPU")
    with told() as lines, switch():
        reason = tilelace.Error("usage", "join: ranks of several hosts")
        with_reason = functools.partial(_raise, reason)
        ensure, tilelace._groups.ensure = tilelace._groups.ensure, with_reason
        try:
            y = OPS.fused_matmul_reduce_scatter(a, b, "sum", 0, group.group_name)
        finally:
            tilelace._groups.ensure = ensure
        assert torch.equal(y, a @ b) and symm_mem.calls() == (0, 1)
        assert len(lines) == 1 and "several hosts" in lines[0], lines
    mine._destroy()
    dist.destroy_process_group(group)


def _raise(error, *_):
    raise error


@case(2)
def graphs_of_inductors_own_pass(w):
    """torch's pass makes the ops of functional collectives; ours run them."""
    from torch._inductor.fx_passes.micro_pipeline_tp import micro_pipeline_tp_pass
    from torch.distributed._symmetric_memory import _test_mode
    from torch.fx.experimental.proxy_tensor import make_fx

    a, b = w.randn(2 * w.ranks, 16), w.randn(16, 8)

    def block(x):
        gathered = functional.all_gather_tensor(x, 0, w.group)
        return functional.reduce_scatter_tensor(F.relu(gathered @ b) @ b.t(), "sum", 0, w.group)

    graph = make_fx(block, tracing_mode="fake", _allow_non_fake_inputs=True)(w.mine(a))
    with _test_mode():  # which alone takes a machine without GPUs
        micro_pipeline_tp_pass(graph.graph)
    graph.recompile()
    with switch():
        y = graph(w.mine(a))
        assert symm_mem.calls() == (2, 0), graph.graph
    torch.testing.assert_close(y, block(w.mine(a)))


# --- torchtitan's and SGLang's functions


def relative(y, expected):
    return ((y.double() - expected.double()).norm() / expected.double().norm()).item()


def fp32_products():
    """torch.mm(.., out_dtype=float32), which CPU tensors lack."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("mm.dtype", lambda a, b, dtype: (a.to(dtype) @ b.to(dtype)), "CPU")
    return library


@case(2, 3)
def torchtitans_swiglu(w):
    """Its column- and row-parallel Functions, forward and all gradients, beside one rank's."""
    identity = {"register_autograd_function": lambda cls: cls}
    linear = module_of("torchtitan", "torchtitan/distributed/linear.py", {"spmd_types": identity})
    h, f, tokens = 24, 8 * w.ranks, 4 * w.ranks
    x = w.randn(tokens, h).requires_grad_()
    weights = [t.requires_grad_() for t in (w.randn(f, h), w.randn(f, h), w.randn(h, f))]
    grad = w.randn(tokens, h)
    gate, up = F.linear(x, weights[0]), F.linear(x, weights[1])
    expected = F.linear(F.silu(gate) * up, weights[2])
    expected.backward(grad)
    mine = w.mine(x.detach()).requires_grad_()
    dims = (0, 0, 1)
    parts = [w.mine(t.detach(), d).requires_grad_() for t, d in zip(weights, dims)]
    library = fp32_products()
    with switch():
        gate, up = linear.AllGatherLinearMulti.apply(mine, parts[0], parts[1], w.group, w.name)
        y = linear.LinearReduceScatter.apply(F.silu(gate) * up, parts[2], None, w.group, w.name)
        y.backward(w.mine(grad))
        assert symm_mem.calls() == (5, 0), symm_mem.calls()
    library._destroy()
    pairs = [(y, w.mine(expected)), (mine.grad, w.mine(x.grad)),
             *((p.grad, w.mine(t.grad, d)) for p, t, d in zip(parts, weights, dims))]
    worst = max(relative(a, b) for a, b in pairs)
    assert worst < 3e-7, worst
    w.tell(stack="torchtitan", version=version("torchtitan"), what="AllGatherLinearMulti, LinearReduceScatter",
           switch=SWITCH, fused="2 forward, 3 backward", left=0,
           result=f"fp32, off one rank's by {worst:.0e} with all gradients")


class Unquantized:
    pass


@case(2, 3)
def sglangs_sequence_parallelism(w):
    """Its entry, column-parallel and row-parallel products, of tokens that the ranks do not divide."""
    tp = SimpleNamespace(device_group=w.group, world_size=w.ranks, rank_in_group=w.rank)
    stubs = {
        "sglang.srt.runtime_context": {
            "get_flags": None, "get_forward": None, "get_parallel": lambda: SimpleNamespace(tp_group=tp)},
        "sglang.srt.utils.common": {"ceil_align": lambda n, by: -(-n // by) * by},
        "sglang.srt.layers.quantization.unquant": {"UnquantizedLinearMethod": Unquantized},
    }
    sp = module_of("sglang", "sglang/srt/layers/layernorm_sp.py", stubs)
    h, f, tokens = 48, 16 * w.ranks, 19
    x = w.randn(tokens, h, dtype=torch.bfloat16)
    up, down = (w.randn(*size, dtype=torch.bfloat16) for size in ((f, h), (h, f)))

    def layer(weight):
        return SimpleNamespace(weight=weight, bias=None, quant_method=Unquantized(), tp_group=tp)

    with switch(), stubbed(stubs):
        mine = sp.sp_entry_scatter(x)
        hidden = sp.column_parallel_g_matmul(layer(w.mine(up)), mine, None)
        y = sp.row_parallel_gbar_matmul(layer(w.mine(down, 1)), F.silu(hidden), None)
        assert symm_mem.calls() == (2, 0), symm_mem.calls()
    whole = w.gather(y)[:tokens]
    one = F.silu(F.linear(x.double(), up.double()).bfloat16().double()).bfloat16()
    error = relative(whole, F.linear(one.double(), down.double()))
    assert error < 3e-3, error
    w.tell(stack="SGLang", version=version("sglang"), what="--enable-layernorm-sp's functions", switch=SWITCH,
           fused="1 ag_gemm, 1 gemm_rs", left=0, result=f"bf16, off one rank's by {error:.0e}")
