# SPDX-License-Identifier: Apache-2.0
"""Random histories of groups: whatever has happened to them, members join at the first common try.

python tests/python/histories.py --ranks 3 --histories 200 --seed 1 [--device cuda] [--only N]
This process draws what every rank does next, tells them over pipes, and knows what must come of it:
each member has the right sum, or a tilelace.Error in its time. The seed repeats a history but for its
timing. Exit code 1: something else came; the history is printed.
"""
import argparse
import itertools
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from history_rank import serve

# From the last member's call, or a member's failure or death, to the error on every rank.
ERROR_S = 3.0
TIMEOUT_S = 1.0
LIMIT_S = 60


class Wrong(Exception):
    pass


class Ranks:
    """The processes of some histories."""

    def __init__(self, ranks, device):
        self.device = device
        context = multiprocessing.get_context("fork")
        self.pipes, self.processes = [], []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(rank, ranks, device, theirs, [*self.pipes, ours]), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def tell(self, commands):
        """What came of each rank's command, by rank; of one that died, None."""
        for rank, command in commands.items():
            self.pipes[rank].send(command)
        answers, end = {}, time.monotonic() + LIMIT_S
        for rank in commands:
            if not self.pipes[rank].poll(max(0.0, end - time.monotonic())):
                raise Wrong(f"rank {rank} did not answer within {LIMIT_S} s")
            try:
                answers[rank] = self.pipes[rank].recv()
            except EOFError:
                answers[rank] = None
        return answers

    def end(self):
        for process in self.processes:
            process.kill()
            process.join()
        for pipe in self.pipes:
            pipe.close()


class Group:
    """What this process knows of one: which communicator each member is in, None: in none."""

    def __init__(self, number, members):
        self.number, self.members = number, members
        self.communicator = dict.fromkeys(members)
        self.broken = False

    def whole(self):
        """Whether a call of all members gives a result."""
        kinds = set(self.communicator.values())
        return len(kinds) == 1 and not (self.broken and None not in kinds)

    def enter(self, number):
        self.communicator = dict.fromkeys(self.members, number)
        self.broken = False

    def leave(self, members):
        for r in members:
            self.communicator[r] = None
        if all(c is None for c in self.communicator.values()):
            self.broken = False


class History:
    def __init__(self, ranks, processes, number, seed):
        self.random = random.Random(f"{seed} {number}")
        self.ranks, self.processes, self.number = ranks, processes, number
        self.groups, self.log = [], []
        self.counts = itertools.count(1)
        self.dead = False

    # What ranks are told, and what must come of it.

    def tell(self, commands):
        self.log.append(commands)
        answers = self.processes.tell(commands)
        self.log.append({r: a and {k: v for k, v in a.items() if k != "trace"}
                         for r, a in answers.items()})
        for rank, answer in answers.items():
            if answer is not None and answer["what"] == "other":
                raise Wrong(f"rank {rank}: no tilelace.Error:\n{answer['trace']}")
        return answers

    def all_well(self, commands):
        for rank, answer in self.tell(commands).items():
            if answer is None or answer["what"] != "well":
                raise Wrong(f"rank {rank}: got {answer}, expected it to be well")

    def all_errors(self, commands, bound_s, kinds, or_well=False):
        """`bound_s`: after the last member's call."""
        answers = self.tell(commands)
        last = max(a["begin"] for a in answers.values() if a is not None)
        for rank, answer in answers.items():
            if answer is None:
                continue
            if answer["what"] == "well" and or_well:
                continue
            if answer["what"] != "error" or answer["kind"] not in kinds:
                raise Wrong(f"rank {rank}: got {answer}, expected an error of kind {' or '.join(kinds)}")
            if answer["end"] - last > bound_s:
                raise Wrong(f"rank {rank}: got its error {answer['end'] - last:.2f} s after the last "
                            f"call, expected {bound_s} s: {answer}")
        return answers

    def each(self, group, name, late=0.1, **more):
        """The same command for all members, at slightly different times, from some thread."""
        return {r: {"name": name, "group": group.number, "delay": self.random.uniform(0, late),
                    "thread": self.random.random() < 0.3, **more} for r in group.members}

    # Steps.

    def begin(self, kind=None, order=None):
        """A new life of torch's groups, whose names begin anew; `order`: the processes' ranks."""
        kind = kind or self.random.choice(("tcp", "file", "prefix"))
        path = tempfile.mktemp(prefix="tilelace-history-")
        life = f"{self.number}.{next(self.counts)}"
        self.order = order or self.random.sample(range(self.ranks), self.ranks)
        self.all_well({p: {"name": "begin", "rank": self.order[p], "store": kind, "path": path,
                           "life": life, "delay": 0, "thread": False} for p in range(self.ranks)})
        self.groups = []

    def make(self, members=None):
        if members is None:
            members = self.random.sample(range(self.ranks), self.random.randint(2, self.ranks))
        group = Group(len(self.groups), sorted(members))
        self.all_well({p: {"name": "make", "members": sorted(self.order[m] for m in members),
                           "delay": 0, "thread": False} for p in range(self.ranks)})
        self.groups.append(group)
        return group

    def some(self, wanted=lambda group: True):
        fit = [g for g in self.groups if g is not None and wanted(g)]
        return self.random.choice(fit) if fit else None

    def call(self, group):
        commands = self.each(group, "call")
        if group.whole():
            self.all_well(commands)
            if None in group.communicator.values():
                group.enter(next(self.counts))
        else:
            self.all_errors(commands, ERROR_S, ("peer",))
            group.broken = True

    def join(self, group):
        commands = self.each(group, "join", timeout=20)
        joined = [r for r, c in group.communicator.items() if c is not None]
        if joined:
            self.all_errors(commands, ERROR_S, ("usage",))
        else:
            self.all_well(commands)
            group.enter(next(self.counts))

    def fail(self, group):
        """A join that fails on one rank, which all are told; then a try of all."""
        if any(c is not None for c in group.communicator.values()):
            return
        way = self.random.choice(("absent", "differs", "setting", "files", "os", "interrupt", "threads"))
        if way == "files" and self.processes.device == "cuda":
            way = "os"  # a context that finds no descriptors stays broken
        commands = self.each(group, "join", late=1.5, timeout=20)
        victim = self.random.choice(group.members)
        kinds, bound_s = ("system", "peer"), ERROR_S
        if way == "absent":
            for command in commands.values():
                command["timeout"] = TIMEOUT_S
                command["delay"] /= 15
            del commands[victim]
            kinds, bound_s = ("timeout",), TIMEOUT_S + ERROR_S
        elif way == "differs":
            commands[victim]["timeout"] = 19
            kinds = ("usage",)
        elif way == "setting":
            commands[victim]["workers"] = self.random.choice((-1, "two", 5000))
            kinds = ("usage",)
        else:
            commands[victim]["way"] = way
        self.all_errors(commands, bound_s, kinds)
        if self.random.random() < 0.7:
            self.join(group)

    def leave(self, group):
        some = self.random.sample(group.members, self.random.randint(1, len(group.members)))
        self.all_well({r: c for r, c in self.each(group, "leave").items() if r in some})
        group.leave(some)

    def abort(self, group):
        if len(set(group.communicator.values())) > 1 or None in group.communicator.values():
            return
        rank = self.random.choice(group.members)
        self.all_well({rank: self.each(group, "abort")[rank]})
        group.broken = True

    def destroy(self, group):
        self.all_well(self.each(group, "destroy"))
        self.groups[group.number] = None

    def again(self, group):
        self.all_well(self.each(group, "leave"))
        group.leave(group.members)
        self.call(group) if self.random.random() < 0.5 else self.join(group)

    def together(self, group):
        """Two groups at once, in threads of any order; or one group in two threads."""
        other = self.some(lambda g: g.whole() and set(g.members) == set(group.members))
        if not group.whole() or other is None:
            return
        commands = self.each(group, "together", other=other.number)
        for command in commands.values():
            command["delays"] = [self.random.uniform(0, 0.1) for _ in range(2)]
        self.all_well(commands)
        for g in (group, other):
            if None in g.communicator.values():
                g.enter(next(self.counts))

    def fork(self, group):
        commands = self.each(group, "fork")
        for command in commands.values():
            command["quiet"] = self.random.random() < 0.5
        self.all_well(commands)

    def die(self, group):
        victim = self.random.choice(group.members)
        commands = self.each(group, self.random.choice(("call", "call", "join")), timeout=20)
        if any(c is not None for c in group.communicator.values()):
            commands = self.each(group, "call")
        midway = group.whole() and None in group.communicator.values() and self.random.random() < 0.5
        if midway:  # of its join, or soon after
            commands = self.each(group, "join", timeout=20)
            commands[victim].update(name="join_and_die", after=self.random.uniform(0, 0.08), thread=False)
        else:
            commands[victim] = {"name": "die", "delay": self.random.uniform(0, 0.5), "thread": False}
        # Seconds from its death count, which comes at most 0.5 s after the last call.
        self.all_errors(commands, ERROR_S + 0.5, ("peer",), or_well=midway)
        self.dead = True

    def run(self, steps):
        self.begin()
        kinds = (self.call, self.call, self.join, self.fail, self.fail, self.leave, self.abort,
                 self.destroy, self.again, self.together, self.fork)
        for _ in range(steps):
            if self.some() is None or self.random.random() < 0.15:
                self.make()
            if self.random.random() < 0.04:
                self.begin()
                self.make()
            self.random.choice(kinds)(self.some())
        group = self.some() or self.make()
        if self.random.random() < 0.15:
            if self.random.random() < 0.5:
                self.all_well(self.each(group, "leave"))
                group.leave(group.members)
            self.die(group)
        else:
            self.again(group)


def run(ranks, histories, seed, device="cpu", steps=8, only=None, say=print):
    """The number of histories that were wrong."""
    processes, start = None, time.monotonic()
    for number in range(histories) if only is None else (only,):
        processes = processes or Ranks(ranks, device)
        history = History(ranks, processes, number, seed)
        try:
            history.run(steps)
        except Wrong as wrong:
            for line in history.log:
                say(line)
            say(f"WRONG: {wrong}\nrepeat: --ranks {ranks} --seed {seed} --only {number} "
                f"--steps {steps} --device {device}")
            processes.end()
            return 1
        if history.dead:
            processes.end()
            processes = None
        if (number + 1) % 10 == 0:
            say(f"{number + 1} histories, seed {seed}, {time.monotonic() - start:.0f} s")
    if processes:
        processes.end()
    say(f"{histories} histories on {ranks} {device} ranks, seed {seed}: all right, "
        f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ranks", type=int, default=3)
    arguments.add_argument("--histories", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--steps", type=int, default=8)
    arguments.add_argument("--only", type=int)
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    asked = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(run(asked.ranks, asked.histories, asked.seed, asked.device, asked.steps, asked.only,
                 lambda *a: print(*a, flush=True)))
