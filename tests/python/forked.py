# SPDX-License-Identifier: Apache-2.0
"""Programs of tests in processes forked from this one, which has imported torch: seconds less a process."""
import faulthandler
import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
from pathlib import Path

import torch


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _run(program, arguments, variables, output, errors):
    """In the child: a file as Python runs it, or a function."""
    for number, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    # pytest keeps what sys.stdout was
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    faulthandler.enable()  # a crash says where
    os.environ.update(variables)
    torch.set_num_threads(int(variables["OMP_NUM_THREADS"]))  # which was read when torch was loaded
    if callable(program):
        sys.exit(program(*arguments))
    sys.argv = [str(program), *map(str, arguments)]
    sys.path.insert(0, str(Path(program).parent))
    runpy.run_path(str(program), run_name="__main__")


class Programs:
    """One of several ranks as torchrun starts them, or of one process alone."""

    def __init__(self, program, *arguments, ranks=0, **variables):
        self.folder = tempfile.TemporaryDirectory()
        common = {"OMP_NUM_THREADS": "1", **variables}
        if ranks:
            common |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(free_port())}
        fork = multiprocessing.get_context("fork")
        self.files = [[f"{self.folder.name}/{name}{r}" for name in ("out", "err")]
                      for r in range(ranks or 1)]
        self.processes = [
            fork.Process(target=_run, args=(
                program, arguments, common | ({"RANK": str(r), "LOCAL_RANK": str(r)} if ranks else {}), *files))
            for r, files in enumerate(self.files)]
        for process in self.processes:
            process.start()

    def finish(self, timeout=300, after_first=None):
        """Exit codes, outputs and errors, by rank; whoever takes longer is killed. after_first: the
        seconds that others have once the first rank has ended."""
        end = time.monotonic() + timeout
        for rank, process in enumerate(self.processes):
            process.join(max(0.0, end - time.monotonic()))
            if rank == 0 and after_first is not None:
                end = time.monotonic() + after_first
            if process.is_alive():
                process.kill()
                process.join()
        texts = [[Path(file).read_text() if os.path.exists(file) else "" for file in files]
                 for files in self.files]
        self.folder.cleanup()
        return [p.exitcode for p in self.processes], *map(list, zip(*texts))


def run(program, *arguments, ranks=0, timeout=300, **variables):
    """What a program prints, of all ranks; AssertionError with all that it said where a rank fails."""
    codes, outputs, errors = Programs(program, *arguments, ranks=ranks, **variables).finish(timeout)
    said = "".join(f"rank {r}: exit code {c}\n{o}{e}" for r, (c, o, e) in enumerate(zip(codes, outputs, errors)))
    assert not any(codes), said
    return "".join(outputs)
