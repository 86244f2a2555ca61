#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of shell and Python in README and docs/*.md, as a reader who copies them would.

usage: run_docs.py [--list] [--build DIR] [--python DIR] [--only TEXT] [PAGE.md...]
  --list     what would run and what is left out, why; runs nothing (a second; exit 1 for a block
             that cannot be run: no such script, Python that does not parse)
  --build    where bin/tilelace is (build/cpu); --python: where the package is installed (.cache/python)
  --only     commands and blocks that contain TEXT
Commands run in a copy of the tree, each by itself; Python runs as two CPU ranks, with PREAMBLE's names
where a block is a part of a program. A block is left out that says so in the line before it,
    <!-- not run: WHY -->
and a command that LEFT_OUT knows. In a block with lines "$ COMMAND" the others are what it prints.
"""
import argparse
import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SHELL = ("sh", "bash", "shell", "console")
BEGINS = re.compile(r"(\$ )?([A-Z_]+=\S+ )*(\./|tools/|build/|examples/|cmake |c\+\+ |cc |ctest |tilelace |python3? |pip |torchrun |git )")
NOT_RUN = re.compile(r"<!--\s*not run:\s*(.*?)\s*-->")
LIMIT_S = 900

# What commands and Python are left out for; the first that fits says why.
LEFT_OUT = [
    (r"\bPROGRAM\b|<[^>\s]+>|\bserve\.py\b|\byour_\w+", "a name stands for something of the reader's"),
    (r"(?<!plan)\b(run|bench|check)\b.*--backend cuda|\btilelace tune\b|\bgpu_\w+|\bllama\.json\b", "needs GPUs"),
    (r"\bcollectives\.jsonl\b|\btorch_bench\b", "needs GPUs"),
    (r"torch\.cuda|\bmem_pool\b|tilelace\.tune\b|device=\"cuda|device='cuda", "needs GPUs"),
    (r"--preset (cuda|emulated|tsan|asan)", "a part of the night builds it"),
    (r"^(\./test|ctest )", "the gate itself"),
    (r"install_dependencies\.sh|apt-get", "comes before this, as root"),
    (r"^(python3? -m venv|pip install|\. )", "the package is installed already"),
    (r"check_style\.sh --fix", "changes the tree"),
    (r"build_docs --serve", "does not end"),
]
PREAMBLE = '''
import torch
import torch.distributed as dist
import torch.nn.functional as F
import tilelace
import tilelace.inductor, tilelace.nn, tilelace.tensor_parallel
dist.init_process_group("gloo")
group, rank, ranks = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
tokens, hidden, wide = 24, 32, 64
m, n, k = tokens, hidden, wide
x = torch.randn(tokens // ranks, hidden)  # this rank's rows
linear, up = torch.nn.Linear(hidden, wide // ranks), torch.nn.Linear(hidden, wide // ranks)
down = torch.nn.Linear(wide // ranks, hidden)
weight, bias = linear.weight, linear.bias
h = torch.randn(tokens, wide // ranks)  # this rank's columns
model = torch.nn.Sequential(torch.nn.Linear(hidden, wide), torch.nn.GELU(), torch.nn.Linear(wide, hidden))
'''


class Block(NamedTuple):
    page: str
    line: int
    kind: str  # shell, python
    text: str
    why_not: str


class Task(NamedTuple):
    place: str
    kind: str
    text: str
    why_not: str


def blocks_of(page, text):
    lines, fence, mark, i = text.splitlines(), "", "", 0
    while i < len(lines):
        opened = re.match(r"\s*(```+|~~~+)\s*(\w*)", lines[i])
        if not opened:
            found = NOT_RUN.search(lines[i])
            mark = found[1] if found else (mark if not lines[i].strip() else "")
            i += 1
            continue
        begin, fence, language = i + 1, opened[1], opened[2]
        i += 1
        while i < len(lines) and not lines[i].strip().startswith(fence):
            i += 1
        body = lines[begin:i]
        i += 1
        first = next((line.strip() for line in body if line.strip() and not line.strip().startswith("#")), "")
        if language in SHELL or (not language and BEGINS.match(first)):
            yield Block(page, begin + 1, "shell", "\n".join(body), mark)
        elif language == "python":
            yield Block(page, begin + 1, "python", "\n".join(body), mark)
        mark = ""


def commands_of(block):
    """(line, command): lines that end in a backslash go on, comments are dropped."""
    shown = any(line.startswith("$ ") for line in block.text.splitlines())
    held, begin = "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        if shown and not held:
            if not line.startswith("$ "):
                continue
            line = line[2:]
        if not held:
            begin = number
        line = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if line.endswith("\\"):
            held += line[:-1]
            continue
        held += line
        if held.strip():
            yield begin, " ".join(held.split())
        held = ""


def why_left_out(text):
    return next((why for pattern, why in LEFT_OUT if re.search(pattern, text)), "")


def tasks_of(page, text):
    for block in blocks_of(page, text):
        if block.kind == "python":
            yield Task(f"{page}:{block.line}", "python", block.text, block.why_not or why_left_out(block.text))
            continue
        for line, command in commands_of(block):
            yield Task(f"{page}:{line}", "shell", command, block.why_not or why_left_out(command))


def wrong_with(task):
    """What is wrong with a task before it runs."""
    if task.kind == "python":
        try:
            ast.parse(task.text)
        except SyntaxError as error:
            return f"does not parse: {error}"
        return ""
    for word in shlex.split(task.text, posix=True):
        if re.match(r"(\./)?(tools|examples|quickstart|test)\b", word) and not (ROOT / word).exists():
            return f"no such file: {word}"
    return ""


class Copy:
    """The tree as git has it, with the command's build, for commands to write into."""

    def __init__(self, folder, build, python):
        self.folder = folder
        names = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
        for name in filter(None, names.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=True)
        (folder / "build/cpu/bin").mkdir(parents=True)
        shutil.copy2(build / "bin/tilelace", folder / "build/cpu/bin/tilelace")
        path = [str(folder / "build/cpu/bin"), str(python / "bin"), os.environ["PATH"]]
        self.environment = {**os.environ, "PATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}

    def run(self, task):
        if task.kind == "shell":
            line = ["bash", "-o", "pipefail", "-c", task.text]
        else:
            whole = "init_process_group" in task.text
            program = self.folder / "block.py"
            program.write_text(("" if whole else PREAMBLE) + task.text + "\n", encoding="utf-8")
            line = ["torchrun", "--standalone", "--nproc-per-node", "2", str(program)]
        try:
            done = subprocess.run(line, check=False, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            return 124, f"{error.stdout or ''}\nno end within {LIMIT_S} s"


def run_all(tasks, build, python):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), build, python)
        for task in tasks:
            if task.why_not:
                continue
            begin = time.monotonic()
            code, output = copy.run(task)
            shown = task.text if task.kind == "shell" else "(Python)"
            print(f"{task.place}: {'ok' if code == 0 else f'FAILED ({code})'} {time.monotonic() - begin:.0f} s  {shown}",
                  flush=True)
            if code != 0:
                failed += 1
                print("\n".join(f"    {line}" for line in output.splitlines()[-25:]), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--python", type=Path, default=ROOT / ".cache/python")
    parser.add_argument("--only", default="")
    parser.add_argument("pages", nargs="*", type=Path)
    asked = parser.parse_args()
    pages = asked.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    tasks = []
    for page in pages:
        name = os.path.relpath(page.resolve(), ROOT)
        tasks += [t for t in tasks_of(name, page.read_text(encoding="utf-8")) if asked.only in t.text]
    wrong = {task: text for task in tasks if not task.why_not and (text := wrong_with(task))}
    for task, text in wrong.items():
        print(f"{task.place}: {text}")
    left_out = [t for t in tasks if t.why_not]
    if asked.list:
        for task in tasks:
            shown = task.text if task.kind == "shell" else "(Python)"
            print(f"{task.place}: {f'left out, {task.why_not}' if task.why_not else 'runs'}: {shown}")
    failed = 0 if asked.list else run_all(tasks, asked.build.resolve(), asked.python.resolve())
    print(f"docs: {len(tasks) - len(left_out)} of {len(tasks)} commands and blocks "
          f"{'can run' if asked.list else 'ran'}, {len(left_out)} left out, {failed + len(wrong)} wrong")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
