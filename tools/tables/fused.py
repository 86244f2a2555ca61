# SPDX-License-Identifier: Apache-2.0
"""The fused ops beside NCCL, and beside other libraries."""
import sys
from typing import NamedTuple

from op_table import geomean
from tables.records import OPS, ROOT, mean_and_worst, records, table

BANDS = (("m to 64", 1, 64), ("m 65 to 1024", 65, 1024), ("m above", 1025, 1 << 60))
# Machines whose records have the fused ops beside NCCL's windows, too.
MACHINES = [("4 H200", "nvidia-h200-tp4/window"), ("2 H200", "nvidia-h200-tp2"), ("2 H100", "nvidia-h100-tp2"),
            ("8 H200", "nvidia-h200-tp8")]
PLOTTED = ("4 H200", "2 H200")
MODELS = {"llama2-70b": "llama70b", "qwen3-32b": "qwen32b", "gpt3-175b": "gpt3"}


class Row(NamedTuple):
    op: str
    m: int
    chosen: float  # NCCL and cuBLAS over the planner's choice
    best: float  # over the fastest plan that was timed
    over_gemm: float
    efficiency: float | None
    commit: str


def fused_rows(folder):
    rows = []
    for op in OPS:
        if not (ROOT / "benchmarks" / folder / f"{op}.jsonl").is_file():
            continue
        for r in records(f"{folder}/{op}.jsonl").values():
            peers = r["peers"] or {}
            if r["fused_us"] is None or "unfused_nccl_window" not in peers or r["verified"] is False:
                continue
            chosen = peers.get("fused_default") or r["fused_us"]
            rows.append(Row(op, r["m"], r["unfused_us"] / chosen, r["unfused_us"] / r["fused_us"],
                            r["fused_us"] / r["gemm_us"], r["efficiency"], r["commit"][:7]))
    return rows


def speed_up():
    lines = []
    for machine, folder in MACHINES:
        if machine not in PLOTTED:
            continue
        rows = fused_rows(folder)
        for op in OPS:
            of_op = [r for r in rows if r.op == op]
            if of_op:
                lines.append((machine, f"`{op}`", *(mean_and_worst([r.chosen for r in of_op if low <= r.m <= high])
                                                    for _, low, high in BANDS), len(of_op)))
    return table(["GPUs", "op", *(name for name, *_ in BANDS), "rows"], lines, 2)


def summary():
    lines = []
    for machine, folder in MACHINES:
        rows = fused_rows(folder)
        for op in OPS:
            for name, low, high in BANDS:
                band = [r for r in rows if r.op == op and low <= r.m <= high]
                if not band:
                    continue
                over = [r.over_gemm for r in band]
                es = [r.efficiency for r in band if r.efficiency is not None and r.best * r.over_gemm >= 1.1]
                lines.append((machine, f"`{op}`", name, len(band), mean_and_worst([r.chosen for r in band]),
                              mean_and_worst([r.best for r in band]), f"{min(over):.2f}-{max(over):.2f}",
                              f"{sum(es) / len(es):.2f} ({len(es)})" if es else "-"))
    return table(["GPUs", "op", "rows of all ranks", "records", "planner's choice: mean (worst)",
                  "best plan: mean (worst)", "best plan / GEMM", "E, mean"], lines, 3)


def ratio_of(record, ways):
    """The fastest of these peers over ours, as a user calls it (results in symmetric memory where peers' are)."""
    known = {"nccl": record["unfused_us"]} | record["peers"]  # older records have NCCL's there alone
    theirs = [us for name, us in known.items() if name in ways and us is not None]
    ours = [us for us in record["ours"].values() if us is not None]
    return min(theirs) / min(ours) if theirs and ours else None


def peer_cells(rows, ways):
    cells = []
    for op in OPS:
        ratios = [ratio_of(r, ways) for r in rows if r["op"] == op and r["verified"]]
        cells.append(mean_and_worst([ratio for ratio in ratios if ratio is not None]))
    return cells


def over_gemm_cells():
    """What a call takes over its library's own GEMM, cuBLASMp's and ours, of the rows that both have."""
    ours, theirs = {op: [] for op in OPS}, {op: [] for op in OPS}
    mine = {}
    for op in OPS:
        for r in records(f"nvidia-h200-tp4/window/{op}.jsonl").values():
            mine[r["op"], r["model"], r["m"]] = r
    for r in records("nvidia-h200-tp4/cublasmp.jsonl").values():
        match = mine.get((r["op"], MODELS.get(r["model"]), r["m"]))
        if match:
            ours[r["op"]].append((match["peers"].get("fused_default") or match["fused_us"]) / match["gemm_us"])
            theirs[r["op"]].append(r["medium_us"] / r["gemm_us"])
    return [f"{geomean(theirs[op]):.2f}, ours {geomean(ours[op]):.2f}" for op in OPS]


def peers():
    symm = ("symm_mem", "one_shot", "two_shot")
    two = records("nvidia-h200-tp2/peers.jsonl").values()
    listed = {"4 H200, measured plans": records("nvidia-h200-tp4/peers.jsonl").values(),
              "2 H200, measured plans": [r for r in two if r["tuning"] != "off"],
              "2 H200, untuned shapes": [r for r in two if r["tuning"] == "off"]}
    listed |= {f"{ranks} H100, untuned shapes": records(f"nvidia-h100-tp{ranks}/peers.jsonl").values()
               for ranks in (2, 4)}
    names = {name for rows in listed.values() for r in rows for name in r["peers"]}
    unknown = names - {*symm, "nccl", "nccl_window"}
    if unknown:
        sys.exit(f"write_tables: peers, got {', '.join(sorted(unknown))}, expected of symm_mem and NCCL")
    lines = [(where, *peer_cells(rows, symm), *peer_cells(rows, ("nccl", "nccl_window")))
             for where, rows in listed.items()]
    lines.append(("cuBLASMp, call / its GEMM: 4 H200, m from 1024", *over_gemm_cells(), "-", "-", "-"))
    ops = [f"`{op}`" for op in OPS]
    return table(["GPUs, plans", f"symm_mem: {ops[0]}", *ops[1:], f"NCCL: {ops[0]}", *ops[1:]], lines)


def gemm():
    """Ours beside cuBLASLt's best algorithm, a geometric mean by m."""
    rows = {}
    key = lambda r: (r["model"], r["layer"], r["ranks"], r["m"])
    for r in records("nvidia-h200/gemm.jsonl", key).values():
        rows.setdefault(r["m"], []).append(r["cublas_us"] / r["tilelace_us"])
    ms = sorted(rows)
    return table(["m", *map(str, ms)], [("mean", *(f"{geomean(rows[m]):.2f}" for m in ms)),
                                        ("worst", *(f"{min(rows[m]):.2f}" for m in ms))])
