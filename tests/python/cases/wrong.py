# SPDX-License-Identifier: Apache-2.0
"""Wrong use: tilelace.Error on every rank, and a right call after."""
import os
import pickle
import time

import tilelace
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from .world import case, expect_raises

F = torch.float32


def x(*size, dtype=F):
    return torch.ones(*size, dtype=dtype)


def ag(group, a=None, weights=None, biases=None, **more):
    a = x(4, 8) if a is None else a
    return tilelace.ag_gemm(a, [x(6, 8)] if weights is None else weights, biases, group, **more)


def rs(group, a=None, weight=None, bias=None, **more):
    return tilelace.gemm_rs(
        x(6, 8) if a is None else a, x(4, 8) if weight is None else weight, bias, group, **more)


def ar(group, a=None, weight=None, bias=None, **more):
    return tilelace.gemm_ar(
        x(6, 8) if a is None else a, x(4, 8) if weight is None else weight, bias, group, **more)


def out_is_x(group):
    t = x(6, 8)
    return ar(group, t, x(8, 8), out=t)


BF16 = torch.bfloat16
# What rank 1 does instead, what the others do, and what rank 1 is told; they are told of it.
CASES = {
    "dtype not supported": (lambda g: ag(g, x(4, 8, dtype=torch.float64)), ag,
                            "ag_gemm: x: got Double, expected bfloat16, float16 or float32"),
    "integers": (lambda g: ar(g, x(6, 8, dtype=torch.int64)), ar, "gemm_ar: x: got Long, expected"),
    "weight of another dtype": (lambda g: ag(g, weights=[x(6, 8, dtype=BF16)]), ag,
                                "ag_gemm: weight 0: got bf16, expected fp32"),
    "bias of another dtype": (lambda g: rs(g, bias=x(4, dtype=BF16)),
                              lambda g: rs(g, bias=x(4)), "gemm_rs: bias 0: got bf16, expected fp32"),
    "x of one dimension": (lambda g: ag(g, x(8)), ag,
                           "ag_gemm: x: got [8], expected at least two dimensions"),
    "weight of one dimension": (lambda g: rs(g, weight=x(8)), rs,
                                "gemm_rs: weight: got [8], expected [n, k]"),
    "weight of three dimensions": (lambda g: ag(g, weights=[x(2, 6, 8)]), ag,
                                   "ag_gemm: weight 0: got [2, 6, 8], expected [n, k]"),
    "bias of two dimensions": (lambda g: ar(g, bias=x(1, 4)), lambda g: ar(g, bias=x(4)),
                               "gemm_ar: bias: got [1, 4], expected [n]"),
    "k differs": (lambda g: ag(g, weights=[x(6, 7)]), ag,
                  "ag_gemm: weight 0: got [6, 7], expected [6, 8]"),
    "weight not transposed": (lambda g: ar(g, weight=x(8, 4)), ar,
                              "gemm_ar: weight: got [8, 4], expected [8, 8]"),
    "bias too short": (lambda g: rs(g, bias=x(3)), lambda g: rs(g, bias=x(4)),
                       "gemm_rs: bias 0: got [1, 3], expected [1, 4]"),
    "biases for some weights": (lambda g: ag(g, weights=[x(6, 8)] * 2, biases=[x(6)]),
                                lambda g: ag(g, weights=[x(6, 8)] * 2, biases=[x(6)] * 2),
                                "ag_gemm: bias: got 1, expected none or 2"),
    "no weight": (lambda g: ag(g, weights=[]), ag, "ag_gemm: weights: got none, expected at least"),
    "unknown activation": (lambda g: rs(g, activation="tanh"), rs,
                           'gemm_rs: activation: got "tanh", expected none, gelu, gelu_tanh, silu'),
    "swiglu of one weight": (lambda g: ag(g, activation="swiglu"), ag,
                             "swiglu: got weights of n 6, expected two of equal n"),
    "swiglu of a reduction": (lambda g: ar(g, activation="swiglu"), ar,
                              "gemm_ar: activation: got swiglu, which needs two weights"),
    "gather the last dimension": (lambda g: ag(g, gather_dim=1), ag,
                                  "ag_gemm: dim: got 1, expected 0 to 0, not the last"),
    "scatter beyond": (lambda g: rs(g, scatter_dim=5), rs, "gemm_rs: dim: got 5, expected 0 to 0"),
    "sizes of another number of ranks": (lambda g: ag(g, sizes=[4, 4]), ag,
                                         "ag_gemm: sizes: got 2 entries, expected one per rank (3)"),
    "a negative size": (lambda g: rs(g, sizes=[7, -1, 0]), rs,
                        "gemm_rs: sizes: got -1, expected 0 or more"),
    "own size is another": (lambda g: ag(g, sizes=[4, 3, 4]), lambda g: ag(g, sizes=[4, 3, 4]),
                            "ag_gemm: x: got 4 in dimension 0, expected 3, this rank's entry in sizes"),
    "sizes of another sum": (lambda g: rs(g, sizes=[1, 1, 1]), rs,
                             "gemm_rs: sizes: got a sum of 3, expected 6"),
    "out of another shape": (lambda g: ar(g, out=x(6, 3)), lambda g: ar(g, out=x(6, 4)),
                             "gemm_ar: out: got [6, 3], expected 6 in dimension 0, 4 in the last"),
    "out of another dtype": (lambda g: rs(g, out=x(2, 4, dtype=BF16)), lambda g: rs(g, out=x(2, 4)),
                             "gemm_rs: out: got bf16, expected fp32"),
    "too many outs": (lambda g: ag(g, out=[x(12, 6)] * 2), lambda g: ag(g, out=[x(12, 6)]),
                      "ag_gemm: out: got 2, expected 1"),
    "out is x": (out_is_x,
                 lambda g: ar(g, x(6, 8), x(8, 8)),
                 "gemm_ar: x and out overlap: pass separate tensors"),
    # What no kernel can take, however it is laid out.
    "x of another library": (lambda g: ar(g, x(6, 8).numpy()), ar,
                             "gemm_ar: x: got ndarray, expected a torch.Tensor"),
    "x that is a list": (lambda g: ar(g, [1.0] * 6), ar, "gemm_ar: x: got list, expected a torch."),
    "no x": (lambda g: tilelace.gemm_ar(None, x(4, 8), None, g), ar,
             "gemm_ar: x: got NoneType, expected a torch.Tensor"),
    "no x to gather": (lambda g: tilelace.ag_gemm(None, [x(6, 8)], None, g), ag,
                       "ag_gemm: x: got NoneType, expected a torch.Tensor"),
    "x that is a name": (lambda g: tilelace.gemm_rs("x", x(4, 8), None, g), rs,
                         "gemm_rs: x: got str, expected a torch.Tensor"),
    "no weight at all": (lambda g: tilelace.gemm_ar(x(6, 8), None, None, g), ar,
                         "gemm_ar: weight: got NoneType, expected a torch.Tensor"),
    "no weights at all": (lambda g: tilelace.ag_gemm(x(4, 8), None, None, g), ag,
                          "ag_gemm: weight: got NoneType, expected a torch.Tensor"),
    "weights that are a number": (lambda g: tilelace.ag_gemm(x(4, 8), 3, None, g), ag,
                                  "ag_gemm: weight: got int, expected a torch.Tensor"),
    "a bias that is a number": (lambda g: ag(g, biases=3), ag,
                                "ag_gemm: bias: got int, expected a torch.Tensor"),
    "out that is a name": (lambda g: ar(g, out="out"), lambda g: ar(g, out=x(6, 4)),
                           "gemm_ar: out: got str, expected a torch.Tensor"),
    "out that is no list": (lambda g: ag(g, out=3), lambda g: ag(g, out=[x(12, 6)]),
                            "ag_gemm: out: got int, expected a torch.Tensor"),
    "nothing to gather": (lambda g: tilelace.all_gather(None, g),
                          lambda g: tilelace.all_gather(x(4, 8), g),
                          "all_gather: x: got NoneType, expected a torch.Tensor"),
    "sizes that are a number": (lambda g: rs(g, sizes=6), rs,
                                "gemm_rs: sizes: got 6, expected a list of whole"),
    "return_gathered by name": (lambda g: ag(g, return_gathered="yes"), ag,
                                "ag_gemm: return_gathered: got 'yes', expected True or False"),
    # What the function has no argument for, and what it lacks.
    "another op's argument": (lambda g: tilelace.gemm_ar(x(6, 8), x(4, 8), None, g, scatter_dim=0), ar,
                              "gemm_ar: wrong arguments"),
    "too many arguments": (lambda g: tilelace.gemm_rs(x(6, 8), x(4, 8), None, g, 0, "none"), rs,
                           "gemm_rs: wrong arguments"),
    "no arguments": (lambda g: tilelace.gemm_ar(group=g), ar, "gemm_ar: wrong arguments"),
    # By hand, what torch's dispatcher does not take.
    "a raw call without a weight": (
        lambda g: torch.ops.tilelace.gemm_ar(x(6, 8), group_name=g.group_name), ar,
        "gemm_ar: torch refuses the call"),
    "a raw call with a list for a tensor": (
        lambda g: torch.ops.tilelace.gemm_rs([x(6, 8)], x(4, 8), None, None, g.group_name), rs,
        "gemm_rs: torch refuses the call"),
    "a raw call without a tensor": (
        lambda g: torch.ops.tilelace.gemm_ar(None, None, None, None, g.group_name), ar, "gemm_ar: "),
    "a raw call without x": (
        lambda g: torch.ops.tilelace.gemm_ar(None, x(4, 8), None, None, g.group_name), ar,
        "gemm_ar: x: got none, expected a tensor"),
    "a raw call of another argument": (
        lambda g: torch.ops.tilelace.gemm_ar(x(6, 8), x(4, 8), None, None, g.group_name, sizes=[1]), ar,
        "gemm_ar: torch refuses the call"),
    "a list of weights": (lambda g: rs(g, weight=[x(4, 8)]), rs,
                          "gemm_rs: weight: got list, expected a torch.Tensor"),
    "a DTensor": (lambda g: ar(g, DTensor.from_local(x(6, 8), DeviceMesh.from_group(g, "cpu"))), ar,
                  "gemm_ar: x: got a DTensor, expected this rank's tensor (to_local)"),
    "a sparse weight": (lambda g: ag(g, weights=[x(6, 8), x(6, 8).to_sparse()]),
                        lambda g: ag(g, weights=[x(6, 8)] * 2),
                        "ag_gemm: weight 1: got a tensor of layout torch.sparse_coo, expected"),
    "a weight without data": (lambda g: rs(g, weight=x(4, 8).to("meta")), rs,
                              "gemm_rs: weight: got a tensor on meta, expected one on cpu, like x"),
    "x without data": (lambda g: ar(g, x(6, 8).to("meta")), ar,
                       "gemm_ar: weight: got a tensor on cpu, expected one on meta, like x"),
    "out without data": (lambda g: ar(g, out=x(6, 4).to("meta")), lambda g: ar(g, out=x(6, 4)),
                         "gemm_ar: out: got a tensor on meta, expected one on cpu, like x"),
    "out whose rows overlap": (lambda g: ar(g, out=x(30).as_strided((6, 4), (2, 1))),
                               lambda g: ar(g, out=x(6, 4)),
                               "gemm_ar: out: its elements overlap in memory"),
    "out of one row six times": (lambda g: ar(g, out=x(1, 4).expand(6, 4)),
                                 lambda g: ar(g, out=x(6, 4)),
                                 "gemm_ar: out: its elements overlap in memory"),
    "one out for two products": (lambda g: ag(g, weights=[x(6, 8)] * 2, out=[x(6, 12).t()] * 2),
                                 lambda g: ag(g, weights=[x(6, 8)] * 2, out=[x(12, 6), x(12, 6)]),
                                 "ag_gemm: out 1 overlaps out 0: each needs memory of its own"),
    "out of what needs gradients": (lambda g: ar(g, x(6, 8).requires_grad_(), out=x(6, 4)),
                                    lambda g: ar(g, out=x(6, 4)),
                                    "gemm_ar: out: tensors that need gradients"),
    "sizes that are no numbers": (lambda g: rs(g, sizes=[3.5, 2.5, 0]), rs,
                                  "gemm_rs: sizes: got [3.5, 2.5, 0], expected a list of whole"),
    "an activation by number": (lambda g: ar(g, activation=3), ar,
                                "gemm_ar: activation: got 3, expected a string"),
    "a residual of another shape": (
        lambda g: ar(g, residual=x(6, 5)), lambda g: ar(g, residual=x(6, 4)),
        "gemm_ar: residual: got [6, 5], expected [6, 4]"),
    "a residual of all rows": (
        lambda g: rs(g, residual=x(6, 4)), lambda g: rs(g, residual=x(2, 4)),
        "gemm_rs: residual: got [6, 4], expected [2, 4]"),
    "a residual of another type": (
        lambda g: ar(g, residual=x(6, 4).double()), lambda g: ar(g, residual=x(6, 4)),
        "gemm_ar: residual: "),
    "a residual behind an activation": (
        lambda g: ar(g, residual=x(6, 4), activation="gelu"), lambda g: ar(g, residual=x(6, 4)),
        "gemm_ar: "),
    "a residual that is a number": (
        lambda g: ar(g, residual=3), lambda g: ar(g, residual=x(6, 4)),
        "gemm_ar: residual: got int, expected a torch.Tensor"),
    "no dimension": (lambda g: ag(g, gather_dim=None), ag,
                     "ag_gemm: gather_dim: got None, expected the number of a dimension"),
}

# Ranks that make different calls: both sides are named on every rank.
DISAGREE = {
    "another op": (rs, ar, "gemm_rs ranks 3", "gemm_ar ranks 3"),
    "another m": (lambda g: ar(g, x(5, 8)), ar, "m 5 ", "m 6 "),
    "another k": (lambda g: ar(g, x(6, 4), x(4, 4)), ar, "k 4 ", "k 8 "),
    "another n": (lambda g: rs(g, weight=x(5, 8)), rs, "n 5 ", "n 4 "),
    "another dtype": (lambda g: ar(g, x(6, 8, dtype=BF16), x(4, 8, dtype=BF16)), ar, "bf16", "fp32"),
    "another number of rows": (lambda g: ag(g, x(5, 8)), ag, "m 15 ", "m 12 "),
    "a bias": (lambda g: ar(g, bias=x(4)), ar, "bias yes", "bias no"),
    "a residual": (lambda g: ar(g, residual=x(6, 4)), ar, "residual", "gemm_ar ranks 3"),
    "another activation": (lambda g: ar(g, activation="silu"), ar, "act silu", "act none"),
    "what was gathered": (lambda g: ag(g, return_gathered=True), ag, " gathered", "act none"),
}


def expect_right_call(w):
    y = tilelace.gemm_ar(x(2, 4), x(3, 4), None, w.group)
    assert torch.equal(y, torch.full((2, 3), 4.0 * w.ranks))


def told(fn):
    """Kind and text of the Error, or what happened instead."""
    try:
        fn()
    except tilelace.Error as error:
        return f"{error.kind}: {error}"
    except Exception as error:
        return f"not ours: {type(error).__name__}: {error}"
    return "no error"


@case(3)
def on_one_rank(w):
    assert len(CASES) >= 30
    for first in (True, False):
        for name, (wrong, right, text) in CASES.items():
            texts = w.everyone(told(lambda: (wrong if w.rank == 1 else right)(w.group)))
            own = texts[1].removeprefix("usage: ")
            assert texts[1].startswith("usage: ") and text in own, (name, texts)
            # The others name the rank and its reason.
            for other in (texts[0], texts[2]):
                assert other.startswith("usage: ") and "rank 1" in other and own in other, (
                    name, texts)
            expect_right_call(w)
        if first:  # and once more where the right calls have been made before
            for name, (_, right, _) in CASES.items():
                if name != "own size is another":
                    right(w.group)


@case(3)
def sizes_of_memory(w):
    """Of one rank, then of all: the others are told, and what comes next goes well."""
    for size, more, text in (((-1,), {}, "size: got [-1]"), ((2.5,), {}, "size: got [2.5]"),
                             ((2, None), {}, "size: got [2, None]"), ((2,), {"dtype": "bf16"}, "dtype: got")):
        for wrong_ones in ((1,), (0, 1, 2)):
            wrong = w.rank in wrong_ones
            made = told(lambda: tilelace.empty(*(size if wrong else (2,)), device="cpu", group=w.group,
                                               **(more if wrong else {})))
            assert made.startswith("usage: ") and (not wrong or text in made), (text, made)
            expect_right_call(w)
    assert tilelace.empty(2, 3, device="cpu", group=w.group).shape == (2, 3)
    assert tilelace.empty((2, 3), device="cpu", group=w.group).shape == (2, 3)
    assert tilelace.empty(torch.Size((2, 3)), device="cpu", group=w.group).shape == (2, 3)


@case(3)
def on_every_rank(w):
    for name, (wrong, _, text) in CASES.items():
        if name != "own size is another":
            expect_raises("usage", text, lambda: wrong(w.group))
            expect_right_call(w)


@case(3)
def ranks_that_disagree(w):
    for first in (True, False):
        for name, (other, one, theirs, ours) in DISAGREE.items():
            texts = w.everyone(told(lambda: (other if w.rank == 1 else one)(w.group)))
            for text in texts:
                assert text.startswith("usage: ") and theirs in text and ours in text, (
                    name, first, texts)
            expect_right_call(w)
        for other, one, _, _ in DISAGREE.values():
            one(w.group)
            other(w.group)


@case(3)
def a_rank_that_leaves_is_missed(w):
    expect_right_call(w)
    start = time.monotonic()
    if w.rank == 1:
        tilelace.leave(w.group)
    else:
        expect_raises("peer", "rank 1", lambda: ar(w.group))
        expect_raises("peer", "takes no more calls since it failed", lambda: ar(w.group))
    assert time.monotonic() - start < 15


@case(2)
def an_abort_ends_all_waits(w):
    expect_right_call(w)
    dist.barrier(w.group)
    if w.rank == 1:
        tilelace.abort(w.group)
    expect_raises("peer", "", lambda: [ar(w.group) for _ in range(3)])


@case(2)
def a_silent_rank_is_a_timeout(w):
    group = dist.new_group()
    tilelace.join(group, timeout=1)
    ar(group)
    start = time.monotonic()
    try:
        if w.rank == 0:
            expect_raises("timeout", "waited 1 s for", lambda: ar(group))
            assert time.monotonic() - start < 5
    finally:
        dist.barrier()


@case(2)
def a_fork_cannot_call(w):
    expect_right_call(w)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ar(w.group)
        except tilelace.Error as error:
            code = 0 if "forked from" in str(error) and error.kind == "usage" else 2
        finally:
            tilelace.leave(w.group)
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    expect_right_call(w)


@case(2)
def joins_that_differ(w):
    group = dist.new_group()
    expect_raises("usage", "timeout: got 6.0 on rank 1 and 5.0 on rank 0",
                  lambda: tilelace.join(group, timeout=5 + w.rank))
    tilelace.join(group, timeout=5)
    expect_raises("usage", "has already joined for cpu tensors",
                  lambda: tilelace.join(group))
    late = dist.new_group()
    try:
        if w.rank == 0:
            expect_raises("timeout", "rank 0 waited 0.5 s for rank 1",
                          lambda: tilelace.join(late, timeout=0.5))
    finally:
        dist.barrier()


@case(2)
def what_is_no_group(w):
    for group, text in ((3, "got int, expected a ProcessGroup"), ("no such", '"no such"')):
        expect_raises("usage", text, lambda: ar(group))
    expect_raises("usage", '"no such" was destroyed or never made',
                  lambda: torch.ops.tilelace.gemm_ar(x(2, 4), x(2, 4), None, None, "no such"))
    expect_right_call(w)


@case(2)
def raw_ops_and_inference_raise_it_too(w):
    with torch.inference_mode():
        expect_raises("usage", "gemm_ar: weight: got [4, 7], expected [4, 8]",
                      lambda: torch.ops.tilelace.gemm_ar(x(6, 8), x(4, 7), None, None, w.name))
    error = tilelace.Error("peer", "op: what: got a, expected b")
    again = pickle.loads(pickle.dumps(error))
    assert again.kind == "peer" and str(again) == str(error) and isinstance(again, RuntimeError)
    # Raised again by code that adds to the text and knows nothing of kinds.
    assert str(tilelace.Error("text")) == "text" and tilelace.Error("text").kind == "system"
    try:
        try:
            raise error
        except Exception as caught:
            raise type(caught)(f"{caught} in layer 3")
    except tilelace.Error as more:
        assert more.kind == "peer" and str(more) == f"{error} in layer 3"
    assert str(type(error)(*error.args)) == str(error)


@case(2)
def forward_mode_derivatives_are_an_error(w):
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x(6, 8), x(6, 8))
        expect_raises("usage", "gemm_ar: torch refuses the call: forward-mode derivatives",
                      lambda: ar(w.group, dual))
        expect_raises("usage", "forward-mode", lambda: rs(w.group, weight=forward_ad.make_dual(
            x(4, 8), x(4, 8))))
        expect_right_call(w)  # no tangents: nothing is lost
    expect_raises("usage", "forward-mode", lambda: torch.func.jvp(
        lambda t: ar(w.group, t), (x(6, 8),), (x(6, 8),)))
    raw = torch.ops.tilelace.gemm_ar
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x(6, 8), x(6, 8))
        expect_raises("usage", "forward-mode", lambda: raw(dual, x(4, 8), None, None, w.name))
    expect_raises("usage", "forward-mode", lambda: torch.func.jvp(
        lambda t: raw(t, x(4, 8), None, None, w.name), (x(6, 8),), (x(6, 8),)))
    expect_right_call(w)
