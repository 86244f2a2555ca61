# SPDX-License-Identifier: Apache-2.0
"""Reads records of benchmarks/, and lays out tables."""
import json
import re
from pathlib import Path

from op_table import geomean

ROOT = Path(__file__).resolve().parents[2]
OPS = ("ag_gemm", "gemm_rs", "gemm_ar")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def records(path, key=lambda r: (r["op"], r["model"], r["layer"], r["ranks"], r["m"], r["n"], r["k"])):
    """The last record of each row."""
    rows = {}
    for line in (ROOT / "benchmarks" / path).read_text(encoding="utf-8").splitlines():
        r = json.loads(line)
        rows[key(r)] = r
    return rows


def gpus_of(record):
    """As tables name them: 2 H200."""
    return f"{record['ranks']} " + re.sub(r"^NVIDIA (\w+).*", r"\1", record["device"])


def table(head, rows, numbers_from=1):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "".join("---:|" if i >= numbers_from else "---|" for i in range(len(head)))]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def mean_and_worst(values):
    return f"{geomean(values):.2f} ({min(values):.2f})" if values else "-"


def times(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"
