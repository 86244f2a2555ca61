# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed: the others get tilelace.Error of kind peer, soon, and end by themselves.

On GPUs, without pytest: python test_faults.py cuda RANKS
"""
import os
import signal
import sys
import time

import forked
import tilelace
import torch
import torch.distributed as dist


def program(device):
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["RANK"]))
    dist.init_process_group("gloo")
    tilelace.join(device=device)
    x, w = (torch.ones(8, 16, device=device, dtype=torch.bfloat16) for _ in range(2))
    tilelace.gemm_ar(x, w)
    tilelace.synchronize()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        while True:
            tilelace.gemm_ar(x, w)
            tilelace.synchronize()
    except tilelace.Error as error:
        print(error.kind, time.monotonic() - start, error, flush=True)
    os._exit(7)  # torch's own group would wait for the dead rank


def kill_one(device, ranks):
    start = time.monotonic()
    codes, outputs, _ = forked.Programs(program, device, ranks=ranks).finish(120)
    assert codes == [-signal.SIGKILL if rank == 1 else 7 for rank in range(ranks)], (codes, outputs)
    for rank in set(range(ranks)) - {1}:
        kind, seconds, text = outputs[rank].split(" ", 2)
        assert kind == "peer" and "rank 1" in text, outputs
        # Seen by its socket: far below the bound of 300 s.
        assert float(seconds) < 10, outputs
    assert time.monotonic() - start < 100
    return outputs


def test_a_killed_rank_is_an_error_on_the_others():
    kill_one("cpu", 3)


if __name__ == "__main__":
    print(*kill_one(sys.argv[1], int(sys.argv[2])), sep="", end="")
