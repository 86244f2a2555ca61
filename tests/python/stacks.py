# SPDX-License-Identifier: Apache-2.0
"""Other packages' own functions, out of the wheels that tools/install_dependencies.sh fetches.

A wheel is read, not installed: what a file imports and a CPU machine has not is given by the caller.
"""
import importlib.util
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

WHEELS = Path(__file__).resolve().parents[2] / ".cache" / "python" / "wheels"


def wheel(package):
    found = sorted(WHEELS.glob(f"{package}-*.whl"))
    assert len(found) == 1, (f"{package}: got {len(found)} wheels in {WHEELS}, expected one: "
                             "tools/install_dependencies.sh python")
    return found[0]


def version(package):
    return wheel(package).name.split("-")[1]


def module_of(package, file, stubs):
    """The module that a file of a wheel is. `stubs`: contents of modules that it imports, by name."""
    path = wheel(package)
    with zipfile.ZipFile(path) as archive:
        text = archive.read(file).decode()
    name = file.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__file__ = f"{path}/{file}"
    with stubbed(stubs):
        exec(compile(text, module.__file__, "exec"), vars(module))
    return module


def stubbed(stubs):
    """Modules with these contents, and empty packages above them, where there are none."""
    made = {}
    for name, contents in stubs.items():
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:i]), ModuleType(".".join(parts[:i]))).__path__ = []
        vars(made[name]).update(contents)
    return patch.dict(sys.modules, made)


def is_installed(package):
    return importlib.util.find_spec(package) is not None
