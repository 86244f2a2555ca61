#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan_regret.py on logs whose answer is known."""
import json
import sys
import tempfile
from pathlib import Path

from plan_regret import behind, problems, traits

LOG = """2 ranks on NVIDIA H200, cuBLASLt 130100
       100.00 us (predicted    120.00)  by shard, 1 apart, chunks of 256 rows; p176 workers 66
       110.00 us (predicted     90.00)  whole, chunks of 4 rows; c224 workers 66
       105.00 us (predicted     95.00)  whole, chunks of 4 rows; c200 workers 66
llama70b ag_gemm up m 512, cublas 99.0, fused 100.0 us
        50.00 us (predicted     40.00)  p160 workers 66
qwen32b   ag tp4 m  1024 n  6400 k  5120  cublas    49.00 us
"""


RECORD = {"op": "gemm_rs", "ranks": 4, "m": 2048, "candidates": [
    {"kind": "store by pairs", "plan": "gemm_rs fused mesh store; p160 split 0 group 1", "us": 50.0,
     "predicted_us": 45.0},
    {"kind": "store by shard", "plan": "gemm_rs fused mesh store; c224 split 0 group 1", "us": 55.0,
     "predicted_us": 40.0},
    {"kind": "unfused pull", "plan": "gemm_rs unfused mesh pull; c256 split 0 group 1", "us": 60.0,
     "predicted_us": None}]}


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"plan_regret_test: {what}, got {got}, expected {expected}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "bench.log"
        log.write_text(LOG + json.dumps(RECORD) + "\n", encoding="utf-8")
        found = list(problems(log))
    expect("problems", [p[:3] for p in found], [("ag_gemm", 2, 512), ("gemm", 4, 1024), ("gemm_rs", 4, 2048)])
    plans = found[0][3]
    expect("first choice", round(behind(plans, 1), 6), 0.1)
    expect("best of two", round(behind(plans, 2), 6), 0.05)
    expect("best of six", behind(plans, 6), 0)
    expect("traits", list(traits(plans[0][2])), ["p176", "by shard, N apart, chunks of N rows"])
    expect("traits of a GEMM", list(traits(found[1][3][0][2])), ["p160"])
    expect("a record", found[2][3],
           [(50.0, 45.0, "store by pairs; p160 split 0 group 1"),
            (55.0, 40.0, "store by shard; c224 split 0 group 1")])
    expect("traits of a record", list(traits(found[2][3][0][2])), ["p160", "store by pairs"])
    print("plan_regret: all as expected")


if __name__ == "__main__":
    main()
