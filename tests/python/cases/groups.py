# SPDX-License-Identifier: Apache-2.0
"""Groups: what names one, several at once, their end."""
import gc
import os
from unittest.mock import patch

import tilelace
import torch
import torch.distributed as dist
from tilelace import _groups
from tilelace._errors import call
from torch.distributed.device_mesh import init_device_mesh

from .world import BOTH, case, expect_close, expect_raises, product, with_partials


def expect_works(w, group, ranks):
    x, weight = torch.ones(3, 8), torch.arange(64.0).view(8, 8) % 5
    x, weight = x.to(w.device, w.dtype), weight.to(w.device, w.dtype)
    y = tilelace.gemm_ar(x, weight, None, group)
    assert torch.equal(y, ranks * x @ weight.t()), y


@case(4, on=BOTH)
def dimensions_of_a_mesh(w):
    mesh = init_device_mesh(w.device, (2, 2), mesh_dim_names=("dp", "tp"))
    expect_works(w, mesh["tp"], 2)
    expect_works(w, (mesh, "dp"), 2)
    expect_works(w, mesh["dp"].get_group(), 2)
    expect_works(w, mesh["tp"].get_group().group_name, 2)
    expect_raises("usage", "a device mesh of 2 dimensions", lambda: expect_works(w, mesh, 4))


@case(4, on=BOTH)
def several_groups_take_turns(w):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[w.rank // 2]
    x, weight = w.randn(4, 8), w.randn(8, 8)
    for _ in range(5):
        for group, ranks in ((mine, 2), (w.group, 4)):
            y64, terms = product(ranks * x, weight)
            expect_close(tilelace.gemm_ar(x, weight, None, group), y64,
                         with_partials(terms, x.dtype), f"{ranks} ranks")
    other = pairs[1 - w.rank // 2]
    expect_raises("usage", "is not in the group", lambda: expect_works(w, other, 2))


@case(2, on=BOTH)
def a_destroyed_group_is_refused_and_its_communicator_gone(w):
    group = dist.new_group()
    name = group.group_name
    expect_works(w, group, 2)
    dist.destroy_process_group(group)
    text = f'group "{name}" was destroyed or never made'
    x = torch.ones(8, 8, device=w.device, dtype=w.dtype)
    expect_raises("usage", text, lambda: tilelace.gemm_ar(x, x, None, name))
    if not w.cuda:  # there it is the library that looks, by name
        expect_raises("usage", text,
                      lambda: torch.ops.tilelace.gemm_ar(x, x, None, None, name))
    again = dist.new_group()
    expect_works(w, again, 2)
    name = again.group_name
    dist.destroy_process_group(again)
    del again, group
    gc.collect()
    expect_raises("usage", "has not joined", lambda: tilelace.plans(name))


@case(2)
def a_group_that_is_gone_is_left_at_a_quiet_time(w):
    group = dist.new_group()
    key = (group.group_name, "cpu")
    expect_works(w, group, 2)
    dist.destroy_process_group(group)
    del group
    gc.collect()
    assert key in _groups._gone, "a finaliser has left the group"
    # Nobody finds it any more.
    expect_raises("usage", "has not joined", lambda: call(torch.ops.tilelace._plans, *key))
    capturing, _groups._capturing = _groups._capturing, lambda: True
    try:
        expect_works(w, w.group, 2)
        assert key in _groups._gone, "left in a capture"
    finally:
        _groups._capturing = capturing
    threads = len(os.listdir("/proc/self/task"))
    expect_works(w, w.group, 2)
    assert not _groups._gone
    assert len(os.listdir("/proc/self/task")) < threads, "its communicator has not ended"


@case(2, on=BOTH)
def leaving_and_joining_again(w):
    for _ in range(3):
        expect_works(w, w.group, 2)
        assert len(tilelace.plans(w.group)) == 1
        tilelace.leave(w.group)
    tilelace.join(w.group, device=w.device, timeout=20, workers=0 if w.cuda else 2)
    expect_works(w, w.group, 2)
    assert w.cuda or "workers 2" in tilelace.plans(w.group)[0]


@case(2, on=BOTH)
def a_share_of_what_there_is(w):
    most = 60 if w.cuda else 1
    tilelace.leave(w.group)
    tilelace.join(w.group, device=w.device, timeout=20, max_workers=most)
    expect_works(w, w.group, 2)
    plan = tilelace.plans(w.group)[0]
    assert w.cuda or "workers 1" in plan, plan
    tilelace.leave(w.group)
    expect_raises("usage", "max_workers", lambda: tilelace.join(
        w.group, device=w.device, timeout=20, max_workers=-1))
    tilelace.leave(w.group)
    expect_raises("usage", "max_workers: got", lambda: tilelace.join(
        w.group, device=w.device, timeout=20, max_workers=most + w.rank))


@case(2)
def a_group_for_cpu_and_gpus_is_asked_which(w):
    group, backends = dist.new_group(), "cpu:gloo,cuda:nccl"
    with patch("torch.cuda.is_available", lambda: True), patch(
            "tilelace._groups.has_cuda", lambda: True), patch(
            "torch.distributed.get_backend_config", lambda group: backends):
        for what, fn in (("join", lambda: tilelace.join(group)),
                         ("empty", lambda: tilelace.empty(4, group=group))):
            expect_raises("usage", f'{what}: device: group "{group.group_name}" has backends for cpu and cuda ('
                          f'{backends}): pass device="cpu" or "cuda" to tilelace.join', fn)
        tilelace.join(group, device="cpu", timeout=20)
        assert tilelace.empty(4, group=group).device.type == "cpu"  # as it joined
    tilelace.leave(group)
    dist.destroy_process_group(group)


@case(2, on=BOTH)
def room_grows_with_m(w):
    weight = w.randn(8, 8)
    for m in (1, 3, 40, 700, 5, 2):
        x = w.randn(m, 8)
        y64, terms = product(2 * x, weight)
        expect_close(tilelace.gemm_ar(x, weight, None, w.group), y64,
                     with_partials(terms, x.dtype), f"m {m}")
    (plan,) = tilelace.plans(w.group)
    assert " m 768 " in plan, plan


@case(2)
def kernels_join_by_themselves(w):
    """As CUDA tensors' do: called without the package's Python."""
    x, weight = w.randn(4, 8), w.randn(3, 8)
    group = dist.new_group()
    name = group.group_name
    for _ in range(2):
        y = torch.ops.tilelace._cpu_gemm_ar(x, weight, None, None, f"{name}@{w.rank}/{w.ranks}")
        expect_close(y, *product(w.ranks * x, weight), "joined")
    dist.destroy_process_group(group)
    del group
    expect_raises("usage", f'group "{name}" was destroyed or never made', lambda: call(
        torch.ops.tilelace._cpu_gemm_ar, x, weight, None, None, name))
    expect_raises("usage", 'group "none of ours" was destroyed', lambda: call(
        torch.ops.tilelace._cpu_gemm_ar, x, weight, None, None, "none of ours"))
