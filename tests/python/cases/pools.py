# SPDX-License-Identifier: Apache-2.0
"""tilelace.mem_pool: torch's tensors in memory that peers reach."""
import gc

import tilelace
import torch
from tilelace import memory
from torch.cuda import use_mem_pool

from .memory import LARGE, Product
from .world import GPU, case, expect_raises

MIB = 1 << 20
COMING = ((2048, 3072), (4096, 2048), (4096, 4096))  # m, n of tensors that come and go


def pool_of(w, size):
    return tilelace.mem_pool(size, w.group, w.device)


def in_pool(pool, *size):
    with use_mem_pool(pool):
        return torch.empty(*size, dtype=torch.bfloat16, device="cuda")


def expect_fused(w):
    """Only such calls store into results of peers."""
    plans = tilelace.plans(w.group, "cuda")
    assert all(": gemm_ar fused" in plan for plan in plans), plans


@case(2, on=GPU)
def wrong_sizes_are_told(w):
    for size in (0, -1):
        expect_raises("usage", f"mem_pool: size: got {size} bytes", lambda: pool_of(w, size))


@case(2, 4, on=GPU)
def results_are_those_of_staged_calls(w):
    m, k, n = LARGE
    pool = pool_of(w, 64 * MIB)
    x, weight = w.mine(w.randn(m, w.ranks * k), 1), w.mine(w.randn(n, w.ranks * k), 1)
    staged = tilelace.gemm_ar(x, weight, None, w.group)
    out = in_pool(pool, m, n)
    for i in range(30):
        out.fill_(-777)
        if i % 3 == w.rank:
            torch.cuda._sleep(300_000)  # nobody stores before this rank's stream is there
        tilelace.gemm_ar(x, weight, None, w.group, out=out)
        assert torch.equal(out, staged), i
        with use_mem_pool(pool):
            made = tilelace.gemm_ar(x, weight, None, w.group)
        assert torch.equal(made, staged), i
    expect_fused(w)


@case(2, 4, on=GPU)
def memory_comes_and_goes(w):
    pool = pool_of(w, 128 * MIB)
    products = [Product(w, m, 1024, n, sources=2) for m, n in COMING]
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    places = set()
    for i in range(120):
        p = products[i % 3]
        expected = p.load(i)
        kept = in_pool(pool, *expected.shape)
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=kept)
        with use_mem_pool(pool):
            made = tilelace.gemm_ar(p.share, p.weight, None, w.group)
        wrong += (kept != expected).sum() + (made != expected).sum()
        places |= {kept.data_ptr(), made.data_ptr()}
        del kept, made
    w.synchronize()
    assert wrong.item() == 0, wrong.item()
    offsets = sorted(p - min(places) for p in places)
    expect_fused(w)
    assert len(places) <= 10 and w.everyone(offsets) == [offsets] * w.ranks, offsets


@case(2, 4, on=GPU)
def replays_store_into_it(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    pool = pool_of(w, 96 * MIB)
    out = in_pool(pool, m, n)
    p.load()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
        tilelace.synchronize(w.group, side)
    torch.cuda.current_stream().wait_stream(side)
    given, own = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(given, stream=side):
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    with torch.cuda.graph(own, stream=side, pool=pool.id):  # what the capture makes lies in the pool
        made = tilelace.gemm_ar(p.share, p.weight, None, w.group)
    offsets = w.everyone(made.data_ptr() - out.data_ptr())
    assert abs(offsets[0]) < 96 * MIB and offsets == offsets[:1] * w.ranks, offsets
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for i in range(100):
        expected = p.load(i)
        for graph, result in ((given, out), (own, made)):
            result.fill_(-777)
            graph.replay()
            wrong += (result != expected).sum()
        w.synchronize()
    assert wrong.item() == 0, wrong.item()
    expect_fused(w)
    del graph, result, own, made  # before their pool


@case(2, 4, on=GPU)
def other_places_are_told_to_all(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    expected = p.load()
    pool, same = pool_of(w, 64 * MIB), pool_of(w, 64 * MIB)
    tilelace.gemm_ar(p.share, p.weight, None, w.group)
    w.synchronize()
    more = in_pool(pool, MIB) if w.rank == 1 else None
    out = in_pool(pool, m, n)
    text = ""
    try:
        tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
        w.synchronize()
    except tilelace.Error as error:
        text = f"{error.kind}: {error}"
    texts = w.everyone(text)
    del more
    expect_fused(w)
    assert all(t.startswith("usage: ") and "the place of results in symmetric memory" in t for t in texts), texts
    tilelace.recover(w.group)
    out = in_pool(same, m, n)
    tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    w.synchronize()
    assert torch.equal(out, expected)


@case(2, on=GPU)
def what_is_not_there_is_out_of_memory(w):
    pool = pool_of(w, 40 * MIB)
    tensors = [in_pool(pool, 6 * MIB) for _ in range(3)]  # 12 MiB each
    for _ in range(2):
        try:
            in_pool(pool, 6 * MIB)
        except torch.OutOfMemoryError:
            continue
        raise AssertionError("got a fourth tensor of 12 MiB out of 40 MiB")
    first = tensors.pop(0).data_ptr()
    again = in_pool(pool, 6 * MIB)
    assert again.data_ptr() == first and torch.ones(1, device="cuda").item() == 1
    m, k, n = LARGE
    p = Product(w, m, k, n)
    expected = p.load()
    out = again.view(-1)[:m * n].view(m, n)
    tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    w.synchronize()
    assert torch.equal(out, expected)


@case(2, on=GPU)
def goes_after_its_tensors(w):
    pool = pool_of(w, 8 * MIB)
    gc.collect()
    before = set(memory._dropped_pools)  # of other cases: may go at any time
    t = in_pool(pool, 1024).fill_(3)
    del pool
    gc.collect()
    gone = set(memory._dropped_pools) - before
    assert len(gone) == 1
    other = pool_of(w, 8 * MIB)
    assert gone <= set(memory._dropped_pools), "its memory is given back under a tensor"
    in_pool(other, 1024).fill_(5)
    assert t.sum().item() == 3 * 1024
    del t
    third = pool_of(w, 8 * MIB)
    assert not gone & set(memory._dropped_pools)
    del other, third
    free = torch.cuda.mem_get_info()[0]
    for i in range(40):
        pool = pool_of(w, 64 * MIB)
        assert in_pool(pool, 16 * MIB).fill_(i % 8)[-1].item() == i % 8
        del pool
    gc.collect()
    memory._give_back()
    assert free - torch.cuda.mem_get_info()[0] < 256 * MIB


@case(2, on=GPU)
def outlives_the_communicator(w):
    m, k, n = LARGE
    p = Product(w, m, k, n)
    expected = p.load()
    pool = pool_of(w, 64 * MIB)
    out = in_pool(pool, m, n)
    tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    w.synchronize()
    w.everyone(0)
    tilelace.leave(w.group)
    assert torch.equal(out, expected)
    out.fill_(-777)
    more = in_pool(pool, m, n).fill_(4)
    w.everyone(0)
    tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)  # joins anew, and stages
    w.synchronize()
    assert torch.equal(out, expected) and (more == 4).all()
    newer = pool_of(w, 64 * MIB)
    del pool, out, more
    out = in_pool(newer, m, n)
    tilelace.gemm_ar(p.share, p.weight, None, w.group, out=out)
    w.synchronize()
    assert torch.equal(out, expected)
