# SPDX-License-Identifier: Apache-2.0
"""Plans by measurement: what ranks must agree on, and who has something to tune."""
import tempfile
from pathlib import Path

import tilelace
import tilelace.nn as tnn
import torch
import torch.distributed as dist
from tilelace import _tuning

from .world import BOTH, GPU, case, expect_raises


def joins(w, text, **options):
    """Joining with these options is a usage error on every rank."""
    tilelace.leave(w.group)
    expect_raises("usage", text,
                  lambda: tilelace.join(w.group, device=w.device, timeout=20, **options))
    dist.barrier(w.group)  # else a slower rank's failure meets the next attempt of a faster one


def expect_works(w):
    x, weight = torch.ones(3, 8), torch.arange(64.0).view(8, 8) % 5
    x, weight = x.to(w.device, w.dtype), weight.to(w.device, w.dtype)
    assert torch.equal(tilelace.gemm_ar(x, weight, None, w.group), w.ranks * x @ weight.t())


@case(2, on=BOTH)
def what_tunes_is_the_same_on_every_rank(w):
    joins(w, "autotune: got", autotune=1 + w.rank)
    joins(w, "deterministic: got", deterministic=w.rank == 1)
    joins(w, "cache: got", cache=f"/tmp/of-rank-{w.rank}")
    joins(w, "tuning: got", tuning="off" if w.rank else None)
    tilelace.join(w.group, device=w.device, timeout=20, tuning="off", cache=None)
    expect_works(w)


@case(2, on=BOTH)
def wishes_that_make_no_sense(w):
    joins(w, "autotune with deterministic: got 2 s, expected 0", autotune=2, deterministic=True)
    joins(w, "autotune: got -1", autotune=-1)
    joins(w, "autotune: got 'long'", autotune="long")
    joins(w, "tuning: got 3, expected a path", tuning=3)
    joins(w, "/nowhere/table.json" if w.cuda else "tables are for GPU ranks",
          tuning=Path("/nowhere/table.json"))
    tilelace.join(w.group, device=w.device, timeout=20, deterministic=True)
    expect_works(w)


@case(2)
def cpu_ranks_have_nothing_to_tune(w):
    tilelace.leave(w.group)
    tilelace.join(w.group, device=w.device, timeout=20, autotune=1.5, cache="/nowhere")
    expect_works(w)
    expect_raises("usage", "tune: CPU ranks have nothing to tune",
                  lambda: tilelace.tune([("gemm_rs", 32, 64, 64)], w.group))
    expect_works(w)


@case(2)
def problems_that_are_none(w):
    for problem, text in ((("attention", 32, 64, 64), "attention"),
                          (("gemm_rs", 32, 64, 64, torch.int8), "tune: dtype: got torch.int8")):
        expect_raises("usage", text, lambda: tilelace.tune([problem], w.group))
    expect_raises("usage", "tune: problems: ", lambda: tilelace.tune([("gemm_rs",)], w.group))
    expect_raises("usage", "no layer of tilelace",
                  lambda: tilelace.tune(torch.nn.Linear(8, 8), w.group))


@case(2)
def what_a_model_asks_for(w):
    with_sequence = dict(tp_group=w.group, sequence_parallel=True, dtype=torch.bfloat16)
    model = torch.nn.Sequential(
        tnn.ParallelMLP(16, 64, activation="swiglu", **with_sequence),
        tnn.RowParallelLinear(32, 8, tp_group=w.group, dtype=torch.bfloat16),
        tnn.ColumnParallelLinear(8, 16, tp_group=w.group, dtype=torch.bfloat16))
    asked = list(_tuning._of_model(model, w.group.group_name, (4,)))
    assert asked == [
        ("ag_gemm", 4, (32, 32), 16, torch.bfloat16, True),
        ("ag_gemm", 4, 64, 16, torch.bfloat16, False),
        ("gemm_rs", 4, 16, 32, torch.bfloat16, False),
        ("gemm_ar", 4, 8, 16, torch.bfloat16, False)], asked
    assert _tuning._line(asked[0]) == "ag_gemm bf16 1 4 16 32 32"


@case(2, on=GPU)
def a_problem_is_tuned_and_kept(w):
    folder = w.everyone(tempfile.mkdtemp())[0]
    out = f"{folder}/table.json"
    problem = tilelace.Problem("gemm_rs", 256, 1024, 512)
    tuned = tilelace.tune([problem, problem], w.group, minutes=1, out=out, candidates=1, force=True)
    wrong = [problem if w.rank else ("gemm_rs", 256, 1024, 512, torch.int8)]
    expect_raises("usage", "tune: dtype: got torch.int8",
                  lambda: tilelace.tune(wrong, w.group, force=True))
    assert len(tuned) == 1 and tuned[0].us > 0 and tuned[0].plans > 1, tuned
    assert not tilelace.tune([problem], w.group, force=True)
    assert len(set(w.everyone(tuned[0]))) == 1
    tilelace.leave(w.group)
    tilelace.join(w.group, device=w.device, timeout=20, tuning=out)
    tilelace.gemm_rs(w.randn(256, 512), w.randn(1024, 512), None, w.group)
    assert "tuned: the fastest measured" in tilelace.plans(w.group)[0], tilelace.plans(w.group)


@case(2, on=GPU)
def first_calls_tune(w):
    folder = w.everyone(tempfile.mkdtemp())[0]
    tilelace.leave(w.group)
    tilelace.join(w.group, device=w.device, timeout=20, tuning="off", autotune=1, cache=folder)
    x, weight = w.randn(512, 512), w.randn(1024, 512)
    first = tilelace.gemm_rs(x, weight, None, w.group)
    again = tilelace.gemm_rs(x, weight, None, w.group)
    assert torch.equal(first, again)
    w.synchronize()
    kept = list(Path(folder).iterdir())
    assert len(kept) <= 1 and (not kept or "gemm_rs" in kept[0].read_text()), kept
