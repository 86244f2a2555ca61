#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan_regret.py on logs whose answer is known."""
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


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"plan_regret_test: {what}, got {got}, expected {expected}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "bench.log"
        log.write_text(LOG, encoding="utf-8")
        found = list(problems(log))
    expect("problems", [p[:3] for p in found], [("ag_gemm", 2, 512), ("gemm", 4, 1024)])
    plans = found[0][3]
    expect("first choice", round(behind(plans, 1), 6), 0.1)
    expect("best of two", round(behind(plans, 2), 6), 0.05)
    expect("best of six", behind(plans, 6), 0)
    expect("traits", list(traits(plans[0][2])), ["p176", "by shard, N apart, chunks of N rows"])
    expect("traits of a GEMM", list(traits(found[1][3][0][2])), ["p160"])
    print("plan_regret: all as expected")


if __name__ == "__main__":
    main()
