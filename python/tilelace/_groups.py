# SPDX-License-Identifier: Apache-2.0
"""Which communicator stands behind a torch.distributed group, made over the group's store."""
from __future__ import annotations

import atexit
import itertools
import json
import os
import re
import shutil
import tempfile
import weakref
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._errors import Error, call, usage
from ._library import has_cuda  # (registers the ops, too)

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Group = Union[str, "dist.ProcessGroup", "DeviceMesh", "tuple[DeviceMesh, Union[int, str]]", None]

DEFAULT_TIMEOUT_S = 300.0
_DEFAULTS = {"timeout": DEFAULT_TIMEOUT_S, "workers": 0, "max_workers": 0}

_joined: dict[tuple[str, str], weakref.ref[Any]] = {}
_settings: dict[str, dict[str, Any]] = {}
_joins: dict[tuple[str, str], itertools.count[int]] = {}
# Of groups that are gone. Their communicators end at a quiet time: whoever collects garbage may be
# in the middle of a graph's capture, or in a call.
_gone: list[tuple[str, str]] = []


def _group_of(group: Group) -> dist.ProcessGroup:
    if not dist.is_available() or not dist.is_initialized():
        raise usage(
            "group: got no process group, expected torch.distributed.init_process_group before"
        )
    if group is None:
        return c10d._get_default_group()
    if isinstance(group, str):
        try:
            return c10d._resolve_process_group(group)
        except (RuntimeError, ValueError, KeyError):
            raise usage(
                f'group: got the name "{group}", expected that of a process group that exists'
            ) from None
    if isinstance(group, dist.ProcessGroup):
        return group
    from torch.distributed.device_mesh import DeviceMesh  # takes longer than the rest

    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise usage(
                f"group: got a device mesh of {group.ndim} dimensions, "
                "expected one of 1 (mesh[name]) or (mesh, dimension)"
            )
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise usage("group: got one that this rank is no member of, expected one of its own")
    raise usage(
        f"group: got {type(group).__name__}, expected a ProcessGroup, its name, "
        "a DeviceMesh of one dimension or (DeviceMesh, dimension)"
    )


def group_name(group: Group = None) -> str:
    """The name that the ops take. None: the default group. Local. Errors: usage."""
    if isinstance(group, str):
        return group
    return str(_group_of(group).group_name)


def _live(name: str) -> dist.ProcessGroup | None:
    try:
        return c10d._resolve_process_group(name)
    except (RuntimeError, ValueError, KeyError):
        return None


def ensure(name: str, device: str) -> None:
    """Joins where that was not done yet. Collective then."""
    name = plain(name)
    _leave_gone()
    group = _live(name)
    known = _joined.get((name, device))
    if group is not None and known is not None and known() is group:
        return
    if known is not None:
        leave(name, device)
    if group is None:
        raise usage(
            f'group "{name}": got one that was destroyed or never made, expected one that exists'
        )
    _join(group, device)


def join(
    group: Group = None,
    *,
    device: str | torch.device | None = None,
    timeout: float | timedelta = DEFAULT_TIMEOUT_S,
    workers: int = 0,
    max_workers: int = 0,
) -> str:
    """Makes the communicator of a group, over the group's store; returns the group's name.

    Optional: a group's first call does it with these defaults, for its tensors' device. `device`:
    "cpu" or "cuda", by default that of the group's backend. `timeout`: bound of every wait, a
    timedelta or seconds, equal on every rank. `workers`: threads of a CPU rank, 0: cores / ranks.
    `max_workers`: multiprocessors that the group's calls may take of each GPU, 0: all. Where kernels
    that wait for peers may be on a GPU at the same time, another group's on another stream or
    NCCL's, all of them need places beside each other (docs/pytorch.md, "Beside other collectives").
    Collective. Errors: usage (ranks of several hosts, ranks that pass other values, a group with a
    backend for CPU and another for GPUs and no `device`), system, peer, timeout.
    """
    pg = _group_of(group)
    _leave_gone()
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    kind = torch.device(device).type if device is not None else default_device("join", pg)
    name = pg.group_name
    known = _joined.get((name, kind))
    if known is not None and known() is pg:
        raise usage(f'join: group "{name}": got one that joined for {kind} tensors, expected not')
    _settings[name] = {"timeout": seconds, "workers": workers, "max_workers": max_workers}
    _join(pg, kind)
    return name


def device_of(name: str) -> str:
    """The device that a group's calls are most likely for. Errors: usage (no such group)."""
    name = plain(name)
    return _joined_for(name) or _device_of(_group_of(name))


def _joined_for(name: str) -> str | None:
    """GPUs first."""
    return next((kind for kind in ("cuda", "cpu") if (name, kind) in _joined), None)


def default_device(what: str, pg: dist.ProcessGroup) -> str:
    """The device that a group joined for or else has a backend for. Errors: usage (two of them)."""
    name = pg.group_name
    known = [(kind, _joined.get((name, kind))) for kind in ("cuda", "cpu")]
    kinds = [kind for kind, ref in known if ref is not None and ref() is pg]
    if len(kinds) == 1:
        return kinds[0]
    if torch.cuda.is_available() and has_cuda():
        # "cpu:gloo,cuda:nccl"; gloo alone claims CUDA tensors, too.
        config = dist.get_backend_config(pg)
        backends = dict(b.split(":", 1) for b in config.split(",") if ":" in b)
        if "cpu" in backends and backends.get("cuda", backends["cpu"]) != backends["cpu"]:
            raise usage(f'{what}: device: got none for group "{name}" with {config}, '
                        'expected "cpu" or "cuda"')
    return _device_of(pg)


def _device_of(pg: dist.ProcessGroup) -> str:
    types = [d.type for d in pg._device_types]
    return "cuda" if "cuda" in types and "cpu" not in types else "cpu"


def _host() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _meet(pg: dist.ProcessGroup, device: str, mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Every rank's settings, by rank, through the store."""
    store = c10d._get_process_group_store(pg)
    rank, ranks = pg.rank(), pg.size()
    number = next(_joins.setdefault((pg.group_name, device), itertools.count()))
    keys = [f"tilelace/{pg.group_name}/{device}/{number}/{r}" for r in range(ranks)]
    store.set(keys[rank], json.dumps(mine))
    for peer, key in enumerate(keys):
        try:
            store.wait([key], timedelta(seconds=mine["timeout"]))
        except Exception as error:
            raise Error(
                "timeout",
                f'join: group "{pg.group_name}": rank {rank} waited {mine["timeout"]:g} s for rank '
                f"{peer}: got nothing from it, expected it to join ({type(error).__name__})",
            ) from None
    return [json.loads(store.get(key)) for key in keys]


def _check_same(name: str, all_ranks: list[dict[str, Any]]) -> None:
    """On every rank alike, so that every rank raises."""
    first = all_ranks[0]
    for what in ("host", *_DEFAULTS):
        for rank, other in enumerate(all_ranks):
            if other[what] != first[what]:
                raise usage(
                    f'join: group "{name}": {what}: got {other[what]} on rank {rank} and '
                    f"{first[what]} on rank 0, expected the same on every rank"
                )


def _join(pg: dist.ProcessGroup, device: str) -> None:
    name, rank = pg.group_name, pg.rank()
    settings = _settings.get(name, _DEFAULTS)
    directory = tempfile.mkdtemp(prefix="tilelace-") if rank == 0 else ""
    try:
        mine = {"host": _host(), "directory": directory, **settings}
        everyone = _meet(pg, device, mine)
        _check_same(name, everyone)
        index = torch.cuda.current_device() if device == "cuda" else -1
        call(
            torch.ops.tilelace._join, name, device, rank, pg.size(), everyone[0]["directory"],
            settings["timeout"], settings["workers"], settings["max_workers"], index,
        )
    finally:
        if directory:
            shutil.rmtree(directory, ignore_errors=True)
    _joined[(name, device)] = weakref.ref(pg)
    weakref.finalize(pg, _group_gone, name, device, os.getpid()).atexit = False


def _group_gone(name: str, device: str, process: int) -> None:
    known = _joined.get((name, device))
    if os.getpid() == process and known is not None and known() is None:
        del _joined[(name, device)]
        torch.ops.tilelace._retire(name, device)
        _gone.append((name, device))


def _capturing() -> bool:
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _leave_gone() -> None:
    """Ends the communicators of groups that are gone, unless a graph is being captured."""
    if _gone and not _capturing():
        _gone.clear()  # before: what is collected meanwhile has its turn later
        torch.ops.tilelace._leave_retired()


def leave(group: Group = None, device: str | torch.device | None = None) -> None:
    """Ends this rank's part in a group's communicator; a later call joins anew.

    Peers that are in a call then get an error of kind peer. Happens by itself after the group is
    destroyed, when a group is next used. `device`: "cpu" or "cuda", by default all that the group
    joined for. Local. Errors: usage (what is no group).
    """
    name = plain(group_name(group))
    _leave_gone()
    for key in list(_joined):
        if key[0] == name and (device is None or key[1] == torch.device(device).type):
            del _joined[key]
            torch.ops.tilelace._leave(*key)


def synchronize(group: Group = None, stream: torch.cuda.Stream | None = None) -> None:
    """Waits until the group's GPU work in a stream (default: the current one) is done.

    What the calls in it wrote is then there. Raises what went wrong in calls since the last time:
    a call on GPUs returns when it is enqueued. On CPU ranks there is nothing to wait for. Local.
    Errors: usage (ranks that disagree), peer, timeout, system.
    """
    name = plain(group_name(group))
    if (name, "cuda") in _joined:
        handle = (stream or torch.cuda.current_stream()).cuda_stream
        call(torch.ops.tilelace._synchronize, name, "cuda", handle)


def _device(name: str, device: str | torch.device | None) -> str:
    """The one that is asked for, else the one that the group joined for."""
    return torch.device(device).type if device is not None else _joined_for(name) or "cpu"


def abort(group: Group = None, device: str | torch.device | None = None) -> None:
    """Ends every wait of the group, on every rank, with an error of kind peer.

    The group's communicator refuses calls from then on; `leave` on every rank and a later call make
    another one. `device`: "cpu" or "cuda", by default the one that the group joined for. Local.
    Errors: usage (a group that did not join).
    """
    name = plain(group_name(group))
    call(torch.ops.tilelace._abort, name, _device(name, device))


def recover(group: Group = None, device: str | torch.device = "cuda") -> None:
    """Makes a group usable again whose GPU ranks made different calls.

    After an error of kind usage that came from different calls, or from one that a rank was refused
    while the others made it: until every rank has been here, calls are errors that say so. What was
    prepared stays so; CUDA graphs captured before are not to be replayed. `device`: "cpu" or
    "cuda". Collective. Errors: usage (a group that did not join), system, peer, timeout.
    """
    call(torch.ops.tilelace._prepare_again, plain(group_name(group)), torch.device(device).type)


def plans(group: Group = None, device: str | torch.device | None = None) -> list[str]:
    """Each problem that the group has prepared for, with its plan and the reason.

    docs/plans.md says how to read one. `device`: "cpu" or "cuda", by default the one that the group
    joined for. Local. Errors: usage (a group that did not join).
    """
    name = plain(group_name(group))
    return call(torch.ops.tilelace._plans, name, _device(name, device))


_QUALIFIED = re.compile(r"(.*)@(\d+)/(\d+)")


def plain(name: str) -> str:
    """Without what `qualified` appends."""
    if "@" not in name:
        return name
    match = _QUALIFIED.fullmatch(name)
    return match[1] if match else name


def qualified(group: Group) -> str:
    """The group's name, this rank and the number of ranks.

    Compiled graphs hold this: shapes of results depend on all three, and torch's caches of compiled
    graphs know nothing but the graph.
    """
    name = group_name(group)
    if _QUALIFIED.fullmatch(name):
        return name
    ranks, rank = size_and_rank(name)
    return f"{name}@{rank}/{ranks}"


def size_and_rank(name: str) -> tuple[int, int]:
    match = _QUALIFIED.fullmatch(name)
    if match:
        return int(match[3]), int(match[2])
    pg = _live(name)
    if pg is None:
        raise usage(
            f'group "{name}": got one that was destroyed or never made, expected one that exists'
        )
    return pg.size(), pg.rank()


@atexit.register
def _leave_all() -> None:
    _joined.clear()
    _gone.clear()
    torch.ops.tilelace._leave_all()
