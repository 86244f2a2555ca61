# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed: the others get tilelace.Error of kind peer, soon, and end by themselves.

On GPUs, without pytest: python test_faults.py cuda RANKS
"""
import os
import signal
import socket
import subprocess
import sys
import time

PROGRAM = """
import os, signal, sys, time
import torch, torch.distributed as dist
import tilelace

device = sys.argv[1]
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
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def kill_one(device, ranks):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, device], stdout=subprocess.PIPE, text=True,
                         env={**environment, "RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(ranks)
    ]
    start = time.monotonic()
    outputs = [p.communicate(timeout=120)[0] for p in processes]
    assert processes[1].returncode == -signal.SIGKILL
    for rank in range(ranks):
        if rank == 1:
            continue
        assert processes[rank].returncode == 7, outputs
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
