#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants of a machine file that no data sheet has to measured GEMMs and collectives.

usage: fit_machine.py MACHINE.json RECORDS.jsonl... [--models gpt3,qwen32b] [--ranks 4] [--least-m 16]
                      [--write FILE...]
The records: of ops (GEMM, collective and unfused are used) and of the GEMM alone (cublas_us). With
--write the constants go into these machine files.
The constants: compute.{efficiency, power_tflops, memory_gbps, fixed_us, tile_us},
collectives.{*_fixed_us, *_ramp_us, power_share}. All others are taken as the file has them. The
formulas are those of src/sim/gemm_model.cc and predict.cc; tests/sim compares what the C++ says with
the measurements. Needs numpy and scipy; nothing in the build needs this script.
"""
import argparse
import json
import re

import numpy as np
from scipy.optimize import least_squares

SHAPES = [(r, c) for r in (64, 128, 256) for c in (16, 32, 64, 96, 128, 160, 192, 224, 256)
          if r < 256 or c <= 192]
OPS = {"ag_gemm": "all_gather", "gemm_rs": "reduce_scatter", "gemm_ar": "all_reduce"}
# name, first guess, least, most
FITTED = [("compute.efficiency", 0.85, 0.5, 1), ("compute.power_tflops", 700, 100, 1100),
          ("compute.memory_gbps", 4300, 1000, 4800), ("compute.fixed_us", 4, 0, 15), ("compute.tile_us", 1, 0, 8),
          ("collectives.power_share", 0.5, 0, 1)]
for name in OPS.values():
    FITTED += [(f"collectives.{name}_fixed_us", 10, 0, 60),
               (f"collectives.{name}_ramp_us", 4, 0, 30)]


MODELS = {"gpt3": "gpt3-175b", "llama70b": "llama2-70b", "qwen32b": "qwen3-32b"}


def read(path):
    for line in open(path, encoding="utf-8"):
        r = json.loads(line)
        r["model"] = MODELS.get(r["model"], r["model"])
        if r["op"] == "gemm":
            r["op"] = "ag_gemm" if r["layer"] == "ag" else "gemm_rs"
            r["gemm_us"] = r["cublas_us"]
        yield r


def soft_max(a, b, knee):
    most = max(a, b)
    return most * ((a / most) ** knee + (b / most) ** knee) ** (1 / knee)


def gemm(v, m, n, k):
    """Time at full clock, time at the power limit."""
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
    return best, 2 * m * n * k / (v["compute.power_tflops"] * 1e6)


def collective(v, op, m, wide, ranks):
    whole = m * wide * 2e-6
    wire = (2 if op == "gemm_ar" else 1) * whole * (ranks - 1) / ranks
    at = f"collectives.{OPS[op]}_"
    return (v[at + "fixed_us"] + wire * 1e3 / v["collectives.wire_gbps"] +
            v[at + "ramp_us"] * wire ** 0.5 + whole / ranks * 1e3 / v["links.local_gbps"])


def errors(v, records):
    """Logarithms of predicted over measured, and what each is."""
    out, names = [], []
    for r in records:
        gather = r["op"] == "ag_gemm"
        n = r["n"] // r["ranks"] if gather else r["n"]
        k = r["k"] if gather else r["k"] // r["ranks"]
        clock, power = gemm(v, r["m"], n, k)
        alone = collective(v, r["op"], r["m"], k if gather else n, r["ranks"])
        fixed = v["compute.fixed_us"]
        say = {"gemm_us": soft_max(clock, power, 8) + fixed, "collective_us": alone,
               "unfused_us": soft_max(clock + fixed + alone,
                                      power + v["collectives.power_share"] * alone, 8)}
        for key, value in say.items():
            if r.get(key) is None or (key == "gemm_us" and r["op"] == "gemm_ar"):
                continue  # gemm_rs has the same product
            out.append(np.log(value / r[key]))
            names.append((r["ranks"], r["model"], r["m"], r["op"], key))
    return np.array(out), names


def numbers(machine):
    flat = {}
    for section, value in machine.items():
        if isinstance(value, dict):
            flat.update({f"{section}.{k}": x[0] for k, x in value.items() if isinstance(x, list)})
    return flat


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("records", nargs="+")
    parser.add_argument("--models", default="gpt3,qwen32b")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--least-m", type=int, default=16)
    parser.add_argument("--write", nargs="+", default=[], help="machine files that get the constants")
    o = parser.parse_args()
    base = numbers(json.loads(open(o.machine, encoding="utf-8").read()))
    wanted = {MODELS.get(m, m) for m in o.models.split(",")}
    used = [r for path in o.records for r in read(path)
            if r["model"] in wanted and r["ranks"] == o.ranks and r["m"] >= o.least_m]
    keys = [f[0] for f in FITTED]

    def residuals(x):
        return errors({**base, **dict(zip(keys, x))}, used)[0]

    fit = least_squares(residuals, [f[1] for f in FITTED], loss="soft_l1", f_scale=0.08,
                        bounds=([f[2] for f in FITTED], [f[3] for f in FITTED]), diff_step=1e-3)
    for key, value in zip(keys, fit.x):
        print(f"{key:44} {value:.4g}")
    percent = 100 * np.abs(np.exp(fit.fun) - 1)
    print(f"{len(percent)} figures: median error {np.median(percent):.1f} %, "
          f"90th percentile {np.quantile(percent, 0.9):.1f} %")
    for path in o.write:
        text = open(path, encoding="utf-8").read()
        for key, value in zip(keys, fit.x):
            name = key.split(".")[1]
            text = re.sub(rf'("{name}": \[)[^,]+,', rf'\g<1>{value:.4g},', text)
        open(path, "w", encoding="utf-8").write(text)


if __name__ == "__main__":
    main()
