# SPDX-License-Identifier: Apache-2.0
"""Joining, case by case: python tests/python/joins.py [NAME ...]; a JSON object of what failed.

What ranks do, and what must come of it, is in the words of histories.py.
"""
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from histories import ERROR_S, History, Ranks, Wrong

CASES = {}
PEER = ("peer",)


def case(fn):
    CASES[fn.__name__] = fn
    return fn


class Case(History):
    def __init__(self, processes):
        super().__init__(4, processes, 0, 0)

    def of(self, group, name="join", delays=(), only=None, **more):
        """The same command for members, this much later on each."""
        late = dict(zip(group.members, delays))
        return {p: {"name": name, "group": group.number, "delay": late.get(p, 0), "thread": False,
                    "timeout": 20, **more} for p in (only or group.members)}

    def start(self, members=(0, 1, 2), kind="tcp"):
        """A new life with one group; process 0 serves the store."""
        self.begin(kind, order=[0, 1, 2, 3])
        return self.make(members)

    def joins(self, group):
        self.all_well(self.of(group))


def dies(after=0.3):
    return {"name": "die", "delay": after, "thread": False}


# Groups that were there before.


@case
def a_name_again_with_other_members(c):
    c.joins(c.start((0, 1)))
    c.joins(c.start((0, 1, 2)))
    # Nor do settings outlive a group: these call first, and joined with another bound before.
    c.all_well(c.of(c.start((0, 1)), timeout=7))
    c.all_well(c.of(c.start((0, 1, 2)), "call"))


@case
def a_name_again_with_other_ranks_on_one_store(c):
    group = c.start((0, 2), "prefix")
    c.joins(group)
    c.all_well(c.of(group, "leave", only=(2,)))
    for order in ([2, 0, 1, 3], [3, 2, 1, 0]):
        c.begin("prefix", order)
        c.joins(c.make((0, 1, 3)))


@case
def a_group_after_one_that_was_destroyed_on_all(c):
    group = c.start()
    c.joins(group)
    c.all_well(c.of(group, "destroy"))
    group = c.make((0, 1, 2))
    c.all_errors(c.of(group, only=(0,), timeout=0.3), ERROR_S, ("timeout",))
    c.all_well(c.of(group, "destroy"))
    c.joins(c.make((0, 1, 2)))


# Joins that failed.


@case
def a_rank_that_is_late(c):
    group = c.start((0, 1))
    for late in (1, 0, 0):
        c.all_errors(c.of(group, only=(1 - late,), timeout=0.4), ERROR_S, ("timeout",))
    c.joins(group)


@case
def two_ranks_give_up_on_a_third(c):
    group = c.start()
    answers = c.all_errors(c.of(group, only=(0, 2), delays=(0, 0, 0.3), timeout=0.8), ERROR_S,
                           ("timeout",))
    assert all("for rank 1" in a["text"] for a in answers.values()), answers
    c.joins(group)


@case
def failures_before_the_others_come(c):
    group = c.start()
    for way, late in (("signal", 0.8), ("threads", 0)):
        commands = c.of(group, delays=(0, late / 2, late))
        commands[0]["way"] = way
        c.all_errors(commands, ERROR_S, ("system", "peer"))
        c.joins(group)
        c.all_well(c.of(group, "leave"))


@case
def a_failure_is_told_once(c):
    group = c.start()
    commands = c.of(group)
    commands[1]["way"] = "os"
    c.all_errors(commands, ERROR_S, ("system", "peer"))
    # Far beyond the time in which it would be told: rank 1 has not called yet, and is waited for.
    c.all_well(c.of(group, delays=(0, 1.5, 0.1)))
    # Nor is a difference, which each has seen by itself.
    c.all_well(c.of(group, "leave"))
    commands = c.of(group)
    commands[1]["timeout"] = 19
    c.all_errors(commands, ERROR_S, ("usage",))
    c.all_well(c.of(group, delays=(0, 1.5, 0.1)))


@case
def settings_that_differ_before_all_have_come(c):
    group = c.start()
    commands = c.of(group, only=(0, 1), timeout=9)
    commands[1]["timeout"] = 8
    for answer in c.all_errors(commands, ERROR_S, ("usage",)).values():
        assert "timeout: got 8.0 on rank 1 and 9.0 on rank 0" in answer["text"], answer
    c.joins(group)


@case
def what_one_rank_cannot_do(c):
    group = c.start()
    for more, kinds in (({"workers": -1}, ("usage",)), ({"workers": "two"}, ("usage",)),
                        ({"timeout": -1}, ("usage",)), ({"way": "files"}, ("system", "peer"))):
        for victim in (0, 2):
            commands = c.of(group)
            commands[victim].update(more, delay=0.1)  # the others are there: they hear at once
            for p, answer in c.all_errors(commands, 2, kinds).items():
                assert p == victim or f"rank {victim}" in answer["text"], answer
    c.joins(group)


@case
def folders_do_not_matter(c):
    group = c.start()
    folders = ("/nowhere", "/proc", "/tmp/" + "long" * 60)
    c.all_well({p: {**command, "name": "folders", "folder": folders[p]}
                for p, command in c.of(group).items()})


# Members that die, or are silent.


@case
def the_server_of_the_store_dies_before_its_call(c):
    commands = c.of(c.start(), "call", delays=(0, 0, 0.5))
    commands[0] = dies()
    for answer in c.all_errors(commands, ERROR_S, PEER).values():
        if answer:
            said = float(re.search(r"after ([\d.]+) s", answer["text"])[1])
            assert abs(said - (answer["end"] - answer["begin"])) < 0.5, answer


@case
def the_server_of_the_store_dies_and_is_no_member(c):
    commands = c.of(c.start((1, 2, 3)), only=(1, 2))
    commands[0] = dies()
    c.all_errors(commands, ERROR_S, PEER)


@case
def another_member_dies_before_its_call(c):
    commands = c.of(c.start())
    commands[2] = dies()
    for answer in c.all_errors(commands, ERROR_S, PEER).values():
        assert answer is None or "rank 2: its process has ended" in answer["text"], answer


@case
def another_member_dies_in_its_join(c):
    group = c.start()
    commands = c.of(group, delays=(0, 0.6, 0))
    commands[2].update(name="join_and_die", after=0.3)
    for answer in c.all_errors(commands, ERROR_S, PEER).values():
        assert answer is None or "rank 2" in answer["text"], answer


@case
def a_silent_server_is_a_timeout_and_the_time_is_true(c):
    group = c.start()
    pid = c.processes.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        answers = c.all_errors(c.of(group, only=(1, 2), timeout=1.2), 1.2 + ERROR_S, ("timeout",))
    finally:
        os.kill(pid, signal.SIGCONT)
    for answer in answers.values():
        said = float(re.search(r"waited ([\d.]+) s", answer["text"])[1])
        assert 1.1 < said <= answer["end"] - answer["begin"] + 0.1, answer
    c.joins(group)


# Members that leave; threads; forks.


@case
def one_rank_leaves_while_others_call(c):
    group = c.start()
    c.joins(group)
    c.all_well(c.of(group, "leave", only=(0,)))
    c.all_errors(c.of(group, "call", delays=(0.1, 0, 0)), ERROR_S, PEER)
    c.all_errors(c.of(group, "join"), ERROR_S, ("usage",))
    c.all_well(c.of(group, "leave"))
    c.joins(group)


@case
def aborted_left_and_joined_again_by_each_in_its_time(c):
    group = c.start()
    c.joins(group)
    c.all_well(c.of(group, "abort", only=(1,)))
    c.all_errors(c.of(group, "call", only=(0, 2)), ERROR_S, PEER)
    c.all_well(c.of(group, "leave"))
    c.all_well(c.of(group, delays=(0, 1.5, 0.2)))


@case
def groups_first_used_in_any_order_by_threads(c):
    one = c.start()
    other = c.make((0, 1, 2))
    commands = c.of(one, "together", other=other.number)
    for p, delays in enumerate(((0, 0.3), (0.3, 0), (0.1, 0.1))):
        commands[p]["delays"] = delays
    c.all_well(commands)
    same = c.make((0, 1, 2))
    commands = c.of(same, "together", other=same.number)
    c.all_well({p: {**command, "delays": (0, 0)} for p, command in commands.items()})


@case
def errors_keep_no_group(c):
    group = c.start()
    c.all_well(c.of(group, "freed", only=(1,)))
    group = c.make((0, 1, 2))
    c.joins(group)
    c.all_well(c.of(group, "abort", only=(1,)))
    c.all_errors(c.of(group, "call"), ERROR_S, PEER)
    c.all_well(c.of(group, "freed", only=(2,)))


@case
def a_loader_whose_workers_fork(c):
    group = c.start((0, 1))
    c.joins(group)
    c.all_well(c.of(group, "load"))
    c.all_well(c.of(group, "fork", quiet=False))


def main(names):
    failed, processes = {}, None
    for name, fn in CASES.items():
        if names and name not in names:
            continue
        processes = processes or Ranks(4, "cpu")
        c, start, text = Case(processes), time.monotonic(), ""
        try:
            fn(c)
        except (AssertionError, Wrong) as wrong:
            text = f"{wrong}"
        if text or any(a is None for line in c.log for a in line.values()):
            processes.end()
            processes = None
        failed[name] = text
        print(f"{name}: {text or 'passed'} ({time.monotonic() - start:.1f} s)", file=sys.stderr)
    if processes:
        processes.end()
    print(json.dumps(failed))
    return int(any(failed.values()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
