# SPDX-License-Identifier: Apache-2.0
"""How members of a group connect to each other: the protocol of docs/decisions/0022."""
from __future__ import annotations

import json
import os
import select
import socket
import time
import uuid
from typing import Any, NoReturn

import torch.distributed as dist

from . import _notes
from ._errors import Error, usage
from ._lines import Line, Told, is_own_user, new_socket, polled, ranks_text
from ._notes import Board, Note, Place, now

# For how long a failure from before this attempt, or of a call, may still be followed by a new try.
RETRY_S = 1.0
# For how long the cause is looked for when a peer goes without a word.
CAUSE_S = 1.0
_MOST_BYTES = 65536
_SLICE_MS = 10


class Meeting:
    """One attempt of this process to meet all members of a group."""

    def __init__(self, group: str, rank: int, place: Place, told: Told) -> None:
        self.group, self.rank, self.ranks = group, rank, len(place.keys)
        self.begin = now()
        self.id = uuid.uuid4().hex
        self._place = place
        self._told = told
        self._cause: tuple[Error, dict[str, Any]] | None = None
        self._bound_s = 0.0
        self._mine: Note = {
            "state": "here", "id": self.id, "at": self.begin, "rank": rank, "ranks": self.ranks,
            "network": _notes.network(), "process": _notes.process(),
            "address": f"tilelace-{self.id}", "last": told.last}
        self._process = self._mine["process"]
        self._lines: dict[int, Line] = {}
        self._met: set[str] = set()  # all attempts that it had a line to
        self._strangers: list[socket.socket] = []
        self._lost: dict[int, tuple[str, float]] = {}  # lines that ended without a word
        self._listener: socket.socket | None = None
        self._spare = -1  # given up where none is left to tell so: a FileStore opens its file
        self._board: Board | None = None

    # What the group does with an attempt.

    def run(self, settings: dict[str, Any]) -> list[int]:
        """Sockets to all members, by rank, -1 at the own place. `settings`: equal on all of them."""
        self._mine["settings"], self._bound_s = settings, settings["timeout"]
        if self.ranks == 1:
            return [-1]
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._listener = listener = new_socket()
        listener.bind("\0" + self._mine["address"])
        listener.listen(2 * self.ranks)
        self._board = Board(self._place, self.rank, self._mine)
        while not self._agreed():
            self._accept(listener)
            self._dial()
            self._hear()
            self._judge()
            self._say()
            self._wait(listener)
        self._board.wanted = set()
        self._stop_listening()  # whoever comes now comes for the next attempt
        return [self._lines[p].sock.detach() if p != self.rank else -1 for p in range(self.ranks)]

    def succeed(self) -> None:
        self._told.last = None
        if self._board is not None:
            self._board.end()
        self._close()

    def fail(self, error: BaseException, joined: bool = False) -> None:
        """Tells all members, those that come later too. `joined`: they had joined, which ended."""
        told, self._cause = self._cause, None  # a cycle would keep the callers' groups
        if told is not None and told[0] is error:
            cause = told[1]
        else:
            cause = {"rank": self.rank, "kind": error.kind if isinstance(error, Error) else "system",
                     "text": self._without_name(error), "attempts": []}
        cause["attempts"].append(self.id)
        # Theirs end with this one, and are no news here.
        self._told.update([self.id, *self._in_sight()])
        self._told.until = now()
        self._told.last = {"id": self.id, "at": now(), "cause": cause}
        self._close_spare()
        for line in self._lines.values():
            self._send(line.sock, {"failed": cause})
        note = {"state": "failed", "id": self.id, "at": now(), "ranks": self.ranks, "cause": cause,
                "joined": joined, "process": self._process}
        if self._board is not None:
            self._board.end(note)
        elif self.ranks > 1:
            _notes.within(_notes.LAST_NOTE_S, lambda: self._place.put(self.rank, note))
        self._close()

    def _in_sight(self) -> list[str]:
        notes = self._board.notes.values() if self._board is not None else ()
        return [line.attempt for line in self._lines.values()] + [
            note["id"] for note in list(notes) if note["state"] == "here"]

    def behind(self, error: Error) -> Error:
        """The reason that a member gave itself, if this one only saw its connection close."""
        if self._board is None or error.kind not in ("peer", "timeout"):
            return error
        self._board.wanted = set(range(self.ranks)) - {self.rank}
        end = now() + CAUSE_S
        while now() < end and self._board.error is None:
            for note in list(self._board.notes.values()):
                if note["state"] == "failed" and note["at"] >= self.begin:
                    return self._of(note["cause"])
                last = note.get("last")
                if last is not None and last["id"] in self._met:
                    return self._of(last["cause"])
            time.sleep(0.005)
        return error

    # The parts of an attempt.

    def _waited(self) -> float:
        return now() - self.begin

    def _text(self, text: str) -> str:
        return f'join: group "{self.group}": {text}'

    def _without_name(self, error: BaseException) -> str:
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        return text.removeprefix(self._text(""))[:2000]

    def _of(self, cause: dict[str, Any]) -> Error:
        self._told.update(cause["attempts"])
        kind = cause["kind"] if cause["kind"] in ("usage", "timeout") else "peer"
        error = Error(kind, self._text(f"rank {cause['rank']} could not join: {cause['text']}"))
        self._cause = error, cause
        return error

    def _peer(self, text: str) -> NoReturn:
        raise Error("peer", self._text(f"{text} (seen by rank {self.rank} after "
                                       f"{self._waited():.1f} s)"))

    @property
    def _begun(self) -> Board:
        """The board of an attempt that has begun."""
        assert self._board is not None
        return self._board

    def _missing(self) -> list[int]:
        return [p for p in range(self.ranks) if p != self.rank and p not in self._lines]

    def _attempts(self) -> list[str]:
        return [self.id if p == self.rank else self._lines[p].attempt for p in range(self.ranks)]

    def _agreed(self) -> bool:
        if self._missing():
            return False
        ids = self._attempts()
        return all(line.said == ids and line.heard == ids for line in self._lines.values())

    def _same_host(self, note: Note) -> bool:
        return (note["process"]["host"], note["network"]) == (
            self._process["host"], self._mine["network"])

    def _require_same(self, note: Note) -> None:
        """The same text on both sides."""
        (low, a), (high, b) = sorted(((self.rank, self._mine), (note["rank"], note)),
                                     key=lambda pair: pair[0])
        values = [("ranks", a["ranks"], b["ranks"]), ("host", a["process"]["host"], b["process"]["host"]),
                  ("network namespace", a["network"], b["network"])]
        values += [(k, a["settings"][k], b["settings"].get(k)) for k in a["settings"]]
        for what, first, other in values:
            if first == other:
                continue
            text = (f"{what}: got {other} on rank {high} and {first} on rank {low}: "
                    "it must be the same on every rank")
            cause = {"rank": self.rank, "kind": "usage", "attempts": [note["id"]], "text": text}
            self._cause = usage(self._text(text)), cause
            raise self._cause[0]

    def _send(self, sock: socket.socket, frame: dict[str, Any]) -> None:
        try:
            sock.send(json.dumps(frame).encode(), socket.MSG_NOSIGNAL)
        except OSError:
            pass  # it is gone, which is seen when it is heard

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            sock.setblocking(False)
            if is_own_user(sock):
                self._strangers.append(sock)
            else:
                sock.close()

    def _dial(self) -> None:
        """Higher ranks connect to lower ones. An attempt that is over refuses."""
        for peer in self._missing():
            note = self._begun.notes.get(peer)
            if peer > self.rank or note is None or note["state"] != "here" or not self._same_host(note):
                continue
            sock = new_socket()
            try:
                sock.connect("\0" + note["address"])
            except OSError as error:
                sock.close()
                if not isinstance(error, (BlockingIOError, ConnectionError)):
                    raise
                continue
            if not is_own_user(sock):
                sock.close()
                raise usage(self._text(f"rank {peer}: its process belongs to another user: all ranks need the same user"))
            self._send(sock, {"hello": self._mine})
            self._add(peer, sock, note)

    def _add(self, peer: int, sock: socket.socket, note: Note) -> None:
        self._lines[peer] = Line(sock, note)
        self._lost.pop(peer, None)
        self._begun.wanted.discard(peer)
        last = note.get("last")
        if last is not None and last["id"] in self._met and self._told.isdisjoint(last["cause"]["attempts"]):
            raise self._of(last["cause"])  # of an attempt that this one had met
        self._met.add(note["id"])
        self._require_same(note)

    def _hear(self) -> None:
        for peer, line in list(self._lines.items()):
            self._hear_line(peer, line)
        for sock in list(self._strangers):
            try:
                data = sock.recv(_MOST_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            self._strangers.remove(sock)
            if not data:
                sock.close()
                continue
            note = json.loads(data)["hello"]
            if note["rank"] in self._lines:  # of an attempt that ended, and says so next
                self._hear_line(note["rank"], self._lines[note["rank"]])
                self._drop(note["rank"])
            self._add(note["rank"], sock, note)

    def _hear_line(self, peer: int, line: Line) -> None:
        if line.ahead and polled(line.sock, select.POLLRDHUP):
            self._lose(peer)
        while not line.ahead and self._lines.get(peer) is line:
            try:
                data = line.sock.recv(_MOST_BYTES, socket.MSG_PEEK)
                line.ahead = data[:1] not in (b"", b"{")
                if line.ahead:
                    return
                line.sock.recv(_MOST_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose(peer)
                return
            frame = json.loads(data)
            if "commit" in frame:
                line.heard = frame["commit"]
            elif self._told.isdisjoint(frame["failed"]["attempts"]):
                raise self._of(frame["failed"])
            else:  # of a failure that was raised here before: it will come again
                self._drop(peer)

    def _drop(self, peer: int) -> None:
        line = self._lines.pop(peer, None)
        if line is not None:
            line.close()
            self._begun.wanted.add(peer)

    def _lose(self, peer: int) -> None:
        if not self._missing() and self._lines[peer].heard == self._attempts():
            # It had met all and could not join: what comes from there next is another attempt.
            raise self.behind(Error("peer", self._text(
                f"rank {peer}: its connection ended while it was joining")))
        self._lost[peer] = (self._lines[peer].attempt, now())
        self._drop(peer)

    def _judge(self) -> None:
        """Of members without a line: whether they can still come."""
        for peer in self._missing():
            note = self._begun.notes.get(peer)
            if note is not None and note["ranks"] == self.ranks:
                self._judge_note(peer, note)
            known = self._begun.processes.get(peer)
            if known is not None and _notes.is_dead(known, self._process):
                self._ended(peer)
        if self._missing() and self._begun.error is not None:
            self._lost_store(self._begun.error)
        for peer, line in list(self._lines.items()):
            if polled(line.pidfd, select.POLLIN) if line.pidfd >= 0 else _notes.is_dead(
                    line.process, self._process):
                self._hear_line(peer, line)  # it may have told why
                self._ended(peer)

    def _lost_store(self, error: Exception) -> NoReturn:
        gone = isinstance(error, (ConnectionError, dist.DistNetworkError))
        why = "the process that serves it has ended" if gone else "it does not answer"
        first = (str(error).splitlines() or [""])[0]
        raise Error("peer" if gone else "system", self._text(
            f"rank {self.rank} lost the group's store after {self._waited():.1f} s: "
            f"{why} ({type(error).__name__}: {first})"))

    def _judge_note(self, peer: int, note: Note) -> None:
        dead = _notes.is_dead(note["process"], self._process)
        if note["state"] == "failed":
            cause, before = note["cause"], note["at"] < self.begin
            # Whoever gave up on members that had not called is back when it calls again.
            news = self._told.isdisjoint(cause["attempts"]) and note["at"] > self._told.until and (
                note["joined"] or not before or cause["kind"] != "timeout")
            now_or_later = 0 if dead or not (before or note["joined"]) else RETRY_S
            if news and now() - max(note["at"], self.begin) >= now_or_later:
                raise self._of(cause)
        if dead:
            self._ended(peer)
        if note["state"] == "here" and not self._same_host(note) and self._waited() > RETRY_S:
            self._require_same(note)
        lost, at = self._lost.get(peer, ("", 0.0))
        if lost == note["id"] and note["state"] == "here" and now() - at > CAUSE_S:
            self._peer(f"rank {peer}: its connection has ended")

    def _ended(self, peer: int) -> NoReturn:
        self._peer(f"rank {peer}: its process has ended")

    def _say(self) -> None:
        if self._missing():
            return
        ids = self._attempts()
        for line in self._lines.values():
            if line.said != ids:
                line.said = ids
                self._send(line.sock, {"commit": ids})

    def _wait(self, listener: socket.socket) -> None:
        """Sleeps until something happens, or may have in the store."""
        if self._agreed():
            return
        missing = self._missing()
        left = self._bound_s - self._waited()
        if left <= 0:
            late = missing or [p for p, x in self._lines.items() if not x.ahead]
            raise Error("timeout", self._text(
                f"rank {self.rank} waited {self._waited():.1f} s for {ranks_text(late)} "
                "to join"))
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        for sock in self._strangers:
            poll.register(sock, select.POLLIN)
        for line in self._lines.values():
            poll.register(line.sock, 0 if line.ahead else select.POLLIN)
            if line.pidfd >= 0:
                poll.register(line.pidfd, select.POLLIN)
        poll.poll(max(1.0, min(left * 1000, _SLICE_MS)))

    def left(self) -> None:
        """After a failure that was told: this member can join again."""
        note = self._mine | {"state": "left"}
        _notes.within(_notes.LAST_NOTE_S, lambda: self._place.put(self.rank, note))

    def _close_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
        self._spare = -1

    def _stop_listening(self) -> None:
        if self._listener is not None:
            try:
                self._listener.shutdown(socket.SHUT_RDWR)  # also where a fork has a copy
            except OSError:
                pass
            self._listener.close()
            self._listener = None

    def _close(self) -> None:
        self._close_spare()
        self._stop_listening()
        for sock in self._strangers:
            sock.close()
        for line in self._lines.values():
            try:
                line.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            line.close()
        self._lines, self._strangers = {}, []
