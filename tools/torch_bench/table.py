#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables (Markdown, to standard output) of torch_bench's JSON lines: us (layers: ms) in CUDA graphs.

usage: table.py FILE.jsonl...

The last columns: the fastest of what PyTorch has over each way of ours; above 1 ours is faster, rows
below it are bold. Later lines replace earlier ones of the same row. What was wrong says so.
"""
import json
import math
import sys

NAMES = {"symm_mem": "symm_mem fused", "one_shot": "GEMM + one-shot", "two_shot": "GEMM + two-shot",
         "tilelace": "tilelace", "tilelace_out": "tilelace, out of tilelace.empty"}


def read(paths):
    rows = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    r = json.loads(line)
                    rows[(r["op"], r["ranks"], r["model"], r["m"])] = r
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"table: {path}, got {error!r}, expected JSON lines of torch_bench")
    if not rows:
        sys.exit("table: got no row, expected one")
    return rows


def number(us):
    return "" if us is None else f"{us:.1f}"


def ratios_of(row):
    """By way of ours: the fastest of the others over it."""
    others = [us for us in (row["unfused_us"], *row["peers"].values()) if us is not None]
    return {name: min(others) / us for name, us in row["ours"].items()}


def shown(ratio):
    return f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"


def print_op(op, rows):
    peers, ours = list(rows[0]["peers"]), list(rows[0]["ours"])
    print(f"\n### {op}\n")
    head = ["model", "TP", "m", "n", "k", "GEMM alone", "GEMM and NCCL", *(NAMES[p] for p in peers),
            *(NAMES[o] for o in ours), *(f"best other / {o}" for o in ours)]
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for r in rows:
        ratios = ratios_of(r)
        figures = [r["gemm_us"], r["unfused_us"], *r["peers"].values(), *r["ours"].values()]
        eager = [p for p in peers if r["peers"][p] is not None and r["peers"][p] == r["eager_us"].get(p)]
        remark = f" WRONG: {', '.join(r['wrong'])}" if r["wrong"] else ""
        remark += f" ({', '.join(eager)}: eager, could not be captured)" if eager else ""
        cells = [r["model"] + remark, *(str(r[c]) for c in ("ranks", "m", "n", "k")), *map(number, figures),
                 *(shown(ratios[o]) for o in ours)]
        print("| " + " | ".join(cells) + " |")
    print("\n| best other over | rows | slower rows | geometric mean | worst |\n|---|---:|---:|---:|---:|")
    for name in ours:
        values = [ratios_of(r)[name] for r in rows]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"| {name} | {len(values)} | {sum(v < 1 for v in values)} | {mean:.2f} | {min(values):.2f} |")


def print_stack(rows):
    """Layers: ms, of every way; the best of NCCL's over the best of ours, and of all others'."""
    ways = list(dict.fromkeys(way for r in rows for way in r["peers"]))
    print("\n### layers\n")
    head = ["layers", "TP", "m", *ways, "NCCL / tilelace", "best other / tilelace"]
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for r in rows:
        remark = f" WRONG: {', '.join(r['wrong'])}" if r["wrong"] else ""
        best = min(us for way, us in r["peers"].items() if way.startswith("tilelace"))
        others = min(us for way, us in r["peers"].items() if not way.startswith("tilelace"))
        times = (f"{r['peers'][w] / 1000:.2f}" if w in r["peers"] else "" for w in ways)
        cells = [f"{r['model']}, {r['layer']}{remark}", str(r["ranks"]), str(r["m"]), *times,
                 shown(r["unfused_us"] / best), shown(others / best)]
        print("| " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    rows = read(sys.argv[1:])
    for op in dict.fromkeys(key[0] for key in rows):
        of_op = [rows[key] for key in sorted(rows, key=lambda k: k[1:]) if key[0] == op]
        (print_stack(of_op) if op == "stack" else print_op(op, of_op))


if __name__ == "__main__":
    main()
