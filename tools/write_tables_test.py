#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""write_tables.py on texts and records whose answer is known."""
import sys
import xml.dom.minidom

from tables.checked import Checked, dtypes, ops
from tables.fused import PLOTTED, ratio_of
from tables.plot import plot
from tables.records import OPS, mean_and_worst, table
from write_tables import with_block

RECORD = {"unfused_us": 12.0, "peers": {"symm_mem": 15.0, "one_shot": None}, "ours": {"tilelace": 10.0, "out": None}}


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"write_tables_test: {what}, got {got}, expected {expected}")


def main():
    page = "a\n<!-- one -->\nold\nrows\n<!-- end -->\nb\n<!-- two -->\n<!-- end -->\n"
    expect("a block", with_block("page", page, "one", ["new"]), page.replace("old\nrows", "new"))
    expect("an empty block", with_block("page", page, "two", []), page)
    expect("a table", table(["a", "b"], [(1, "x")]), ["| a | b |", "|---|---:|", "| 1 | x |"])
    expect("mean and worst", mean_and_worst([1.0, 4.0]), "2.00 (1.00)")
    expect("the peers' ratio", ratio_of(RECORD, ("symm_mem", "one_shot")), 1.5)
    expect("NCCL's, from the unfused time", ratio_of(RECORD, ("nccl", "nccl_window")), 1.2)
    expect("types of GPUs", [name for name, on_gpus in dtypes() if on_gpus][:2], ["bf16", "fp16"])
    expect("the first ops", ops()[:3], list(OPS))
    none = Checked("no such device")
    expect("a cell without records", none.cell("ag_gemm", "bf16"), "builds")
    none.shapes, none.wrong, none.ranks = {("x", "bf16"): 1500}, {("x", "bf16"): 2}, {("x", "bf16"): {2, 4}}
    expect("a cell of wrong results", none.cell("x", "bf16"), "1,500 on 2-4, 2 WRONG")
    panels = xml.dom.minidom.parseString(plot()).getElementsByTagName("polyline")
    expect("lines of the plot", len(panels), len(OPS) * len(PLOTTED))
    print("write_tables_test: ok")


if __name__ == "__main__":
    main()
