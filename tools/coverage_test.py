#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/coverage: lines of several object files are one line, files of others are none of ours."""
import importlib.machinery
import importlib.util
import sys
from collections import defaultdict
from pathlib import Path

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("coverage", str(Path(__file__).with_name("coverage")))
coverage = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(coverage)


def report(folder, **files):
    """gcov's, of {file: {line: count}}."""
    return {"current_working_directory": str(folder),
            "files": [{"file": name, "lines": [{"line_number": line, "count": count} for line, count in counts.items()]}
                      for name, counts in files.items()]}


build = coverage.BUILD / "src/plan"
lines = defaultdict(lambda: defaultdict(int))
for one in (report(build, **{"../../../../src/plan/a.cc": {1: 0, 2: 3}, "../../../../include/tilelace/plan.h": {7: 0},
                             "/usr/include/c++/12/vector": {5: 1}, "../../../../tests/unit/x_test.cc": {9: 1}}),
            report(build, **{str(coverage.ROOT / "include/tilelace/plan.h"): {7: 2, 8: 0},
                             str(coverage.ROOT / "cli/model/config.cc"): {3: 0}})):
    coverage.add(lines, build, one)
got = coverage.table(lines)
expected = [("cli/model", 0, 1), ("include/tilelace", 1, 2), ("src/plan", 1, 2), ("all", 2, 5)]
if got != expected:
    print(f"coverage_test: got {got}, expected {expected}")
else:
    print("coverage_test: ok")
sys.exit(got != expected)
