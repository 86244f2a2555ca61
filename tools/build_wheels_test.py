#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/build_wheels: wheels with and without GPU kernels have different names, and stand side by side."""
import importlib.machinery
import importlib.util
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("build_wheels", str(Path(__file__).with_name("build_wheels")))
build_wheels = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(build_wheels)
failures = 0


def expect(what, got, expected):
    global failures
    if got != expected:
        print(f"build_wheels_test: {what}: got {got!r}, expected {expected!r}")
        failures += 1


def unpacked(folder, version):
    info = Path(folder) / f"tilelace-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.2\nName: tilelace\nVersion: {version}\nRequires-Dist: torch>=2.10\n")
    return Path(folder)


def check_label():
    with tempfile.TemporaryDirectory() as folder:
        wheel = unpacked(folder, "1.2.3")
        build_wheels.add_label(wheel, "cu13")
        expect("folders", [path.name for path in wheel.iterdir()], ["tilelace-1.2.3+cu13.dist-info"])
        text = (wheel / "tilelace-1.2.3+cu13.dist-info/METADATA").read_text().splitlines()
        expect("metadata", text[1:], ["Name: tilelace", "Version: 1.2.3+cu13", "Requires-Dist: torch>=2.10"])
    with tempfile.TemporaryDirectory() as folder:
        try:
            build_wheels.add_label(unpacked(folder, "1.2.3+cu12"), "cu13")
            expect("a label on a label", "done", "refused")
        except SystemExit as refusal:
            expect("why a label is refused", "expected one" in str(refusal), True)


def check_former():
    with tempfile.TemporaryDirectory() as folder:
        names = {"tilelace-0.1.0-py3-none-linux_x86_64.whl", "tilelace-0.1.0+cu13-py3-none-linux_x86_64.whl"}
        for name in names:
            (Path(folder) / name).touch()
        for label, plus in (("", False), ("cu13", True)):
            expect(f"former wheels of kind {label!r}", [wheel.name for wheel in build_wheels.former(Path(folder), label)],
                   [name for name in names if ("+" in name) == plus])


check_label()
check_former()
if not failures:
    print("build_wheels_test: ok")
sys.exit(failures > 0)
