# SPDX-License-Identifier: Apache-2.0
"""Wrong use on GPUs: tilelace.Error on every rank; after `recover` a right call is right."""
import gc
import os
import time
import traceback

import tilelace
import torch
import torch.distributed as dist

from .world import GPU, case, expect_raises


def ones(*size, dtype=torch.bfloat16):
    return torch.ones(*size, dtype=dtype, device="cuda")


def ag(g, x=None, w=None, b=None, **more):
    return tilelace.ag_gemm(ones(8, 16) if x is None else x,
                            [ones(8, 16)] if w is None else w, b, g, **more)


def rs(g, x=None, w=None, b=None, **more):
    return tilelace.gemm_rs(ones(8, 16) if x is None else x,
                            ones(8, 16) if w is None else w, b, g, **more)


def ar(g, x=None, w=None, b=None, **more):
    return tilelace.gemm_ar(ones(8, 16) if x is None else x,
                            ones(8, 16) if w is None else w, b, g, **more)


def out_is_x(g):
    t = ones(8, 16)
    return ar(g, t, ones(16, 16), out=t)


F16, F32 = torch.float16, torch.float32
# What one rank or every rank does, and what it is told.
CASES = {
    "fp64": (lambda g: ar(g, ones(8, 16, dtype=torch.float64)), "gemm_ar: x: got Double"),
    "fp32": (lambda g: ar(g, ones(8, 16, dtype=F32), ones(8, 16, dtype=F32)), "bf16 or fp16"),
    "weight of another dtype": (lambda g: ag(g, w=[ones(8, 16, dtype=F16)]),
                                "ag_gemm: weight 0: got fp16, expected bf16"),
    "weight on the host": (lambda g: rs(g, w=torch.ones(8, 16, dtype=torch.bfloat16)),
                           "gemm_rs: weight: got a tensor on cpu, expected one on cuda, like x"),
    "bias on the host": (lambda g: rs(g, b=torch.ones(8, dtype=torch.bfloat16)),
                         "gemm_rs: bias: got a tensor on cpu, expected one on cuda, like x"),
    "k that is no multiple of 8": (lambda g: ar(g, ones(8, 12), ones(8, 12)), "multiple of"),
    "n that is no multiple of 8": (lambda g: ar(g, w=ones(12, 16)), "multiple of"),
    "swiglu of two widths": (lambda g: ag(g, w=[ones(8, 16), ones(16, 16)], activation="swiglu"),
                             "expected two of equal n"),
    "k differs": (lambda g: ag(g, w=[ones(8, 24)]), "ag_gemm: weight 0: got [8, 24], expected"),
    "bias too short": (lambda g: rs(g, b=ones(7)), "gemm_rs: bias 0: got [1, 7], expected [1, 8]"),
    "unknown activation": (lambda g: ar(g, activation="tanh"), 'activation: got "tanh"'),
    "sizes of another number": (lambda g: ag(g, sizes=[8] * 7), "ag_gemm: sizes: got 7 entries"),
    "out of another shape": (lambda g: ar(g, out=ones(8, 16)), "gemm_ar: out: got [8, 16]"),
    "out is x": (out_is_x, "overlap"),
    "no weight": (lambda g: ag(g, w=[]), "ag_gemm: weights: got none"),
    "a sparse weight": (lambda g: ar(g, w=ones(8, 16).to_sparse()), "gemm_ar: weight: got a tensor of"),
    "a weight without data": (lambda g: ar(g, w=ones(8, 16).to("meta")),
                              "gemm_ar: weight: got a tensor on meta, expected one on cuda"),
    "out whose rows overlap": (lambda g: ar(g, out=ones(80).as_strided((8, 8), (4, 1))),
                               "gemm_ar: out: its elements overlap in memory"),
    "out of what needs gradients": (lambda g: ar(g, ones(8, 16).requires_grad_(), out=ones(8, 8)),
                                    "gemm_ar: out: tensors that need gradients"),
    "x that is none": (lambda g: ar(g, [1.0] * 16), "gemm_ar: x: got list, expected a torch.Tensor"),
}
DISAGREE = {
    "another op": (rs, ar),
    "another m": (lambda g: ar(g, ones(16, 16)), ar),
    "another dtype": (lambda g: ar(g, ones(8, 16, dtype=F16), ones(8, 16, dtype=F16)), ar),
    "a bias": (lambda g: ar(g, b=ones(8)), ar),
    "what was gathered": (lambda g: ag(g, return_gathered=True), ag),
}
RIGHT = (ag, rs, ar)


def expect_right_call(w):
    y = tilelace.gemm_ar(ones(8, 16), ones(8, 16), None, w.group)
    w.synchronize()
    assert torch.equal(y, torch.full_like(y, 16.0 * w.ranks))


def told(w, fn):
    """Kind and text of the Error, at the call or when it is waited for."""
    try:
        fn(w.group)
        w.synchronize()
    except tilelace.Error as error:
        return f"{error.kind}: {error}"
    except Exception as error:
        return f"not ours: {type(error).__name__}: {error}"
    return "no error"


@case(2, 4, on=GPU)
def on_every_rank(w):
    for call in RIGHT:
        call(w.group)
    for name, (wrong, text) in CASES.items():
        got = told(w, wrong)
        assert got.startswith("usage: ") and text in got, (name, got)
        expect_right_call(w)


@case(2, 4, on=GPU)
def on_one_rank(w):
    for call in RIGHT:
        call(w.group)
    for name, (wrong, text) in CASES.items():
        op = ag if text.startswith("ag_gemm") else rs if text.startswith("gemm_rs") else ar
        texts = w.everyone(told(w, wrong if w.rank == 1 else op))
        assert texts[1].startswith("usage: ") and text in texts[1], (name, texts)
        for rank, other in enumerate(texts):
            assert rank == 1 or other.startswith("usage: ") and "rank 1 refused" in other, (
                name, texts)
        told(w, lambda g: None)
        tilelace.recover(w.group)
        expect_right_call(w)


@case(2, 4, on=GPU)
def ranks_that_disagree(w):
    for first in (True, False):
        for name, (other, one) in DISAGREE.items():
            texts = w.everyone(told(w, other if w.rank == 1 else one))
            assert all(t.startswith("usage: ") for t in texts), (name, first, texts)
            tilelace.recover(w.group)
            expect_right_call(w)
        for other, one in DISAGREE.values():
            one(w.group)
            other(w.group)


@case(2, on=GPU)
def a_silent_rank_is_a_timeout(w):
    group = dist.new_group()
    tilelace.join(group, device="cuda", timeout=2)
    ar(group)
    tilelace.synchronize(group)
    start = time.monotonic()
    try:
        if w.rank == 0:
            ar(group)
            expect_raises("timeout", "", lambda: tilelace.synchronize(group))
            assert time.monotonic() - start < 8
    finally:
        dist.barrier(w.group)
    # The context and other groups are as before.
    tilelace.leave(group)
    expect_right_call(w)


@case(2, on=GPU)
def an_abort_ends_all_waits(w):
    expect_right_call(w)
    dist.barrier(w.group)
    if w.rank == 1:
        tilelace.abort(w.group)

    def calls():
        for _ in range(3):
            ar(w.group)
            w.synchronize()

    expect_raises("peer", "", calls)
    tilelace.leave(w.group)


@case(2, on=GPU)
def errors_of_backward_are_ours(w):
    """They come from autograd's own thread."""
    group = dist.new_group()
    tilelace.join(group, device="cuda", timeout=5)
    x = ones(8, 16).requires_grad_()
    y = rs(group, x)
    tilelace.synchronize(group)
    dist.barrier(w.group)
    tilelace.leave(group)
    dist.destroy_process_group(group)
    expect_raises("usage", "was destroyed or never made", y.sum().backward)


@case(2, on=GPU)
def nothing_is_prepared_in_a_capture(w):
    expect_right_call(w)
    expect_right_call(w)
    x, weight = ones(8, 32), ones(8, 32)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            text = told(w, lambda g: ar(g, x, weight))
    except RuntimeError as error:  # torch may find the capture spoilt
        text = text + f" ({error})"
    assert text.startswith("usage: ") and "captur" in text, text
    torch.cuda.synchronize()
    expect_right_call(w)


@case(2, on=GPU)
def a_fork_cannot_call(w):
    expect_right_call(w)
    x = ones(8, 16)
    gc.collect()  # what cases before left in cycles: the child cannot destroy a graph
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.ops.tilelace.gemm_ar(x, x, None, None, w.name)
        except RuntimeError as error:
            code = 0 if "forked from" in str(error) else 2
            if code:
                print(f"in the child of rank {w.rank}: {error}", flush=True)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child ended with {code}"
    expect_right_call(w)
