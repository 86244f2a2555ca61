# SPDX-License-Identifier: Apache-2.0
"""Layers of experts, and their products."""
from op_table import geomean
from tables.records import ROOT, gpus_of, records, table, times


def expert_layers():
    """us of a layer of 8192 tokens, ours and of NCCL with torch._grouped_mm."""
    lines = []
    for path in sorted((ROOT / "benchmarks").glob("*/moe_layer.jsonl")):
        key = lambda r: (r["model"], r["m"], r["routing"])
        for r in records(f"{path.parent.name}/{path.name}", key).values():
            if r["m"] == 8192 and r["verified"]:
                lines.append((gpus_of(r), r["model"], r["routing"], *map(times, r["us"].values()),
                              f"{r['ratio']:.2f}"))
    return table(["GPUs", "model", "routing", "ours", "NCCL, `_grouped_mm`", "ratio"], lines, 3)


def expert_products():
    """torch._grouped_mm over grouped_gemm, up and down; and ours over an equal dense product of cuBLASLt."""
    key = lambda r: (r["model"], r["m"], r.get("side"), r["form"], r.get("routing", "uniform"))
    rows = records("nvidia-h200/moe.jsonl", lambda r: key(r) if "form" in r else r["pass"])
    ours = {k[:3]: r["us"] for k, r in rows.items() if k[4:] == ("uniform",) and r.get("taken")}
    ms, lines = sorted({m for _, m, _ in ours}), []
    for model in dict.fromkeys(name for name, *_ in ours):
        cells = []
        for m in ms:
            of = [ours[model, m, side] for side in ("up", "down")]
            others = {form: [rows[model, m, side, form, "uniform"]["us"] for side in ("up", "down")]
                      for form in ("torch._grouped_mm", "dense")}
            cells += [f"{geomean([b / a for a, b in zip(of, theirs)]):.2f}" for theirs in others.values()]
        lines.append((model, *cells))
    return table(["model", *(f"{name}, m {m}" for m in ms for name in ("torch", "dense"))], lines, 1)
