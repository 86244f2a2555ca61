# SPDX-License-Identifier: Apache-2.0
"""Layers of models, the stacks that run them, and overlap on CPU ranks."""
from tables.records import ROOT, gpus_of, records, table

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
                lines.append((gpus_of(r), r["step"], r["tokens"],
                              *("-" if ms is None else f"{ms:.1f}" for ms in times), r["commit"][:7]))
    head = ["GPUs", "step", "tokens", *(name for _, name in LAYER_WAYS), "commit"]
    return table(head, lines, 2) if lines else []


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
