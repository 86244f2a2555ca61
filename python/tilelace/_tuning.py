# SPDX-License-Identifier: Apache-2.0
"""Tuning: measures plans on this group's GPUs."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from . import _groups
from ._dtypes import DTYPES
from ._errors import Error, call, usage
from ._groups import Group

# Tokens of decoding, of chunks of a prompt, and of prompts.
USUAL_SIZES = (1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class Problem(NamedTuple):
    """One rank's problem: all that its plan depends on.

    `op`: "ag_gemm", "gemm_rs" or "gemm_ar". `m`: rows (tokens) of all ranks together. `n`: columns of
    each weight; `k`: terms on one rank. `dtype` None: the first type that GPUs take (bfloat16).
    `swiglu`: ag_gemm with two weights, gate and up.
    """

    op: str
    m: int
    n: int | Sequence[int]
    k: int
    dtype: torch.dtype | None = None
    swiglu: bool = False


class Tuned(NamedTuple):
    """A problem's fastest plan.

    `us`: microseconds per call on the slowest rank. `predicted_us`: the same for the plan that the
    prediction chose; 0 if it was not timed. `plans`: the number of plans timed. `plan`: the problem
    and its plan as text.
    """

    us: float
    predicted_us: float
    plans: int
    plan: str


def _of_model(model: torch.nn.Module, name: str, sizes: Iterable[int]) -> Iterator[Problem]:
    """The problems of the forward passes of this group's layers: tilelace.nn's and those of styles."""
    from . import nn
    from ._linear import ParallelLinear

    for m in sizes:
        for layer in model.modules():
            asked = getattr(getattr(layer, "forward", None), "problem", lambda m: None)(m)
            if asked is not None and _groups.plain(asked[0]) == name:
                yield asked[1]
            if isinstance(layer, nn.ParallelMLP) and layer.gated:
                fc1 = layer.linear_fc1
                if _groups.plain(fc1.group_name) == name and fc1.sequence_parallel:
                    n, k = fc1.weight.shape
                    yield Problem("ag_gemm", m, (n // 2, n // 2), k, fc1.weight.dtype, True)
            if not isinstance(layer, ParallelLinear) or (
                    _groups.plain(layer.group_name) != name):
                continue
            n, k = layer.weight.shape
            if isinstance(layer, nn.RowParallelLinear):
                op = "gemm_rs" if layer.sequence_parallel else "gemm_ar"
                yield Problem(op, m, n, k, layer.weight.dtype)
            elif layer.sequence_parallel:
                yield Problem("ag_gemm", m, n, k, layer.weight.dtype)


def _listed(problems: Any, name: str, m: Iterable[int]) -> list[Problem]:
    if not isinstance(problems, torch.nn.Module):
        return [Problem(*p) for p in problems]
    listed = list(_of_model(problems, name, m))
    if not listed:
        raise usage(f'tune: the model has no layer of tilelace that communicates in group "{name}"')
    return listed


def _line(problem: Problem) -> str:
    op, m, n, k, dtype, swiglu = Problem(*problem)
    names = {row.dtype: row.name for row in DTYPES if row.on_gpus}
    dtype = next(iter(names)) if dtype is None else dtype
    if dtype not in names:
        raise usage(f"tune: dtype: got {dtype}, expected one of {', '.join(map(str, names))}")
    widths = [n] if isinstance(n, int) else list(n)
    return " ".join(map(str, [op, names[dtype], int(swiglu), int(m), int(k), *map(int, widths)]))


def tune(
    problems: torch.nn.Module | Iterable[Problem | tuple[object, ...]],
    group: Group = None,
    *,
    m: Iterable[int] = USUAL_SIZES,
    minutes: float = 8.0,
    out: str | os.PathLike[str] | None = None,
    candidates: int = 3,
    again: bool = False,
    force: bool = False,
) -> list[Tuned]:
    """Times each problem's plans on this group's GPUs; later calls use the fastest.

    `problems`: Problems, tuples like them, or a model; a model's layers of tilelace.nn,
    tilelace.tensor_parallel and tilelace.transformers are tuned for each `m` tokens. Problems that
    the group's tables already have are skipped, unless `again`.
    `minutes`: no problem is begun after this time. `out`: a table (docs/tuning.md) that rank 0
    writes; rows that the file already has are kept. `candidates`: plans of each kind to time.
    `force`: also tune on GPUs that are shared or throttled. A plan fixes the order of sums, so
    results may differ in their last bits from earlier ones. Collective: the same arguments on every
    rank, outside of graph captures; joins the group if it has not joined. Memory: operands of one
    problem. Errors: usage (CPU ranks, problems that GPUs do not support or that differ between
    ranks), system (a wrong result, a GPU that is throttled or shared), peer, timeout.
    """
    pg = _groups._group_of(group)
    name = _groups.plain(pg.group_name)
    lines, refusal = "", ""
    try:
        lines = "\n".join(map(_line, _listed(problems, name, m)))
    except (Error, OverflowError, TypeError, ValueError) as error:
        refusal = str(error) if isinstance(error, Error) else f"tune: problems: {error}"
    device = _groups.default_device("tune", pg)
    _groups.ensure(name, device)
    found = call(torch.ops.tilelace._tune, name, device, lines, refusal, 60.0 * minutes, candidates, again,
                 force, "" if out is None else os.fsdecode(out))
    tuned = []
    for line in found:
        us, predicted_us, plans, plan = line.split(" ", 3)
        tuned.append(Tuned(float(us), float(predicted_us), int(plans), plan))
    return tuned
