#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted violations that check_includes.py must find, each on its line, and clean files."""
import sys
import tempfile
from pathlib import Path

from check_includes import check_tree

CLEAN = {
    "include/tilelace/plan.h": "#include <vector>\n",
    "include/tilelace/ops.h": '#include "tilelace/plan.h"\n',
    "src/core/env.h": "#include <cstdlib>\nauto v = std::getenv(name);\n",
    "src/schedule/rows.h": '#include <cstdint>\n#include "tilelace/plan.h"\n',
    "src/schedule/route.h": '#include "schedule/rows.h"\n// std::atomic, getenv() in a comment\n',
    "src/comm/signal.h": "#include <atomic>\nstd::atomic<int> a;\n",
    "src/comm/group.h": '#include "comm/signal.h"\n',
    "src/plan/cpu/cpu_plan.cc": '#include "schedule/route.h"\n',
    "src/check/explore.h": '#include "comm/signal.h"\n',
    "src/backend/backend.h": '#include "comm/group.h"\n',
    "src/backend/cpu/engine.h": '#include "backend/backend.h"\n#include "check/explore.h"\n',
    "src/op/ops.cc": '#include "schedule/rows.h"\n#include "backend/backend.h"\n',
    "src/op/impl.h": "",
    "src/bindings/torch/calls.h": "#include <torch/csrc/stable/tensor.h>\n",
    "cli/model/config.h": '#include "tilelace/plan.h"\n',
    "cli/main.cc": '#include <CLI/CLI.hpp>\n#include "model/config.h"\n',
    "examples/one.cc": '#include "tilelace/ops.h"\n',
}

# file, its text, the line of the violation
PLANTED = [
    ("ARCHITECTURE.md", "| `src/core` | errors | plan |\n", 1),
    ("include/tilelace/bad1.h", '#include <vector>\n#include <cuda_runtime.h>\n', 2),
    ("include/tilelace/bad2.h", "#include <torch/extension.h>\n", 1),
    ("include/tilelace/bad3.h", '#include "core/env.h"\n', 1),
    ("src/core/bad.h", '#include "schedule/rows.h"\n', 1),
    ("src/schedule/bad1.h", '\n#include "comm/signal.h"\n', 2),
    ("src/schedule/bad2.h", "#include <chrono>\n", 1),
    ("src/schedule/bad3.h", "#include <iostream>\n", 1),
    ("src/schedule/bad4.h", "#include <cstdlib>\n", 1),
    ("src/comm/bad1.h", '#include "schedule/rows.h"\n', 1),
    ("src/comm/bad2.cc", "/* two\nlines */ int x;\nstd::atomic_ref<int> a(x);\n", 3),
    ("src/plan/bad.cc", '#include "backend/backend.h"\n', 1),
    ("src/plan/base/bad.cc", '#include "plan/cpu/cpu_plan.cc"\n', 1),
    ("src/check/bad.cc", '#include "comm/group.h"\n', 1),
    ("src/backend/cpu/bad1.cc", '#include "op/impl.h"\n', 1),
    ("src/backend/cpu/bad2.cc", "#include <atomic>\n", 1),
    ("src/backend/cuda/bad.cc", '#include "backend/cpu/engine.h"\n', 1),
    ("src/backend/cuda/bad.cu", 'asm volatile("st.release.sys.global.u32 [%0], 1;");\n', 1),
    ("src/op/bad.cc", '#include "schedule/route.h"\n', 1),
    ("src/bindings/bad.cc", '#include "op/impl.h"\n', 1),
    ("src/bindings/torch/bad1.cc", "#include <torch/torch.h>\n", 1),
    ("src/bindings/torch/bad2.cc", '#include "op/impl.h"\n', 1),
    ("src/op/bad2.cc", "#include <torch/csrc/stable/tensor.h>\n", 1),
    ("src/new_folder/new.cc", "", 1),
    ("cli/bad1.cc", 'const char* home = getenv("HOME");\n', 1),
    ("cli/bad2.cc", "int v = 0;\n__atomic_load_n(&v, 0);\n", 2),
    ("cli/model/bad1.cc", '#include "plan/cpu/cpu_plan.cc"\n', 1),
    ("cli/model/bad2.cc", '#include "nowhere.h"\n', 1),
    ("examples/bad.cc", '#include "core/env.h"\n', 1),
]


def plant(root, files):
    for path, text in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plant(root, CLEAN.items())
        failures += [f"clean tree, but: {finding}" for finding in check_tree(root)]
        plant(root, [(path, text) for path, text, _ in PLANTED])
        found = {":".join(f.split(":")[:2]) for f in check_tree(root)}
        wanted = {f"{path}:{line}" for path, _, line in PLANTED}
        failures += [f"not found: {w}" for w in sorted(wanted - found)]
        failures += [f"found without cause: {f}" for f in sorted(found - wanted)]
    print("\n".join(failures) or f"{len(PLANTED)} planted violations found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
