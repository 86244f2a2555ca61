#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of docs/simulate.md, or puts them there.

usage: simulate_tables.py [--tilelace build/cpu/bin/tilelace] [--write]
Tables stand between `<!-- NAME -->` and `<!-- end -->`; nothing in the build needs this script.
"""
import argparse
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "simulate.md"
# Machine, method, and the paper's ranges (arXiv 2406.06858, section 5) for m 1024..8192:
# fused over medium-grained, E of medium-grained, E of fused; the same at m 64 and 512.
CLUSTERS = [
    ("a100-pcie-x8", "flux-sm80", "1.20-3.25", "-125..36 %", "41..57 %", "1.45-3.21", "-213..-36 %", "-2..41 %"),
    ("a100-nvlink-x8", "flux-sm80", "1.01-1.33", "-99..74 %", "36..96 %", "1.33-4.68", "-325..-49 %", "14..88 %"),
    ("h800-nvlink-x8", "flux", "1.10-1.51", "-40..80 %", "37..93 %", "0.95-1.03", "-142..-93 %", "-165..-82 %"),
]
SHAPE = {"ag_gemm": (49152, 12288), "gemm_rs": (12288, 49152)}


class Simulator:
    def __init__(self, command):
        self.command = command

    def rows(self, op, machine, m, *options):
        n, k = SHAPE[op]
        out = subprocess.run([self.command, "simulate", op, "--machine", machine, "--n", str(n),
                              "--k", str(k), "--m", ",".join(map(str, m)), "--json", "-", *options],
                             check=True, capture_output=True, text=True).stdout
        return [json.loads(line) for line in out.splitlines()]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in r) + " |" for r in rows])


def percent(x):
    return "-" if x is None else f"{100 * x:.0f} %"


def span(values, unit=""):
    if unit:
        return f"{100 * min(values):.0f}..{100 * max(values):.0f} %"
    return f"{min(values):.2f}-{max(values):.2f}"


def paper_rows(simulator, sizes):
    rows = {}
    for machine, method, *_ in CLUSTERS:
        for op in SHAPE:
            rows[machine, op] = simulator.rows(op, machine, sizes, "--tp", "8", "--method", method)
    return rows


def paper_ranges(rows, at):
    out = []
    for machine, _, *ranges in CLUSTERS:
        mine = [r for op in SHAPE for r in rows[machine, op]]
        speed, medium, fused = ranges[at:at + 3]
        out.append([machine, speed, span([r["medium_us"] / r["fused_us"] for r in mine]),
                    medium, span([r["medium_efficiency"] for r in mine], "%"),
                    fused, span([r["efficiency"] for r in mine], "%")])
    return table(["cluster", "fused over medium: paper", "model", "E medium: paper", "model",
                  "E fused: paper", "model"], out)


def paper_points(rows):
    out = [[machine, op, r["m"], *(f"{r[k] / 1e3:.2f}" for k in
            ("gemm_us", "collective_us", "unfused_us", "medium_us", "fused_us")),
            f"{r['medium_us'] / r['fused_us']:.2f}", percent(r["medium_efficiency"]),
            percent(r["efficiency"]), r["bound"]]
           for (machine, op), each in rows.items() for r in each]
    return table(["cluster", "op", "m", "GEMM ms", "collective", "unfused", "medium", "fused",
                  "fused over medium", "E medium", "E fused", "bound by"], out)


def scale(simulator):
    out = []
    for op in SHAPE:
        for nodes in (1, 2, 4, 8, 16, 32, 64):
            for r in simulator.rows(op, "h800-nvlink-x8", [16384], "--tp", "8", "--nodes", str(nodes)):
                out.append([op, nodes, 8 * nodes, 16384 // (8 * nodes),
                            *(f"{r[k] / 1e3:.2f}" for k in ("gemm_us", "unfused_us", "fused_us", "wire_us", "network_us")),
                            percent(r["efficiency"]), f"{r['speedup']:.2f}", r["bound"]])
    return table(["op", "nodes", "ranks", "rows a rank", "GEMM ms", "unfused", "fused", "links busy",
                  "NIC busy", "E", "speed-up", "bound by"], out)


def two_nodes(simulator):
    claims = {"a100-pcie-x8": "up to 1.32, 18 %", "a100-nvlink-x8": "up to 1.57, 74 %",
              "h800-nvlink-x8": "up to 1.55, 56 %"}
    out = []
    for machine, method, *_ in CLUSTERS:
        mine = [r for op in SHAPE for r in simulator.rows(
            op, machine, [1024, 2048, 4096, 8192], "--tp", "8", "--nodes", "2", "--method", method)]
        out.append([machine, claims[machine], span([r["speedup"] for r in mine]),
                    span([r["efficiency"] for r in mine], "%")])
    return table(["cluster", "paper: speed-up over unfused, E", "model: speed-up", "model: E"], out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilelace", default=str(ROOT / "build/cpu/bin/tilelace"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    simulator = Simulator(options.tilelace)
    large = paper_rows(simulator, [1024, 2048, 4096, 8192])
    small = paper_rows(simulator, [64, 512])
    tables = {"paper, large m": paper_ranges(large, 0), "paper, small m": paper_ranges(small, 3),
              "paper, every point": paper_points(large), "paper, small points": paper_points(small),
              "two nodes": two_nodes(simulator), "scale": scale(simulator)}
    page = PAGE.read_text(encoding="utf-8") if options.write else ""
    for name, text in tables.items():
        print(f"<!-- {name} -->\n{text}\n")
        page = re.sub(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)",
                      lambda found, text=text: found.group(1) + text + "\n" + found.group(2), page, flags=re.DOTALL)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
