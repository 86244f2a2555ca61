#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table of the GEMM against cuBLASLt, from benchmarks' JSON lines: ratio cuBLAS / Tilelace (above 1:
Tilelace is faster), one line a model, side and degree, one column an m.

usage: gemm_table.py [FILE] (default benchmarks/nvidia-h200/gemm.jsonl)
"""
import json
import math
import sys
from pathlib import Path


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv:
        sys.exit(__doc__)
    default = Path(__file__).resolve().parent.parent / "benchmarks/nvidia-h200/gemm.jsonl"
    path = Path(sys.argv[1]) if len(sys.argv) == 2 else default
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        sys.exit(f"gemm_table: {path}, got {error}, expected JSON lines of gpu_gemm_bench")
    ms = sorted({r["m"] for r in rows})
    keys = list(dict.fromkeys((r["model"], r["layer"], r["ranks"]) for r in rows))
    cells = {(r["model"], r["layer"], r["ranks"], r["m"]): r["speedup"] for r in rows}
    print("| model | side | TP | " + " | ".join(map(str, ms)) + " |")
    print("|---|---|---|" + "---|" * len(ms))
    for key in sorted(keys):
        values = [cells.get((*key, m)) for m in ms]
        text = " | ".join("" if v is None else f"{v:.2f}" for v in values)
        print(f"| {key[0]} | {key[1]} | {key[2]} | {text} |")
    means = " | ".join(f"{geomean([r['speedup'] for r in rows if r['m'] == m]):.3f}" for m in ms)
    print(f"| geomean | | | {means} |")


if __name__ == "__main__":
    main()
