# SPDX-License-Identifier: Apache-2.0
"""The name of a torch.distributed group, and which process it belongs to."""
from __future__ import annotations

import json
import os
import re
import weakref
from typing import TYPE_CHECKING, Any, Union

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._errors import usage
from ._notes import begin, process

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Group = Union[str, "dist.ProcessGroup", "DeviceMesh", "tuple[DeviceMesh, int | str]", None]

# The default group whose members know this process.
_shown: Any = lambda: None
# Groups that were there before this process was forked from `_parent`.
_forked: weakref.WeakSet[Any] = weakref.WeakSet()
_parent = 0


def is_forked(pg: dist.ProcessGroup) -> bool:
    """Whether it is the parent's, as is its store's connection."""
    return bool(_parent) and pg in _forked


def _after_fork() -> None:
    global _parent
    _parent = os.getppid()
    if dist.is_available():
        _forked.update(c10d._world.pg_map)


os.register_at_fork(after_in_child=_after_fork)


def require_own(pg: dist.ProcessGroup) -> None:
    if is_forked(pg):
        raise usage(f'group "{pg.group_name}": process {os.getpid()} was forked from '
                    f"{_parent} after the group was made: only the process that made the group can use it")


def _show() -> None:
    """Lets members of all groups see when this process ends, also before it first joins."""
    global _shown
    pg = c10d.GroupMember.WORLD if dist.is_available() else None
    if pg is _shown() or pg is None or is_forked(pg):
        return
    _shown = weakref.ref(pg)
    store, key = c10d._get_default_store(), f"tilelace/shown/{pg.rank()}"
    begin(lambda: store.set(key, json.dumps(process())))


def _group_of(group: Group) -> dist.ProcessGroup:
    _show()
    if not dist.is_available() or not dist.is_initialized():
        raise usage(
            "group: there is no process group: call torch.distributed.init_process_group first"
        )
    if group is None:
        return c10d._get_default_group()
    if isinstance(group, str):
        name: Any = group
        try:
            return c10d._resolve_process_group(name)
        except (RuntimeError, ValueError, KeyError):
            raise usage(
                f'group: no process group has the name "{group}"'
            ) from None
    if isinstance(group, dist.ProcessGroup):
        return group
    from torch.distributed.device_mesh import DeviceMesh  # takes longer than the rest

    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise usage(
                f"group: got a device mesh of {group.ndim} dimensions, "
                "expected a mesh of one dimension (mesh[name]), or the pair (mesh, dimension)"
            )
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise usage("group: this rank is not in the group")
    raise usage(
        f"group: got {type(group).__name__}, expected a ProcessGroup, its name, "
        "a DeviceMesh of one dimension or (DeviceMesh, dimension)"
    )


def group_name(group: Group = None) -> str:
    """The name that the ops take. None: the default group. Local. Errors: usage."""
    if isinstance(group, str):
        return group
    return str(_group_of(group).group_name)


def _live(name: Any) -> dist.ProcessGroup | None:
    try:
        return c10d._resolve_process_group(name)
    except (RuntimeError, ValueError, KeyError):
        return None


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
            f'group "{name}" was destroyed or never made'
        )
    return pg.size(), pg.rank()


_show()
