# SPDX-License-Identifier: Apache-2.0
"""Which op was checked on which GPUs, in which element types."""
import json
import re
import sys

from tables.records import COLLECTIVES, ROOT, table


def dtypes():
    """[(name, whether GPU ranks take it)], from the table of element types."""
    text = (ROOT / "include/tilelace/dtype.h").read_text(encoding="utf-8")
    rows = re.findall(r'\{DType::\w+, "(\w+)", "\w+", "\w+", \d+, [^,]+, -?\d+, (true|false)\}', text)
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
