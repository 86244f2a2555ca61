#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best peer's time over ours, from records of `torch_bench listed` or `tilelace bench --baselines`.

usage: peer_summary.py [--by-layer] [--ours WAY] [--rows] FILE...
By op (and layer), the geometric mean for m to 64, to 1024 and above, the worst row, and how many are
below 1; then each of those. --ours: this way of ours, not the fastest; --rows: every row. Later lines
replace earlier ones of the same row; rows whose result was wrong are named, and count nowhere.
"""
import argparse
import json
import math
import sys
from typing import NamedTuple

BANDS = (("to 64", 1, 64), ("65..1024", 65, 1024), ("above", 1025, 1 << 60))
WIDTH = 100


class Row(NamedTuple):
    op: str
    name: str
    m: int
    ours: float
    way: str
    peer: float
    peer_way: str
    peer_m: int

    @property
    def ratio(self):
        return self.peer / self.ours


def peers_of(record):
    """By name; of `tilelace bench` those alone that are a whole call."""
    peers = record.get("peers") or {}
    if "ours" not in record:
        peers = {name: us for name, us in peers.items() if name.startswith("unfused_")}
    return {name: us for name, us in peers.items() if us is not None}


def name_of(record):
    known = [record[part] for part in ("model", "layer") if record.get(part)]
    return ".".join(known) or f"{record['n']}x{record['k']}"


def row_of(record, way):
    """None: nothing to compare."""
    ours = record.get("ours") or {"fused": record["fused_us"]}
    ours = {name: us for name, us in ours.items() if us is not None and way in (None, name)}
    peers = peers_of(record)
    if not ours or not peers:
        return None
    mine, theirs = min(ours, key=ours.get), min(peers, key=peers.get)
    return Row(record["op"], name_of(record), record["m"], ours[mine], mine, peers[theirs], theirs,
               record.get("peer_m", record["m"]))


def read(paths):
    """{key: record}, of each row the last."""
    records = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    r = json.loads(line)
                    key = (r["op"], name_of(r), r["ranks"], r["m"], r["n"], r["k"], r["dtype"])
                    records.pop(key, None)
                    records[key] = r
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"peer_summary: {path}, got {error!r}, expected records")
    return list(records.values())


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def mean_of(rows):
    return f"{geomean([r.ratio for r in rows]):.3f} ({len(rows)})" if rows else "-"


def label_of(row):
    return f"{row.name} m {row.m}"


def line_of(kind, rows):
    cells = [mean_of([r for r in rows if low <= r.m <= high]) for _, low, high in BANDS] + [mean_of(rows)]
    worst = min(rows, key=lambda r: r.ratio)
    lost = sum(r.ratio < 1 for r in rows)
    start = f"{kind:<16.16}" + "".join(f"{c:>13}" for c in cells) + f"{lost:>5}  "
    return start + f"{worst.ratio:.2f} {label_of(worst)}"[:WIDTH - len(start)]


def row_line(r):
    more = f" (m {r.peer_m})" if r.peer_m != r.m else ""
    return (f"  {r.ratio:.3f} {r.op:<8}{label_of(r)[:36]:<37}{r.way} {r.ours:.1f}, "
            f"{r.peer_way}{more} {r.peer:.1f}")[:WIDTH]


def layer_of(row):
    return f"{row.op[-2:] if row.op != 'ag_gemm' else 'ag'} {row.name.rpartition('.')[2]}"


def summary(records, by_layer=False, way=None, every=False):
    """Its lines."""
    wrong = [r for r in records if r.get("verified") is False]
    rows = [row for r in records if r not in wrong and (row := row_of(r, way)) is not None]
    if not rows:
        return ["no row with ours and a peer"]
    head = "best peer / ours" + "".join(f"{name:>13}" for name, *_ in BANDS) + f"{'all':>13}{'lost':>5}  worst"
    lines = [head]
    kinds = (lambda r: r.op,) + ((layer_of,) if by_layer else ()) + ((lambda r: "all"),)
    for kind_of in kinds:
        for kind in sorted({kind_of(r) for r in rows}):
            lines.append(line_of(kind, [r for r in rows if kind_of(r) == kind]))
    shown = rows if every else [r for r in rows if r.ratio < 1]
    lines.append(f"{len(shown)} of {len(rows)} rows{'' if every else ' are slower than the best peer'}:")
    lines += [row_line(r) for r in sorted(shown, key=lambda r: r.ratio)]
    lines += [f"WRONG, left out: {r['op']} {name_of(r)} m {r['m']} {r.get('wrong', '')}"[:WIDTH] for r in wrong]
    return lines


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--by-layer", action="store_true")
    parser.add_argument("--ours")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("files", nargs="+")
    asked = parser.parse_args()
    print("\n".join(summary(read(asked.files), asked.by_layer, asked.ours, asked.rows)))


if __name__ == "__main__":
    main()
