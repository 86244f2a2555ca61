# SPDX-License-Identifier: Apache-2.0
"""Notes that members write to the group's store while they join (docs/decisions/0022).

Each member has one note, and only that member writes it: "here" with the address of its attempt, or
"failed" with the cause. A note may be stale: left by an earlier group of the same name.
"""
from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Note = dict[str, Any]

# How long the store may take for the last note: whoever fails does not wait for it longer.
LAST_NOTE_S = 1.0
_LONGEST_PAUSE_S = 0.05


def now() -> float:
    """Seconds since the boot: the same clock in all processes of a host."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _stat(pid: int | str) -> list[str]:
    """State, parent and so on, from the third field on: a name in the second may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def process() -> dict[str, Any]:
    """This process, as others of its host can tell it from one that has its number later."""
    stat = _stat("self")
    return {"pid": os.getpid(), "start": stat[19] if len(stat) > 19 else "", "at": now(),
            "host": _read("/proc/sys/kernel/random/boot_id"), "space": _link("/proc/self/ns/pid")}


def network() -> str:
    """Sockets without a file reach as far as this."""
    return _link("/proc/self/ns/net")


def is_dead(other: dict[str, Any], own: dict[str, Any]) -> bool:
    """Whether a member's process has ended. False also if that cannot be known.

    That is so for another host or PID namespace, and for a note from before this process began: an
    earlier group of the same name wrote it.
    """
    if not other["start"] or any(other[k] != own[k] for k in ("host", "space")):
        return False
    if other["at"] < int(own["start"] or 0) / os.sysconf("SC_CLK_TCK"):
        return False
    try:
        os.kill(other["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    stat = _stat(other["pid"])
    return len(stat) > 19 and (stat[0] in "ZX" or stat[19] != other["start"])


def begin(what: Callable[[], Any]) -> threading.Thread | None:
    """Runs it in a thread of its own, as a store call may block forever. Its errors are dropped."""

    def run() -> None:
        with contextlib.suppress(Exception):
            what()

    thread = threading.Thread(target=run, daemon=True, name="tilelace-store")
    try:
        thread.start()
    except RuntimeError:  # no thread to be had
        run()
        return None
    return thread


def within(seconds: float, what: Callable[[], Any]) -> None:
    """As begin, and waits for it up to this time."""
    thread = begin(what)
    if thread is not None:
        thread.join(seconds)


class Order:
    """Orders this process's notes in one group: a delayed note must not overwrite a newer one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.newest = 0


class Place:
    """Where the notes of one attempt are, by rank, and the processes that have shown themselves."""

    def __init__(self, store: Any, keys: Sequence[str], shown: Any, shown_keys: Sequence[str],
                 order: Order) -> None:
        self.store, self.keys = store, keys
        self.shown, self.shown_keys = shown, shown_keys
        self._order = order
        order.newest += 1
        self._number = order.newest

    def put(self, rank: int, note: Note) -> None:
        with self._order.lock:
            if self._number == self._order.newest:
                self.store.set(self.keys[rank], json.dumps(note))


class Board:
    """This member's note, and those of peers that are `wanted`, which a thread keeps reading."""

    def __init__(self, place: Place, rank: int, note: Note) -> None:
        self.notes: dict[int, Note] = {}
        self.processes: dict[int, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.wanted = set(range(len(place.keys))) - {rank}
        self._place, self._rank = place, rank
        self._first = note
        self._last: Note | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="tilelace-board")
        self._thread.start()

    def end(self, last: Note | None = None) -> None:
        self._last = last
        self._ending.set()
        self._thread.join(LAST_NOTE_S)
        if self.error is not None and last is not None:  # no descriptor left, and now there may be one
            within(LAST_NOTE_S, lambda: self._place.put(self._rank, last))

    def _run(self) -> None:
        try:
            self._place.put(self._rank, self._first)
            pause, rounds = 0.001, 0
            while not self._ending.wait(pause):
                for peer in sorted(self.wanted):
                    self._look(self._place.store, self._place.keys[peer], peer, self.notes)
                    if rounds % 8 == 7:
                        self._look(self._place.shown, self._place.shown_keys[peer], peer, self.processes)
                pause, rounds = min(pause * 1.3, _LONGEST_PAUSE_S), rounds + 1
            if self._last is not None:
                self._place.put(self._rank, self._last)
        except Exception as error:
            self.error = error.with_traceback(None)  # a cycle would keep the store

    @staticmethod
    def _look(store: Any, key: str, peer: int, found: dict[int, Any]) -> None:
        """Never waits for a key: that would hold the connection, which all threads share."""
        if store.check([key]):
            found[peer] = json.loads(store.get(key))
