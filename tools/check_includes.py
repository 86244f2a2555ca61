#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes never point up: who may include what, as ARCHITECTURE.md has it, and who may touch atomics
and the environment.

Prints `file:line: what, expected` for each violation; exit 1 if there is one.
usage: check_includes.py [ROOT]
"""
import re
import sys
from pathlib import Path

SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".c"}

# Longest matching folder wins. Entries are folders or files under src/ or cli/; `tilelace` stands
# for the public headers. A folder may always include itself and what lies below it.
ALLOWED = {
    "include/tilelace": ["tilelace"],
    "src/core": ["tilelace"],
    "src/schedule": ["tilelace", "core"],
    "src/comm": ["tilelace", "core"],
    "src/comm/cuda": ["tilelace", "core", "comm"],
    "src/plan": ["tilelace", "core", "schedule"],
    "src/check": ["tilelace", "core", "schedule", "plan", "comm/signal.h"],
    "src/sim": ["tilelace", "core", "schedule", "plan"],
    "src/backend": ["tilelace", "core", "comm", "schedule/moe_map.h"],
    "src/backend/cpu": ["tilelace", "core", "schedule", "comm", "plan", "check",
                        "backend/backend.h", "backend/moe_passes.h", "backend/prepared_calls.h"],
    "src/backend/cpu/gemm": ["tilelace", "core"],
    "src/backend/cuda": ["tilelace", "core", "schedule", "comm", "plan", "backend/backend.h",
                         "backend/moe_passes.h", "backend/prepared_calls.h", "backend/cuda_support.h", "backend/call_timer.h",
                         "backend/gpu_sight.h"],
    "src/backend/stub": ["tilelace", "core", "backend/backend.h", "backend/cuda_support.h",
                         "backend/call_timer.h", "backend/gpu_sight.h"],
    "src/op": ["tilelace", "core", "comm", "plan", "schedule/rows.h", "schedule/moe_map.h", "backend/cpu/gemm/expert_bound.h",
               "backend/backend.h", "backend/moe_passes.h", "backend/prepared_calls.h", "backend/call_timer.h", "backend/gpu_sight.h"],
    "src/bindings": ["tilelace", "core"],
    "src/bindings/torch": ["tilelace", "core/architecture.h"],
    "cli": ["tilelace", "core", "comm", "plan", "check", "sim", "model", "backend/cpu/gemm",
            "op/run_plan.h", "op/moe_room.h", "schedule/moe_map.h", "backend/cuda_support.h", "backend/call_timer.h", "backend/gpu_sight.h",
            "backend/cuda/vendor/cublas.h",
            "backend/cuda/base/cuda_check.h", "backend/cuda/gemm/gemm_call.h", "backend/cuda/vendor/nccl.h",
            "backend/cuda/measure/gpus.h", "backend/cuda/measure/swiglu.h"],
    "cli/model": ["tilelace", "core"],
    "examples": ["tilelace"],
}

# Rooms of a folder, each above those before it; ".": files of the folder itself.
ROOMS = {
    "src/plan": [".", "base", "gemm", "collectives", "ways", "gpu", "words", "tuning", "cpu"],
    "src/backend/cuda": ["device", "base", "kernels", "kernels/ops", "kernels/sm90", "gemm", "vendor", "rank", "link", "collectives", "gather",
                         "reduce", "moe", "measure", "."],
}
# Arrows up that are there, and why.
MAY_RISE = {
    ("src/backend/cuda/device/parcels.h", "collectives/exchange.h"): "the kernels' own parameters",
    ("src/backend/cuda/device/row_norm.h", "collectives/norm.h"): "the kernels' own parameters",
}

# What schedule/ may take from the standard library: nothing that has memory, a clock or I/O.
SCHEDULE_SYSTEM = {"bit", "concepts", "cstddef", "cstdint", "limits", "type_traits"}
# Headers that are written at configure time.
GENERATED = {"wgmma_shapes.h", "hardware_values.h"}
# Public headers: the C and C++ standard libraries only, of which these words are no part.
NOT_STANDARD = re.compile(r"cuda|nvtx|torch|aten|c10|fmt|dnnl|oneapi|/|^nccl|^sys|^unistd", re.IGNORECASE)

# Torch is known in one folder, and there by its stable ABI alone.
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
TORCH_STABLE = re.compile(r"^torch/(csrc/stable|headeronly)/")

ATOMICS = re.compile(r"\bstd::atomic|\b__atomic_|\b__sync_|\bcuda::atomic|\batomic(Add|CAS|Exch)\b|\"(ld\.acquire|st\.release|atom\.|red\.)")
ATOMIC_HEADERS = {"atomic", "stdatomic.h", "cuda/atomic"}
ATOMIC_FILES = {"src/comm/signal.h", "src/comm/std_atomics.h", "src/comm/cuda_atomics.h",
                "src/comm/cuda_pairs.h"}
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
ENVIRONMENT_FILE = "src/core/env.h"

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def without_comments(text):
    """Comments become blanks (line numbers stay); strings stay, they may be include paths."""
    def blank(match):
        s = match.group(0)
        return s if s.startswith('"') else re.sub(r"[^\n]", " ", s)
    return COMMENT.sub(blank, text)


def rule_of(path):
    folders = [f for f in ALLOWED if path.startswith(f + "/")]
    return max(folders, key=len) if folders else None


def resolve(root, path, name):
    """The included file's path from the root, or None if it is not ours."""
    for base in [str(Path(path).parent), "include", "src", "cli"]:
        if (root / base / name).is_file():
            return (root / base / name).resolve().relative_to(root.resolve()).as_posix()
    return None


def may_include(rule, target):
    if target.startswith(rule + "/"):
        return True
    short = re.sub(r"^(src|cli|include)/", "", target)
    return any(short == a or short.startswith(a + "/") for a in ALLOWED[rule])


def rises(path, target):
    """The rooms of both where a file includes one of a room above its own, or None."""
    for folder, rooms in ROOMS.items():
        if not (path.startswith(folder + "/") and target.startswith(folder + "/")):
            continue
        inner = target[len(folder) + 1:]
        here, there = (str(Path(file).parent.relative_to(folder)) for file in (path, target))
        if (path, inner) not in MAY_RISE and rooms.index(here) < rooms.index(there):
            return f"{folder}: {here} lies below {there}"
    return None


def check_include(root, path, bracket, name):
    rule = rule_of(path)
    if bracket == "<":
        if path.startswith("src/schedule/") and name not in SCHEDULE_SYSTEM:
            return f"includes <{name}>", f"schedule: only {', '.join(sorted(SCHEDULE_SYSTEM))}"
        if path.startswith("include/") and NOT_STANDARD.search(name):
            return f"includes <{name}>", "public headers: the standard library only"
        if TORCH.match(name) and not (rule == "src/bindings/torch" and TORCH_STABLE.match(name)):
            return f"includes <{name}>", "torch's stable headers, in src/bindings/torch alone"
        if name in ATOMIC_HEADERS and path not in ATOMIC_FILES:
            return f"includes <{name}>", "atomics only in " + ", ".join(sorted(ATOMIC_FILES))
        return None
    target = resolve(root, path, name)
    if target is None and name in GENERATED:
        return None
    if target is None:
        return f'includes "{name}"', "a file of this project; <> for others"
    if rule and not may_include(rule, target):
        return f'includes "{name}"', f"{rule}: only itself, {', '.join(ALLOWED[rule])}"
    rising = rises(path, target)
    return (f'includes "{name}"', rising) if rising else None


def check_file(root, path):
    text = without_comments((root / path).read_text(encoding="utf-8"))
    for number, line in enumerate(text.split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            finding = check_include(root, path, *include.groups())
            if finding:
                yield number, *finding
            continue
        if path.startswith(("src/", "include/", "cli/")):
            if ATOMICS.search(line) and path not in ATOMIC_FILES and not path.startswith(
                    "src/backend/cuda/device/"):
                yield number, "uses an atomic", "only in " + ", ".join(sorted(ATOMIC_FILES))
            if ENVIRONMENT.search(line) and path != ENVIRONMENT_FILE:
                yield number, "reads the environment", f"only in {ENVIRONMENT_FILE}"


def check_table(root):
    """Findings where ARCHITECTURE.md's table of folders says something else than ALLOWED."""
    told = {}
    for line in (root / "ARCHITECTURE.md").read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3:
            told[cells[0].strip("`")] = set(re.findall(r"[\w./]+", cells[2]))
    for folder, names in ALLOWED.items():
        names = set(names) - {"tilelace"}
        if told.get(folder) != names:
            got = "no row" if folder not in told else ", ".join(sorted(told[folder])) or "nothing"
            yield (f"ARCHITECTURE.md:1: may include of {folder}, got {got}, expected "
                   f"{', '.join(sorted(names)) or 'nothing'}")


def check_tree(root):
    findings = list(check_table(root)) if (root / "ARCHITECTURE.md").is_file() else []
    for folder in ["include", "src", "cli", "examples"]:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            if path.startswith("src/") and rule_of(path) is None:
                findings.append(f"{path}:1: folder without a rule, expected one in {Path(__file__).name}")
            for number, what, expected in check_file(root, path):
                findings.append(f"{path}:{number}: {what}, expected {expected}")
    return findings


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"include directions: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
