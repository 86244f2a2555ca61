#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""collectives_table.py on records whose answer is known."""
import contextlib
import io
import json
import sys
import tempfile
import xml.dom.minidom
from pathlib import Path

from collectives_table import groups_of, plot, print_table, read, size_text, ticks

COMMON = {"schema": "tilelace.collectives/1", "op": "all_reduce", "ranks": 4, "dtype": "bf16", "in_place": False,
          "symmetric": False, "algbw": 1.0, "busbw": 1.5, "plan": "chunks", "verified": True}
RECORDS = [
    COMMON | {"bytes": 1 << 20, "us": 100.0, "baselines": {"nccl": 200.0, "nccl_window": 400.0}},
    COMMON | {"bytes": 8192, "us": 4.0, "baselines": {"nccl": 8.0, "nccl_window": None}},
    COMMON | {"op": "all_gather", "bytes": 8160, "us": 4.0, "baselines": {}, "verified": False},
]


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"collectives_table_test: {what}, got {got}, expected {expected}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        file, svg = Path(folder) / "rows.jsonl", Path(folder) / "plot.svg"
        old = RECORDS[0] | {"us": 1.0}
        file.write_text("".join(json.dumps(r) + "\n" for r in (old, *RECORDS)), encoding="utf-8")
        groups = groups_of(read([file]))
        plot(groups, svg)
        drawn = xml.dom.minidom.parse(str(svg))
    expect("panels", list(groups), ["all_reduce, 4 ranks, bf16", "all_gather, 4 ranks, bf16"])
    # Ours twice, NCCL's two.
    expect("lines of the plot", len(drawn.getElementsByTagName("polyline")), 4)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for title, rows in groups.items():
            print_table(title, rows)
    for part in ("\n| 8K | 4.00 | 1.0 | 1.5 | 8.00 |  | 2.00 | chunks |\n| 1M | 100.0 |",
                 "baseline / ours: nccl 2.00, nccl_window 4.00, the fastest 2.00.", "| 8160 | 4.00 WRONG |"):
        expect(f"in the tables {part!r}", part in out.getvalue(), True)
    expect("a size", [size_text(s) for s in (8192, 3 << 20, 1000)], ["8K", "3M", "1000"])
    expect("ticks", ticks(3, 25), [5, 10, 20])
    expect("ticks of a wide axis", ticks(3, 2000), [10, 100, 1000])
    print("collectives_table_test: ok")


if __name__ == "__main__":
    main()
