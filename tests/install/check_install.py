#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A build as its users install it: the commands of docs/cpp.md as copied, but for the one that builds, the
programs that come of them, and what a shared library exports.

usage: check_install.py BUILD     a build folder of the preset cpu, static or with BUILD_SHARED_LIBS=ON
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from exports import ROOT, wrong_exports  # isort: skip
import run_docs  # isort: skip  (in tools, where exports.py looks)

PAGE = "docs/cpp.md"
# What the commands make and run; each ends with 0 if its ranks' results are right.
PROGRAMS = {"build/uses/uses_tilelace", "build/uses_main", "build/uses_c"}


def run(command, folder):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False, cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}exit code {done.returncode}")
    return done.stdout


def cmake_lines(text):
    blocks = re.findall(r"```cmake\n(.*?)```", text, re.DOTALL)
    return [line.replace("your_target", "uses_tilelace") for block in blocks for line in block.splitlines()]


def check_pages():
    """README and the page show the lines that the example has."""
    example = (ROOT / "examples/find_package/CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    for page in ("README.md", PAGE):
        lines = cmake_lines((ROOT / page).read_text(encoding="utf-8"))
        if not lines or not set(lines) <= set(example):
            sys.exit(f"{page}: its CMake lines are not those of examples/find_package: {lines}")


def check_commands(folder):
    left = set(PROGRAMS)
    for task in run_docs.tasks_of(PAGE, (ROOT / PAGE).read_text(encoding="utf-8")):
        if task.kind == "shell" and "--preset" not in task.text:
            print(f"$ {task.text}", flush=True)
            run(task.text, folder)
            left.discard(task.text.split()[-1])
    if left:
        sys.exit(f"{PAGE}: no command runs {', '.join(left)}")


def check_libraries(build, folder):
    """Programs have the library that was built, a shared one by a name with its version."""
    version = run("sed -n 's/^Version: //p' P/lib/pkgconfig/tilelace.pc", folder).strip()
    shared = (build / "libtilelace.so").exists()
    soname = f"libtilelace.so.{version.rpartition('.')[0]}"
    for program in PROGRAMS:
        needs = run(f"readelf -d {program}", folder)
        if (f"[{soname}]" in needs) != shared or ("libtilelace" in needs) != shared:
            sys.exit(f"{program}: got\n{needs}, expected {soname if shared else 'a static library'}")
    if shared:
        wrong = wrong_exports((build / "libtilelace.so").resolve(),
                              [o for o in build.glob("src/**/*.o") if "CMakeFiles" in o.parts])
        if wrong:
            sys.exit("\n".join(wrong))
    print(f"{'shared' if shared else 'static'} library, version {version}: right")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build.resolve()
    check_pages()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").mkdir()
        (folder / "build/cpu").symlink_to(build)
        (folder / "examples").symlink_to(ROOT / "examples")
        check_commands(folder)
        check_libraries(build, folder)
        if (build / "bin/tilelace").exists():
            run("P/bin/tilelace --help", folder)


if __name__ == "__main__":
    main()
