# SPDX-License-Identifier: Apache-2.0
"""What a shared library exports, beside what the public headers declare."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import public_api

OF_CLASSES = re.compile(r"(typeinfo|typeinfo name|vtable) for (?P<name>\w+)$")


def symbols(files, *options):
    """{mangled: (letter of its kind, name without namespace, arguments and ABI tags)}"""
    found = {}
    command = ["nm", "--defined-only", *options, *map(str, files)]
    mangled, readable = (subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout
                         for more in ((), ("--demangle",)))
    for plain, text in zip(mangled.splitlines(), readable.splitlines(), strict=True):
        parts = text.split(" ", 2)
        if len(parts) == 3 and len(parts[1]) == 1:
            name = re.split(r"[\[(]", parts[2])[0]
            found[plain.split()[-1]] = (parts[1], name.replace("tilelace::", "", 1))
    return found


def declared():
    """Functions of the headers by name, and their classes."""
    of_headers = public_api.of_headers()
    functions = {s.name.partition("(")[0] for s in of_headers if s.kind in ("function", "method")}
    return functions, {s.name for s in of_headers if s.kind == "class"}


def is_public(name, functions, classes):
    of_class = OF_CLASSES.match(name)
    if of_class:
        return of_class["name"] in classes
    owner, _, member = name.rpartition("::")
    # Moves, destructors and private constructors, which the reference does not list.
    return name in functions or (owner in classes and member in (owner, f"~{owner}", "operator="))


def wrong_exports(library, objects):
    """A line for each symbol that should not be exported, or should be. `objects`: what it was linked from."""
    functions, classes = declared()
    shown = symbols([library], "--dynamic")
    wrong = [f"exported, no header has it: {name}" for _, name in shown.values()
             if not is_public(name, functions, classes)]
    names = {name for _, name in shown.values()}
    wrong += [f"not exported (cmake/exports.map): {name}" for name in ("typeinfo for Error", "vtable for Error")
              if name not in names]  # an Error is thrown here and caught there
    wrong += [f"declared and not exported (cmake/exports.map): {name}" for mangled, (kind, name)
              in symbols(objects).items() if kind == "T" and mangled not in shown
              and is_public(name, functions, classes)]
    return sorted(set(wrong)) if shown else [f"{library} exports nothing"]
