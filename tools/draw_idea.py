#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the idea of ag_gemm, docs/images/idea.svg: what one of four ranks computes and receives over time.

usage: draw_idea.py [--check]     --check: exit 1 if the picture is not what this script draws

On a ground of its own, so that it reads on light and dark pages; wide enough for its letters on a phone.
"""
import sys
from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "idea.svg"
WIDTH, LEFT = 492, 66
TILE, TILES = 18, 4  # a tile's side; tiles of a shard
CHUNK = 40  # how long a peer's rows are on the wire
# The own rank first: its rows need no wire.
COLOURS = ["#6b7280", "#0b62a4", "#2f8557", "#c2410c"]
INK, FAINT, LINE, GROUND = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"


def text(x, y, content, size=14, anchor="start", colour=INK, extra=""):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{extra}>'
            f"{escape(content)}</text>")


def box(x, y, width, height, colour, extra=""):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="2" fill="{colour}"{extra}/>'


def lane(y, name):
    return [text(LEFT - 10, y + 13, name, 13, "end", FAINT),
            f'<line x1="{LEFT}" x2="{WIDTH - 18}" y1="{y + TILE + 4}" y2="{y + TILE + 4}" stroke="{LINE}"/>']


def chunks(y, begin=0):
    """Rows of the three peers, one after the other."""
    out = []
    for i in range(3):
        x = LEFT + begin + i * CHUNK
        out.append(box(x + 1, y, CHUNK - 2, TILE, COLOURS[i + 1]))
        out.append(text(x + CHUNK / 2, y + 13, f"rank {i + 1}", 10.5, "middle", GROUND))
    return out


def tiles(y, begin=0):
    out = []
    for shard in range(4):
        for tile in range(TILES):
            x = LEFT + begin + (shard * TILES + tile) * TILE
            out.append(box(x + 1, y, TILE - 2, TILE, COLOURS[shard]))
    return out


def arrows(y_from, y_to):
    """From the end of a peer's rows to the first tile that reads them."""
    out = []
    for i in range(3):
        x = LEFT + (i + 1) * CHUNK - 2
        to = LEFT + (i + 1) * TILES * TILE + TILE / 2
        middle = (y_from + y_to) / 2
        out.append(f'<path d="M{x} {y_from} C{x} {middle} {to} {middle} {to} {y_to - 5}" fill="none" '
                   f'stroke="{COLOURS[i + 1]}" stroke-width="1.6"/>')
        out.append(f'<path d="M{to - 4} {y_to - 6} L{to + 4} {y_to - 6} L{to} {y_to} Z" fill="{COLOURS[i + 1]}"/>')
    return out


def end(x, y, height):
    return f'<line x1="{x}" x2="{x}" y1="{y}" y2="{y + height}" stroke="{INK}" stroke-width="1.5"/>'


def picture():
    product, gather = 4 * TILES * TILE, 3 * CHUNK
    out = []
    y = 30
    out.append(text(LEFT, y, "All-gather, then GEMM", 15, extra=' font-weight="bold"'))
    out += lane(y + 12, "wire") + chunks(y + 12)
    out += lane(y + 44, "tiles")
    out.append(box(LEFT + 1, y + 44, gather - 2, TILE, "none", f' stroke="{FAINT}" stroke-dasharray="3 3"'))
    out.append(text(LEFT + gather / 2, y + 57, "idle", 12, "middle", FAINT))
    out += tiles(y + 44, gather)
    out.append(end(LEFT + gather + product + 1, y + 6, 66))
    y = 140
    out.append(text(LEFT, y, "Tilelace: tiles start as rows arrive", 15, extra=' font-weight="bold"'))
    out += lane(y + 12, "wire") + chunks(y + 12)
    out += lane(y + 64, "tiles") + tiles(y + 64)
    out += arrows(y + 12 + TILE + 2, y + 62)
    out.append(end(LEFT + product + 1, y + 6, 86))
    begin, stop = LEFT + product + 8, LEFT + gather + product
    out.append(f'<line x1="{begin}" x2="{stop}" y1="{y + 73}" y2="{y + 73}" stroke="{FAINT}"/>')
    out.append(f'<path d="M{begin} {y + 73} l7 -4 v8 Z M{stop} {y + 73} l-7 -4 v8 Z" fill="{FAINT}"/>')
    out.append(text((begin + stop) / 2, y + 64, "saved", 13, "middle", FAINT))
    out.append(text(LEFT, y + 112, "time", 12, "start", FAINT))
    out.append(f'<path d="M{LEFT + 30} {y + 108} h60 m-6 -4 l6 4 l-6 4" fill="none" stroke="{FAINT}"/>')
    y += 136
    for i, words in enumerate(("own rows", "rank 1's", "rank 2's", "rank 3's")):
        x = LEFT + i * 98
        out += [box(x, y - 12, 14, 14, COLOURS[i]), text(x + 20, y, words, 13)]
    height = y + 18
    width = LEFT + gather + product + 18
    ground = (f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{GROUND}" '
              f'stroke="{LINE}"/>')
    title = "Tiles of a GEMM start as soon as the rows they read have arrived, while other rows still travel"
    return "\n".join([
        (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">'),
        f"<title>{title}</title>", ground, *out, "</svg>"]) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        sys.exit(2)
    if sys.argv[1:]:
        same = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == picture()
        print("draw_idea: " + ("as drawn" if same else f"{PICTURE}: another picture, run tools/draw_idea.py"))
        sys.exit(0 if same else 1)
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
