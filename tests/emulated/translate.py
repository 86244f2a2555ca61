#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels for a host compiler: launches, shared variables and kernels' addresses as calls of the
machine (tests/emulated/machine), and what orders memory inside a Site. Everything else is read as it
is.

usage: translate.py [--plain] FROM TO FILE...   FILE below FROM goes to the same place below TO, a .cu
                                               as .cu.cc; plain: no thread waits for another
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))
from fence_sites import mark

# name<args><<<grid, block, shared, stream>>>(a, b) -> LaunchAt{...}.run(name<args> of any a..., a, b)
LAUNCH = re.compile(r"([\w:]+(?:<[\w:, ]+>)?)<<<(.*?)>>>\(", re.DOTALL)
DYNAMIC = re.compile(r"extern __shared__ __align__\(\d+\) ([\w:]+) (\w+)\[\];")
ARRAY = re.compile(r"__shared__ (?:alignas\(\d+\) )?([\w:]+) (\w+)\[([^\]]+)\];")
SINGLE = re.compile(r"__shared__ ([\w:]+) (\w+);")
ADDRESS = re.compile(r"reinterpret_cast<const void\*>\((\w+<[^()]*>)\)")


def translate(text, plain):
    emulated = "::tilelace::emulated::"
    launch = emulated + ("PlainLaunchAt" if plain else "LaunchAt")
    text = LAUNCH.sub(lambda m: f"{launch}{{{m[2]}}}.run([](auto... a) {{ {m[1]}(a...); }}, ", text)
    text = DYNAMIC.sub(rf"\1* const \2 = reinterpret_cast<\1*>({emulated}dynamic_shared());", text)
    text = ARRAY.sub(rf"auto& \2 = {emulated}shared_variable<\1[\3], __LINE__>();", text)
    text = SINGLE.sub(rf"\1& \2 = {emulated}shared_variable<\1, __LINE__>();", text)
    text = ADDRESS.sub(rf"{emulated}address_of(\1)", text)
    return text.replace("cudaLaunchKernelEx(", f"{emulated}launch_ex(")


def main():
    plain = sys.argv[1:2] == ["--plain"]
    arguments = sys.argv[2:] if plain else sys.argv[1:]
    if len(arguments) < 3:
        sys.exit(__doc__)
    source, target = Path(arguments[0]), Path(arguments[1])
    for name in arguments[2:]:
        path = source / name
        text = path.read_text(encoding="utf-8")
        text = translate(text if plain else mark(path.name, text), plain)
        for left in ("<<<", "__shared__"):
            if left in text:
                sys.exit(f"translate: {path}, got {left} in a form that is not known")
        to = target / (name + ".cc" if name.endswith(".cu") else name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.is_file() or to.read_text(encoding="utf-8") != text:
            to.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
