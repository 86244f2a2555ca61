# SPDX-License-Identifier: Apache-2.0
"""What tilelace.mem_pool gives torch to call, called here; CPU ranks have it, too."""
import ctypes
import threading

import tilelace
import torch
from tilelace import memory
from tilelace._errors import call
from tilelace._library import LIBRARY

from .world import BOTH, case, expect_raises

MIB = 1 << 20


class Functions:
    """What torch calls, over memory of CPU or GPU ranks."""

    def __init__(self, w, size):
        self.number, place, self.index = call(
            torch.ops.tilelace._make_pool, w.name, w.device, size)
        library = ctypes.CDLL(str(LIBRARY))
        self.function = library[f"tilelace_pool_{place}_allocate"]
        self.function.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.function.restype = ctypes.c_void_p
        self.free_function = library["tilelace_pool_free"]
        self.free_function.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free_function.restype = None

    def allocate(self, size, stream=0):
        return self.function(size, self.index, stream)

    def free(self, at):
        self.free_function(at, 0, self.index, None)

    def drop(self):
        return torch.ops.tilelace._drop_pool(self.number)


@case(2, on=BOTH)
def hands_out_the_same_places_on_all_ranks(w):
    pool = Functions(w, 5 * MIB)
    places = [pool.allocate(size) for size in (1, 2 * MIB, MIB, 1)]
    assert all(places[:3]) and places[3] is None, places
    offsets = [p - places[0] for p in places[:3]]
    assert sorted(offsets) == [0, 2 * MIB, 4 * MIB] and w.everyone(offsets) == [offsets] * w.ranks
    if w.device == "cpu":
        for p in places[:3]:
            ctypes.memset(p, 7, 2 * MIB)
    assert pool.function(1, pool.index + 1, None) is None  # another device
    assert pool.allocate(0) is None and pool.allocate(-1) is None
    pool.free(places[1])
    pool.free(None)
    pool.free(places[0] + 64 * MIB)
    assert pool.allocate(1, stream=4096) is None and pool.allocate(1) == places[1]
    assert not pool.drop() and pool.allocate(1) is None
    for p in places[:3]:
        pool.free(p)
    assert pool.drop() and pool.drop()
    assert pool.allocate(1) is None
    pool.free(places[0])


@case(2, on=BOTH)
def hands_out_to_threads(w):
    pool = Functions(w, 32 * MIB)
    owners, lock, wrong = {}, threading.Lock(), []

    def come_and_go(thread):
        for i in range(500):
            at = pool.allocate(2 * MIB, stream=16 * (1 + thread))
            if at is None:
                continue
            with lock:
                if owners.get(at) is not None:
                    wrong.append((thread, i, at))
                owners[at] = thread
            with lock:
                owners[at] = None
            pool.free(at)

    threads = [threading.Thread(target=come_and_go, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and owners, wrong
    assert pool.drop()


@case(2, on=BOTH)
def thirty_two_at_a_time(w):
    memory._give_back()
    for _ in range(2):
        pools = [Functions(w, 1) for _ in range(32)]
        places = [p.allocate(1) for p in pools]
        assert len(set(places) - {None}) == 32, places
        text = expect_raises("usage", "mem_pool: all 32 pools are in use", lambda: Functions(w, 1))
        assert w.everyone(text) == [text] * w.ranks
        for p, place in zip(pools, places):
            p.free(place)
            assert p.drop()


@case(2, on=("cpu",))
def without_gpus_is_told(w):
    lacks = "no GPU" if tilelace.has_cuda() else "this build has CPU ranks only"
    expect_raises("usage", lacks, lambda: tilelace.mem_pool(MIB, w.group))
    expect_raises("usage", lacks, lambda: tilelace.mem_pool(MIB, w.group, "cuda"))
    expect_raises("usage", "mem_pool: device: got cpu, expected cuda",
                  lambda: tilelace.mem_pool(MIB, w.group, "cpu"))


@case(2, on=BOTH)
def wrong_sizes_are_told_to_all(w):
    for size in (0, -1):
        expect_raises("usage", f"mem_pool: size: got {size} bytes", lambda: Functions(w, size))
    expect_raises("usage", "", lambda: Functions(w, 4 * MIB * (1 + w.rank)))
    pool = Functions(w, 4 * MIB)
    at = pool.allocate(4 * MIB)
    assert at and pool.allocate(1) is None
    pool.free(at)
    assert pool.drop()
