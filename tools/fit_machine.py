#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants of a machine file that no data sheet has to figures of products, of collectives
and of both beside each other; to no figure of a fused or medium-grained call.

usage: fit_machine.py MACHINE.json --products GEMM.jsonl --collectives BASELINES.jsonl...
                      [--beside OPS.jsonl...] [--windows OPS.jsonl...] [--write FILE...]
Of --products: the library's GEMM alone (cublas_us) gives compute.{efficiency, power_tflops,
memory_gbps, fixed_us, tile_us}. Of --collectives: the collective alone gives collectives.{*_fixed_us,
*_ramp_us}, both in a row against the GEMM alone collectives.power_share. Of --beside: product and
traffic at once against the product alone give links.power_share. Of --windows: all-gathers into
registered memory alone give collectives.window_fixed_us. All others are taken as the file has them. With
--write the constants go into these machine files. The formulas are those of src/sim/gemm_model.cc and
predict.cc; tests/sim compares what the C++ says with all measurements. Needs numpy and scipy; nothing in the build needs this script.
"""
import argparse
import json
import re
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

SHAPES = [(r, c) for r in (64, 128, 256) for c in range(16, (256 if r < 256 else 192) + 1, 8)]
OPS = {"ag_gemm": "all_gather", "gemm_rs": "reduce_scatter", "gemm_ar": "all_reduce"}
# name, first guess, least, most
COMPUTE = [("compute.efficiency", 0.85, 0.5, 1), ("compute.power_tflops", 700, 100, 1100),
           ("compute.memory_gbps", 4300, 1000, 4800), ("compute.fixed_us", 4, 0, 15), ("compute.tile_us", 1, 0, 8)]
COLLECTIVES = [field for name in OPS.values() for field in
               ((f"collectives.{name}_fixed_us", 10, 0, 60), (f"collectives.{name}_ramp_us", 4, 0, 30))]
LEAST_M = 16
LEAST_M_OF_POWER = 1024  # products that take the power limit


def read(paths):
    return [json.loads(line) for path in paths for line in open(path, encoding="utf-8")]


def soft_max(a, b, knee):
    most = max(a, b)
    return most * ((a / most) ** knee + (b / most) ** knee) ** (1 / knee)


def gemm_us(v, m, n, k):
    sms = v["compute.multiprocessors"]
    memory = 2 * (m * k + n * k + m * n) / (v["compute.memory_gbps"] * 1e3)
    best = None
    for rows, cols in SHAPES:
        tiles = -(-m // rows) * -(-n // cols)
        step = max(2 * rows * cols * k / (v["compute.peak_tflops"] * 1e6 * v["compute.efficiency"]) * sms,
                   2 * (rows + cols) * k / (v["compute.l2_gbps"] * 1e3))
        waves = -(-tiles // sms) * (step + v["compute.tile_us"] * rows * cols / 32768)
        clock = soft_max(waves, memory, 6)
        best = clock if best is None else min(best, clock)
    return soft_max(best, 2 * m * n * k / (v["compute.power_tflops"] * 1e6), 8) + v["compute.fixed_us"]


def sizes(r):
    """Rows, columns and terms of a rank's product, and the width of what travels."""
    gather = r["op"] == "ag_gemm"
    n = r["n"] // r["ranks"] if gather else r["n"]
    k = r["k"] if gather else r["k"] // r["ranks"]
    return r["m"], n, k, k if gather else n


def wire_mb(r):
    m, _, _, wide = sizes(r)
    return (2 if r["op"] == "gemm_ar" else 1) * m * wide * 2e-6 * (r["ranks"] - 1) / r["ranks"]


def collective_us(v, r):
    m, _, _, wide = sizes(r)
    at = f"collectives.{OPS[r['op']]}_"
    return (v[at + "fixed_us"] + wire_mb(r) * 1e3 / v["collectives.wire_gbps"] +
            v[at + "ramp_us"] * wire_mb(r) ** 0.5 + m * wide * 2e-6 / r["ranks"] * 1e3 / v["links.local_gbps"])


def fit(base, fields, predicted, measured):
    """Constants and the errors that are left, in percent."""
    keys = [f[0] for f in fields]

    def residuals(x):
        return np.log(np.array(predicted({**base, **dict(zip(keys, x))})) / measured)

    found = least_squares(residuals, [f[1] for f in fields], loss="soft_l1", f_scale=0.08,
                          bounds=([f[2] for f in fields], [f[3] for f in fields]), diff_step=1e-3)
    percent = 100 * np.abs(np.exp(found.fun) - 1)
    print(f"{len(percent)} figures: median error {np.median(percent):.1f} %, "
          f"90th percentile {np.quantile(percent, 0.9):.1f} %")
    return dict(zip(keys, found.x))


def power_of_collective(r):
    """Share of a product's power: by how much the product behind it is faster, by the cube of the clock."""
    both = r["gemm_us"] + r["collective_us"]
    gain = r["gemm_us"] / (r["unfused_us"] - r["collective_us"])
    return (both / gain ** 3 - r["gemm_us"]) / r["collective_us"]


def powers_of_traffic(v, r):
    """The same of a busy link: by how much the product beside it is slower."""
    wire = wire_mb(r) * 1e3 / v["links.push_gbps"]
    pairs = [(r["peers"].get("beside_" + name), r["peers"].get(alone))
             for name, alone in (("tilelace", "tilelace_gemm"), ("cublas", "cublas"))]
    return [((both / alone) ** 3 - 1) * alone / wire for both, alone in pairs if both and alone]


def numbers(machine):
    flat = {}
    for section, value in machine.items():
        if isinstance(value, dict):
            flat.update({f"{section}.{k}": x[0] for k, x in value.items() if isinstance(x, list)})
    return flat


def write(path, constants):
    section, lines = "", []
    for line in Path(path).read_text(encoding="utf-8").splitlines(keepends=True):
        if opened := re.match(r' "(\w+)": \{', line):
            section = opened[1]
        key = re.match(r'  "(\w+)": \[[^,]+,', line)
        value = constants.get(f"{section}.{key[1]}") if key else None
        lines.append(line if value is None else f'  "{key[1]}": [{value:.4g},{line[key.end():]}')
    Path(path).write_text("".join(lines), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("--products", nargs="+", required=True)
    parser.add_argument("--collectives", nargs="+", required=True)
    parser.add_argument("--beside", nargs="+", default=[])
    parser.add_argument("--windows", nargs="+", default=[])
    parser.add_argument("--write", nargs="+", default=[], help="machine files that get the constants")
    o = parser.parse_args()
    base = numbers(json.loads(Path(o.machine).read_text(encoding="utf-8")))
    products = [r for r in read(o.products) if r["m"] >= LEAST_M and r.get("cublas_us")]
    found = fit(base, COMPUTE, lambda v: [gemm_us(v, r["m"], r["rank_n"], r["rank_k"]) for r in products],
                [r["cublas_us"] for r in products])
    rows = [r for r in read(o.collectives) if r["m"] >= LEAST_M]
    found |= fit(base, COLLECTIVES, lambda v: [collective_us(v, r) for r in rows], [r["collective_us"] for r in rows])
    large = [r for r in rows if r["m"] >= LEAST_M_OF_POWER and r["op"] != "gemm_ar"]
    found["collectives.power_share"] = np.median([power_of_collective(r) for r in large])
    beside = [x for r in read(o.beside) if r["m"] >= LEAST_M_OF_POWER and r["op"] in ("ag_gemm", "gemm_rs")
              for x in powers_of_traffic(base, r)]
    if beside:
        found["links.power_share"] = np.median(beside)
    windows = [r["peers"]["nccl_window"] - wire_mb(r) * 1e3 / base["links.store_gbps"] for r in read(o.windows)
               if r["op"] == "ag_gemm" and r["peers"].get("nccl_window")]
    if windows:
        found["collectives.window_fixed_us"] = np.median(windows)
    print(f"power of collectives: {len(large)} figures, of traffic: {len(beside)}; windows: {len(windows)}")
    for key, value in found.items():
        print(f"{key:44} {value:.4g}")
    for path in o.write:
        write(path, found)


if __name__ == "__main__":
    main()
