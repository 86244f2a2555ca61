#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits what another implementation takes between two products of its medium-grained method
(method.medium_stage_us) to its measured calls.

usage: fit_method.py METHOD.json MACHINE RECORDS.jsonl... [--models gpt3-175b,qwen3-32b] [--least-m 512]
                     [--tilelace build/cpu/bin/tilelace] [--write]
The records: of ops, with gemm_us and medium_us. Both sides are taken over the GEMM alone of their own
run: what a method costs is no matter of the clocks of a day. With --write the constant goes into the
method file. Our own method has nothing that is fitted: docs/simulate.md.
"""
import argparse
import json
import math
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

MOST_US = 100


def errors(command, machine, method, records):
    """Logarithms of predicted over measured medium-grained times, each over its own GEMM."""
    groups, out = {}, []
    for r in records:
        groups.setdefault((r["op"], r["n"], r["k"], r["ranks"]), []).append(r)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"schema": "tilelace.method/1", "method": method}, file)
        file.flush()
        for (op, n, k, ranks), mine in groups.items():
            text = subprocess.run(
                [command, "simulate", op, "--machine", machine, "--method", file.name, "--tp", str(ranks), "--n",
                 str(n), "--k", str(k), "--m", ",".join(str(r["m"]) for r in mine), "--json", "-"],
                check=True, capture_output=True, text=True).stdout
            out += [math.log(s["medium_us"] / s["gemm_us"] / (r["medium_us"] / r["gemm_us"]))
                    for r, s in zip(mine, map(json.loads, text.splitlines()))]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("machine")
    parser.add_argument("records", nargs="+")
    parser.add_argument("--models", default="gpt3-175b,qwen3-32b")
    parser.add_argument("--least-m", type=int, default=512)
    parser.add_argument("--tilelace", default="build/cpu/bin/tilelace")
    parser.add_argument("--write", action="store_true")
    o = parser.parse_args()
    used = [r for path in o.records for r in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
            if r["model"] in o.models.split(",") and r["m"] >= o.least_m and r["op"] != "gemm_ar"]
    method = json.loads(Path(o.method).read_text(encoding="utf-8"))["method"]
    least, most = 0.0, float(MOST_US)
    while most - least > 0.01:  # the median grows with it
        method["medium_stage_us"] = [(least + most) / 2, "being fitted"]
        left = errors(o.tilelace, o.machine, method, used)
        least, most = ((least + most) / 2, most) if statistics.median(left) < 0 else (least, (least + most) / 2)
    off = statistics.median(100 * abs(math.exp(e) - 1) for e in left)
    print(f"method.medium_stage_us {least:.3g}: {len(left)} figures, median error {off:.1f} %")
    if o.write:
        text = Path(o.method).read_text(encoding="utf-8")
        text = re.sub(r'("medium_stage_us": \[)[^,]+,', rf"\g<1>{least:.3g},", text)
        Path(o.method).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
