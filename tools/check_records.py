#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""New benchmark records beside the committed ones of the same rows: whether a call of ours got slower.

usage: check_records.py NEW.jsonl... [--against FOLDER] [--rows]
A row is what KEY names, and one of our ways to run it; times of peers are not compared. Of several
committed records of a row the one in a file of the same name counts, of these the latest. NEW files that
lie in FOLDER (default: benchmarks) are no committed ones. Slower is more than 15 % for rows under
50 us, 5 % for others. The table has rows that are slower or faster by more, with --rows all.
Exit 1: a row is slower, or a new result is wrong. 2: no row was compared.
"""
import argparse
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = "old"  # a folder of ways that are gone
SHORT_US, SHORT, LONG = 50.0, 0.15, 0.05
WIDTH = 100
SCHEMAS = {f"tilelace.{name}/1" for name in (
    "bench", "collectives", "hugging_face", "layers", "moe_bench", "moe_layer", "norms")}
KEY = ("schema", "device", "ranks", "dtype", "backend", "mode", "op", "pass", "form", "side", "model", "layer",
       "layers", "code", "step", "tokens", "routing", "bytes", "in_place", "symmetric", "m", "n", "k", "weights",
       "activation", "calls", "quant")
# Times that are ours: fields by themselves, and by name in fields that hold several ways.
SINGLE = ("fused_us", "tilelace_us", "default_us", "us")
SEVERAL = ("ours", "us", "ms", "eager_us", "graph_us")
OURS = re.compile(r"^(tilelace|ours|gemm_ar)|_fused$|^fused_default$")


class Time(NamedTuple):
    us: float
    made: str
    path: Path


class Compared(NamedTuple):
    label: str
    old: Time
    new: Time

    @property
    def change(self):
        return self.new.us / self.old.us - 1

    @property
    def limit(self):
        return SHORT if self.old.us < SHORT_US else LONG


def key_of(record):
    return tuple(json.dumps(record.get(name)) for name in KEY)


def times_of(record):
    """{way: us} of what is ours."""
    times = {name: record.get(name) for name in SINGLE if not isinstance(record.get(name), dict)}
    if "ours" in record:
        times.pop("fused_us")  # the better of them
    for field in SEVERAL:
        if isinstance(record.get(field), dict):
            unit = 1000 if field == "ms" else 1
            times |= {f"{field} {way}": t and t * unit for way, t in record[field].items() if OURS.search(way)}
    times |= {way: t for way, t in (record.get("peers") or {}).items() if OURS.search(way)}
    return {way: us for way, us in times.items() if us}


def label_of(record, way):
    layer = ".".join(str(record[part]) for part in ("model", "layer") if record.get(part))
    of = layer or (f"{record['n']}x{record['k']}" if record.get("n") and record.get("k") else "")
    words = [record.get("op") or record["schema"].split(".")[1].split("/")[0], record.get("pass"), record.get("form"),
             record.get("side"), of, record.get("code"), record.get("step"), record.get("routing"),
             record.get("dtype")]
    words += [f"{short} {record[name]}" for name, short in (("ranks", "tp"), ("tokens", "m"), ("m", "m"), ("bytes", "bytes"))
              if record.get(name) is not None]
    words += [name for name in ("in_place", "symmetric") if record.get(name)]
    words.append("" if way in ("fused_us", "us") else f"({way})")
    return " ".join(word for word in words if word)


def read(path):
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            sys.exit(f"{path}:{number}: got no JSON, expected a record a line")
        if isinstance(record, dict) and record.get("schema") in SCHEMAS:
            yield record


def committed(folder, new_paths):
    """{(key, way): times, the oldest first}."""
    rows = {}
    for path in sorted(folder.rglob("*.jsonl")):
        if path.resolve() in new_paths or LEFT_OUT in path.relative_to(folder).parts:
            continue
        for record in read(path):
            if record.get("verified") is False:
                continue
            for way, us in times_of(record).items():
                rows.setdefault((key_of(record), way), []).append(Time(us, record.get("time") or "", path))
    for times in rows.values():
        times.sort(key=lambda t: t.made)  # stable: later lines stay behind earlier ones
    return rows


def compare(paths, folder):
    """(what was compared, labels of wrong results, number of rows that nothing committed has)."""
    known = committed(folder, {Path(path).resolve() for path in paths})
    found, wrong, unknown = {}, [], set()
    for path in map(Path, paths):
        for record in read(path):
            if record.get("verified") is False:
                wrong.append(label_of(record, "us"))
                continue
            for way, us in times_of(record).items():
                row = (key_of(record), way)
                if row not in known:
                    unknown.add(row)
                    continue
                same = [t for t in known[row] if t.path.name == path.name] or known[row]
                found[row] = Compared(label_of(record, way), same[-1], Time(us, record.get("time") or "", path))
    return list(found.values()), wrong, len(unknown)


def print_table(rows, folder):
    wide = min(max(len(r.label) for r in rows), 55)
    tail = WIDTH - wide - 33  # "committed in" needs 12
    print(f"{'row':{wide}} {'us before':>10} {'us now':>10} {'change':>8}  committed in")
    for r in sorted(rows, key=lambda r: -r.change):
        label = r.label if len(r.label) <= wide else r.label[:wide - 2] + ".."
        name = str(r.old.path.relative_to(folder))
        print(f"{label:{wide}} {r.old.us:10.1f} {r.new.us:10.1f} {100 * r.change:+7.1f}%  {name[-tail:]}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("new", nargs="+")
    parser.add_argument("--against", type=Path, default=ROOT / "benchmarks")
    parser.add_argument("--rows", action="store_true")
    asked = parser.parse_args(arguments)
    for path in (*map(Path, asked.new), asked.against):
        if not path.exists():
            print(f"records: {path}: it is not there")
            return 2
    rows, wrong, unknown = compare(asked.new, asked.against)
    slower = [r for r in rows if r.change > r.limit]
    faster = [r for r in rows if r.change < -r.limit]
    shown = rows if asked.rows else [*slower, *faster]
    if shown:
        print_table(shown, asked.against)
    for label in wrong:
        print(f"wrong result: {label}")
    print(f"records: {len(rows)} rows compared, {len(slower)} slower, {len(faster)} faster, {len(wrong)} wrong, "
          f"{unknown} new")
    if not rows and not wrong:
        print("records: got no row that is committed, expected one or more: other device, ranks or shapes?")
        return 2
    return 1 if slower or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
