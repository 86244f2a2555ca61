#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tuned_choices.py on plans and records whose answer is known."""
import math
import sys

from tuned_choices import WIDTH, choices_of, lines_of, rows_of

PREDICTED = """machine: GPUs, 132 multiprocessors each, link 370 GB/s

tiny.gate_up: ag_gemm ranks 2 m 333 n 7168+7168 k 4096 bf16 bias no act swiglu
  plan     ag_gemm fused mesh store tile 1; a
  why      fastest of 679 plans, predicted 83.6 us (GEMM 75.1, gather 9.9)
  not      push by shard: predicted 77.8 us
gemm_rs ranks 2 m 16 n 4096 k 7168 bf16 bias no act none
  plan     gemm_rs fused; b
  why      fastest of 4 plans; t.json has no row near it
"""
TUNED = PREDICTED.replace("; a", "; c").replace(
    "fastest of 679 plans, predicted 83.6 us (GEMM 75.1, gather 9.9)",
    "tuned: kind and tile of the nearest row (distance 0.07), 102.1 us at m 300 in t.json")


def candidate(plan, us, predicted_us=None):
    return {"plan": plan, "us": us, "kind": "", "predicted_us": predicted_us}


RECORDS = [
    {"op": "ag_gemm", "layer": "tiny.gate_up", "m": 333, "n": 28672, "k": 4096, "candidates": [
        candidate("ag_gemm fused mesh store tile 1; c", 100.0, 91.0),
        candidate("ag_gemm fused mesh store tile 1; d", 105.0, 90.0),
        candidate("ag_gemm fused mesh store tile 1; a", 110.0)]},
    {"op": "gemm_rs", "layer": None, "m": 16, "n": 4096, "k": 14336, "candidates": [
        candidate("gemm_rs fused; x", 20.0), candidate("gemm_rs fused; y", 21.0)]},
    {"op": "gemm_rs", "layer": None, "m": 17, "n": 4096, "k": 14336, "candidates": []},
]


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"tuned_choices_test: {what}, got {got}, expected {expected}")


def main():
    predicted, tuned = (choices_of(text, 2) for text in (PREDICTED, TUNED))
    expect("problems", sorted(tuned), [("ag_gemm", 333, 28672, 4096), ("gemm_rs", 16, 4096, 14336)])
    expect("a near row", tuned["ag_gemm", 333, 28672, 4096][0].how, "near row")
    expect("a prediction", tuned["gemm_rs", 16, 4096, 14336][0].how, "prediction")
    rows = rows_of(RECORDS, predicted, tuned)
    expect("rows", len(rows), 2)
    expect("behind", [round(b, 6) for b in rows[0][4:]], [0.05, 0.1, 0.0])
    expect("no prediction", math.isnan(rows[1].predicted), True)
    expect("not timed", math.isnan(rows[1].tuned), True)
    lines = lines_of(rows)
    expect("width", [line for line in lines if len(line) > WIDTH], [])
    expect("by near row", next(line.split() for line in lines if line.startswith("by near row")),
           ["by", "near", "row", "5.0,", "5.0", "(1)", "10.0,", "10.0", "(1)", "0.0,", "0.0", "(1)"])
    expect("the last line", lines[-1], "not timed: gemm_rs 4096x14336 m 16")
    slower = rows[0]._replace(without=0.0, tuned=0.1)
    expect("a slower choice", "  ag_gemm tiny.gate_up m 333: 10.0 % by near row, without 0.0 %" in lines_of([slower]), True)
    print("tuned_choices_test: ok")


if __name__ == "__main__":
    main()
