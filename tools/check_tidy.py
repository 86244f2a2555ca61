#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over src/ and cli/ (and the headers they include), two processes at a time.

Most of a file's time goes to what it includes, so files that are compiled alike and compile together
are looked at together, as one source. Together they can only be found clean: where they are not,
each is looked at alone, and that is what counts.
usage: check_tidy.py [--touched] [BUILD_DIR]     BUILD_DIR: a configured one, default build/cpu
  --touched: only what this branch or, on main, its last commit touched; of a header one source that includes it
A file that was clean is not looked at again until it, a header or .clang-tidy changes.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / ".cache" / "tidy"
TIDY = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
TOGETHER = 8  # files at most: memory, and two processes are to end at about the same time
# CLI11's own bodies cost this check half of a file's time (6 s); our files with it are few.
WITH_CLI11 = re.compile(r'"(commands|session)\.h"|<CLI/')
LEFT_OUT_WITH_CLI11 = "--checks=-performance-unnecessary-value-param"
NOISE = re.compile(r"warnings? generated|Suppressed|Use -header-filter|treated as error")


def sources_of(file):
    """The file, or those that CMake puts together in it (UNITY_BUILD)."""
    if file.parent.name != "Unity" or not file.is_file():
        return [file]
    return [Path(name) for name in re.findall(r'^#include "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)]


def read_commands(build):
    """{path from the root: (its compiler's arguments, folder)}: only files that this build compiles."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        arguments = shlex.split(entry["command"])
        for option in ("-o", "-c"):
            at = arguments.index(option)
            del arguments[at:at + 2]
        names = [Path(a).name for a in arguments]
        if "ccache" in names:
            del arguments[:names.index("ccache") + 1]
        for file in sources_of(Path(entry["file"])):
            if file.suffix == ".cc" and file.is_relative_to(ROOT):
                path = file.relative_to(ROOT).as_posix()
                if path.startswith(("src/", "cli/")):
                    commands[path] = (arguments, entry["directory"])
    return commands


def common_key():
    digest = hashlib.sha256()
    files = [ROOT / ".clang-tidy", Path(__file__)]
    for folder in ("include", "src", "cli"):
        files += sorted((ROOT / folder).rglob("*.h"))
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamp_of(common, path):
    digest = hashlib.sha256(f"{common} {path}\n".encode())
    digest.update((ROOT / path).read_bytes())
    return STAMPS / digest.hexdigest()[:32]


def groups_of(paths, commands):
    """Lists of files that are compiled and looked at alike, neighbours together."""
    alike = {}
    for path in sorted(paths):
        text = (ROOT / path).read_text(encoding="utf-8")
        key = (*commands[path][0], bool(WITH_CLI11.search(text)))
        alike.setdefault(key, []).append(path)
    groups = []
    for files in alike.values():
        count = -(-len(files) // TOGETHER)
        groups += [files[len(files) * i // count:len(files) * (i + 1) // count] for i in range(count)]
    return sorted(groups, key=len, reverse=True)


def git(*arguments):
    done = subprocess.run(["git", *arguments], check=False, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else None


def touched_files():
    """Paths that differ from where this branch left main or, on main, from the commit before; None if unknown."""
    head = git("rev-parse", "HEAD")
    bases = [git("merge-base", "HEAD", main) for main in ("origin/main", "main")] + [git("rev-parse", "HEAD~1")]
    base = next((b for b in bases if b and b != head), None)
    return git("diff", "--name-only", base[0]) if base else None


def includers(paths):
    """{header: the first of these sources that includes it, itself or by another header}."""
    found = {}
    for path in sorted(paths):
        seen, left = set(), [ROOT / path]
        while left:
            file = left.pop()
            for name in re.findall(r'^#include "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
                at = next((f for f in (file.parent / name, *(ROOT / d / name for d in ("include", "src", "cli")))
                           if f.is_file()), None)
                if at and at not in seen:
                    seen.add(at)
                    left.append(at)
        for header in seen:
            found.setdefault(header.resolve().relative_to(ROOT).as_posix(), path)
    return found


def touched_of(commands):
    """The sources to look at for what was touched: all, where that cannot be told."""
    touched = touched_files()
    if touched is None or {".clang-tidy", "tools/check_tidy.py"} & set(touched):
        return set(commands)
    by_header = includers(commands)
    of_headers = {by_header[t] for t in touched if t in by_header}
    return {t for t in touched if t in commands} | of_headers


class Tidy:
    def __init__(self, commands, common):
        self.commands = commands
        self.common = common

    def run(self, source, like):
        """clang-tidy's findings in `source`, looked at like the file `like`; None if there are none."""
        arguments, folder = self.commands[like]
        left_out = WITH_CLI11.search((ROOT / like).read_text(encoding="utf-8"))
        done = subprocess.run([TIDY, "--quiet", *([LEFT_OUT_WITH_CLI11] if left_out else []), str(source), "--",
                               *arguments[1:]], check=False, cwd=folder, capture_output=True, text=True)
        return None if done.returncode == 0 else done.stdout + done.stderr

    def compile_together(self, source, like):
        arguments, folder = self.commands[like]
        return subprocess.run([*arguments, "-fsyntax-only", "-w", "-fmax-errors=1", str(source)], check=False, cwd=folder,
                              capture_output=True).returncode == 0

    def look_at(self, files):
        """{file: its findings} of those that are not clean."""
        if len(files) > 1:
            name = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]
            source = STAMPS / f"together_{name}.cc"
            source.write_text("".join(f'#include "{ROOT / f}"  // NOLINT\n' for f in files), encoding="utf-8")
            if not self.compile_together(source, files[0]):
                half = len(files) // 2
                return {**self.look_at(files[:half]), **self.look_at(files[half:])}
            if self.run(source, files[0]) is None:
                for file in files:
                    stamp_of(self.common, file).touch()
                return {}
        findings = {file: self.run(ROOT / file, file) for file in files}
        for file in [f for f in files if findings[f] is None]:
            stamp_of(self.common, file).touch()
            del findings[file]
        return findings


def main():
    arguments = [a for a in sys.argv[1:] if a != "--touched"]
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        print(__doc__)
        return 2
    build = Path(arguments[0] if arguments else ROOT / "build" / "cpu")
    if not (build / "compile_commands.json").is_file():
        print(f"tidy: compile_commands.json, got none in {build}, expected a configured build "
              "(cmake --preset cpu)")
        return 2
    if not TIDY:
        print("tidy: clang-tidy, got none, expected version 14 (Debian: clang-tidy)")
        return 2
    STAMPS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    commands, common = read_commands(build), common_key()
    tidy = Tidy(commands, common)
    wanted = touched_of(commands) if "--touched" in sys.argv[1:] else commands
    groups = groups_of([p for p in wanted if not stamp_of(common, p).exists()], commands)
    findings = {}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TIDY_JOBS", "2"))) as pool:
        for found in pool.map(tidy.look_at, groups):
            findings.update(found)
    for text in findings.values():
        print("\n".join(line for line in text.splitlines() if not NOISE.search(line)))
    print(f"tidy: {len(wanted)} of {len(commands)} files in {time.monotonic() - start:.0f} s, "
          f"{'findings above' if findings else 'clean'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
