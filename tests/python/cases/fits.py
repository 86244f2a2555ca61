# SPDX-License-Identifier: Apache-2.0
"""can_run and should_run: what they say no to, and that they say why, once."""
import logging

import tilelace
import torch
from tilelace import _log

from .world import BOTH, GPU, case, expect_raises


class Lines(logging.Handler):
    """What the log says inside a `with`."""

    def __enter__(self):
        _log.told.clear()
        self.lines = []
        _log.log.addHandler(self)
        return self.lines

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __exit__(self, *_):
        _log.log.removeHandler(self)


@case(2, on=BOTH)
def what_can_run_does(w):
    weight, x = w.randn(16, 8), w.randn(4, 8)
    with Lines() as lines:
        for op in ("gemm_ar", "gemm_rs", "ag_gemm"):
            assert tilelace.can_run(op, weight, w.group)
            assert tilelace.should_run(op, x, weight, w.group)
            getattr(tilelace, op)(x, weight, None, w.group)
        assert tilelace.can_run("ag_gemm", [weight, weight.t().contiguous()], w.group)
    assert not lines, lines


@case(2, on=BOTH)
def what_can_not_says_why_once(w):
    weight, x = w.randn(16, 8), w.randn(4, 8)
    with Lines() as lines:
        for _ in range(2):
            assert not tilelace.can_run("gemm_ar", weight.double(), w.group)
            assert not tilelace.can_run("gemm_ar", weight.to("meta"), w.group)
            assert not tilelace.can_run("ag_gemm", [weight, weight[0]], w.group)
            assert not tilelace.should_run("gemm_ar", x.half(), weight, w.group)
            assert not tilelace.should_run("gemm_ar", x[:, :4], weight, w.group)
    assert len(lines) == 5 and "got torch.float64" in lines[0] and "got a tensor on meta" in lines[1], lines
    assert "got [8], expected [n, k]" in lines[2] and "got torch.float16 of k 8" in lines[3], lines
    assert "of k 4" in lines[4], lines
    expect_raises("usage", 'op: got "mm"', lambda: tilelace.can_run("mm", weight, w.group))


@case(2, 4, on=GPU)
def of_gpus_alone(w):
    with Lines() as lines:
        assert not tilelace.can_run("gemm_ar", w.randn(12, 16), w.group)
        assert not tilelace.can_run("gemm_ar", w.randn(16, 16).float(), w.group)
    assert len(lines) == 2 and "got [12, 16], expected multiples of 8" in lines[0], lines


@case(2, 4, on=GPU)
def a_capture_runs_what_was_prepared(w):
    weight = w.randn(16, 24)
    for _ in range(2):
        tilelace.gemm_ar(w.randn(32, 24), weight, None, w.group)
    w.synchronize()
    small, large = w.randn(7, 24), w.randn(4096, 24)
    graph, answers = torch.cuda.CUDAGraph(), []
    with Lines() as lines, torch.cuda.graph(graph):
        for x in (small, large):
            answers.append(tilelace.should_run("gemm_ar", x, weight, w.group))
        answers.append(tilelace.should_run("gemm_ar", small, weight, w.group, bias=True))
        y = tilelace.gemm_ar(small, weight, None, w.group)
    assert answers == [True, False, False], answers
    assert "m: 4096 rows are not prepared" in lines[0], lines
    assert tilelace.should_run("gemm_ar", large, weight, w.group)
    graph.replay()
    w.synchronize()
    assert torch.equal(y, tilelace.gemm_ar(small, weight, None, w.group))
