#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the planner's first choice is behind the fastest plan that was timed, and which tiles and
kinds it takes for faster than they are.

usage: plan_regret.py [--tiles] FILE...
(records of tilelace bench --candidates N --json FILE, or what gpu_gemm_bench --all printed)
One line an op, degree and range of m: problems, how far the first prediction was behind, on average
and at most, and the best of the first six; with --tiles also what predictions are above (+) or below
(-) the measurements, the median of each tile and kind, from problems of that line. Plans that were
not timed are not judged: time many (--candidates 30).
"""
import json
import re
import statistics
import sys
from collections import defaultdict

PLAN = re.compile(r"\s+([\d.]+) us \(predicted\s+([\d.]+)\)\s+(.*)")
OP = re.compile(r"(\w+) (ag_gemm|gemm_rs|gemm_ar) (\w+) m (\d+), ")
GEMM = re.compile(r"(\w+)\s+(ag|rs)\s+tp(\d+)\s+m\s+(\d+)\s")
RANGES = ((1, 127), (128, 511), (512, 1023), (1024, 3071), (3072, 1 << 30))


def from_record(record):
    """The same of a record's candidates; those without a prediction are left out."""
    plans = [(c["us"], c["predicted_us"], f"{c['kind']}; {c['plan'].rpartition('; ')[2]}")
             for c in record.get("candidates", []) if c["predicted_us"] is not None]
    return record["op"], record["ranks"], record["m"], plans


def problems(path):
    """(op, ranks, m, [(measured, predicted, plan)]) of a log or of records."""
    ranks, plans = 1, []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("{"):
                yield from_record(json.loads(line))
            elif match := re.match(r"(\d+) ranks on ", line):
                ranks = int(match[1])
            elif match := PLAN.match(line):
                plans.append((float(match[1]), float(match[2]), match[3].strip()))
            elif match := OP.match(line):
                yield match[2], ranks, int(match[4]), plans
                plans = []
            elif match := GEMM.match(line):
                yield "gemm", int(match[3]), int(match[4]), plans
                plans = []


def behind(plans, first):
    """Of the best among so many first predictions, against the fastest that was timed."""
    taken = sorted(plans, key=lambda p: p[1])[:first]
    return min(p[0] for p in taken) / min(p[0] for p in plans) - 1


def traits(plan):
    kind, _, gemm = plan.rpartition("; ")
    yield gemm.split()[0]
    if kind:
        yield re.sub(r"\d+", "N", kind)


def main():
    tiles = "--tiles" in sys.argv
    logs = [a for a in sys.argv[1:] if a != "--tiles"]
    if not logs or any(a.startswith("-") for a in logs):
        sys.exit(__doc__)
    groups = defaultdict(list)
    for log in logs:
        try:
            for op, ranks, m, plans in problems(log):
                if len(plans) > 1:
                    span = next(r for r in RANGES if r[0] <= m <= r[1])
                    groups[op, ranks, span].append(plans)
        except OSError as error:
            sys.exit(f"plan_regret: {log}, got {error.strerror}, expected a log of a bench")
    if not groups:
        sys.exit("plan_regret: got no plans with predictions, expected records of --candidates or logs of --all")
    for (op, ranks, (least, most)), all_plans in sorted(groups.items()):
        one, six = ([100 * behind(p, n) for p in all_plans] for n in (1, 6))
        print(f"{op:8} TP{ranks} m {least} to {most if most < 1 << 30 else '...'}: {len(one)} problems, "
              f"first choice {statistics.mean(one):.1f} % behind, at most {max(one):.1f}; "
              f"best of six {statistics.mean(six):.1f}")
        errors = defaultdict(list)
        for plans in all_plans:
            for measured, predicted, plan in plans:
                for trait in traits(plan):
                    errors[trait].append(100 * (predicted / measured - 1))
        for trait, list_ in sorted(errors.items()) if tiles else ():
            print(f"    {statistics.median(list_):+5.1f} % ({len(list_)})  {trait}")


if __name__ == "__main__":
    main()
