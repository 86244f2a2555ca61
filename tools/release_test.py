#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/release on small trees whose answer is known."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = Path(__file__).with_name("release")
HEADER = Path(__file__).parent.parent / "include/tilelace/version.h"
LOG = "# Changelog\n\n## [Unreleased] 0.2.0\n\n### Added\n- More.\n\n## [0.1.0] - 2026-01-01\n\n### Added\n- Some.\n"
NAMES = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
         for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"))}
ENVIRONMENT = {**os.environ, **NAMES, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
failures = 0


def expect(what, got, expected):
    global failures
    if got != expected:
        print(f"release_test: {what}: got {got!r}, expected {expected!r}")
        failures += 1


class Tree:
    def __init__(self, folder, log=LOG):
        self.root = Path(folder)
        (self.root / "include/tilelace").mkdir(parents=True)
        self.header, self.log = self.root / "include/tilelace/version.h", self.root / "CHANGELOG.md"
        text = HEADER.read_text(encoding="utf-8")
        for part, number in (("MAJOR", 0), ("MINOR", 1), ("PATCH", 0)):
            text = re.sub(rf"(VERSION_{part}) \d+\n", rf"\1 {number}\n", text)
        self.header.write_text(text, encoding="utf-8")
        self.log.write_text(log, encoding="utf-8")
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.root, env=ENVIRONMENT, text=True, check=True,
                              capture_output=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")

    def release(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, *arguments, "--root", self.root], env=ENVIRONMENT, text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr


def check_dry_run(tree):
    before = tree.header.read_text(), tree.log.read_text()
    code, text = tree.release("0.2.0", "--dry-run")
    expect("dry run", code, 0)
    expect("what a dry run leaves", (tree.header.read_text(), tree.log.read_text(), tree.git("status", "--porcelain"),
                                     tree.git("tag")), (*before, "", ""))
    expect("notes first", text.startswith("### Added\n- More.\n"), True)
    for line in ("-#define TILELACE_VERSION_MINOR 1", "+#define TILELACE_VERSION_MINOR 2", "-## [Unreleased] 0.2.0",
                 "+## [Unreleased]"):
        expect(f"lines {line!r}", text.splitlines().count(line), 1)
    expect("the date", len(re.findall(r"^\+## \[0\.2\.0\] - \d{4}-\d\d-\d\d$", text, re.MULTILINE)), 1)


def check_release(tree):
    expect("no tag before the release", tree.release("0.2.0", "--tag")[0], 1)
    expect("release", tree.release("0.2.0")[0], 0)
    expect("the header", "VERSION_MAJOR 0\n" in tree.header.read_text() and "VERSION_MINOR 2\n" in tree.header.read_text(), True)
    expect("sections", re.findall(r"^## \[(.*?)\]", tree.log.read_text(), re.MULTILINE), ["Unreleased", "0.2.0", "0.1.0"])
    expect("tags of a release", tree.git("tag"), "")
    expect("no tag of what is not committed", tree.release("0.2.0", "--tag")[0], 1)
    tree.commit()
    expect("tag", tree.release("0.2.0", "--tag")[0], 0)
    expect("the tag", tree.git("cat-file", "tag", "v0.2.0").split("\n\n", 1)[1], "0.2.0\n\n### Added\n- More.\n")
    expect("the tag again", tree.release("0.2.0", "--tag")[0], 1)
    code, text = tree.release("0.3.0", "--dry-run")
    expect("nothing new", (code, "no entry" in text), (1, True))


def check_what_is_in_the_way():
    for what, log, version, words in (
            ("no section", LOG.replace("[Unreleased] 0.2.0", "Next"), "0.2.0", "0 sections [Unreleased]"),
            ("two sections", LOG + "\n## [Unreleased]\n", "0.2.0", "2 sections [Unreleased]"),
            ("no entry", LOG.replace("- More.", ""), "0.2.0", "no entry"),
            ("the last version", LOG, "0.1.0", "expected one after 0.1.0"),
            ("an older version", LOG, "0.0.9", "expected one after 0.1.0")):
        with tempfile.TemporaryDirectory() as folder:
            code, text = Tree(folder, log).release(version, "--dry-run")
        expect(what, (code, words in text), (1, True))
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder)
        for version in ("0.2", "v0.2.0", "0.2.100", "0.02.0"):
            expect(f"version {version}", tree.release(version, "--dry-run")[0], 2)
        (tree.root / "new").write_text("", encoding="utf-8")
        code, text = tree.release("0.2.0", "--dry-run")
        expect("a tree that is not clean", (code, "1 files that are not committed (new)" in text), (1, True))


with tempfile.TemporaryDirectory() as own:
    both = Tree(own)
    check_dry_run(both)
    check_release(both)
check_what_is_in_the_way()
if not failures:
    print("release_test: ok")
sys.exit(failures > 0)
