#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample_texts.py on sources whose texts are known, and its draw from this tree."""
import re
import subprocess
import sys
from pathlib import Path

from sample_texts import ERRORS, HEADERS, comments_of, cpp_errors, python_errors

HEADER = """// SPDX-License-Identifier: Apache-2.0
// What it is,
// on two lines.
#pragma once
#include "a/b.h"  // of a library

/// One value.
int f();  // clang-format off
const char* kUrl = "http://x";  // an address
int kBits = 3;  ///< of a word,
                ///< which is aligned
void g(int* p) {
  *p = 3;
}
"""
CPP = """void f() {
  require(m > 0, "{}: m: got {}, "
                 "expected more than 0", name, m);
  wrong(op, "out " + name, "none", "at least one");
  fmt::print("this is a report of times");
  if (late) return "the plan has no tile of this shape";
  throw Error{kind, "rank " + text(rank) + " has left"};
}
"""
PYTHON = '''def f(x):
    """No error at all."""
    log("a line of text that is shown")
    if x:
        raise usage(f"x: got {x}, expected a number")
    return "its result has other users"
'''


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"sample_texts_test: {what}, got {got}, expected {expected}")


def sample(*arguments):
    tool = Path(__file__).resolve().parent / "sample_texts.py"
    return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True, check=True).stdout


def main():
    expect("comments", comments_of(HEADER), [
        (2, "What it is, on two lines.\n  | #pragma once"), (5, 'of a library\n  | #include "a/b.h"'),
        (7, "One value.\n  | int f();  // clang-format off"), (9, 'an address\n  | const char* kUrl = "http://x";'),
        (10, "of a word, which is aligned\n  | int kBits = 3;")])
    expect("errors in C++", cpp_errors(CPP), [
        (2, "{}: m: got {}, expected more than 0"), (4, "out , none, at least one"),
        (6, "the plan has no tile of this shape"), (7, "rank {} has left")])
    expect("errors in Python", python_errors(PYTHON), [
        (5, "x: got {x}, expected a number"), (6, "its result has other users")])
    drawn = sample("7")
    expect("headers", drawn.count("\n== "), HEADERS)
    errors = drawn[drawn.rindex("\n== "):]
    expect("errors", len(re.findall(r"^(?!.*\.h:)[a-z].*:\d+: ", errors, re.MULTILINE)) > ERRORS / 2, True)
    expect("the same seed", sample("7"), drawn)
    expect("another seed", sample("8") == drawn, False)
    expect("all", len(sample("--all", "--headers", "include/").splitlines()) > 500, True)
    print("sample_texts_test: ok")


if __name__ == "__main__":
    main()
