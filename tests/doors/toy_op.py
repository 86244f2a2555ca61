#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new op comes by rows of tables: adds a toy op to a copy of the tree, counts the files that it
touches, builds the copy for CPU ranks and asks all who go through the table for the op.

toy_scale gathers rows and doubles them; it has no weights, and no kernels for GPUs.
usage: toy_op.py [--count] [--into DIR] [--scale X]
  --count     only adds it and counts the files: what the gate does, in a second
  --into DIR  a copy that stays, for builds that begin where the last one ended
  --scale X   another toy than the values ask for: they must be found wrong
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
MOST_FILES = 6

OPERANDS = """inline constexpr std::array kToyScale{
    OperandRow{Role::input, "a", Extent::m_r, Extent::k},
    OperandRow{Role::out, "out", Extent::m, Extent::k},
    OperandRow{Role::gathered, "gathered", Extent::m, Extent::k, false, true},
};

"""
ROW = """    OpRow{.op = Op::toy_scale,
          .name = "toy_scale",
          .help = "all-gather and scale: rows of all ranks, doubled",
          .collective = "toy_gather",
          .gathers = true,
          .operands = kToyScale},
"""
WORK = """namespace {

void scale(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= @SCALE@F;
}

}  // namespace

TileWork tile_work_of"""
DOC = ("| toy_scale | all-gather and scale: rows of all ranks, doubled | a [m_r, k] "
       "| out [m, k], gathered [m, k] or none |\n")

# (a file's name, before or after or in place of which text, what comes there).
EDITS = [
    ("choices.h", r"(enum class Op : std::uint8_t \{[^}]*?) \}", r"\1, toy_scale }"),
    ("op_table.h", r"(?=inline constexpr std::array kOps\{)", OPERANDS),
    ("op_table.h", r"(?=\};\n\n/// Of what a caller made an Op of)", ROW),
    ("planners.cc", r"(std::array rows\{[^}]*)\}", r"\1, &kNoPlanner}"),
    ("tile_work.cc", r"TileWork tile_work_of", WORK),
    ("tile_work.cc", r"(std::array rows\{[^}]*)\}", r"\1, TileWork{scale}}"),
    ("ops.md", r"(?<=\|\n)(?=\n)", DOC),
]


def tracked() -> list[str]:
    """Also what is not committed yet."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    return [name for name in listed if name and (ROOT / name).is_file()]


def copy_tree(to: Path) -> None:
    """Files that are the same stay as they are: what was built of them is good."""
    for name in tracked():
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            shutil.copy(ROOT / name, target)


def file_called(name: str) -> str:
    found = [f for f in tracked() if Path(f).name == name]
    assert len(found) == 1, f"{name}: got {found}, expected one file"
    return found[0]


def add_toy(to: Path, scale: str) -> None:
    for name, pattern, text in EDITS:
        file = to / file_called(name)
        text = text.replace("@SCALE@", scale)
        new, count = re.subn(pattern, text, file.read_text())
        assert count == 1, f"{name}: got {count} places of {pattern!r}, expected one"
        file.write_text(new)


def touched(to: Path) -> list[str]:
    return [f for f in tracked() if (to / f).read_bytes() != (ROOT / f).read_bytes()]


def run(*command: object, fails: bool = False, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if (done.returncode != 0) != fails:
        sys.exit(f"{' '.join(words)}: got exit code {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def say(*words: object) -> None:
    print(*words, flush=True)


def expect(text: str, *parts: str) -> None:
    for part in parts:
        if part not in text:
            sys.exit(f"toy op: got no {part!r} in\n{text}")


def torch_folder() -> str | None:
    python = ROOT / ".cache/python/bin/python"
    if not python.exists():
        return None
    found = subprocess.run([str(python), "-c", "import torch; print(torch.__path__[0])"],
                           capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def configure(tree: Path, torch: str | None) -> Path:
    """In a few large sources, not optimised: most of its time is the compiler's."""
    at = tree / "build/toy"
    run("cmake", "-S", tree, "-B", at, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DTILELACE_TESTS=OFF", "-DTILELACE_EXAMPLES=OFF",
        "-DTILELACE_TEST_SET=gate", "-DTILELACE_GEMM=reference",
        *(["-DTILELACE_TORCH=ON", f"-DTILELACE_TORCH_DIR={torch}"] if torch else []))
    return at


def build(at: Path, target: str) -> None:
    run("cmake", "--build", at, "-j2", "--target", target)


def values_program(tree: Path, at: Path) -> Path:
    build(at, "tilelace_library")
    program = at / "toy_values"
    run("c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-DFMT_SHARED", f"-I{tree}/include", f"-I{tree}/src",
        HERE / "toy_values.cc", at / "libtilelace.a", "-lfmt", "-ldl", "-lpthread", "-o", program)
    return program


def check_command(tree: Path, at: Path) -> None:
    tilelace = at / "bin/tilelace"
    table = run(tilelace, "plan", "--ops")
    expect((tree / "docs/ops.md").read_text(), table)
    expect(table, DOC)
    size = ("--tp", 3, "--n", 64, "--k", 64)
    expect(run(tilelace, "plan", "toy_scale", "--m", 37, *size), "toy_scale", "gathered m 37")
    expect(run(tilelace, "plan", "toy_scale", "--m", 37, *size, "--backend", "cuda", fails=True),
           "toy_scale: GPUs, got none, expected CPU ranks")
    found = run(tilelace, "check", "--op", "toy_scale", "--tp", 3, "--m", 37, "--n", 64, "--workers", 2)
    expect(found, "0 with findings")
    say("  check:", found.splitlines()[0])
    played = run(tilelace, "simulate", "toy_scale", "--machine", tree / "machines/h200x4.json",
                 "--tp", 4, "--m", 1024, "--n", 4096, "--k", 4096, "--json", "-")
    expect(played, '"toy_scale"')
    say("  run: not run, it takes the products of models")


TORCH = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
import tilelace
rank, ranks = dist.get_rank(), dist.get_world_size()
group = tilelace._groups.group_name(dist.group.WORLD)
sizes = [7, 2]
a = (torch.arange(sizes[rank] * 24).reshape(-1, 24) % 31 + rank).bfloat16()
parts = [(torch.arange(s * 24).reshape(-1, 24) % 31 + r).bfloat16() for r, s in enumerate(sizes)]
whole = torch.cat(parts)
gathered, outs = torch.ops.tilelace.toy_scale(a, [], None, group, return_gathered=True, sizes=sizes)
assert torch.equal(gathered, whole), gathered
assert len(outs) == 1 and torch.equal(outs[0], 2 * whole), outs
assert torch.equal(torch.ops.tilelace.toy_gather(a, group, sizes=sizes), whole)
given = a.clone().requires_grad_()
try:
    torch.ops.tilelace.toy_scale(given, [], None, group, sizes=sizes)[1][0].sum().backward()
    sys.exit("gradients: got some, expected an error")
except tilelace.Error as error:
    assert "no formula" in str(error), error
tilelace.leave(dist.group.WORLD)
dist.destroy_process_group()
"""


def check_torch(tree: Path, at: Path) -> None:
    shutil.copy(at / "lib/_tilelace_torch.so", tree / "python/tilelace")
    program = at / "toy_torch.py"
    program.write_text(TORCH)
    run(ROOT / ".cache/python/bin/python", "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", 2, program, env={**os.environ, "PYTHONPATH": str(tree / "python")},
        timeout=120)


def check_all(tree: Path, right: bool) -> None:
    torch = torch_folder()
    at = configure(tree, torch)
    say("values:", run(values_program(tree, at), fails=not right).splitlines()[-1])
    if not right:
        return
    build(at, "tilelace_cli")
    check_command(tree, at)
    say("command, checker, simulator: as the table says")
    if torch is None:
        say("not run: torch")
    else:
        build(at, "tilelace_torch")
        check_torch(tree, at)
        say("torch: values of two ranks")
    # The values are asked for: a toy that does something else is found.
    work = tree / file_called("tile_work.cc")
    text = work.read_text()
    work.write_text(text.replace("*= 2.0F", "*= 3.0F"))
    assert work.read_text() != text
    wrong = run(values_program(tree, at), fails=True)
    expect(wrong, "expected")
    say("another scale:", wrong.splitlines()[-1])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--count", action="store_true")
    arguments.add_argument("--into", type=Path)
    arguments.add_argument("--scale", default="2")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = (asked.into or Path(folder)).resolve()
        copy_tree(tree)
        add_toy(tree, f"{float(asked.scale)}")
        files = touched(tree)
        say(f"toy op: {len(files)} files, at most {MOST_FILES}: {', '.join(files)}")
        if len(files) > MOST_FILES:
            sys.exit(1)
        if not asked.count:
            check_all(tree, float(asked.scale) == 2)


if __name__ == "__main__":
    main()
