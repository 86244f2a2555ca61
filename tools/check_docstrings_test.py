#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted symbols: what check_docstrings.py must say of each, and what it must leave alone."""
import sys
import tempfile
from pathlib import Path

import public_api
from check_docstrings import findings

HEADER = """
namespace tilelace {
class Communicator;
/// Whole. Local. Errors: none.
void whole(Communicator&);
void bare();
/// No errors. Local.
void forgets(Communicator&);
/// Nowhere. Errors: none.
void nowhere(Communicator&);
/// Waits. Errors: none.
void waits(double timeout);
/// Waits for so long, in seconds. Errors: none.
void waits_in_seconds(double timeout);
/// Never fails.
int sure() noexcept;
/// Values: `one` and what is left.
enum class Kind { one, other };
/// What is `named` here.
struct Row {
  int named;
  int unnamed;
  double latency;  ///< of the wire
  double latency_s;  ///< of the wire
  /// first and second, both documented
  int first, second;
  Row(Row&&) noexcept;
  bool operator==(const Row&) const = default;
};
/// As whole.
void refers(Communicator&);
/// The product. Collective, in the stream, aligned. Errors: none.
void ag_gemm(Communicator&);
}  // namespace tilelace
"""
PACKAGE = '''"""The package."""
from ._inside import offered, silent


def whole():
    """What it does. Errors: none."""


def bare(): ...


class Layer:
    """A layer. Errors: usage."""

    size: int

    def forward(self): ...

    def ready(self):
        """Errors are the class's."""
'''
INSIDE = '''
def offered():
    """What it does."""


def silent(): ...


def hidden(): ...
'''
EXPECTED = {
    "bare": "a docstring", "forgets": "errors", "nowhere": "collective or local", "waits": "a unit of timeout",
    "Kind::other": "a docstring", "Row::unnamed": "a docstring", "Row::latency": "a unit",
    "ag_gemm": "shapes, traffic", "tilelace.bare": "a docstring", "tilelace.offered": "errors",
    "tilelace.silent": "a docstring", "tilelace.Layer.size": "a docstring", "tilelace.Layer.forward": "a docstring",
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {"include/tilelace/planted.h": HEADER, "python/tilelace/__init__.py": PACKAGE,
                           "python/tilelace/_inside.py": INSIDE}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = {}
        for symbols in (public_api.of_headers(root), public_api.of_package(root)):
            for symbol, lacks in findings(symbols):
                if lacks:
                    found[symbol.name.partition("(")[0]] = ", ".join(lacks)
    for name in sorted({*found, *EXPECTED}):
        if found.get(name) != EXPECTED.get(name):
            print(f"{name}: got {found.get(name)}, expected {EXPECTED.get(name)}")
    return 0 if found == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main())
