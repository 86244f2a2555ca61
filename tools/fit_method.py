#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits what an implementation adds to a call (the method section) to measured fused and medium calls.

usage: fit_method.py MACHINE.json RECORDS.jsonl... [--models qwen32b] [--ranks 4] [--least-m 512]
                     [--tilelace build/cpu/bin/tilelace] [--only medium] [--write FILE...]
The records: of ops, with gemm_us and medium_us, and fused_us where there are any. Both sides are
taken over the GEMM alone of their own run: what a method costs is no matter of the clocks of a day.
With --write the constants go into these machine or method files. Needs numpy and scipy; nothing in
the build needs this script.
"""
import argparse
import json
import re
import subprocess
import tempfile

import numpy as np
from scipy.optimize import minimize

from fit_machine import MODELS, read

# name, first guess, least, most
# One degree alone cannot tell what a call costs from what each of its products costs: the products.
MEDIUM = [("medium_stage_us", 3, 0, 50), ("medium_efficiency", 0.95, 0.5, 1)]
FUSED = [("fused_call_us", 15, 0, 100), ("fused_efficiency", 0.97, 0.5, 1),
         ("fused_reduce_us", 10, 0, 100), ("fused_tile_us", 3, 0, 50)]


class Model:
    def __init__(self, command, machine, records):
        self.command, self.machine, self.groups = command, machine, {}
        for r in records:
            self.groups.setdefault((r["op"], r["n"], r["k"], r["ranks"]), []).append(r)

    def errors(self, method, figures):
        """Logarithms of predicted over measured, each over its own GEMM, by figure and record."""
        out = []
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"schema": "tilelace.method/1", "method": method}, file)
            file.flush()
            for (op, n, k, ranks), mine in self.groups.items():
                text = subprocess.run(
                    [self.command, "simulate", op, "--machine", self.machine, "--method", file.name,
                     "--tp", str(ranks), "--n", str(n), "--k", str(k), "--m",
                     ",".join(str(r["m"]) for r in mine), "--json", "-"],
                    check=True, capture_output=True, text=True).stdout
                for r, s in zip(mine, map(json.loads, text.splitlines())):
                    out += [np.log(s[f] / s["gemm_us"] / (r[f] / r["gemm_us"]))
                            for f in figures if r.get(f) is not None]
        return np.array(out)


def fit(model, method, fields, figure):
    """The method with these fields fitted to this figure, and the errors that are left."""
    low, span = np.array([f[2] for f in fields]), np.array([f[3] - f[2] for f in fields])

    def method_at(x):
        values = low + span * np.clip(x, 0, 1)
        return {**method, **{f[0]: [float(v), "being fitted"] for f, v in zip(fields, values)}}

    def loss(x):
        e = model.errors(method_at(x), [figure]) / 0.08
        beyond = np.sum((x - np.clip(x, 0, 1)) ** 2)
        return np.mean(2 * (np.sqrt(1 + e * e) - 1)) + 100 * beyond

    first = (np.array([f[1] for f in fields]) - low) / span
    best = minimize(loss, first, method="Nelder-Mead",
                    options={"maxfev": 60 * len(fields), "xatol": 1e-3, "fatol": 1e-4})
    fitted = method_at(best.x)
    return fitted, model.errors(fitted, [figure])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("records", nargs="+")
    parser.add_argument("--models", default="qwen32b")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--least-m", type=int, default=512)
    parser.add_argument("--tilelace", default="build/cpu/bin/tilelace")
    parser.add_argument("--only", choices=["medium", "fused"])
    parser.add_argument("--write", nargs="+", default=[], help="machine or method files that get the constants")
    o = parser.parse_args()
    wanted = {MODELS.get(m, m) for m in o.models.split(",")}
    used = [r for path in o.records for r in read(path) if r["model"] in wanted and
            r["ranks"] == o.ranks and r["m"] >= o.least_m and r["op"] != "gemm_ar"]
    method = json.load(open(o.machine, encoding="utf-8"))["method"]
    model = Model(o.tilelace, o.machine, used)
    for name, fields in (("medium", MEDIUM), ("fused", FUSED)):
        if o.only and o.only != name:
            continue
        method, left = fit(model, method, fields, f"{name}_us")
        percent = 100 * np.abs(np.exp(left) - 1)
        for key, *_ in fields:
            print(f"method.{key:24} {method[key][0]:.3g}")
            for path in o.write:
                text = open(path, encoding="utf-8").read()
                text = re.sub(rf'("{key}": \[)[^,]+,', rf"\g<1>{method[key][0]:.3g},", text)
                open(path, "w", encoding="utf-8").write(text)
        print(f"{name}: {len(percent)} figures, median error {np.median(percent):.1f} %, "
              f"90th percentile {np.quantile(percent, 0.9):.1f} %")


if __name__ == "__main__":
    main()
