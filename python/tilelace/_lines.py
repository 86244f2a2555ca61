# SPDX-License-Identifier: Apache-2.0
"""Connections between members of a group that are joining, and what a process knows of attempts."""
from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Sequence

from ._notes import Note


class Told(set[str]):
    """Attempts whose failure this process has raised, and when it last raised one."""

    until = 0.0
    last: Note | None = None  # this process's own failed attempt: its id, when, the cause


class Line:
    """A connection to a peer's attempt."""

    def __init__(self, sock: socket.socket, note: Note) -> None:
        self.sock, self.attempt, self.process = sock, note["id"], note["process"]
        self.said: list[str] = []
        self.heard: list[str] = []
        self.ahead = False  # the peer has met everyone: what comes next is for the library
        self.pidfd = _pidfd_of(sock)

    def close(self) -> None:
        self.sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


def _credentials(sock: socket.socket) -> tuple[int, int, int]:
    """pid, uid, gid of who made the other end."""
    return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def is_own_user(sock: socket.socket) -> bool:
    return _credentials(sock)[1] == os.geteuid()


def _pidfd_of(sock: socket.socket) -> int:
    """Readable when the peer's process ends, also where a fork keeps its sockets open. -1: none."""
    try:
        return os.pidfd_open(_credentials(sock)[0])
    except (AttributeError, OSError):
        return -1


def new_socket() -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    return sock


def polled(what: socket.socket | int, events: int) -> bool:
    poll = select.poll()
    poll.register(what, events)
    return bool(poll.poll(0))


def ranks_text(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
