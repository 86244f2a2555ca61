#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where two numbers of machines/a100-pcie-x8.json fit the ranges of the Flux paper's figures.

usage: fit_paper.py [--tilelace build/cpu/bin/tilelace] [--gbps 6.6:10.2:0.6] [--us 0:140:20]
For links.socket_gbps and links.socket_flag_us on a grid: whether all signs and the order of methods
are right, how far figures at m >= 1024 leave the paper's ranges at most, how far all of them do
together (large and small m; speed-up and both efficiencies, 1 is 100 points), and by how many points
the nearest sign holds. Nothing in the build needs this script.
"""
import argparse
import json
import tempfile
from pathlib import Path

from simulate_tables import CLUSTERS, ROOT, SHAPE, Simulator

MACHINE, METHOD = CLUSTERS[0][:2]
LARGE = ((1.20, 3.25), (-1.25, 0.36), (0.41, 0.57))  # fused over medium, E medium, E fused
SMALL = ((1.45, 3.21), (-2.13, -0.36), (-0.02, 0.41))


def outside(value, least, most):
    return max(least - value, value - most, 0)


def judge(rows):
    worst = large = small = 0
    holds = []
    for r in rows:
        e, medium = r["efficiency"], r["medium_efficiency"]
        holds += [e, e - medium] + ([-medium] if r["m"] < 1024 else [])
        far = [outside(v, *of) for v, of in
               zip((r["medium_us"] / r["fused_us"], medium, e), LARGE if r["m"] >= 1024 else SMALL)]
        if r["m"] >= 1024:
            worst, large = max(worst, *far), large + sum(far)
        else:
            small += sum(far)
    return min(holds), worst, large, small


def steps(text):
    least, most, step = map(float, text.split(":"))
    return [round(least + i * step, 6) for i in range(int((most - least) / step + 1.5))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilelace", default=str(ROOT / "build/cpu/bin/tilelace"))
    parser.add_argument("--gbps", type=steps, default="6.6:10.2:0.6")
    parser.add_argument("--us", type=steps, default="0:140:20")
    options = parser.parse_args()
    simulator = Simulator(options.tilelace)
    machine = json.loads((ROOT / "machines" / f"{MACHINE}.json").read_text(encoding="utf-8"))
    print("GB/s   us  least margin of a sign  m >= 1024: worst  sum  m < 1024: sum")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.json"
        for gbps in options.gbps:
            for us in options.us:
                machine["links"]["socket_gbps"] = [gbps, "tried"]
                machine["links"]["socket_flag_us"] = [us, "tried"]
                path.write_text(json.dumps(machine), encoding="utf-8")
                rows = [r for op in SHAPE for r in simulator.rows(
                    op, str(path), [64, 512, 1024, 2048, 4096, 8192], "--tp", "8", "--method", METHOD)]
                sign, worst, large, small = judge(rows)
                print(f"{gbps:4.1f} {us:4.0f}  {sign:+.3f} {'right' if sign > 0 else 'wrong'}  {worst:.3f} "
                      f"{'within' if worst <= 0.15 else 'outside'}  {large:.3f}  {small:.3f}", flush=True)


if __name__ == "__main__":
    main()
