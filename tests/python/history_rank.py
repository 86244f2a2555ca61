# SPDX-License-Identifier: Apache-2.0
"""A rank of histories.py: does what it is told and says what came of it."""
import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
import traceback
import weakref
from datetime import timedelta
from unittest.mock import patch

import tilelace
import torch
import torch.distributed as dist
from tilelace import _groups

CALL_S = 20


@contextlib.contextmanager
def no_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    _groups._leave_gone()  # descriptors of groups that are gone, which joining would free
    few = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]  # two are left
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(few), hard))
    for fd in few:
        os.close(fd)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def raiser(error):
    def fail(*_, **__):
        raise error

    return fail


@contextlib.contextmanager
def interrupted():
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.join()


# Ways in which a join fails on one rank.
WAYS = {
    None: contextlib.nullcontext,
    "files": no_files,
    "os": lambda: patch("tilelace._groups._index_of", raiser(OSError("no such thing"))),
    "interrupt": lambda: patch("tilelace._groups._index_of", raiser(KeyboardInterrupt())),
    "signal": interrupted,
    "threads": lambda: patch("threading.Thread.start", raiser(RuntimeError("can't start new thread"))),
}


class Rank:
    def __init__(self, rank, ranks, device):
        self.rank, self.ranks, self.cuda = rank, ranks, device == "cuda"
        self.device = f"cuda:{rank % torch.cuda.device_count()}" if self.cuda else "cpu"
        self.groups = []
        self.stores = []  # a server goes with its object

    def begin(self, rank, store, path, life, **_):
        """A new life: a store of some kind, and the default group over it."""
        self.rank = rank
        if dist.is_initialized():
            self.groups = []
            dist.destroy_process_group()
        if store == "file":
            made = dist.FileStore(path, self.ranks)
        elif store == "prefix" and self.stores:  # another life on one store
            made = dist.PrefixStore(f"life {life}", self.stores[-1])
        else:
            made = self.served(path)
        dist.init_process_group("gloo", store=made, rank=self.rank, world_size=self.ranks,
                                timeout=timedelta(seconds=60))

    def served(self, path):
        """Rank 0 serves it, at a port that it writes to a file."""
        if self.rank == 0:
            store = dist.TCPStore("127.0.0.1", 0, self.ranks, True, wait_for_workers=False)
            with open(path + ".new", "w") as file:
                file.write(str(store.port))
            os.rename(path + ".new", path)
        else:
            while not os.path.exists(path):
                time.sleep(0.005)
            with open(path) as file:
                store = dist.TCPStore("127.0.0.1", int(file.read()), self.ranks, False)
        self.stores.append(store)
        return store

    def make(self, members, **_):
        group = dist.new_group(members)
        self.groups.append(group)
        if self.rank in members:
            tilelace.group_name(group)

    def call(self, group, **_):
        group = self.groups[group]
        members = dist.get_process_group_ranks(group)
        dtype = torch.bfloat16 if self.cuda else torch.float32
        x = torch.full((4, 8), self.rank + 1.0, dtype=dtype, device=self.device)
        weight = torch.ones(8, 8, dtype=dtype, device=self.device)
        y = tilelace.gemm_ar(x, weight, None, group)
        tilelace.synchronize(group)
        wanted = 8.0 * sum(r + 1 for r in members)
        assert torch.equal(y.cpu(), torch.full((4, 8), wanted, dtype=dtype)), (y, wanted)

    def join(self, group, timeout, way=None, workers=0, **more):
        with WAYS[way]():
            try:
                tilelace.join(self.groups[group], timeout=timeout, workers=workers, device=self.device)
            except KeyboardInterrupt:
                raise tilelace.Error("system", "the user's interrupt, as it should") from None
        self.call(group)

    def leave(self, group, **_):
        tilelace.leave(self.groups[group])

    def abort(self, group, **_):
        tilelace.abort(self.groups[group])

    def destroy(self, group, **_):
        dist.destroy_process_group(self.groups[group])
        self.groups[group] = None

    def together(self, group, other, delays, **_):
        device = torch.device(self.device)
        # On GPUs calls of two groups in any order are none of joining: each may keep the other's from
        # the device (docs/pytorch.md, "Beside other collectives").
        if group == other or device.type == "cuda":
            names = [self.groups[g].group_name for g in (group, other)]
            work = [lambda n=n: _groups.ensure(n, device.type, _groups.index_in(device)) for n in names]
        else:
            work = [lambda g=g: self.call(g) for g in (group, other)]
        errors = []

        def run(fn, delay):
            time.sleep(delay)
            try:
                fn()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=a) for a in zip(work, delays)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        self.call(group)

    def fork(self, group, quiet, **_):
        """As a DataLoader's worker, which may call, and ends with or without the interpreter's end."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if quiet or self.cuda:  # torch has no CUDA in a fork
                    code = 0
                else:
                    self.call(group)
            except tilelace.Error as error:
                code = 0 if "forked from" in str(error) and error.kind == "usage" else 2
            finally:
                if quiet:
                    _groups._leave_all()
                tilelace.leave(self.groups[group])
                os._exit(code)
        end = time.monotonic() + 10
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                raise AssertionError("a forked process hangs")
            time.sleep(0.002)
        assert os.waitstatus_to_exitcode(ended[1]) == 0, ended

    def die(self, **_):
        os.kill(os.getpid(), signal.SIGKILL)

    def join_and_die(self, after, **more):
        threading.Timer(after, self.die).start()
        self.join(**more)
        time.sleep(after)

    def load(self, group, **_):
        """Workers of a DataLoader, which fork now; then a forked process that is killed."""
        data = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2)
        for _ in range(2):
            for batch in data:
                assert batch.shape == (2,)
                self.call(group)
            self.call(group)
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.call(group)

    def freed(self, group, **_):
        """Errors leave no garbage that has the group: torch's crashes where a fork collects it."""
        gc.disable()
        for way in (lambda: self.join(group, timeout=0.1), lambda: self.join(group, timeout=-1),
                    lambda: self.join(group, timeout=1, workers=-1)):
            try:
                way()
            except tilelace.Error:
                pass
            else:
                raise AssertionError("joined")
        gone = weakref.ref(self.groups[group])
        self.destroy(group)
        assert gone() is None, gc.get_referrers(gone())
        gc.enable()

    def folders(self, group, folder, **more):
        with patch("tempfile.tempdir", folder), patch.dict(os.environ, TMPDIR=folder):
            self.join(group, **more)

    def obey(self, name, delay, thread, **more):
        answer = {}

        def run():
            time.sleep(delay)
            answer["begin"] = time.monotonic()
            try:
                getattr(self, name)(**more)
                answer["what"] = "well"
            except tilelace.Error as error:
                answer.update(what="error", kind=error.kind, text=str(error))
            except BaseException:
                answer.update(what="other", trace=traceback.format_exc())
            answer["end"] = time.monotonic()

        if thread:
            other = threading.Thread(target=run)
            other.start()
            other.join()
        else:
            run()
        return answer


def serve(rank, ranks, device, pipe, others):
    for other in others:
        other.close()
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    gc.freeze()  # a collection then takes no time
    multiprocessing.current_process()._config["daemon"] = False  # else it may have no children
    _groups.DEFAULT_TIMEOUT_S = CALL_S
    me = Rank(rank, ranks, device)
    # Torch and its store write of every peer that is gone.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        try:
            command = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(me.obey(**command))
