# SPDX-License-Identifier: Apache-2.0
"""Choices of plans that a group is given when it joins."""
import contextlib
import os

import tilelace
import torch
import torch.distributed as dist

from .world import BOTH, case, expect_close, expect_raises, product, with_partials


def left(w):
    """Cases are given a group that has joined."""
    tilelace.leave(w.group)
    dist.barrier(w.group)


def plan_of(w, op):
    (line,) = [text for text in tilelace.plans(w.group) if text.startswith(op + " ")]
    return line


def open_sockets():
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


@case(2, 3, on=BOTH)
def are_what_plans_have(w):
    left(w)
    tilelace.join(w.group, device=w.device, plans={"gemm_ar": "path=unfused", "ag_gemm": "path=unfused"})
    x, weight = w.randn(48, 64 * w.ranks), w.randn(64, 64 * w.ranks)
    for _ in range(2):
        y = tilelace.gemm_ar(w.mine(x, 1), w.mine(weight, 1), None, w.group)
        y64, terms = product(x, weight)
        expect_close(y, y64, with_partials(terms, x.dtype), "gemm_ar")
    rows = w.randn(24 * w.ranks, 64)
    _, (z,) = tilelace.ag_gemm(w.mine(rows), weight[:, :64].contiguous(), None, w.group)
    expect_close(z, *product(rows, weight[:, :64]), "ag_gemm")
    assert torch.equal(tilelace.all_gather(w.mine(rows), w.group), rows)
    w.synchronize()
    assert "unfused" in plan_of(w, "gemm_ar"), tilelace.plans(w.group)
    assert "unfused" in plan_of(w, "ag_gemm"), tilelace.plans(w.group)
    left(w)
    tilelace.gemm_ar(w.mine(x, 1), w.mine(weight, 1), None, w.group)  # joins with the same ones
    w.synchronize()
    assert "unfused" in plan_of(w, "gemm_ar")


@case(2, on=BOTH)
def wrong_ones_are_refused_on_every_rank(w):
    left(w)

    def join(plans):
        return lambda: tilelace.join(w.group, device=w.device, plans=plans)

    before = open_sockets()
    for text, plans in {
        'plans: got "gemm", expected ag_gemm, gemm_rs, gemm_ar': {"gemm": "path=fused"},
        'plans: gemm_rs path: got "quick", expected fused, medium, unfused': {"gemm_rs": "path=quick"},
        'plans: gemm_rs: got "fused", expected KEY=VALUE': {"gemm_rs": "fused"},
        "plans: got ['path=fused'], expected a dict from op to plan": ["path=fused"],
        "plans: got {'gemm_rs': 3}, expected a dict from op to plan": {"gemm_rs": 3},
    }.items():
        expect_raises("usage", text, join(plans))
        dist.barrier(w.group)  # else a slower rank's failure meets the next attempt of a faster one
    assert open_sockets() <= before, "sockets of refused attempts are open"
    expect_raises("usage", "plans", join({"gemm_rs": "path=unfused"} if w.rank else None))
    dist.barrier(w.group)
    tilelace.join(w.group, device=w.device)
    assert tilelace.all_reduce(w.randn(4, 8), w.group).shape == (4, 8)
