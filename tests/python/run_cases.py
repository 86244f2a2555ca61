# SPDX-License-Identifier: Apache-2.0
"""A rank of the tests: runs every case of this many ranks and writes what failed, by rank.

torchrun --nproc-per-node N run_cases.py [--device cuda] [--lines FILE] [--quiet] [--exactly]
                                         OUT.json [NAME ...]
Each case has a group of its own, so that one that fails leaves nothing behind. --lines: what cases
measured, a JSON object a line, appended. --quiet: prints failed and slow cases alone. OUT.json "-":
nothing is written, what failed is printed. A NAME is a part of cases' names, or --exactly one; one
that no case has is an error: exit code 2.
"""
import argparse
import faulthandler
import importlib
import json
import os
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tilelace
import torch
import torch.distributed as dist
from cases.world import MODULES, World, cases_of

BOUND_S = {"cpu": 20, "cuda": 10}
SLOW_S = 10


def run(fn, arguments, device):
    """Every rank's traceback, "" where it passed."""
    # What hangs in spite of every bound ends with all stacks printed; on GPUs whoever started this
    # ends it, and the stacks come soon and again.
    if device == "cuda":
        faulthandler.dump_traceback_later(20, repeat=True)
    else:
        faulthandler.dump_traceback_later(150, exit=True)
    group = dist.new_group(timeout=timedelta(seconds=60))
    tilelace.join(group, timeout=BOUND_S[device], device=device)
    world = World(group, device)
    text = ""
    try:
        fn(world, **arguments)
        world.synchronize()
    except BaseException:
        text = traceback.format_exc()
    texts = [""] * world.ranks
    dist.all_gather_object(texts, text)
    tilelace.leave(group)
    dist.destroy_process_group(group)
    faulthandler.cancel_dump_traceback_later()
    return texts, world.lines


def set_up(device):
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # cuBLAS then sums in fp32, which the bounds count on.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    tilelace._groups.DEFAULT_TIMEOUT_S = BOUND_S[device]
    dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl",
                            timeout=timedelta(seconds=60))
    for module in MODULES:
        importlib.import_module(f"cases.{module}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="cpu", choices=BOUND_S)
    arguments.add_argument("--lines")
    arguments.add_argument("--quiet", action="store_true")
    arguments.add_argument("--exactly", action="store_true")
    arguments.add_argument("out")
    arguments.add_argument("names", nargs="*")
    asked = arguments.parse_args()
    set_up(asked.device)
    first = dist.get_rank() == 0
    results, failed = {}, 0
    cases = cases_of(asked.device, dist.get_world_size())

    def means(asked_name, name):
        return asked_name == name if asked.exactly else asked_name in name

    nowhere = [n for n in asked.names if not any(means(n, name) for name in cases)]
    if nowhere:
        if first:
            print(f"cases: got {' '.join(nowhere)}, which no case of {dist.get_world_size()} ranks on "
                  f"{asked.device} has in its name: nothing was tested", flush=True)
        dist.destroy_process_group()
        sys.exit(2)
    for name, (fn, _, more) in cases.items():
        if asked.names and not any(means(n, name) for n in asked.names):
            continue
        if first and not asked.quiet:
            print(name, flush=True)
        start = time.monotonic()
        errors, lines = run(fn, more, asked.device)
        results[name] = {"errors": errors, "s": time.monotonic() - start}
        failed += any(errors)
        if first and asked.quiet and results[name]["s"] > SLOW_S:
            print(f"  slow: {name}, {results[name]['s']:.1f} s", flush=True)
        if first and any(errors) and asked.out == "-":
            print(f"FAILED {name} ({results[name]['s']:.1f} s)")
            for text in sorted(set(errors)):
                ranks = [r for r, t in enumerate(errors) if t == text]
                print(f"  ranks {ranks}: {text[-1000:] or 'passed'}", flush=True)
        if first and asked.lines:
            common = {"case": name, "ranks": dist.get_world_size(), "device": asked.device,
                      "passed": not any(errors), "s": round(results[name]["s"], 2)}
            with open(asked.lines, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(common | line) + "\n" for line in lines or [{}])
    if first:
        print(f"{len(results)} cases on {dist.get_world_size()} ranks, {failed} failed", flush=True)
        if asked.out != "-":
            Path(asked.out).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
