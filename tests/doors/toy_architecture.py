#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new architecture comes by a row a layer: adds a toy one to a copy of the tree, counts the files that
it touches, asks its row for experts, builds the copy's command and asks it for plans, and lets emulated
GPUs of the toy run them.

The toy, of compute capability 1.0, has two tiles and a cost of its own; its kernels are others' under
its tiles' names. It has none for mixtures of experts, and says so.
usage: toy_architecture.py [--count] [--into DIR] [--cost X]
  --count     only adds it, counts the files and asks for experts: what the gate does, in seconds
  --into DIR  a copy that stays, for builds that begin where the last one ended
  --cost X    another cost than is asked for, us a MFLOP: predictions must be found wrong
"""
import os
import re
import sys
import tempfile
from pathlib import Path

from tree_copy import ROOT, add_to_copy, arguments, build, configure, expect, file_called, run, say

sys.path.insert(0, str(ROOT / "tools"))
import plan_choices

COST = 1.0
TILES = {"toy128", "toy32"}
KERNELS = ("p128", "s32_1x2")  # whose they are
OPS = ("ag_gemm", "gemm_rs", "gemm_ar")
M, N, K, RANKS = 1024, 4096, 4096, 4

PLANS = """// SPDX-License-Identifier: Apache-2.0
// Tiles and figures of the toy.
#pragma once
#include "plan/base/hardware.h"
#include "plan/gemm_tiles.h"

namespace tilelace::plan {

inline constexpr GemmTile kToyTiles[] = {
    {"toy128", 2, 2, 128, 6, 2, 1, 2, true, false, 1},
    {"toy32", 1, 1, 32, 16, 1, 2, 1, false, false, 1},
};

/// Nothing counts but the power of products.
inline constexpr Hardware kToyHardware{
    .multiprocessors = 132, .peak_tflops = 1e9, .efficiency = 1, .l2_gbps = 1e9, .alone_gbps = 1e9,
    .l2_total_gbps = 1e9, .l2_mb = 1e9, .memory_gbps = 1e9, .worker_memory_gbps = 1e9,
    .power_tflops = 1 / @COST@, .power_l2_gbps = 1e12, .power_memory_gbps = 1e12,
    .fixed_us = 0, .worker_flag_us = 0, .step_us = 0, .tile_us = 0, .call_us = 1, .push_gbps = 1e3, .mesh_gbps = 1e3, .pull_gbps = 1e3,
    .store_gbps = 1e3, .fetch_gbps = 1e3, .spilled_gbps = 1e3, .copy_us = 1,
    .flag_us = 1};

}  // namespace tilelace::plan
"""
KERNEL_ROW = """// SPDX-License-Identifier: Apache-2.0
// Kernels of the toy: others', under its tiles' names.
#pragma once
#include <vector>

#include "backend/cuda/gemm/architecture_kernels.h"

namespace tilelace::cuda {

constexpr std::string_view toy_source(std::string_view tile) {
  return tile == "toy128" ? "p128" : tile == "toy32" ? "s32_1x2" : "";
}

inline std::span<const GemmKernel> toy_kernels() {
  static const std::vector<GemmKernel> all = [] {
    std::vector<GemmKernel> found;
    for (const std::string_view name : {"toy128", "toy32"})
      for (GemmKernel kernel : sm90_kernels()) {
        if (kernel.tile.name != toy_source(name)) continue;
        kernel.tile.name = name;
        found.push_back(kernel);
      }
    return found;
  }();
  return all;
}

constexpr ArchitectureKernels kToyRow{"toy", toy_kernels};

}  // namespace tilelace::cuda
"""
NEW = {"src/plan/gemm/toy_plans.h": PLANS, "src/backend/cuda/gemm/toy_kernels.h": KERNEL_ROW}
PLANS_ROW = ', ArchitecturePlans{"toy", kToyTiles, kToyHardware}'

EDITS = [
    ("architecture.h", r'(std::array kArchitectures\{(?s:.*?))(?=\};)', r'\1, Architecture{"toy", "sm_10", 1, 0}'),
    ("architecture_plans.cc", r"(std::array kRows\{(?s:.*?))(?=\};)", r"\1" + PLANS_ROW),
    ("architecture_plans.cc", r'(?=#include "core/architecture.h")', '#include "plan/gemm/toy_plans.h"\n'),
    ("architecture_kernels.cc", r"(std::array kRows\{(?s:.*?))(?=\};)", r"\1, kToyRow"),
    ("architecture_kernels.cc", r'(?=#include "core/architecture.h")',
     '#include "backend/cuda/gemm/toy_kernels.h"\n'),
    ("architecture_grouped.cc", r"(std::array kRows\{(?s:.*?))(?=\};)", r'\1, ArchitectureGrouped{"toy"}'),
]

NO_EXPERTS = "experts: got GPUs of toy, expected GPUs of sm_90a: only these have kernels for mixtures of experts"
# Asks the rows of plans alone, with figures of no machine: what a build without the rest can.
EXPERTS = """#include <cstdio>

#include "core/architecture.h"
#include "plan/gemm/architecture_plans.h"
#include "tilelace/error.h"

int main() {
  using namespace tilelace;
  const int toy = architecture_named("toy").value();
  if (plan::has_experts(toy) || !plan::has_experts(0)) return 1;
  if (plan::grouped_plans_of("first", 0).find("few") == nullptr) return 1;
  try {
    plan::grouped_plans_of("grouped_gemm", toy);
  } catch (const Error& e) {
    std::printf("%s error: %s\\n", name_of(e.kind()).data(), e.what());
  }
  return 0;
}
"""
NO_FIGURES = """#pragma once
#include "plan/base/hardware.h"
namespace tilelace::plan {
inline constexpr Hardware k_sm_90a_hardware{};
}
"""


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file}: got no {old!r}"
    file.write_text(text.replace(old, new))


def plan(tilelace: Path, op: str, *options: object, fails: bool = False) -> str:
    return run(tilelace, "plan", op, "--tp", RANKS, "--m", M, "--n", N, "--k", K, "--wide", *options, fails=fails)


def tiles_in(text: str) -> set[str]:
    return set(re.findall(r"; (\w+) (?:of toy )?split ", text)) | set(re.findall(r"\((\w+) workers ", text))


def predicted_us(tilelace: Path, op: str) -> float:
    text = plan(tilelace, op, "--backend", "cuda", "--architecture", "toy", "--plan", "path=unfused")
    return float(re.search(r"\(GEMM ([0-9.]+)", text)[1])


def costs_right(tilelace: Path) -> bool:
    want = 2 * M * N * K / RANKS * 1e-6 * COST
    return all(abs(predicted_us(tilelace, op) - want) < 0.1 for op in OPS)


def check_plans(tilelace: Path) -> None:
    cuda = ("--backend", "cuda")
    toy = (*cuda, "--architecture", "toy")
    for op in OPS:
        text = plan(tilelace, op, *toy)
        expect(text, "GPUs of toy, 132 multiprocessors", " of toy split ")
        if tiles_in(text) == set() or not tiles_in(text) <= TILES:
            sys.exit(f"{op}: got tiles {tiles_in(text)}, expected some of {TILES}\n{text}")
        printed = re.search(r"  plan     (.*)", text)[1]
        expect(plan(tilelace, op, *toy, "--plan", printed), printed)
        expect(plan(tilelace, op, *cuda, "--plan", printed, fails=True),
               "--plan: got a tile for toy, expected a tile for sm_90a")
    expect(plan(tilelace, "gemm_rs", *cuda, "--architecture", "to", fails=True),
           "--architecture: got to, expected one of sm_90a, toy")
    expect(run(tilelace, "plan", "--help"), "sm_90a, toy")
    layer = ("plan", "moe_rs", "--tp", RANKS, "--m", M, "--model", "mixtral-8x7b", "--wide", "--backend", "cuda")
    expect(run(tilelace, *layer), "tiles    many: ")
    expect(run(tilelace, *layer, "--architecture", "toy", fails=True), f"plan: {NO_EXPERTS}")


def check_first_row(tilelace: Path) -> str:
    """Its plans are those of the tree without the toy."""
    before = ROOT / "build/cpu/bin/tilelace"
    if not before.exists():
        return "not compared with those of the first row: build/cpu has no command"
    plan_choices.MODELS, plan_choices.RANKS = ("qwen3-32b",), (RANKS,)
    kept, found = (dict(plan_choices.choices(str(program))) for program in (before, tilelace))
    for problem, choice in found.items():
        if kept[problem] != choice:
            sys.exit(f"{problem}: got {choice}, expected {kept[problem]}")
    return f"{len(found)} of the first row as before"


def check_command(tree: Path, right: bool) -> None:
    at = configure(tree, None)
    tilelace = at / "bin/tilelace"
    build(at, "tilelace_cli")
    if costs_right(tilelace) != right:
        sys.exit(f"cost: got {predicted_us(tilelace, OPS[0])} us, expected it "
                 f"{'as the row says' if right else 'to be found wrong'}")
    if not right:
        return say("another cost: found wrong")
    check_plans(tilelace)
    say(f"plans: the toy's tiles at its cost, by its name; {check_first_row(tilelace)}")
    # The cost is the row's, and a layer without its row does not build.
    replace(tree / "src/plan/gemm/toy_plans.h", f"1 / {COST}", f"1 / {2 * COST}")
    build(at, "tilelace_cli")
    if costs_right(tilelace):
        sys.exit("twice the cost: got the same predictions, expected twice as long ones")
    replace(tree / "src/plan/gemm/toy_plans.h", f"1 / {2 * COST}", f"1 / {COST}")
    rows = tree / file_called("architecture_plans.cc")
    replace(rows, PLANS_ROW, "")
    expect(run("c++", "-std=c++20", "-fsyntax-only", f"-I{tree}/include", f"-I{tree}/src",
               f"-I{at}/src/plan/generated", rows, fails=True),
           "static assertion failed")
    replace(rows, "sm90_grouped_shape}}", "sm90_grouped_shape}}" + PLANS_ROW)
    say("twice the cost, no row of plans: found")


def check_experts(tree: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "hardware_values.h").write_text(NO_FIGURES)
        (at / "experts.cc").write_text(EXPERTS)
        run("c++", "-std=c++20", "-O0", "-DFMT_SHARED", f"-I{tree}/include", f"-I{tree}/src", f"-I{at}",
            at / "experts.cc", tree / file_called("architecture_plans.cc"), "-lfmt", "-o", at / "experts")
        expect(run(at / "experts"), f"usage error: grouped_gemm: {NO_EXPERTS}")
    say("experts on the toy: refused, on the first row as before")


def few_gpus(capability: int) -> dict[str, str]:
    return {**os.environ, "TILELACE_EMULATED_GPUS": "2", "TILELACE_EMULATED_MULTIPROCESSORS": "8",
            "TILELACE_EMULATED_CAPABILITY": str(capability)}


def emulated(program: Path, *arguments: object, capability: int, fails: bool = False) -> str:
    return run(program, "--dtypes", "bf16", "--small", *arguments, env=few_gpus(capability), fails=fails)


def check_emulated(tree: Path) -> None:
    if not any((Path(home) / "include/cuda.h").exists()
               for home in ("/usr/local/cuda", os.environ.get("CUDA_HOME", "/"))):
        return say("not run: emulated GPUs, whose kernels need CUDA's headers")
    at = tree / "build/toy_emulated"
    run("cmake", "-S", tree, "-B", at, "-G", "Ninja", "-DTILELACE_EMULATED=ON", "-DTILELACE_CLI=OFF",
        "-DTILELACE_EXAMPLES=OFF", "-DTILELACE_GEMM=reference", f"-DTILELACE_TILES={';'.join(KERNELS)}")
    build(at, "emulated_gemm_check")
    build(at, "emulated_conformance")
    build(at, "emulated_moe_check")
    build(at, "emulated_experts")
    check, conformance = at / "bin/emulated_gemm_check", at / "bin/emulated_conformance"
    for capability in (90, 10):
        emulated(check, "--shapes", 12, capability=capability)
    expect(emulated(check, "--shapes", 4, "--tile", "toy128", "--drop", capability=10),
           "dropped k-steps: 0 results passed")
    for op in ("gemm_rs", "gemm_ar"):
        emulated(conformance, "--ops", op, "--ranks", 2, "--shapes", 2, capability=10)
    say("emulated GPUs of the toy: right by its kernels")
    few = ("--shapes", 4, "--graphs", 1, "--repeats", 1, "--calls", 1)
    emulated(at / "bin/emulated_moe_check", *few, capability=90)
    expect(emulated(at / "bin/emulated_moe_check", *few, capability=10, fails=True), f"grouped_gemm: {NO_EXPERTS}")
    said = run(at / "bin/emulated_experts", 2, 1, 1, env=few_gpus(10), fails=True)
    ranks = [line for line in said.split("\n") if line.startswith("WRONG")]
    if not ranks or len(ranks) % 2 != 0 or any(f"usage error: prepare_moe: {NO_EXPERTS}" not in r for r in ranks):
        sys.exit(f"experts: got\n{said}\nexpected both ranks to be refused")
    say("experts on emulated GPUs of the toy: refused on every rank")
    # A tile that has another's kernels; one that is planned with, and has none.
    kernels, plans = (tree / name for name in ("src/backend/cuda/gemm/toy_kernels.h", "src/plan/gemm/toy_plans.h"))
    for file, old, new, wrong in [
            (kernels, '? "p128"', '? "p80"', "tile toy128 of toy in bf16: this build has a kernel of another shape"),
            (plans, '{"toy32",', '{"toy48",', "tile toy48 of toy in bf16: this build has no kernel for the tile")]:
        replace(file, old, new)
        build(at, "emulated_gemm_check")
        expect(emulated(check, "--shapes", 1, capability=10, fails=True), wrong)
        emulated(check, "--shapes", 1, capability=90)
        replace(file, new, old)
    say("another's kernels, a tile without any: found, on the toy alone")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cost", type=float, default=COST)
    asked = parser.parse_args()
    new = {name: text.replace("@COST@", f"{asked.cost}") for name, text in NEW.items()}

    def check(tree: Path) -> None:
        check_command(tree, asked.cost == COST)
        if asked.cost == COST:
            check_emulated(tree)
    add_to_copy("toy architecture", asked, EDITS, check, new, always=check_experts)


if __name__ == "__main__":
    main()
