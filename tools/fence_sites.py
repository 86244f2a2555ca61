#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every place in kernels that orders memory, and checks on emulated GPUs that each is needed:
one is taken away alone, and the order check (tests/emulated/machine/order.h) must notice.

A site is a call, in src/backend/cuda/device, kernels and the .cu files of calls, of a function
of the table KINDS below, by its name, qualified or not, but not as a member of something: what
orders is the call of a primitive (device/ptx.h, proxy.h, sums_by.h, comm/cuda_atomics.h, which are
the instructions themselves and have no sites) or of a verb with an order of its own in its contract
(signal, publish, wait, ...); what the verb itself calls is a site, too. No sites: votes, shuffles
and elect_one, which order nothing; barrier_expect, which counts what the copy unit will bring;
wgmma_fence and wgmma_commit, which are about registers.

Sites are taken away in turn, many a run; those that no turn noticed, for good, one a run. "Taken
away": it still does all it does (a flag is stored, a wait waits, threads meet), but it
promises nothing to anybody, so nothing hangs and no value changes: what misses it is the check.

A site that need not be missed has a comment "// stays: WHY" on its line or the line before.

usage: fence_sites.py              the list, a line a site: FILE:LINE kind name [stays: WHY]
       fence_sites.py --check [--program EMULATED_CONFORMANCE] [--seeds N | --seed S]... [--runs NAME...]
           of each seed (new ones unless given), all runs of RUNS; exit 1: a site was not reached, or
           not noticed for 4 of 5 seeds; with --least N: in turn alone, exit 1: fewer than N were
           noticed in each
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

KINDS = {
    "fence": ("proxy_fence_global", "fence_shared_to_copy", "barrier_init_fence", "alias_fence",
              "__threadfence", "__threadfence_system"),
    "acquire": ("load_acquire", "wait", "wait_until", "wait_word", "wait_header", "wait_for_bulk",
                "wait_cta", "compare_exchange"),
    "release": ("store_release", "add_release", "signal", "publish", "count", "CudaDeviceAtomics::add"),
    "barrier": ("__syncthreads", "__syncthreads_or", "__syncthreads_and", "__syncwarp", "sync_threads",
                "sync_threads_all", "arrive_threads", "cluster_sync", "sync_group", "hand_over"),
    "mbarrier": ("barrier_arrive", "barrier_arrive_at", "barrier_test", "barrier_try",
                 "barrier_wait", "release"),
    "bulk wait": ("store_wait", "store_wait_read", "bulk_complete", "wgmma_wait"),
    "grid wait": ("wait_prerequisites",),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
INSTRUCTIONS = {"ptx.h", "proxy.h", "sums_by.h", "elements.h", "trace.h"}
QUALIFIED = r"((?:\w+(?:<[^<>();]*>)?::)*)"
CALL = re.compile(QUALIFIED + r"(\w+)(<[^<>();]*>)?\(")
STAYS = re.compile(r"//.*\bstays: (.*)")


@dataclass
class Site:
    file: str
    line: int
    kind: str
    name: str
    begin: int  # in the text: of the call, and behind it
    end: int
    stays: str = ""
    key: str = ""


def without_comments(text):
    return re.sub(r"//[^\n]*|\"[^\"\n]*\"", lambda m: " " * len(m[0]), text)


def is_call(code, begin):
    """Whether what stands before a name makes it a call, of no member."""
    before = code[:begin].rstrip()
    if before.endswith((".", "->", "::", "~")):
        return False
    word = re.search(r"[\w>]+$", before)
    return word is None or word[0] in ("return", "else", "do")


def closing(code, at):
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a call without an end")


def sites_of(file, text):
    """Of one source, by place."""
    if file in INSTRUCTIONS:
        return []
    code, lines, found = without_comments(text), text.split("\n"), []
    for m in CALL.finditer(code):
        qualified = m[1] + m[2]
        name = next((n for n in (m[2], "::".join(qualified.split("::")[-2:])) if n in KIND_OF), None)
        if name is None or not is_call(code, m.start()):
            continue
        if code[closing(code, m.end() - 1):].lstrip().startswith(("{", "const {")):
            continue  # a constructor, or a function without a type
        line = code.count("\n", 0, m.start()) + 1
        before = lines[line - 2].lstrip() if line > 1 else ""
        why = STAYS.search(lines[line - 1]) or (before.startswith("//") and STAYS.search(before))
        site = Site(file, line, KIND_OF[name], name, m.start(), closing(code, m.end() - 1),
                    why[1] if why else "")
        same = sum(s.line == line for s in found)
        site.key = f"{file}:{line}" + (f".{same + 1}" if same else "")
        found.append(site)
    return found


def mark(file, text):
    """The text with every site's call inside a Site (tests/emulated/machine/sites.h)."""
    edits = []
    for s in sites_of(file, text):
        edits.append((s.end, 0, ")"))
        edits.append((s.begin, 1, f'(::tilelace::emulated::Site("{s.key}"), '))
    for at, _, more in sorted(edits, reverse=True):
        text = text[:at] + more + text[at:]
    return text


def all_sites():
    cuda = Path(__file__).resolve().parent.parent / "src/backend/cuda"
    files = [*cuda.glob("device/*.h"), *cuda.glob("kernels/*.h"), *cuda.glob("kernels/*/*.h"),
             *cuda.glob("kernels/*/*.cu"),
             *(f for f in cuda.glob("*/*.cu") if f.parent.name not in ("measure", "kernels"))]
    return [s for f in sorted(files, key=lambda f: (f.parent.name, f.name))
            for s in sites_of(f.name, f.read_text(encoding="utf-8"))]


SMALL = ("--dtypes", "bf16", "--small")
BOUNDS = ("--timeout-s", "100", "--limit-seconds", "1500")


@dataclass
class Run:
    """What is run of a seed, in a process of its own: so many random problems. Few multiprocessors:
    workers with several tiles, whose rings go round."""
    shapes: int
    ops: str = ""  # none: the product alone
    kinds: str = ""
    tile: str = ""
    multiprocessors: int = 4
    ranks: int = 2
    moe: bool = False  # a mixture of experts on one GPU
    norms: int = 0  # calls of all_reduce_norm, beside `shapes` calls of collectives

    def command(self, program, shapes):
        """`program`: of the ops; those of the product, experts and collectives lie beside it."""
        problems = [*SMALL, "--shapes", str(shapes)]
        if self.norms:
            return [str(Path(program).with_name("emulated_collectives")), "--ranks", str(self.ranks), *BOUNDS,
                    "--most", "4000", "--calls", str(shapes), "--norm", str(self.norms)]
        if self.moe:
            return [str(Path(program).with_name("emulated_moe_check")), "--graphs", "0", "--repeats", "2",
                    "--calls", "2", *problems]
        if not self.ops:
            return [str(Path(program).with_name("emulated_gemm_check")), "--tile", self.tile, *problems]
        kinds = ["--kinds", self.kinds] if self.kinds else []
        return [program, "--ranks", str(self.ranks), *BOUNDS, "--ops", self.ops, *kinds, *problems]


PUSHED = ("unfused push,unfused push in one shot,unfused push in two shots,unfused push by lines,"
          "unfused push in one shot by lines,unfused push in two shots by lines")
# Together they reach every site.
RUNS = {
    "ag_gemm": Run(8, "ag_gemm"),
    "whole": Run(4, "ag_gemm", "store whole"),  # threads that multiply copy rows first
    "gemm_rs": Run(8, "gemm_rs"),
    "gemm_ar": Run(8, "gemm_ar"),
    # Relays need so many multiprocessors; from three ranks on what came is handed on.
    "copies": Run(5, "ag_gemm", "pull by shard,ring by shard", multiprocessors=17, ranks=3),
    "unfused": Run(4, "gemm_rs,gemm_ar", "unfused store,unfused pull"),
    "pushed": Run(4, "gemm_rs,gemm_ar", PUSHED),
    "sums": Run(8, "gemm_ar", "pull in one shot,pull in two shots"),
    "direct": Run(8, "gemm_ar", "store,store by columns"),
    "behind": Run(12, "ag_gemm", "unfused push,unfused pull,unfused store,unfused store by lines"),
    "rings": Run(6, "gemm_rs,gemm_ar", multiprocessors=2),
    "terms": Run(24, "gemm_rs", "store by shard", multiprocessors=2),  # a stage of terms is filled again
    "lanes": Run(4, "gemm_rs,gemm_ar", PUSHED, ranks=3),  # several lanes wait and tell
    "gemm": Run(60, tile="s64", multiprocessors=1),  # of no cluster
    "moe": Run(24, ranks=1, moe=True),
    "collectives": Run(60, norms=40),
}
MOST_RUNS = 3  # without a site, for good


@dataclass
class Result:
    """Of a site, of one seed or of several."""
    reached: int = 0  # calls
    away: int = 0     # times that it was taken away and reached
    noticed: int = 0
    runs: list = field(default_factory=list)  # that reach it: how often a second, name

    def add(self, other):
        self.reached += other.reached
        self.away += other.away
        self.noticed += other.noticed
        self.runs += other.runs


def run_program(o, name, seed, **more):
    run = RUNS[name]
    env = {**os.environ, "TILELACE_EMULATED_GPUS": str(run.ranks), "TILELACE_EMULATED_ORDER": "1",
           "TILELACE_EMULATED_MULTIPROCESSORS": str(run.multiprocessors),
           "TILELACE_EMULATED_SEED": str(seed), **more}
    command = [*run.command(o.program, o.shapes or run.shapes), "--seed", str(seed)]
    return subprocess.run(command, check=False, env=env, text=True, capture_output=True)


def run_once(o, name, seed):
    """Results by site. RuntimeError: the program found something else."""
    with tempfile.TemporaryDirectory() as folder:
        file, began = Path(folder) / "sites", time.monotonic()
        done = run_program(o, name, seed, TILELACE_EMULATED_SITES=str(file))
        if done.returncode != 0 or not file.is_file():
            raise RuntimeError(f"{name}, seed {seed}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
        seconds = time.monotonic() - began
        return {key: Result(*map(int, rest), [(int(rest[0]) / seconds, name)]) for key, *rest in rows}


def is_missed(o, key, seed, runs):
    """Whether the site, taken away for good, is missed in one of the runs that reach it most."""
    for _, name in sorted(runs, reverse=True)[:MOST_RUNS]:
        done = run_program(o, name, seed, TILELACE_EMULATED_WITHOUT=key)
        if done.returncode == 1 and "emulated GPUs: order: " in done.stderr:
            return True
        if done.returncode != 0:
            raise RuntimeError(f"{name}, seed {seed}, without {key}: exit {done.returncode}\n{done.stderr}")
    return False


def run_seed(o, sites, seed):
    """Results by site: first of the turns, then of what no turn noticed."""
    results, began = {}, time.monotonic()

    def say(text):
        noticed = sum(r.noticed > 0 for r in results.values())
        print(f"seed {seed} {text}: {noticed} noticed so far, {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(o.jobs) as pool:
        for name, found in zip(o.runs, pool.map(lambda name: run_once(o, name, seed), o.runs)):
            for key, result in found.items():
                results.setdefault(key, Result()).add(result)
            say(name)
        if o.least is not None:
            return results
        left = [s.key for s in sites if not s.stays and s.key in results and results[s.key].noticed == 0]
        missed = pool.map(lambda key: is_missed(o, key, seed, results[key].runs), left)
        for key, noticed in zip(left, missed):
            results[key].add(Result(away=1, noticed=int(noticed)))
            say(f"without {key}")
    return results


def judge(sites, results, least):
    """Prints the table; the number of sites that are not as they should be."""
    seeds, bad, stay, rows = len(results), 0, 0, []
    for s in sites:
        of = [r.get(s.key, Result()) for r in results.values()]
        all_of = Result()
        for r in of:
            all_of.add(r)
        noticed = sum(r.noticed > 0 for r in of)
        verdict = "" if 5 * noticed >= 4 * seeds else "not noticed" if all_of.reached else "not reached"
        if s.stays:
            stay += 1
            verdict = "stays, but is missed" if verdict == "" and seeds > 1 else ""
        bad += verdict not in ("", "stays, but is missed")
        rows.append((s, all_of, noticed, verdict))
    for s, all_of, noticed, verdict in rows:
        print(f"{s.key:18} {s.kind:9} {s.name:23} reached {all_of.reached:8}, away {all_of.away:4}, "
              f"{noticed}/{seeds} {verdict}".rstrip())
    print(f"{len(sites)} sites: {stay} stay, {bad} are not as they should be; seeds "
          f"{', '.join(map(str, results))}")
    if least is None:
        return bad
    fewest = min(sum(r.noticed > 0 for r in of.values()) for of in results.values())
    print(f"noticed: {fewest}, expected {least} at least")
    return fewest < least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", default="build/emulated/bin/emulated_conformance")
    parser.add_argument("--seeds", type=int, default=1, help="so many new ones")
    parser.add_argument("--seed", type=int, action="append", help="this one")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--least", type=int, help="be content with so many sites that are noticed")
    parser.add_argument("--shapes", type=int, help="of each run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    o = parser.parse_args()
    found = all_sites()
    if not o.check:
        for s in found:
            print(f"{s.key:24} {s.kind:9} {s.name}" + (f"  stays: {s.stays}" if s.stays else ""))
        print(len(found), "sites:", ", ".join(f"{sum(s.kind == k for s in found)} {k}" for k in KINDS))
        return 0
    seeds = o.seed or [random.randrange(1, 1 << 31) for _ in range(o.seeds)]
    try:
        return 1 if judge(found, {seed: run_seed(o, found, seed) for seed in seeds}, o.least) else 0
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
