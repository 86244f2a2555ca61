#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what the README and pages of docs show of records into them: tables, a plot, the first program.

usage: write_tables.py [--check]      --check: exit 1, and name what is not as the records have it

A block stands between `<!-- NAME -->` and `<!-- end -->`. New records change what is written, never this
script: it reads benchmarks/, docs/ops.md (which the command prints), include/tilelace/dtype.h and
examples/python/first.py.
"""
import re
import sys

from tables import checked, collectives, experts, fused, models
from tables.plot import plot
from tables.records import ROOT

README, FUSED, PLOT = "README.md", "docs/fused-ops.md", "docs/images/speed-up.svg"


def first_program():
    text = (ROOT / "examples/python/first.py").read_text(encoding="utf-8")
    return ["```python", *text.split("# README begins\n")[1].split("# README ends\n")[0].splitlines(), "```"]


BLOCKS = {"docs/pytorch.md": {"stacks": models.stacks},
          README: {"first program": first_program, "speed-up": fused.speed_up, "layers": models.layers,
                   "status": checked.status, "peers": fused.peers},
          FUSED: {"summary": fused.summary, "gemm": fused.gemm}, "docs/command.md": {"overlap": models.overlap},
          "docs/collectives.md": {"times": collectives.collective_times, "norms": collectives.norm_times,
                                  "decode": collectives.decode_steps},
          "docs/moe.md": {"layers": experts.expert_layers, "products": experts.expert_products},
          "docs/performance.md": {"speed-up": fused.speed_up, "collectives": collectives.collectives,
                                  "gemm": fused.gemm}}


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
