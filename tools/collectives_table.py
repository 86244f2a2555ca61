#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables (Markdown, to standard output) and plot (SVG) of collectives, from JSON lines of
`tilelace bench all_reduce --json FILE` and so on.

usage: collectives_table.py [--plot FILE.svg] FILE.jsonl...

A table and a panel for each op, number of ranks and element type: time over size, both logarithmic,
ours and every baseline. Later lines replace earlier ones of the same row.
"""
import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

from op_table import COLOURS, MARKERS, arguments, fail, geomean, label, marker, save

OURS = "tilelace"
PANEL = {"width": 400, "height": 260, "left": 64, "top": 34, "gap": 74, "below": 62, "across": 2}
KEYS = ("op", "ranks", "dtype", "in_place", "symmetric", "bytes")


def read(paths):
    rows = {}
    for path in paths:
        try:
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                r = json.loads(line)
                if r["schema"] != "tilelace.collectives/1":
                    fail(path, r["schema"], "tilelace.collectives/1")
                rows[tuple(r[k] for k in KEYS)] = r
        except (OSError, ValueError, KeyError, TypeError) as error:
            fail(path, repr(error), "JSON lines of `tilelace bench` of collectives")
    if not rows:
        fail(", ".join(map(str, paths)), "no row", "one")
    return list(rows.values())


def groups_of(rows):
    """By what makes a panel; ops in the order of the files, sizes rising."""
    groups = {}
    for r in rows:
        words = [r["op"], f"{r['ranks']} ranks", r["dtype"]]
        words += [w for w, k in (("in place", "in_place"), ("symmetric memory", "symmetric")) if r[k]]
        groups.setdefault(", ".join(words), []).append(r)
    return {title: sorted(of, key=lambda r: r["bytes"]) for title, of in groups.items()}


def size_text(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def us_text(us):
    return "" if us is None else f"{us:.0f}" if us >= 999.5 else f"{us:.1f}" if us >= 9.995 else f"{us:.2f}"


def best_of(row):
    return min((us for us in row["baselines"].values() if us is not None), default=None)


def names_of(rows):
    return list(dict.fromkeys(name for r in rows for name in r["baselines"]))


def print_table(title, rows):
    names = names_of(rows)
    print(f"\n### {title}\n")
    head = ["size", "us", "algbw GB/s", "busbw GB/s", *(f"{n} us" for n in names),
            *(["fastest baseline / ours"] if names else []), "plan"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---:|" * (len(head) - 1) + "---|")
    for r in rows:
        best = best_of(r)
        cells = [size_text(r["bytes"]), us_text(r["us"]) + (" WRONG" if r["verified"] is False else ""),
                 f"{r['algbw']:.1f}", f"{r['busbw']:.1f}", *(us_text(r["baselines"].get(n)) for n in names),
                 *(["" if best is None else f"{best / r['us']:.2f}"] if names else []), r["plan"]]
        print("| " + " | ".join(cells) + " |")
    means = []
    for name, ratios in [(n, [r["baselines"][n] / r["us"] for r in rows if r["baselines"].get(n)]) for n in names] + [
            ("the fastest", [best_of(r) / r["us"] for r in rows if best_of(r)])]:
        if ratios:
            means.append(f"{name} {geomean(ratios):.2f}")
    if means:
        print(f"\nGeometric mean of baseline / ours: {', '.join(means)}.")


def ticks(low, high):
    """Powers of ten, and between them 2 and 5 where there are few."""
    wide = math.log10(high / low) > 2.5
    factors = (1,) if wide else (1, 2, 5)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [f * 10.0**e for e in range(first, last + 1) for f in factors if low * 0.999 <= f * 10.0**e <= high * 1.001]


def panel(left, top, title, rows, styles):
    width, height = PANEL["width"], PANEL["height"]
    series = {OURS: [(r["bytes"], r["us"]) for r in rows]}
    for name in names_of(rows):
        series[name] = [(r["bytes"], r["baselines"][name]) for r in rows if r["baselines"].get(name)]
    values = [us for points in series.values() for _, us in points]
    low, high = min(values) / 1.2, max(values) * 1.2
    sizes = sorted({r["bytes"] for r in rows})
    first, last = math.log2(sizes[0]), math.log2(sizes[-1])

    def x_of(size):
        return left + 14 + (width - 28) * ((math.log2(size) - first) / (last - first) if last > first else 0.5)

    def y_of(us):
        return top + height * math.log(high / us) / math.log(high / low)

    out = [label(left + width / 2, top - 14, title, extra=' font-weight="bold"')]
    for us in ticks(low, high):
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y_of(us):.1f}" y2="{y_of(us):.1f}" stroke="#e2e2e2"/>')
        out.append(label(left - 8, y_of(us) + 4, f"{us:g}", "end"))
    out.append(label(left, top - 14, "us", "end"))
    out.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
    free = math.inf  # labels shall not lie on each other
    for size in reversed(sizes):
        if free - x_of(size) < 44:
            continue
        free = x_of(size)
        out.append(label(free, top + height + 17, size_text(size)))
    out.append(label(left + width / 2, top + height + 36, "bytes"))
    for name, points in reversed(series.items()):  # ours on top
        colour, shape = styles[name]
        path = " ".join(f"{x_of(size):.1f},{y_of(us):.1f}" for size, us in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [marker(shape, x_of(size), y_of(us), colour) for size, us in points]
    return out


def legend(names, styles, y):
    out, x = [], PANEL["left"]
    for name in names:
        colour, shape = styles[name]
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="1.8"/>')
        out += [marker(shape, x + 12, y - 4, colour), label(x + 30, y, name, "start")]
        x += 46 + 7.6 * len(name)
    return out


def plot(groups, path):
    names = [OURS, *names_of([r for rows in groups.values() for r in rows])]
    styles = {name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}
    across = min(PANEL["across"], len(groups))
    pitch = PANEL["top"] + PANEL["height"] + PANEL["below"]
    body = []
    for i, (title, rows) in enumerate(groups.items()):
        left = PANEL["left"] + i % across * (PANEL["width"] + PANEL["gap"])
        body += panel(left, PANEL["top"] + i // across * pitch, title, rows, styles)
    bottom = math.ceil(len(groups) / across) * pitch
    width = PANEL["left"] + across * (PANEL["width"] + PANEL["gap"]) - PANEL["gap"] + 20
    body += legend(names, styles, bottom)
    lines = [(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 16}" width="{width}" '
             f'height="{bottom + 16}" font-family="sans-serif" font-size="12" fill="#222">'),
             f"<title>{escape('Collectives: time over size')}</title>",
             f'<rect width="{width}" height="{bottom + 16}" fill="white"/>', *body, "</svg>"]
    save(path, lines)


def main():
    args, svg = arguments(__doc__)
    groups = groups_of(read(args))
    for title, rows in groups.items():
        print_table(title, rows)
    if svg:
        plot(groups, svg)


if __name__ == "__main__":
    main()
