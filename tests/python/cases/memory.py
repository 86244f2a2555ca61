# SPDX-License-Identifier: Apache-2.0
"""tilelace.empty: results in memory that peers reach."""
import gc

import tilelace
import torch
from tilelace import memory

from .world import BOTH, GPU, case, expect_raises


class Product:
    """gemm_ar on integers, which are exact; `load` takes one of the inputs, drawn before."""

    def __init__(self, w, m, k, n, sources=4):
        self.w = w
        whole = w.integers(n, w.ranks * k, ones=40)
        self.weight = w.mine(whole, 1)
        inputs = [w.integers(m, w.ranks * k) for _ in range(sources)]
        self.shares = [w.mine(x, 1) for x in inputs]
        self.results = [(x.double() @ whole.double().t()).to(w.dtype) for x in inputs]
        self.share = torch.empty_like(self.shares[0])

    def load(self, i=0):
        """What the result is."""
        i %= len(self.shares)
        self.share.copy_(self.shares[i])
        return self.results[i]


SMALL = {"cpu": (12, 16, 8), "cuda": (512, 256, 384)}
LARGE = (2048, 1024, 3072)  # m, k, n; gemm_ar is fused: it stores into results of peers


@case(2, 4, on=BOTH)
def is_zero_and_of_the_shape(w):
    a = tilelace.empty(3, 5, dtype=torch.float32, device=w.device, group=w.group)
    b = tilelace.empty([2, 4, 8], dtype=torch.bfloat16, device=w.device, group=w.group)
    none = tilelace.empty(0, 8, dtype=torch.bfloat16, device=w.device, group=w.group)
    assert a.shape == (3, 5) and a.dtype == torch.float32 and a.device.type == w.device
    assert b.shape == (2, 4, 8) and b.is_contiguous() and none.shape == (0, 8)
    assert not a.any() and not b.any()
    a.fill_(1)
    assert a.sum().item() == 15 and not b.any()


@case(2, 4, on=BOTH)
def takes_results_of_every_op(w):
    m, k, n = SMALL[w.device]
    p = Product(w, m, k, n)
    full = tilelace.empty(m, n, dtype=w.dtype, device=w.device, group=w.group)
    part = tilelace.empty(m // w.ranks, n, dtype=w.dtype, device=w.device, group=w.group)
    for i in range(20):
        expected = p.load(i)
        full.fill_(-777)
        part.fill_(-777)
        y = tilelace.gemm_ar(p.share, p.weight, None, w.group, out=full)
        z = tilelace.gemm_rs(p.share, p.weight, None, w.group, out=part)
        w.synchronize()
        assert y.data_ptr() == full.data_ptr() and z.data_ptr() == part.data_ptr()
        assert torch.equal(y, expected) and torch.equal(z, w.mine(expected))


@case(2, 4, on=GPU)
def takes_results_that_peers_store(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    out = tilelace.empty(m, n, dtype=w.dtype, device="cuda", group=w.group)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for i in range(100):
        expected = p.load(i)
        if i % 3 == w.rank:
            torch.cuda._sleep(300_000)  # nobody stores before this rank's stream is there
        out.fill_(-777)
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
        wrong += (out != expected).sum()
    w.synchronize()
    assert wrong.item() == 0, wrong.item()


@case(2, 4, on=GPU)
def replays_store_into_it(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    out = tilelace.empty(m, n, dtype=w.dtype, device="cuda", group=w.group)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    p.load()
    for _ in range(2):
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    w.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    for i in range(200):
        expected = p.load(i)
        graph.replay()
        wrong += (out != expected).sum()
        w.synchronize()
    assert wrong.item() == 0, wrong.item()


@case(2, 4, on=GPU)
def on_some_ranks_alone_is_told_to_all_or_right(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    expected = p.load()
    shared = tilelace.empty(m, n, dtype=w.dtype, device="cuda", group=w.group)
    out = shared if w.rank == 0 else torch.empty_like(shared)
    text = ""
    try:
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
        w.synchronize()
    except tilelace.Error as error:
        text = error.kind
    texts = w.everyone(text)
    assert texts in ([""] * w.ranks, ["usage"] * w.ranks), texts
    assert text or torch.equal(out, expected)
    tilelace.recover(w.group)


@case(2, on=BOTH)
def goes_after_its_tensor(w):
    gc.collect()  # what cases before this one left in cycles
    memory._give_back()
    a = tilelace.empty(64, dtype=torch.float32, device=w.device, group=w.group)
    view = a[3:]
    del a
    gc.collect()
    assert not memory._dropped
    view.fill_(2)
    assert view.sum().item() == 122
    del view
    gc.collect()
    assert len(memory._dropped) == 1
    tilelace.empty(64, dtype=torch.float32, device=w.device, group=w.group)
    gc.collect()
    assert len(memory._dropped) == 1  # that of the last line


@case(2, on=BOTH)
def ranks_that_ask_for_other_sizes_are_told(w):
    expect_raises("usage", "", lambda: tilelace.empty(
        4096 * (1 + w.rank), 4096, dtype=torch.float32, device=w.device, group=w.group))
    expect_raises("usage", "expected whole numbers, each 0 or more", lambda: tilelace.empty(
        -1, 4, dtype=torch.float32, device=w.device, group=w.group))
