#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what the README and pages of docs show of records into them: tables, a plot, the first program.

usage: write_tables.py [--check]      --check: exit 1, and name what is not as the records have it

A block stands between `<!-- NAME -->` and `<!-- end -->`. New records change what is written, never this
script: it reads benchmarks/, docs/ops.md (which the command prints), include/tilelace/dtype.h and
examples/python/first.py.
"""
import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

from op_table import COLOURS, MARKERS, even, geomean, label, marker

ROOT = Path(__file__).resolve().parent.parent
README, FUSED, PLOT = "README.md", "docs/fused-ops.md", "docs/images/speed-up.svg"
OPS = ("ag_gemm", "gemm_rs", "gemm_ar")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
BANDS = (("m to 64", 1, 64), ("m 65 to 1024", 65, 1024), ("m above", 1025, 1 << 60))
# Machines whose records have the fused ops beside NCCL's windows, too.
MACHINES = [("4 H200", "nvidia-h200-tp4/window"), ("2 H200", "nvidia-h200-tp2"), ("2 H100", "nvidia-h100-tp2"),
            ("8 H200", "nvidia-h200-tp8")]
PLOTTED = ("4 H200", "2 H200")
MODELS = {"llama2-70b": "llama70b", "qwen3-32b": "qwen32b", "gpt3-175b": "gpt3"}


class Row(NamedTuple):
    op: str
    m: int
    chosen: float  # NCCL and cuBLAS over the planner's choice
    best: float  # over the fastest plan that was timed
    over_gemm: float
    efficiency: float | None
    commit: str


def records(path, key=lambda r: (r["op"], r["model"], r["layer"], r["ranks"], r["m"], r["n"], r["k"])):
    """The last record of each row."""
    rows = {}
    for line in (ROOT / "benchmarks" / path).read_text(encoding="utf-8").splitlines():
        r = json.loads(line)
        rows[key(r)] = r
    return rows


def fused_rows(folder):
    rows = []
    for op in OPS:
        if not (ROOT / "benchmarks" / folder / f"{op}.jsonl").is_file():
            continue
        for r in records(f"{folder}/{op}.jsonl").values():
            peers = r["peers"] or {}
            if r["fused_us"] is None or "unfused_nccl_window" not in peers or r["verified"] is False:
                continue
            chosen = peers.get("fused_default") or r["fused_us"]
            rows.append(Row(op, r["m"], r["unfused_us"] / chosen, r["unfused_us"] / r["fused_us"],
                            r["fused_us"] / r["gemm_us"], r["efficiency"], r["commit"][:7]))
    return rows


def table(head, rows, numbers_from=1):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "".join("---:|" if i >= numbers_from else "---|" for i in range(len(head)))]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def mean_and_worst(values):
    return f"{geomean(values):.2f} ({min(values):.2f})" if values else "-"


def speed_up():
    lines = []
    for machine, folder in MACHINES:
        if machine not in PLOTTED:
            continue
        rows = fused_rows(folder)
        for op in OPS:
            of_op = [r for r in rows if r.op == op]
            if of_op:
                lines.append((machine, f"`{op}`", *(mean_and_worst([r.chosen for r in of_op if low <= r.m <= high])
                                                    for _, low, high in BANDS), len(of_op)))
    return table(["GPUs", "op", *(name for name, *_ in BANDS), "rows"], lines, 2)


def summary():
    lines = []
    for machine, folder in MACHINES:
        rows = fused_rows(folder)
        for op in OPS:
            for name, low, high in BANDS:
                band = [r for r in rows if r.op == op and low <= r.m <= high]
                if not band:
                    continue
                over = [r.over_gemm for r in band]
                es = [r.efficiency for r in band if r.efficiency is not None and r.best * r.over_gemm >= 1.1]
                lines.append((machine, f"`{op}`", name, len(band), mean_and_worst([r.chosen for r in band]),
                              mean_and_worst([r.best for r in band]), f"{min(over):.2f}-{max(over):.2f}",
                              f"{sum(es) / len(es):.2f} ({len(es)})" if es else "-"))
    return table(["GPUs", "op", "rows of all ranks", "records", "planner's choice: mean (worst)",
                  "best plan: mean (worst)", "best plan / GEMM", "E, mean"], lines, 3)


def dtypes():
    """[(name, whether GPU ranks take it)], from the table of element types."""
    text = (ROOT / "include/tilelace/dtype.h").read_text(encoding="utf-8")
    rows = re.findall(r'\{DType::\w+, "(\w+)", "\w+", "\w+", \d+, [^,]+, -?\d+, (true|false), \d+\}', text)
    if not rows:
        sys.exit("write_tables: include/tilelace/dtype.h: no row of kDTypes found")
    return [(name, gpus == "true") for name, gpus in rows]


def ops():
    """Those of docs/ops.md, which a test compares with the table of ops."""
    return re.findall(r"^\| (\w+) \|", (ROOT / "docs/ops.md").read_text(encoding="utf-8"), re.MULTILINE)[1:]


class Checked:
    """What GPUs were checked for: random shapes, how many were wrong, with which ranks."""

    def __init__(self, device):
        self.shapes, self.wrong, self.ranks = {}, {}, {}
        for path in sorted((ROOT / "benchmarks").glob("*/*conformance.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                r = json.loads(line)
                if device not in (r.get("device") or "") or not r.get("shapes") or not r.get("ranks"):
                    continue
                key = (r["op"], r["dtype"])
                self.shapes[key] = self.shapes.get(key, 0) + r["shapes"]
                self.wrong[key] = self.wrong.get(key, 0) + r["wrong"]
                self.ranks.setdefault(key, set()).add(r["ranks"])
        for path in sorted((ROOT / "benchmarks").glob("*/collectives.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                r = json.loads(line)
                if device not in r["device"] or r["verified"] is None:
                    continue
                key = (r["op"], r["dtype"])
                self.shapes[key] = self.shapes.get(key, 0) + 1
                self.wrong[key] = self.wrong.get(key, 0) + (not r["verified"])
                self.ranks.setdefault(key, set()).add(r["ranks"])

    def cell(self, op, dtype):
        key = (op, dtype)
        if key not in self.shapes:
            return "builds"
        ranks, wrong = sorted(self.ranks[key]), self.wrong[key]
        joined = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"
        return f"{self.shapes[key]:,} on {joined}" + (f", {wrong} WRONG" if wrong else "")


def status():
    devices = ("H100", "H200")
    checked = {device: Checked(device) for device in devices}
    types = [name for name, on_gpus in dtypes() if on_gpus]
    head = ["op", "CPU ranks", *(f"{device} {dtype}" for device in devices for dtype in types)]
    rows = []
    for names in [[op] for op in ops()] + [list(COLLECTIVES)]:
        cells = [", ".join(dict.fromkeys(checked[device].cell(op, dtype) for op in names))
                 for device in devices for dtype in types]
        on_cpus = ", ".join(name for name, _ in dtypes()) if names != list(COLLECTIVES) else "floats, integers"
        rows.append((", ".join(f"`{op}`" for op in names), on_cpus, *cells))
    return table(head, rows, 2)


def ratio_of(record, ways):
    """The fastest of these peers over ours, as a user calls it (results in symmetric memory where peers' are)."""
    known = {"nccl": record["unfused_us"]} | record["peers"]  # older records have NCCL's there alone
    theirs = [us for name, us in known.items() if name in ways and us is not None]
    ours = [us for us in record["ours"].values() if us is not None]
    return min(theirs) / min(ours) if theirs and ours else None


def peer_cells(path, ways):
    cells = []
    for op in OPS:
        rows = [r for r in records(path.format(op=op)).values() if r["op"] == op and r["verified"]]
        cells.append(mean_and_worst([ratio for r in rows if (ratio := ratio_of(r, ways)) is not None]))
    return cells


def over_gemm_cells():
    """What a call takes over its library's own GEMM, cuBLASMp's and ours, of the rows that both have."""
    ours, theirs = {op: [] for op in OPS}, {op: [] for op in OPS}
    mine = {}
    for op in OPS:
        for r in records(f"nvidia-h200-tp4/window/{op}.jsonl").values():
            mine[r["op"], r["model"], r["m"]] = r
    for r in records("nvidia-h200-tp4/cublasmp.jsonl").values():
        match = mine.get((r["op"], MODELS.get(r["model"]), r["m"]))
        if match:
            ours[r["op"]].append((match["peers"].get("fused_default") or match["fused_us"]) / match["gemm_us"])
            theirs[r["op"]].append(r["medium_us"] / r["gemm_us"])
    return [f"{geomean(theirs[op]):.2f}, ours {geomean(ours[op]):.2f}" for op in OPS]


def peers():
    symm = ("symm_mem", "one_shot", "two_shot")
    listed = {"4 H200, measured plans": "nvidia-h200-tp4/peers.jsonl"}
    listed |= {f"{ranks} H100, untuned shapes": f"nvidia-h100-tp{ranks}/peers.jsonl" for ranks in (2, 4)}
    names = {r for path in listed.values() for row in records(path).values() for r in row["peers"]}
    unknown = names - {*symm, "nccl", "nccl_window"}
    if unknown:
        sys.exit(f"write_tables: peers, got {', '.join(sorted(unknown))}, expected of symm_mem and NCCL")
    nccl = ("nccl", "nccl_window")
    lines = [*(("symm_mem / ours", where, *peer_cells(path, symm)) for where, path in listed.items()),
             *(("NCCL + cuBLASLt / ours", where, *peer_cells(path, nccl)) for where, path in listed.items()),
             ("cuBLASMp, call / its GEMM", "4 H200, m from 1024", *over_gemm_cells())]
    return table(["measured", "where", *(f"`{op}`" for op in OPS)], lines, 2)


LAYER_WAYS = [("torch", "PyTorch, eager"), ("torch_compile", "compiled"), ("tilelace", "Tilelace, eager"),
              ("tilelace_compile", "compiled"), ("torch_compile_fused", "PyTorch's, compiled and fused")]


def layers():
    """ms of whole layers, by tools/torch_bench/tp_layers.py; nothing without records."""
    lines = []
    for path in sorted((ROOT / "benchmarks").glob("*/layers.jsonl")):
        key = lambda r: (r["model"], r["code"], r["layers"], r["ranks"], r["step"], r["tokens"])
        for r in records(f"{path.parent.name}/layers.jsonl", key).values():
            if r["verified"]:
                times = [r["ms"].get(way) for way, _ in LAYER_WAYS]
                device = re.sub(r"^NVIDIA (\w+).*", r"\1", r["device"])
                lines.append((f"{r['ranks']} {device}", r["step"], r["tokens"],
                              *("-" if ms is None else f"{ms:.1f}" for ms in times), r["commit"][:7]))
    head = ["GPUs", "step", "tokens", *(name for _, name in LAYER_WAYS), "commit"]
    return table(head, lines, 2) if lines else []


SIZES = (("to 64K", 0, 1 << 16), ("128K to 1M", 1 << 17, 1 << 20), ("2M and more", 1 << 21, 1 << 60))


def collectives():
    """NCCL over ours by bytes: geometric means, the worst row in brackets."""
    lines = []
    for path in sorted((ROOT / "benchmarks").glob("nvidia-*/collectives.jsonl"), reverse=True):
        key = lambda r: (r["op"], r["ranks"], r["dtype"], r["in_place"], r["symmetric"], r["bytes"])
        rows = [r for r in records(f"{path.parent.name}/collectives.jsonl", key).values()
                if r["dtype"] == "bf16" and not r["in_place"] and not r["symmetric"] and r["verified"]]
        for op in COLLECTIVES:
            for baseline, name in (("nccl", "plain"), ("nccl_window", "windows")):
                of_op = [r for r in rows if r["op"] == op and r["baselines"].get(baseline)]
                if not of_op:
                    continue
                device = re.sub(r"^NVIDIA (\w+).*", r"\1", of_op[0]["device"])
                bands = [[r["baselines"][baseline] / r["us"] for r in of_op if low <= r["bytes"] <= high]
                         for _, low, high in SIZES]
                lines.append((f"{of_op[0]['ranks']} {device}", f"`{op}`", name, *map(mean_and_worst, bands)))
    return table(["GPUs", "collective", "NCCL's buffers", *(name for name, *_ in SIZES)], lines, 3)


def times(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def expert_layers():
    """us of a layer of 8192 tokens, ours and of NCCL with torch._grouped_mm."""
    lines = []
    for path in sorted((ROOT / "benchmarks").glob("*/moe_layer.jsonl")):
        key = lambda r: (r["model"], r["m"], r["routing"])
        for r in records(f"{path.parent.name}/{path.name}", key).values():
            if r["m"] == 8192 and r["verified"]:
                device = re.sub(r"^NVIDIA (\w+).*", r"\1", r["device"])
                lines.append((f"{r['ranks']} {device}", r["model"], r["routing"], *map(times, r["us"].values()),
                              f"{r['ratio']:.2f}"))
    return table(["GPUs", "model", "routing", "ours", "NCCL, `_grouped_mm`", "ratio"], lines, 3)


def expert_products():
    """torch._grouped_mm over grouped_gemm, up and down; and ours over an equal dense product of cuBLASLt."""
    key = lambda r: (r["model"], r["m"], r.get("side"), r["form"], r.get("routing", "uniform"))
    rows = records("nvidia-h100/moe.jsonl", lambda r: key(r) if "form" in r else r["pass"])
    ours = {k[:3]: r["us"] for k, r in rows.items() if k[4:] == ("uniform",) and r.get("taken")}
    ms, lines = sorted({m for _, m, _ in ours}), []
    for model in dict.fromkeys(name for name, *_ in ours):
        cells = []
        for m in ms:
            of = [ours[model, m, side] for side in ("up", "down")]
            others = {form: [rows[model, m, side, form, "uniform"]["us"] for side in ("up", "down")]
                      for form in ("torch._grouped_mm", "dense")}
            cells += [f"{geomean([b / a for a, b in zip(of, theirs)]):.2f}" for theirs in others.values()]
        lines.append((model, *cells))
    return table(["model", *(f"{name}, m {m}" for m in ms for name in ("torch", "dense"))], lines, 1)


SHOWN = "nvidia-h100-tp2"
SHOWN_BYTES = tuple(1 << i for i in (10, 12, 14, 16, 18, 19, 20, 21, 22, 23, 24, 26, 28))


def collective_times():
    """us of ours, of NCCL's plain buffers, of its windows."""
    rows = records(f"{SHOWN}/collectives.jsonl", lambda r: (r["op"], r["bytes"]))
    lines = []
    for size in SHOWN_BYTES:
        cells = [f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"]
        for op in COLLECTIVES:
            r = rows[op, size]
            cells += [times(us) for us in (r["us"], r["baselines"]["nccl"], r["baselines"]["nccl_window"])]
        lines.append(cells)
    head = ["size"]
    for op in COLLECTIVES:
        head += [op, "NCCL", "window"]
    return table(head, lines, 1)


def norm_rows():
    return records(f"{SHOWN}/norms.jsonl", lambda r: (r["op"], r.get("model"), r["n"], r["m"], r.get("quant")))


def norm_times():
    """us of one call, of ours and a compiled norm, of NCCL's and one."""
    rows = norm_rows()
    lines = []
    for r in rows.values():
        if r["op"] == "norms" and r["m"] in (1, 16, 64, 256, 1024, 4096):
            us = r["us"]
            lines.append((r["n"], r["quant"], r["m"], *(times(us[way]) for way in ("tilelace", "apart", "nccl")),
                          f"{r['ratio']:.2f}"))
    return table(["n", "quant", "m", "one call", "`all_reduce`, norm", "NCCL, norm", "ratio"], lines, 2)


def decode_steps():
    rows = norm_rows()
    lines = [(r["model"], r["m"], *(times(r["us"][way]) for way in ("mm", "gemm_ar", "nccl")),
              f"{r['us']['gemm_ar'] - r['us']['mm']:.1f}")
             for r in rows.values() if r["op"] == "decode"]
    return table(["model", "m", "product, `all_reduce_norm`", "`gemm_ar`, norm", "product, NCCL, norm", "us saved"],
                 lines, 1)


def gemm():
    """Ours beside cuBLASLt's best algorithm, a geometric mean by m."""
    rows = {}
    key = lambda r: (r["model"], r["layer"], r["ranks"], r["m"])
    for r in records("nvidia-h200/gemm.jsonl", key).values():
        rows.setdefault(r["m"], []).append(r["cublas_us"] / r["tilelace_us"])
    ms = sorted(rows)
    return table(["m", *map(str, ms)], [("mean", *(f"{geomean(rows[m]):.2f}" for m in ms)),
                                        ("worst", *(f"{min(rows[m]):.2f}" for m in ms))])


def overlap():
    """CPU ranks over emulated links, where the collective takes a third to all of the GEMM."""
    lines = []
    for path in sorted((ROOT / "benchmarks/amd-epyc-2-cores-tp4").glob("*.link-*.jsonl")):
        link = path.name.split(".link-")[1].removesuffix(".jsonl")
        for r in records(f"amd-epyc-2-cores-tp4/{path.name}").values():
            part = r["collective_us"] / r["gemm_us"]
            if 1 / 3 <= part <= 1:
                ms = (f"{r[what] / 1e3:.1f}" for what in ("gemm_us", "unfused_us", "fused_us"))
                lines.append((link, r["layer"], f"`{r['op']}`", r["m"], f"{part:.2f}", *ms,
                              f"{r['efficiency']:.2f}", f"{r['speedup']:.2f}"))
    return table(["link GB/s", "layer", "op", "m", "collective / GEMM", "GEMM ms", "unfused ms", "fused ms", "E",
                  "speed-up"], lines, 3)


def stacks():
    """What the tests found of each stack's switch (`run_cases.py --lines`, real_model.py --lines)."""
    rows = {}
    for r in records("stacks/cpu.jsonl", lambda r: (r.get("stack"), r.get("what"), r["ranks"])).values():
        if r.get("stack"):
            rows.setdefault((r["stack"], r["what"]), []).append(r)
    lines = []
    for (stack, what), of_ranks in sorted(rows.items()):
        r = of_ranks[-1]
        ranks = ", ".join(str(n) for n in sorted({r["ranks"] for r in of_ranks}))
        speed = ", ".join(f"{r['speed']:.2f}" for r in of_ranks if r.get("speed"))
        lines.append((stack, r["version"], f"`{r['switch']}`", what, ranks, r["fused"], r["left"], r["result"],
                      speed or "-"))
    head = ["stack", "version", "switch", "what ran", "ranks", "fused calls", "left to the stack", "result",
            "speed / stock"]
    return table(head, lines, 9)


def first_program():
    text = (ROOT / "examples/python/first.py").read_text(encoding="utf-8")
    return ["```python", *text.split("# README begins\n")[1].split("# README ends\n")[0].splitlines(), "```"]


BLOCKS = {"docs/pytorch.md": {"stacks": stacks},
          README: {"first program": first_program, "speed-up": speed_up, "layers": layers, "status": status,
                   "peers": peers},
          FUSED: {"summary": summary, "gemm": gemm}, "docs/command.md": {"overlap": overlap},
          "docs/collectives.md": {"times": collective_times, "norms": norm_times, "decode": decode_steps},
          "docs/moe.md": {"layers": expert_layers, "products": expert_products},
          "docs/performance.md": {"speed-up": speed_up, "collectives": collectives, "gemm": gemm}}


# The plot: a panel over another, so that it can be read on a phone.
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


def with_block(page, text, name, lines):
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(text):
        sys.exit(f"write_tables: {page}: no block <!-- {name} --> with <!-- end --> behind it")
    return block.sub(lambda m: m[1] + "".join(f"{line}\n" for line in lines) + m[2], text)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        sys.exit(2)
    wanted = {PLOT: plot()}
    for page, blocks in BLOCKS.items():
        wanted[page] = (ROOT / page).read_text(encoding="utf-8")
        for name, lines in blocks.items():
            wanted[page] = with_block(page, wanted[page], name, lines())
    stale = [page for page, text in wanted.items()
             if not (ROOT / page).is_file() or (ROOT / page).read_text(encoding="utf-8") != text]
    if sys.argv[1:]:
        for page in stale:
            print(f"{page}: not as the records have it, run tools/write_tables.py")
        print(f"tables: {len(wanted)} files, {len(stale)} stale")
        sys.exit(1 if stale else 0)
    for page in stale:
        (ROOT / page).write_text(wanted[page], encoding="utf-8")


if __name__ == "__main__":
    main()
