#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peer_summary.py on records whose answer is known."""
import json
import sys
import tempfile
from pathlib import Path

from peer_summary import WIDTH, peers_of, read, row_of, summary

COMMON = {"ranks": 2, "n": 4096, "k": 14336, "dtype": "bf16", "verified": True}
RECORDS = [
    COMMON | {"op": "gemm_ar", "model": "a", "layer": "down", "m": 16, "fused_us": 10.0,
              "ours": {"tilelace": 12.5, "tilelace_out": 10.0}, "peers": {"nccl": 40.0, "two_shot": 20.0}},
    COMMON | {"op": "gemm_ar", "model": "a", "layer": "down", "m": 333, "peer_m": 334, "fused_us": 100.0,
              "ours": {"tilelace": 100.0, "tilelace_out": 110.0}, "peers": {"nccl": 50.0, "two_shot": None}},
    # Of `tilelace bench`: a collective alone is no peer.
    COMMON | {"op": "gemm_rs", "model": None, "layer": None, "m": 2048, "fused_us": 100.0,
              "peers": {"nccl": 20.0, "cublas": 80.0, "unfused_nccl": 121.0, "unfused_nccl_window": 110.0}},
    COMMON | {"op": "gemm_rs", "model": None, "layer": None, "m": 4096, "fused_us": 1.0, "verified": False,
              "peers": {"unfused_nccl": 100.0}},
]


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"peer_summary_test: {what}, got {got}, expected {expected}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        old = RECORDS[0] | {"ours": {"tilelace": 1.0}}
        file.write_text("".join(json.dumps(r) + "\n" for r in (old, *RECORDS)), encoding="utf-8")
        records = read([file])
    expect("the last of equal rows", len(records), 4)
    expect("whole calls", sorted(peers_of(RECORDS[2])), ["unfused_nccl", "unfused_nccl_window"])
    expect("the better way", row_of(RECORDS[0], None).ratio, 2.0)
    expect("a way", row_of(RECORDS[0], "tilelace").ratio, 1.6)
    expect("a way that is not there", row_of(RECORDS[2], "tilelace"), None)
    lines = summary(records, by_layer=True, every=True)
    expect("width", [line for line in lines if len(line) > WIDTH], [])
    start = {line[:16].strip(): line[16:].split() for line in lines}
    expect("gemm_ar", start["gemm_ar"][:10],
           ["2.000", "(1)", "0.500", "(1)", "-", "1.000", "(2)", "1", "0.50", "a.down"])
    expect("a layer", "ar down" in start, True)
    expect("all", start["all"][:9], ["2.000", "(1)", "0.500", "(1)", "1.100", "(1)", "1.032", "(3)", "1"])
    expect("lost", [line for line in summary(records) if line.startswith("  ")],
           [f"  0.500 gemm_ar {'a.down m 333':<37}tilelace 100.0, nccl (m 334) 50.0"])
    expect("wrong", lines[-1], "WRONG, left out: gemm_rs 4096x14336 m 4096 ")
    print("peer_summary_test: ok")


if __name__ == "__main__":
    main()
