# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree, what is edited in it, and builds of it: what scripts share that add something
to it and count the files."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
MOST_FILES = 6

# (a file's name, before or after or in place of which text, what comes there).
Edit = tuple[str, str, str]


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
    """By the end of its path: its name alone, or with folders where others have that name."""
    found = [f for f in tracked() if f == name or f.endswith("/" + name)]
    assert len(found) == 1, f"{name}: got {found}, expected one file"
    return found[0]


def edit(to: Path, edits: list[Edit]) -> None:
    for name, pattern, text in edits:
        file = to / file_called(name)
        new, count = re.subn(pattern, text, file.read_text())
        assert count == 1, f"{name}: got {count} places of {pattern!r}, expected one"
        file.write_text(new)


def write(to: Path, new: dict[str, str]) -> None:
    for name, text in new.items():
        (to / name).write_text(text)


def touched(to: Path) -> list[str]:
    return [f for f in tracked() if (to / f).read_bytes() != (ROOT / f).read_bytes()]


def run(*command: object, fails: bool = False, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if (done.returncode != 0) != fails:
        sys.exit(f"{' '.join(words)}: got exit code {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def say(*words: object) -> None:
    print(*words, flush=True)


def expect(text: str, *parts: str) -> None:
    for part in parts:
        if part not in text:
            sys.exit(f"{Path(sys.argv[0]).stem}: got no {part!r} in\n{text}")


def python() -> Path:
    """With the packages of tests, torch among them; it may not be there."""
    return ROOT / ".cache/python/bin/python"


def torch_folder() -> str | None:
    if not python().exists():
        return None
    found = subprocess.run([str(python()), "-c", "import torch; print(torch.__path__[0])"],
                           check=False, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def configure(tree: Path, torch: str | None, *more: str) -> Path:
    """In a few large sources, not optimised: most of its time is the compiler's."""
    at = tree / "build/toy"
    run("cmake", "-S", tree, "-B", at, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DTILELACE_TESTS=OFF", "-DTILELACE_EXAMPLES=OFF",
        "-DTILELACE_TEST_SET=gate", "-DTILELACE_GEMM=reference",
        *(["-DTILELACE_TORCH=ON", f"-DTILELACE_TORCH_DIR={torch}"] if torch else []), *more)
    return at


def build(at: Path, target: str) -> None:
    run("cmake", "--build", at, "-j2", "--target", target)


def build_program(tree: Path, at: Path, source: str, *beside: Path) -> Path:
    """Of a source that lies here, sources beside it, and the copy's library."""
    build(at, "tilelace_library")
    program = at / Path(source).stem
    run("c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-DFMT_SHARED", f"-I{tree}/include",
        f"-I{tree}/src", f"-I{tree}/tests", HERE / source, *beside, at / "libtilelace.a", "-lfmt",
        "-ldl", "-lpthread", "-o", program)
    return program


def run_torch(tree: Path, at: Path, text: str) -> None:
    """The text as a program of two ranks, with the copy's package."""
    build(at, "tilelace_torch")
    shutil.copy(at / "lib/_tilelace_torch.so", tree / "python/tilelace")
    program = at / "toy_torch.py"
    program.write_text(text)
    run(python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, program,
        env={**os.environ, "PYTHONPATH": str(tree / "python")}, timeout=120)


def arguments(doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--into", type=Path)
    return parser


def add_to_copy(what: str, asked: argparse.Namespace, edits: list[Edit],
                check: Callable[[Path], None], new: dict[str, str] | None = None,
                always: Callable[[Path], None] = lambda tree: None) -> None:
    """Edits a copy, adds new files by their texts, counts both, and checks the copy: by `always`,
    and by `check` unless only --count was asked for."""
    new = new or {}
    with tempfile.TemporaryDirectory() as folder:
        tree = (asked.into or Path(folder)).resolve()
        copy_tree(tree)
        edit(tree, edits)
        write(tree, new)
        files = touched(tree) + list(new)
        say(f"{what}: {len(files)} files, at most {MOST_FILES}: {', '.join(files)}")
        if len(files) > MOST_FILES:
            sys.exit(1)
        always(tree)
        if not asked.count:
            check(tree)
