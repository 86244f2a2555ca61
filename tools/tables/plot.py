# SPDX-License-Identifier: Apache-2.0
"""The plot of speed-ups: a panel over another, so that it can be read on a phone."""
import math

from op_table import COLOURS, MARKERS, even, geomean, label, marker
from tables.fused import MACHINES, PLOTTED, fused_rows
from tables.records import OPS

WIDE, LEFT, TOP, HEIGHT, BELOW = 520, 48, 58, 190, 64
LOW, HIGH = 0.9, 1.4
GROUND, FRAME, FAINT = "#ffffff", "#d1d9e0", "#59636e"


def x_of(m):
    return LEFT + 12 + (WIDE - LEFT - 48) * math.log2(m) / 14


def y_of(value, top):
    return top + HEIGHT * (HIGH - min(max(value, LOW), HIGH)) / (HIGH - LOW)


def panel(top, title, rows):
    out = [label(LEFT, top - 12, title, "start", ' font-weight="bold"')]
    for tenths in range(round(LOW * 10), round(HIGH * 10) + 1):
        y = y_of(tenths / 10, top)
        dash = ' stroke-dasharray="5 3"' if tenths == 10 else ""
        out.append(f'<line x1="{LEFT}" x2="{WIDE - 20}" y1="{y:.1f}" y2="{y:.1f}" '
                   f'stroke="{FAINT if tenths == 10 else FRAME}"{dash}/>')
        out.append(label(LEFT - 8, y + 4, f"{tenths / 10:.1f}", "end"))
    for power in range(0, 15, 2):
        out.append(label(x_of(2**power), top + HEIGHT + 17, str(2**power)))
    for i, op in enumerate(OPS):
        by_m = {}
        for r in rows:
            if r.op == op:
                by_m.setdefault(r.m, []).append(r.chosen)
        points = sorted((m, geomean(values)) for m, values in by_m.items())
        path = " ".join(f"{x_of(m):.1f},{y_of(v, top):.1f}" for m, v in points if even(m))
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.8"/>')
        out += [marker(MARKERS[i], x_of(m), y_of(v, top), COLOURS[i], not even(m)) for m, v in points]
    return out


def wrapped(words, width):
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def plot():
    body, y = [], TOP
    body.append(label(20, 24, "Speed-up over NCCL + cuBLAS, one after the other", "start",
                      ' font-size="15" font-weight="bold"'))
    for machine in PLOTTED:
        rows = fused_rows(dict(MACHINES)[machine])
        body += panel(y, machine.replace(" ", "x "), rows)
        commits = list(dict.fromkeys(r.commit for r in rows))
        y += HEIGHT + 36
        for line in wrapped(f"m, rows of all ranks; commits {', '.join(sorted(commits))}".split(), 80):
            body.append(label(LEFT, y, line, "start", f' font-size="11" fill="{FAINT}"'))
            y += 15
        y += 24
    x = LEFT
    for i, op in enumerate(OPS):
        body += [f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{COLOURS[i]}" stroke-width="1.8"/>',
                 marker(MARKERS[i], x + 12, y - 4, COLOURS[i]), label(x + 30, y, op, "start")]
        x += 130
    height = y + 18
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" width="{WIDE}" height="{height}" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13" '
            'fill="#1f2328" role="img">')
    return "\n".join([head, "<title>Speed-up of the planner's own choice over the best of NCCL and cuBLAS</title>",
                      (f'<rect x="0.5" y="0.5" width="{WIDE - 1}" height="{height - 1}" rx="8" fill="{GROUND}" '
                      f'stroke="{FRAME}"/>'), *body, "</svg>"]) + "\n"
