#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a Markdown table of committed bench records.

usage: tools/overlap_table.py FILE.jsonl...   (the file's name says which link was emulated)
"""
import json
import pathlib
import sys


def rows(path):
    for line in pathlib.Path(path).read_text().splitlines():
        record = json.loads(line)
        ratio = record["collective_us"] / record["gemm_us"]
        e = record["efficiency"]
        yield "| {} | {} | {} | {} | {:.1f} | {:.2f} | {:.1f} | {:.1f} | {} | {:.2f} |".format(
            pathlib.Path(path).stem.split(".")[-1] if ".link-" not in str(path)
            else str(path).split(".link-")[1].removesuffix(".jsonl"),
            record["layer"], record["op"], record["m"], record["gemm_us"] / 1e3, ratio,
            record["unfused_us"] / 1e3, record["fused_us"] / 1e3,
            "-" if e is None else f"{e:.2f}", record["speedup"])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print("| link GB/s | layer | op | m | GEMM ms | collective / GEMM | unfused ms | fused ms | E | speed-up |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        for row in rows(path):
            print(row)


if __name__ == "__main__":
    main()
