#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables (Markdown, to standard output) and plot (SVG) of fused ops, from benchmarks' JSON lines.

usage: op_table.py [--plot FILE.svg] [--bars] FILE.jsonl...

Two panels over m: speed-up over the unfused baseline, overlap efficiency E = 1 - ECT / ECT of the
unfused baseline. E is left out where the unfused baseline exposes less than 10 % of the GEMM: there
1 % of the GEMM is more than 10 points. An m that is no power of two is a hollow marker beside the
line. Later lines replace earlier ones of the same row.
--bars: what ag_gemm and gemm_rs have to reach on 4 and on 2 GPUs, and which rows do not; exit 1 if
any bar is missed.
"""
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

# Told apart in black and white by their markers, too.
COLOURS = ["#0b62a4", "#d1495b", "#3a8f5c", "#8a5a00", "#6a4c93", "#4d4d4d", "#00838f", "#b5651d"]
MARKERS = ["circle", "square", "triangle", "diamond"]
EXPOSED = 1.10
BARRED = ("ag_gemm", "gemm_rs")
PANEL = {"width": 400, "height": 260, "left": 56, "top": 34, "gap": 74}


def fail(what, got, expected):
    print(f"{Path(sys.argv[0]).stem}: {what}, got {got}, expected {expected}", file=sys.stderr)
    sys.exit(2)


def arguments(usage):
    """The command line's but --plot FILE, and that file or None. Ends the process to help."""
    args = sys.argv[1:]
    svg = None
    if "--help" in args or not args:
        print(usage)
        sys.exit(0 if args else 2)
    if "--plot" in args:
        at = args.index("--plot")
        if at + 1 >= len(args):
            fail("--plot", "nothing", "a file")
        svg = args[at + 1]
        del args[at:at + 2]
    return args, svg


def save(path, lines):
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        fail(path, repr(error), "a file to write")


def read(paths):
    rows = {}
    for path in paths:
        try:
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                r = json.loads(line)
                # Without a model the widths say what it is.
                r["model"] = r["model"] or f"{r['n']} x {r['k']}"
                r["layer"] = r["layer"] or ""
                rows[(r["op"], r["model"], r["layer"], r["ranks"], r["m"])] = r
        except (OSError, ValueError, KeyError) as error:
            fail(path, repr(error), "JSON lines of `tilelace bench`")
    rows = [r for r in rows.values() if r["fused_us"] is not None]
    if not rows:
        fail(", ".join(map(str, paths)), "no row with a fused op", "one")
    return sorted(rows, key=lambda r: (r["op"], r["model"], r["layer"], r["ranks"], r["m"]))


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def exposed(row):
    return row["efficiency"] is not None and row["unfused_us"] >= EXPOSED * row["gemm_us"]


def text(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def ratio(over, under):
    return None if over is None else over / under


def longer_of(r):
    """The longer of GEMM and collective; older records call it a roof."""
    return r.get("longer_us", r.get("roof_us"))


def print_table(rows):
    # Older rows were measured without it.
    beside = any(r.get("beside_us") for r in rows)
    head = ["model", "layer", "TP", "m", "GEMM us", "unfused us", *(["beside us"] if beside else []),
            "medium us", "default us", "fused us", "fused / GEMM", *(["fused / beside"] if beside else []),
            "over unfused", "over medium", "E", "longer / fused", "path", "transport"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * 3 + "---:|" * (len(head) - 5) + "---|---|")
    for r in rows:
        fused = r["fused_us"]
        # What the planner takes by itself; left out of a record where it is the fastest.
        default = (r.get("peers") or {}).get("fused_default", fused)
        cells = [r["model"], r["layer"], str(r["ranks"]), str(r["m"]), text(r["gemm_us"], 1),
                 text(r["unfused_us"], 1), *([text(r.get("beside_us"), 1)] if beside else []),
                 text(r["medium_us"], 1), text(default, 1), text(fused, 1) + ("" if r["verified"] else " WRONG"),
                 text(fused / r["gemm_us"], 3),
                 *([text(ratio(fused, r["beside_us"]), 3) if r.get("beside_us") else ""] if beside else []),
                 text(r["speedup"]), text(ratio(r["medium_us"], fused)),
                 text(r["efficiency"]), text(ratio(longer_of(r), fused)), r["path"] or "", r["transport"] or ""]
        print("| " + " | ".join(cells) + " |")


def print_means(rows):
    print("\n| m | rows | over unfused, geomean | worst | over medium, geomean | fused / GEMM, worst | "
          "E, mean (rows that expose 10 %) | worst E |")
    print("|---|" + "---:|" * 7)
    bands = [(1, 64), (65, 1024), (1025, 1 << 40)]
    for low, high in bands:
        band = [r for r in rows if low <= r["m"] <= high]
        if not band:
            continue
        speedups = [r["speedup"] for r in band if r["speedup"] is not None]
        mediums = [r["medium_us"] / r["fused_us"] for r in band if r["medium_us"] is not None]
        es = [r["efficiency"] for r in band if exposed(r)]
        name = f"{low}…{high}" if high < 1 << 40 else f"{low}…"
        cells = [name, str(len(band)), text(geomean(speedups)), text(min(speedups, default=None)),
                 text(geomean(mediums)), text(max(r["fused_us"] / r["gemm_us"] for r in band), 3),
                 text(sum(es) / len(es) if es else None) + (f" ({len(es)})" if es else ""),
                 text(min(es, default=None))]
        print("| " + " | ".join(cells) + " |")


def row_name(r):
    return f"{r['op']} {r['model']} {r['layer']} TP{r['ranks']} m {r['m']}"


def each(what, rows, value, limit, least):
    """Every row's value is at least (at most) the limit."""
    missed = [(row_name(r), value(r)) for r in rows if (value(r) < limit if least else value(r) > limit)]
    print(f"- {what} {'>=' if least else '<='} {limit}: {len(rows) - len(missed)} of {len(rows)} rows"
          + "".join(f"; {name}: {v:.3f}" for name, v in missed))
    return not missed


def together(what, value, limit):
    print(f"- {what} >= {limit}: {'no rows' if value is None else f'{value:.3f}'}"
          f"{'' if value is None or value >= limit else '  MISSED'}")
    return value is None or value >= limit


def bars_of(rows, op, ranks):
    """Those of ag_gemm and of gemm_rs are the same."""
    print(f"\nBars, {op} TP{ranks}:")
    rows = [r for r in rows if r["op"] == op and r["ranks"] == ranks]
    large = [r for r in rows if r["m"] >= 2048]
    middle = [r for r in rows if 256 <= r["m"] <= 1024]
    met = [each("verified", rows, lambda r: 1 if r["verified"] else 0, 1, True)]
    if ranks == 4:
        met.append(each("m >= 2048: E, or 0.85 where fused <= 1.03 GEMM", large,
                        lambda r: max(r["efficiency"] or 0, 0.85 if r["fused_us"] <= 1.03 * r["gemm_us"] else 0),
                        0.85, True))
        es = [r["efficiency"] for r in large if exposed(r)]
        met.append(together("m >= 2048: mean E", sum(es) / len(es) if es else None, 0.90))
    else:
        met.append(each("m >= 2048: fused / GEMM", large, lambda r: r["fused_us"] / r["gemm_us"], 1.04, False))
    met.append(each("m 256...1024: path is fused", middle, lambda r: 1 if r["path"] == "fused" else 0, 1, True))
    met.append(together("m 256...1024: over unfused, geomean", geomean([r["speedup"] for r in middle]),
                        1.20 if ranks == 4 else 1.12))
    met.append(each("m <= 64: over unfused", [r for r in rows if r["m"] <= 64], lambda r: r["speedup"], 0.98, True))
    against = [r for r in rows if r["medium_us"] is not None]
    met.append(each("over medium", against, lambda r: r["medium_us"] / r["fused_us"], 0.98, True))
    met.append(together("over medium, geomean", geomean([r["medium_us"] / r["fused_us"] for r in against]), 1.08))
    return all(met)


def series_of(rows, value):
    series = {}
    several = {what: len({r[what] for r in rows}) > 1 for what in ("op", "layer", "ranks")}
    for r in rows:
        name = " ".join([r["model"]] + [f"TP{r[w]}" if w == "ranks" else str(r[w])
                                        for w in ("layer", "ranks", "op") if several[w]])
        series.setdefault(name, [])
        if value(r) is not None:
            series[name].append((r["m"], value(r)))
    return series


LEAST_E = -0.5  # of the plot


def nice_step(span):
    step = 10 ** math.floor(math.log10(span / 4))
    return next(step * f for f in (1, 2, 2.5, 5, 10) if span / (step * f) <= 5)


def even(m):
    return m & (m - 1) == 0


def marker(shape, x, y, colour, hollow=False):
    paint = f'fill="{"white" if hollow else colour}" stroke="{colour}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" {paint}/>'
    points = {"square": [(-3, -3), (3, -3), (3, 3), (-3, 3)], "triangle": [(0, -4), (3.8, 3), (-3.8, 3)],
              "diamond": [(0, -4.2), (4.2, 0), (0, 4.2), (-4.2, 0)]}[shape]
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon points="{path}" {paint}/>'


def label(x, y, content, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(content)}</text>'


def panel(index, title, series, line_at, ms, styles):
    left = PANEL["left"] + index * (PANEL["width"] + PANEL["gap"])
    top, width, height = PANEL["top"], PANEL["width"], PANEL["height"]
    values = [v for points in series.values() for _, v in points] + [line_at]
    step = nice_step(max(max(values) - min(values), 0.2))
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step + 0.05) * step
    first, last = math.log2(min(ms)), math.log2(max(ms))

    def x_of(m):
        return left + 14 + (width - 28) * ((math.log2(m) - first) / (last - first) if last > first else 0.5)

    def y_of(v):
        return top + height * (high - v) / (high - low)

    out = [label(left + width / 2, top - 14, title, extra=' font-weight="bold"')]
    for i in range(round((high - low) / step) + 1):
        v = low + i * step
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y_of(v):.1f}" y2="{y_of(v):.1f}" stroke="#e2e2e2"/>')
        out.append(label(left - 8, y_of(v) + 4, f"{v:.2f}".rstrip("0").rstrip("."), "end"))
    out.append(f'<line x1="{left}" x2="{left + width}" y1="{y_of(line_at):.1f}" y2="{y_of(line_at):.1f}" '
               'stroke="#777" stroke-dasharray="5 3"/>')
    out.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
    free = math.inf  # labels shall not lie on each other
    for m in sorted(filter(even, ms), reverse=True):
        if free - x_of(m) < 40:
            continue
        free = x_of(m)
        out.append(label(free, top + height + 17, str(m)))
    out.append(label(left + width / 2, top + height + 36, "m (rows of all ranks)"))
    for name, points in series.items():
        colour, shape = styles[name]
        path = " ".join(f"{x_of(m):.1f},{y_of(v):.1f}" for m, v in points if even(m))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [marker(shape, x_of(m), y_of(v), colour, not even(m)) for m, v in points]
    return out


def legend(names, styles, top, total_width):
    out, x, y = [], PANEL["left"], top
    for name in names:
        colour, shape = styles[name]
        width = 46 + 7.6 * len(name)
        if x + width > total_width:
            x, y = PANEL["left"], y + 20
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="1.8"/>')
        out += [marker(shape, x + 12, y - 4, colour), label(x + 30, y, name, "start")]
        x += width
    return out, y


def plot(rows, path):
    ms = sorted({r["m"] for r in rows})
    speed = series_of(rows, lambda r: r["speedup"])
    # Far below 0 the number says no more than that; drawn to scale it would hide the others.
    overlap = series_of(rows, lambda r: max(r["efficiency"], LEAST_E) if exposed(r) else None)
    cut = any(exposed(r) and r["efficiency"] < LEAST_E for r in rows)
    names = list(speed)
    styles = {name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}
    width = 2 * PANEL["width"] + PANEL["left"] + PANEL["gap"] + 20
    keys, bottom = legend(names, styles, PANEL["top"] + PANEL["height"] + 66, width)
    body = panel(0, "speed-up over unfused", speed, 1.0, ms, styles)
    body += panel(1, "overlap efficiency (1: nothing exposed" + (f"; cut at {LEAST_E})" if cut else ")"), overlap, 1.0, ms, styles)
    lines = [(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 16}" width="{width}" '
             f'height="{bottom + 16}" font-family="sans-serif" font-size="12" fill="#222">'),
             f'<rect width="{width}" height="{bottom + 16}" fill="white"/>', *body, *keys, "</svg>"]
    save(path, lines)


def main():
    args, svg = arguments(__doc__)
    bars = "--bars" in args
    rows = read([a for a in args if a != "--bars"])
    ops = sorted({r["op"] for r in rows})
    for op in ops:
        of_op = [r for r in rows if r["op"] == op]
        if len(ops) > 1:
            print(f"\n### {op}\n")
        print_table(of_op)
        print_means(of_op)
    if svg:
        plot(rows, svg)
    if bars:
        cases = sorted({(r["op"], r["ranks"]) for r in rows if r["op"] in BARRED and r["ranks"] in (2, 4)})
        met = [bars_of(rows, op, ranks) for op, ranks in cases]
        sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
