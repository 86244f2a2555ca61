#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_bench/row_list.py on lines whose rows are known, and the lists in benchmarks/rows: those of
models have the sizes of models/, as torch_bench/model_sizes.py reads them."""
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "torch_bench"))

from model_sizes import CONFIGS, attention, experts, mlp
from row_list import mixed, read, rows_of

LISTS = {"users": 189, "fresh": 75, "fresh_few": 30}


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"row_list_test: {what}, got {got}, expected {expected}")


def error_of(line):
    try:
        rows_of(line)
    except ValueError as error:
        return str(error)
    return "none"


def layer_of(model, layer):
    """n and k."""
    hidden, wide = mlp(model)
    heads, kv_heads, head = attention(model)
    return {"qkv": ((heads * head, kv_heads * head, kv_heads * head), hidden), "attn_out": ((hidden,), heads * head),
            "up": ((wide,), hidden), "gate_up": ((wide, wide), hidden), "down": ((hidden,), wide)}[layer]


def main():
    rows = rows_of("ag_gemm 128,32 256 16,1 llama3.1-8b.qkv")
    expect("values of m", [r.m for r in rows], [16, 1])
    expect("weights", rows[0].n, (128, 32))
    expect("a name", (rows[0].model, rows[0].layer), ("llama3.1-8b", "qkv"))
    expect("without one", rows_of("gemm_ar 8 8 3")[0][4:], ("", False))
    expect("an activation", rows_of("ag_gemm 8,8 8 3 x swiglu")[0].swiglu, True)
    for line in ("ag_gemm 8 8", "mlp 8 8 1", "gemm_rs 8,8 8 1", "ag_gemm 8 8 0", "ag_gemm 8 8 1 x swiglu",
                 "ag_gemm 8,8 8 1 x gelu"):
        expect(line, f'"{line}"' in error_of(line), True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.txt"
        file.write_text("# remark\n\ngemm_rs 8 8 1,2  # more\ngemm_rs 8 8 2,3 again\n", encoding="utf-8")
        expect("a file", [(r.m, r.name) for r in read(file)], [(1, ""), (2, "again"), (3, "again")])
    for name, count in LISTS.items():
        rows = read(ROOT / "benchmarks" / "rows" / f"{name}.txt")
        expect(name, len(rows), count)
        expect(f"{name}, mixed", (sorted(mixed(rows)), mixed(rows)), (sorted(rows), mixed(rows)))
    for row in read(ROOT / "benchmarks" / "rows" / "users.txt"):
        expect(row.name, (row.n, row.k), layer_of(row.model, row.layer))
    for file in (CONFIGS / "moe").glob("*.json"):
        expect(file.name, [size > 0 for size in experts(file.stem)], 4 * [True])
    fresh = {row.key for row in read(ROOT / "benchmarks" / "rows" / "fresh.txt")}
    expect("rows of both", fresh & {row.key for row in read(ROOT / "benchmarks" / "rows" / "users.txt")}, set())
    print("row_list_test: ok")


if __name__ == "__main__":
    main()
