# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed: the others get tilelace.Error of kind peer, soon, and end by themselves."""
import os
import signal
import socket
import subprocess
import sys
import time

RANKS = 3
PROGRAM = """
import os, signal, sys, time
import torch, torch.distributed as dist
import tilelace

dist.init_process_group("gloo")
x, w = torch.ones(4, 8), torch.ones(4, 8)
tilelace.gemm_ar(x, w)
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
start = time.monotonic()
try:
    while True:
        tilelace.gemm_ar(x, w)
except tilelace.Error as error:
    print(error.kind, time.monotonic() - start, error, flush=True)
os._exit(7)  # torch's own group would wait for the dead rank
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_a_killed_rank_is_an_error_on_the_others():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
    ranks = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True,
                         env={**environment, "RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(RANKS)
    ]
    start = time.monotonic()
    outputs = [p.communicate(timeout=120)[0] for p in ranks]
    assert ranks[1].returncode == -signal.SIGKILL
    for rank in (0, 2):
        assert ranks[rank].returncode == 7, outputs
        kind, seconds, text = outputs[rank].split(" ", 2)
        assert kind == "peer" and "rank 1" in text, outputs
        # Seen by its socket: far below the bound of 300 s.
        assert float(seconds) < 10, outputs
    assert time.monotonic() - start < 100
