# SPDX-License-Identifier: Apache-2.0
"""A rank of the tests: runs every case of this many ranks and writes what failed, by rank.

torchrun --nproc-per-node N run_cases.py OUT.json [NAME ...]
Each case has a group of its own, so that one that fails leaves nothing behind.
"""
import importlib
import json
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch.distributed as dist  # noqa: E402

import tilelace  # noqa: E402
from cases.world import CASES, MODULES, World  # noqa: E402


def run(name, fn, arguments):
    """Every rank's traceback, "" where it passed."""
    group = dist.new_group(timeout=timedelta(seconds=60))
    tilelace.join(group, timeout=20, device="cpu")
    world = World(group)
    text = ""
    try:
        fn(world, **arguments)
    except BaseException:
        text = traceback.format_exc()
    texts = [""] * world.ranks
    dist.all_gather_object(texts, text)
    tilelace.leave(group)
    dist.destroy_process_group(group)
    return texts


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for module in MODULES:
        importlib.import_module(f"cases.{module}")
    wanted = sys.argv[2:]
    results = {}
    for name, (fn, ranks, arguments) in CASES.items():
        if dist.get_world_size() in ranks and (not wanted or any(w in name for w in wanted)):
            if dist.get_rank() == 0:
                print(name, flush=True)
            start = time.monotonic()
            results[name] = {"errors": run(name, fn, arguments), "s": time.monotonic() - start}
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
