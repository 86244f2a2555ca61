#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_records.py on records whose answer is known."""
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

from check_records import WIDTH, main

BENCH = {"schema": "tilelace.bench/1", "op": "gemm_rs", "model": "llama70b", "layer": "down", "ranks": 2, "m": 256,
         "n": 8192, "k": 28672, "dtype": "bf16", "backend": "cuda", "mode": "graph", "device": "H200", "verified": True,
         "fused_us": 100.0, "unfused_us": 120.0, "peers": {"unfused_nccl": 130.0}, "time": "2026-11-01T00:00:00Z"}
SUM = {"schema": "tilelace.collectives/1", "op": "all_reduce", "ranks": 2, "bytes": 1024, "dtype": "bf16", "in_place": False,
       "symmetric": False, "us": 4.0, "baselines": {"nccl": 9.0}, "device": "H200", "verified": True}
LAYER = {"schema": "tilelace.moe_layer/1", "model": "mixtral-8x7b", "m": 64, "routing": "uniform", "ranks": 2,
         "us": {"ours": 500.0, "nccl + _grouped_mm": 900.0}, "device": "H200", "verified": True}
STEP = {"schema": "tilelace.layers/1", "model": "llama3.1-8b", "layers": 4, "code": "plain", "ranks": 2, "dtype": "bf16",
        "step": "forward", "tokens": 1, "ms": {"torch": 2.0, "tilelace": 1.0}, "device": "H200", "verified": True}
COMMITTED = [BENCH, SUM, LAYER, STEP]
failures = 0


def expect(what, got, expected):
    global failures
    if got != expected:
        print(f"check_records_test: {what}: got {got!r}, expected {expected!r}")
        failures += 1


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def run(new, committed=None, *more, name="new.jsonl"):
    """(exit code, what was printed) of these records beside {file: records}."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for file, records in (committed or {"h200-tp2/ops.jsonl": COMMITTED}).items():
            write(root / "benchmarks" / file, records)
        path = write(root / name, new)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main([str(path), "--against", str(root / "benchmarks"), *more])
    text = out.getvalue()
    expect(f"columns of {text!r}", max(map(len, text.splitlines())) <= WIDTH, True)
    return code, text


def check_limits():
    for what, record, code in (
            ("the same", BENCH, 0),
            ("4 % on 100 us", BENCH | {"fused_us": 104.0}, 0),
            ("6 % on 100 us", BENCH | {"fused_us": 106.0}, 1),
            ("14 % on 4 us", SUM | {"us": 4.56}, 0),
            ("16 % on 4 us", SUM | {"us": 4.64}, 1),
            ("a peer that is slower", LAYER | {"us": {"ours": 500.0, "nccl + _grouped_mm": 2000.0}}, 0),
            ("6 % of a layer of experts", LAYER | {"us": {"ours": 530.0}}, 1),
            ("6 % in ms", STEP | {"ms": {"tilelace": 1.06}}, 1),
            ("a wrong result", BENCH | {"verified": False}, 1),
            ("another device", BENCH | {"device": "H100"}, 2),
            ("another shape", BENCH | {"m": 512}, 2),
            ("another number of ranks", SUM | {"ranks": 4}, 2),
            ("another type", BENCH | {"dtype": "fp16"}, 2),
            ("another routing", LAYER | {"routing": "one"}, 2)):
        expect(what, run([record])[0], code)


def check_which_is_committed():
    later = BENCH | {"fused_us": 50.0, "time": "2026-11-02T00:00:00Z"}
    expect("the latest", run([BENCH], {"a.jsonl": [later], "b.jsonl": [BENCH]})[0], 1)
    expect("a file of the same name", run([BENCH], {"a.jsonl": [later], "b.jsonl": [BENCH]}, name="b.jsonl")[0], 0)
    expect("what was wrong", run([BENCH], {"a.jsonl": [BENCH, later | {"verified": False}]})[0], 0)
    expect("ways that are gone", run([BENCH], {"old/a.jsonl": [BENCH]})[0], 2)
    expect("new records in the folder", run([BENCH], {"a.jsonl": [SUM]}, name="benchmarks/b.jsonl")[0], 2)
    planned = BENCH | {"peers": {"fused_default": 110.0}}
    code, text = run([planned | {"peers": {"fused_default": 130.0}}], {"a.jsonl": [planned]})
    expect("the planner's own choice", (code, "(fused_default)" in text), (1, True))
    ours = BENCH | {"ours": {"tilelace": 100.0, "tilelace_out": 90.0}, "fused_us": 90.0}
    code, text = run([ours | {"ours": {"tilelace": 120.0, "tilelace_out": 90.0}}], {"a.jsonl": [ours]})
    expect("each of our ways", (code, "2 rows compared, 1 slower" in text), (1, True))


def check_text():
    code, text = run([BENCH | {"fused_us": 80.0}, SUM | {"us": 8.0}, LAYER, STEP, BENCH | {"m": 1}])
    expect("code", code, 1)
    expect("the last line", text.splitlines()[-1], "records: 4 rows compared, 1 slower, 1 faster, 0 wrong, 1 new")
    expect("the slowest first", text.splitlines()[1].split(),
           ["all_reduce", "bf16", "tp", "2", "bytes", "1024", "4.0", "8.0", "+100.0%", "h200-tp2/ops.jsonl"])
    expect("lines", len(text.splitlines()), 4)
    expect("lines of all rows", len(run(COMMITTED, None, "--rows")[1].splitlines()), 6)


check_limits()
check_which_is_committed()
check_text()
if not failures:
    print("check_records_test: ok")
sys.exit(failures > 0)
