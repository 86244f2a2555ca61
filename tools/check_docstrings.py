#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which public symbol of C++, C and Python lacks a docstring, or one that says errors and units.

usage: check_docstrings.py [--list]      --list: all symbols, too
A line each, FILE:LINE: symbol: what is missing; exit 1 if there is any:
  - a docstring; that of a struct, class or enum may say its fields and values, by their names
  - the errors of what can fail ("Errors: ...", "Errors: none"); a class's docstring may, for its methods
  - the unit of what has one (a time, bytes, a rate ...), in the name (timeout_s) or in the docstring
  - whether a call that takes a group or communicator is collective or local
  - of the ops and collectives also: shapes, traffic, what is visible when in the stream, alignment
A function's docstring may refer: "as ag_gemm" takes what that one says.
"""
import argparse
import re

import public_api

OPS = ("ag_gemm", "gemm_rs", "gemm_ar", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
UNIT = re.compile(
    r"\b(seconds?|minutes?|microseconds?|us|ms|bytes?|[KMG]i?B|elements?|rows?|columns?|GB/s|floats?|terms|"
    r"flops|floating-point operations|tiles|tokens|ranks)\b", re.IGNORECASE)
NAMED_UNIT = re.compile(r"(_|^)(s|us|ms|bytes|seconds|minutes|rows|cols|columns|elements|tiles|ranks)$")
QUANTITY = re.compile(
    r"(^|_)(timeout|seconds|minutes|latency|bandwidth|bytes|stride|offset|size|sizes|capacity|chunk|flops|bound|rate|"
    r"time|duration|counts|takes|sends|rows|cols|m|us|s)($|_)")
NUMBER = re.compile(r"\b(double|float|int|int32_t|int64_t|size_t|std::size_t|std::int64_t|timedelta|Sequence\[int\])\b")
ERRORS = re.compile(r"\berrors: |\berrors as\b|\berrors are\b|\bthrows\b|\braises\b|\bstd::\w+_error|out_of_range", re.IGNORECASE)
WHERE = re.compile(r"\b(collective|local|collectively|locally)\b", re.IGNORECASE)
GROUPS = re.compile(r"\bCommunicator\b|\btilelace_communicator\b|\bGroup\b")
REFERENCE = re.compile(r"\bas (?:of )?(?:tilelace(?:::|\.))?`?([A-Za-z_]+)(?:\(\))?`?", re.IGNORECASE)
OF_OPS = {
    "shapes": re.compile(r"\[[^\]]*\]|any shape"),
    "traffic": re.compile(r"\btraffic\b", re.IGNORECASE),
    "what is visible when": re.compile(r"\b(stream|when)\b", re.IGNORECASE),
    "alignment": re.compile(r"\balign|\bstrides\b|\bcopied\b", re.IGNORECASE),
}


def said(symbol, docs):
    """The docstring, and those that it refers to and its parent's."""
    text, seen, todo = [], set(), [symbol.doc]
    while todo:
        doc = todo.pop()
        text.append(doc)
        for name in REFERENCE.findall(doc):
            if name in docs and name not in seen:
                seen.add(name)
                todo += docs[name]
    return "\n".join(text)


def names(doc, word):
    return re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", doc) is not None


def lacks_doc(symbol, beside):
    """`beside`: docstrings of fields in the same line."""
    if symbol.doc:
        return False
    if symbol.kind not in ("field", "enumerator"):
        return True
    return not any(names(doc, symbol.short) for doc in (symbol.parent.doc, *beside))


def lacks_unit(name, kind, doc):
    return bool(NUMBER.search(kind) and QUANTITY.search(name) and not NAMED_UNIT.search(name) and not UNIT.search(doc))


def missing(symbol, docs, beside):
    if lacks_doc(symbol, beside):
        return ["a docstring"]
    doc = "\n".join((said(symbol, docs), *beside))
    above = said(symbol.parent, docs) if symbol.parent else ""
    found = []
    if symbol.can_fail and not ERRORS.search(doc) and not ERRORS.search(above):
        found.append("errors")
    if symbol.kind == "field" and lacks_unit(symbol.short, symbol.type, f"{doc}\n{above}"):
        found.append("a unit")
    found += [f"a unit of {name}" for name, kind in symbol.parameters if lacks_unit(name, kind, f"{doc}\n{above}")]
    takes_group = any(GROUPS.search(kind) for _, kind in symbol.parameters)
    if symbol.kind == "function" and takes_group and not WHERE.search(doc):
        found.append("collective or local")
    if symbol.kind == "function" and symbol.short in OPS:
        found += [what for what, pattern in OF_OPS.items() if not pattern.search(doc)]
    return found


def docs_by_name(symbols):
    """What a reference may mean: functions and methods of one name, a module's too."""
    docs = {}
    for symbol in symbols:
        if symbol.kind in ("function", "method", "module") and symbol.doc:
            docs.setdefault(symbol.short, []).append(symbol.doc)
    return docs


def findings(symbols):
    """Each symbol with what it lacks."""
    docs, lines = docs_by_name(symbols), {}
    for symbol in symbols:
        if symbol.kind == "field" and symbol.doc:
            lines.setdefault((symbol.file, symbol.line), []).append(symbol.doc)
    for symbol in symbols:
        beside = lines.get((symbol.file, symbol.line), []) if symbol.kind == "field" else []
        yield symbol, missing(symbol, docs, beside)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    languages = {"C++ and C": public_api.of_headers(), "Python": public_api.of_package()}
    count = 0
    for symbols in languages.values():
        for symbol, found in findings(symbols):
            count += bool(found)
            if found or asked.list:
                print(f"{symbol.file}:{symbol.line}: {symbol.name}: {'lacks ' + ', '.join(found) if found else 'whole'}")
    total = ", ".join(f"{len(symbols)} symbols of {name}" for name, symbols in languages.items())
    print(f"docstrings: {total}; {f'{count} lack something' if count else 'none lacks anything'}")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
