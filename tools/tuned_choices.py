#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a table's choices, and predictions', are behind the best plan that was timed, on rows that
the table may not have.

usage: tuned_choices.py --rows FILE --tuning TABLE [--tilelace PROGRAM] [--tp N] RECORDS...
FILE: of rows, as `tilelace bench --rows` takes; RECORDS: what that wrote with --candidates N, with
TILELACE_TUNING=TABLE in the environment, so that the table's choice was timed, too. PROGRAM: a build
of the same kernels (build/cpu/bin/tilelace); no GPU is needed. Beside the table: the best prediction
among the plans that were timed, and what PROGRAM takes without the table. Choices that were not timed
count nowhere and are named. The best is the record's first plan: others may have had a short look.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from typing import NamedTuple

PROBLEM = re.compile(r"(?:\S+: )?(\w+) ranks (\d+) m (\d+) n ([\d+]+) k (\d+) (\w+) .* act (\w+)")
BANDS = (("to 64", 1, 64), ("65..1024", 65, 1024), ("above", 1025, 1 << 60))
WIDTH = 100


class Choice(NamedTuple):
    plan: str
    how: str  # own row, near row, prediction


class Row(NamedTuple):
    op: str
    m: int
    label: str
    how: str
    predicted: float  # over the best plan's time, less 1; NaN: was not timed
    without: float
    tuned: float


def how_of(reason):
    """Which of the three ways docs/tuning.md has made it."""
    if not reason.startswith("tuned: "):
        return "prediction"
    return "near row" if "nearest row" in reason else "own row"


def choices_of(text, ranks):
    """{(op, m, n, k) of the whole product: Choice} of what `tilelace plan` printed, in its order."""
    found, key, plan = defaultdict(list), None, ""
    for line in text.splitlines():
        if match := PROBLEM.fullmatch(line.strip()):
            gathers = match[1] == "ag_gemm"
            n, k = sum(map(int, match[4].split("+"))), int(match[5])
            key = (match[1], int(match[3]), n * (ranks if gathers else 1), k * (1 if gathers else ranks))
        elif line.startswith("  plan     "):
            plan = line.split(maxsplit=1)[1]
        elif line.startswith("  why      ") and key is not None:
            found[key].append(Choice(plan, how_of(line.split(maxsplit=1)[1])))
    return found


def predicted_of(candidates):
    """The time of the least prediction."""
    known = [c for c in candidates if c["predicted_us"] is not None]
    return min(known, key=lambda c: c["predicted_us"])["us"] if known else math.nan


def behind(times, best, choices):
    """By how much the first choice that was timed is behind the best, and how it was found."""
    timed = [c for c in choices if c.plan in times] or choices
    return times.get(timed[0].plan, math.nan) / best - 1, timed[0].how


def rows_of(records, without, tuned):
    """Of records with several plans. Two products of the same sizes are told apart by what was timed."""
    rows = []
    for r in records:
        times = {c["plan"]: c["us"] for c in r.get("candidates", [])}
        key = (r["op"], r["m"], r["n"], r["k"])
        if len(times) < 2 or key not in tuned:
            continue
        best = r["candidates"][0]["us"]  # in front stand those that were timed with care
        (table, how), (plain, _) = (behind(times, best, choices) for choices in (tuned[key], without[key]))
        label = r.get("layer") or f"{r['n']}x{r['k']}"
        rows.append(Row(r["op"], r["m"], f"{r['op']} {label} m {r['m']}", how,
                        predicted_of(r["candidates"]) / best - 1, plain, table))
    return rows


def figures(rows, which):
    known = [100 * getattr(r, which) for r in rows if not math.isnan(getattr(r, which))]
    return f"{sum(known) / len(known):.1f}, {max(known):.1f} ({len(known)})" if known else "-"


def lines_of(rows):
    lines = [f"% behind the best, mean, most (rows){'prediction':>22}{'without':>20}{'table':>20}"]
    kinds = [(f"{op} {name}", lambda r, op=op, a=a, b=b: r.op == op and a <= r.m <= b)
             for op in sorted({r.op for r in rows}) for name, a, b in BANDS]
    kinds += [(f"by {how}", lambda r, how=how: r.how == how) for how in ("own row", "near row", "prediction")]
    for name, takes in [*kinds, ("all", lambda r: True)]:
        some = [r for r in rows if takes(r)]
        if some:
            lines.append(f"{name:<37}{figures(some, 'predicted'):>20}"
                         f"{figures(some, 'without'):>20}{figures(some, 'tuned'):>20}")
    worse = sorted((r for r in rows if r.tuned > r.without + 0.005), key=lambda r: r.without - r.tuned)
    lines.append(f"{len(worse)} rows where the table's choice is slower than what is taken without it:")
    lines += [f"  {r.label[:60]}: {100 * r.tuned:.1f} % by {r.how}, without {100 * r.without:.1f} %"[:WIDTH]
              for r in worse]
    missing = [r.label for r in rows if math.isnan(r.tuned) or math.isnan(r.without)]
    return lines + [f"not timed: {label}"[:WIDTH] for label in missing]


def asked_plans(asked, *options):
    environment = {k: v for k, v in os.environ.items() if k != "TILELACE_TUNING"}
    done = subprocess.run([asked.tilelace, "plan", "--rows", asked.rows, "--tp", str(asked.tp), "--backend",
                           "cuda", "--wide", *options], text=True, capture_output=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"tuned_choices: {asked.tilelace} plan, got {done.stderr.strip()}")
    for note in re.findall("^note: .*", done.stdout, re.MULTILINE):
        print(note)
    return choices_of(done.stdout, asked.tp)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--tuning", required=True)
    parser.add_argument("--tilelace", default="build/cpu/bin/tilelace")
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("records", nargs="+")
    asked = parser.parse_args()
    records = []
    for path in asked.records:
        with open(path, encoding="utf-8") as file:
            records += map(json.loads, file)
    rows = rows_of(records, asked_plans(asked), asked_plans(asked, "--tuning", asked.tuning))
    if not rows:
        sys.exit("tuned_choices: got no record of these rows with several plans, expected one")
    print("\n".join(lines_of(rows)))


if __name__ == "__main__":
    main()
