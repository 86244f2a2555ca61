# SPDX-License-Identifier: Apache-2.0
"""Collectives by themselves, and all-reduce with the norm behind it."""
from tables.records import COLLECTIVES, ROOT, gpus_of, mean_and_worst, records, table, times

SIZES = (("to 64K", 0, 1 << 16), ("128K to 1M", 1 << 17, 1 << 20), ("2M and more", 1 << 21, 1 << 60))
SHOWN = "nvidia-h100-tp2"
SHOWN_BYTES = tuple(1 << i for i in (10, 12, 14, 16, 18, 19, 20, 21, 22, 23, 24, 26, 28))


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
                bands = [[r["baselines"][baseline] / r["us"] for r in of_op if low <= r["bytes"] <= high]
                         for _, low, high in SIZES]
                lines.append((gpus_of(of_op[0]), f"`{op}`", name, *map(mean_and_worst, bands)))
    return table(["GPUs", "collective", "NCCL's buffers", *(name for name, *_ in SIZES)], lines, 3)


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
