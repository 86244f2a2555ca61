# SPDX-License-Identifier: Apache-2.0
"""The communicator of each torch.distributed group. Ranks find each other through the group's store."""
from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._errors import Error, call, usage
from ._library import has_cuda  # (registers the ops, too)
from ._lines import Told
from ._meeting import Meeting
from ._names import (  # noqa: F401  (the rest of the package has them from here)
    Group,
    _group_of,
    _live,
    group_name,
    is_forked,
    plain,
    qualified,
    require_own,
    size_and_rank,
)
from ._notes import Order, Place
from ._settings import check, settings_of

DEFAULT_TIMEOUT_S = 300.0
DEVICES = ("cuda", "cpu")


class _Known:
    """What this process knows about a group, as long as the group object lives."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] | None = None  # that all members last agreed on
        self.told = Told()
        self.failed: set[str] = set()  # devices of communicators whose failure peers were told
        self.joining: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by device
        self.notes: dict[str, Order] = defaultdict(Order)  # by device


_of_groups: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
_joined: dict[tuple[str, str], weakref.ref[Any]] = {}
_indices: dict[tuple[str, str], int] = {}  # of the GPUs that groups joined with
# Of groups that are gone. Their communicators end at a quiet time: whoever collects garbage may be
# in the middle of a graph's capture, or in a call.
_gone: list[tuple[str, str]] = []


def _known(pg: dist.ProcessGroup) -> _Known:
    return _of_groups.setdefault(pg, _Known())


def _is_joined(group: dist.ProcessGroup | None, name: str, device: str) -> bool:
    known = _joined.get((name, device))
    return group is not None and known is not None and known() is group


def ensure(name: str, device: str, index: int = -1) -> None:
    """Joins if the group has not joined yet, with the GPU of this index. Collective if it joins."""
    name = plain(name)
    _leave_gone()
    group = _live(name)
    if _is_joined(group, name, device):
        return
    if (name, device) in _joined:
        leave(name, device)
    if group is None:
        raise usage(
            f'group "{name}" was destroyed or never made'
        )
    require_own(group)
    with _known(group).joining[device]:
        if not _is_joined(group, name, device):  # by another thread meanwhile
            _join(group, device, _known(group).settings or settings_of(DEFAULT_TIMEOUT_S), index)


def join(
    group: Group = None,
    *,
    device: str | torch.device | None = None,
    timeout: float | timedelta = DEFAULT_TIMEOUT_S,
    workers: int = 0,
    max_workers: int = 0,
    tuning: str | os.PathLike[str] | None = None,
    autotune: float = 0.0,
    deterministic: bool = False,
    cache: str | os.PathLike[str] | None = None,
    plans: Mapping[str, str] | None = None,
) -> str:
    """Makes the communicator of a group through the group's store; returns the group's name.

    Optional: a group's first call joins with these defaults, for its tensors' device. After `leave`
    it joins with the settings of the last join. `device`: "cpu" or "cuda", by default that of the
    group's backend. "cuda:1" names the GPU; otherwise it is the group's (device_id of
    init_process_group) or the current one. `timeout`: bound of every wait, a timedelta or seconds,
    equal on every rank. It also bounds the wait for ranks that have not called yet. `workers`:
    threads of a CPU rank, 0: cores / ranks.
    `max_workers`: SMs that the group's calls may use on each GPU, 0: all. If kernels that wait for
    peers run on a GPU at the same time (another group's in another stream, or NCCL's), there must be
    enough SMs for all of them (docs/pytorch.md, "Beside other collectives").
    `tuning`: a table of measured plans (docs/tuning.md), "off" for none. None: the file that
    TILELACE_TUNING names, else the package's tables for these GPUs. `autotune`: seconds that all
    ranks may spend timing plans in the first call of a problem without a row, outside of graph
    captures. Results of that problem may then differ in their last bits from run to run;
    `deterministic` forbids that. `cache`: a folder that keeps the tuned plans. CPU ranks use no
    table and have nothing to tune; they log that once.
    `plans`: choices by op that no plan may make otherwise, {"gemm_ar": "path=unfused,transport=pull"};
    keys and values are those of `tilelace plan --help`. A call that no such plan can make is an error.
    Collective. If one rank cannot join, none does: all raise its error and may try again in the same
    group. Errors: usage (ranks of several hosts, settings that differ between ranks, no `device` in a
    group with one backend for CPU and another for GPUs), system, peer, timeout.
    """
    pg = _group_of(group)
    require_own(pg)
    _leave_gone()
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    settings = settings_of(timeout, workers, max_workers, tuning, autotune, deterministic, cache, plans)
    try:
        kind, index = _join_device(pg, device)
    except Error as error:
        _tell(pg, DEVICES, error)
        raise
    name = pg.group_name
    with _known(pg).joining[kind]:
        if not _is_joined(pg, name, kind):
            _join(pg, kind, settings, index)
            return name
    try:
        raise usage(f'join: group "{name}" has already joined for {kind} tensors: '
                    'call tilelace.leave on every rank first')
    except Error as error:
        _tell(pg, (kind,), error)
        raise
    return name


def _join_device(pg: dist.ProcessGroup, device: str | torch.device | None) -> tuple[str, int]:
    if device is None:
        return default_device("join", pg), -1
    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError):
        raise usage(f"join: device: got {device!r}, expected cpu or cuda") from None
    if asked.type not in DEVICES:
        raise usage(f"join: device: got {asked}, expected cpu or cuda")
    return asked.type, index_in(asked) if asked.type == "cuda" else -1


def device_of(name: str) -> str:
    """The device that a group's calls are most likely for. Errors: usage (no such group)."""
    name = plain(name)
    return _joined_for(name) or _device_of(_group_of(name))


def _joined_for(name: str) -> str | None:
    """GPUs first."""
    return next((kind for kind in DEVICES if (name, kind) in _joined), None)


def default_device(what: str, pg: dist.ProcessGroup) -> str:
    """The device that a group joined for, else that of its backend. Errors: usage (two of them)."""
    name = pg.group_name
    kinds = [kind for kind in DEVICES if _is_joined(pg, name, kind)]
    if len(kinds) == 1:
        return kinds[0]
    if torch.cuda.is_available() and has_cuda():
        # "cpu:gloo,cuda:nccl"; gloo alone claims CUDA tensors, too.
        config = dist.get_backend_config(pg)
        backends = dict(b.split(":", 1) for b in config.split(",") if ":" in b)
        if "cpu" in backends and backends.get("cuda", backends["cpu"]) != backends["cpu"]:
            raise usage(f'{what}: device: group "{name}" has backends for cpu and cuda ({config}): '
                        'pass device="cpu" or "cuda" to tilelace.join')
    return _device_of(pg)


def _device_of(pg: dist.ProcessGroup) -> str:
    types = [d.type for d in pg._device_types]
    return "cuda" if "cuda" in types and "cpu" not in types else "cpu"


def index_in(device: str | torch.device | None) -> int:
    """1 of "cuda:1"; -1: it names none."""
    index = None if device is None else torch.device(device).index
    return -1 if index is None else index


def gpu_of(name: str) -> int:
    """The index that a group joined with."""
    return _indices[(plain(name), "cuda")]


def joined_gpus() -> list[int]:
    """The GPUs that groups joined with, groups that have left included: their tensors may live on."""
    return [index for (_, kind), index in _indices.items() if kind == "cuda"]


def _index_of(pg: dist.ProcessGroup, device: str, index: int) -> int:
    """The GPU to join with: the tensors' own, else the group's, else the current one. -1: CPU ranks."""
    if device != "cuda":
        return -1
    if index >= 0:
        return index
    bound = getattr(pg, "bound_device_id", None)
    return torch.cuda.current_device() if bound is None or bound.index is None else bound.index


def _place_of(pg: dist.ProcessGroup, device: str) -> Place:
    try:
        store = c10d._get_process_group_store(pg)
        members = dist.get_process_group_ranks(pg)
        shown = c10d._get_default_store()
    except (KeyError, ValueError):
        raise usage(f'group "{pg.group_name}" has no store: pass a group that '
                    "torch.distributed made (init_process_group, new_group)") from None
    return Place(store, [f"tilelace/{pg.group_name}/{device}/{r}" for r in range(pg.size())],
                 shown, [f"tilelace/shown/{r}" for r in members],
                 _known(pg).notes[device])


def _join(pg: dist.ProcessGroup, device: str, settings: dict[str, Any], index: int) -> None:
    """One attempt. Any error in it is sent to all members."""
    name, known = pg.group_name, _known(pg)
    meeting = Meeting(name, pg.rank(), _place_of(pg, device), known.told)
    try:
        check(name, settings)
        index = _index_of(pg, device, index)
        sockets = meeting.run(settings)
        known.settings = settings  # all have these
        _joined.pop((name, device), None)  # of a group that had this name, or of a parent
        torch.ops.tilelace._leave(name, device)
        try:
            call(torch.ops.tilelace._join, name, device, pg.rank(), sockets, settings["timeout"],
                 settings["workers"], settings["max_workers"], index, settings["tuning"],
                 settings["autotune"], settings["deterministic"], settings["cache"],
                 [" ".join(plan) for plan in settings["plans"].items()])
        except Error as error:
            raise meeting.behind(error) from None
    except BaseException as error:
        torch.ops.tilelace._leave(name, device)  # where only this thread was stopped
        meeting.fail(error)
        if isinstance(error, Error) or not isinstance(error, Exception):
            raise
        raise Error("system", f'join: group "{name}": rank {pg.rank()} could not join: '
                    f"{type(error).__name__}: {error}") from error
    meeting.succeed()
    _joined[(name, device)] = weakref.ref(pg)
    _indices[(name, device)] = index
    weakref.finalize(pg, _group_gone, name, device, os.getpid()).atexit = False


def _tell(pg: dist.ProcessGroup, devices: Sequence[str], error: BaseException) -> None:
    """Tells members that wait for this one that it will not join."""
    for device in devices:
        _known(pg).failed.add(device)
        with contextlib.suppress(Error):  # no store: nobody waits
            place = _place_of(pg, device)
            Meeting(pg.group_name, pg.rank(), place, _known(pg).told).fail(error, joined=True)


def tell_failed(name: str, device: str, error: Error) -> None:
    """After a failed call: tells members that have left and wait to join again."""
    pg = _live(plain(name))
    if error.kind != "usage" and pg is not None and not is_forked(pg):
        _tell(pg, (device,), error)


def _after_fork() -> None:
    """In a forked child: joined groups belong to the parent."""
    for known in (_joined, _gone, _indices, _of_groups):
        known.clear()


os.register_at_fork(after_in_child=_after_fork)


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
    """Leaves a group's communicator; a later call joins again.

    Peers in a call get an error of kind peer. If the group was destroyed, the next use of any group
    leaves it. `device`: "cpu" or "cuda", by default all that the group joined for. Local.
    Errors: usage (not a group).
    """
    name = plain(group_name(group))
    _leave_gone()
    for key in list(_joined):
        if key[0] == name and (device is None or key[1] == torch.device(device).type):
            pg: Any = _joined.pop(key)()
            torch.ops.tilelace._leave(*key)
            live = _live(name)
            if live is not None and pg is live and key[1] in _known(live).failed:
                _known(live).failed.remove(key[1])
                Meeting(name, live.rank(), _place_of(live, key[1]), Told()).left()


def synchronize(group: Group = None, stream: torch.cuda.Stream | None = None) -> None:
    """Waits until the group's GPU work in a stream (default: the current one) is done.

    All results of these calls are then in memory. Raises an error that these calls met: a call on
    GPUs returns before it runs. Returns at once on CPU ranks. Local.
    Errors: usage (ranks that disagree), peer, timeout, system.
    """
    name = plain(group_name(group))
    if (name, "cuda") in _joined:
        handle = (stream or torch.cuda.current_stream(gpu_of(name))).cuda_stream
        try:
            call(torch.ops.tilelace._synchronize, name, "cuda", handle)
        except Error as error:
            tell_failed(name, "cuda", error)
            raise


def _device(name: str, device: str | torch.device | None) -> str:
    """The given device, else the one that the group joined for."""
    return torch.device(device).type if device is not None else _joined_for(name) or "cpu"


def abort(group: Group = None, device: str | torch.device | None = None) -> None:
    """Ends every wait of the group, on every rank, with an error of kind peer.

    The group's communicator then refuses calls. To go on, call `leave` on every rank; the next call
    joins again. `device`: "cpu" or "cuda", by default the one that the group joined for. Local.
    Errors: usage (a group that did not join).
    """
    name = plain(group_name(group))
    call(torch.ops.tilelace._abort, name, _device(name, device))


def recover(group: Group = None, device: str | torch.device = "cuda") -> None:
    """Makes a group usable again after its GPU ranks made different calls.

    Needed after an error of kind usage because ranks made different calls, or because one rank's
    call was refused while the others made theirs. Until every rank has called `recover`, calls
    raise an error that says so. Prepared problems stay prepared. Do not replay CUDA graphs captured
    before. `device`: "cpu" or "cuda". Collective. Errors: usage (a group that did not join),
    system, peer, timeout.
    """
    call(torch.ops.tilelace._prepare_again, plain(group_name(group)), torch.device(device).type)


def plans(group: Group = None, device: str | torch.device | None = None) -> list[str]:
    """Each problem that the group has prepared, with its plan and the reason for it.

    docs/plans.md explains the text. `device`: "cpu" or "cuda", by default the one that the group
    joined for. Local. Errors: usage (a group that did not join).
    """
    name = plain(group_name(group))
    return call(torch.ops.tilelace._plans, name, _device(name, device))


@atexit.register
def _leave_all() -> None:
    _joined.clear()
    _gone.clear()
    torch.ops.tilelace._leave_all()
