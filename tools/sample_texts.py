#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sample of what strangers read, drawn by a seed: headers' comments and texts of errors.

usage: sample_texts.py SEED | --all [--headers | --errors] [FOLDER...]
  SEED    30 headers and 40 texts of errors, of the files that git knows
  --all   all headers and all texts of errors
  --headers, --errors, FOLDER...   only these
Every comment comes with its file, its line and the line of code that follows it or stands beside it.
A text of an error is a literal in a statement that throws, returns or names an error.
"""
import argparse
import ast
import random
import re
import subprocess
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS, ERRORS = 30, 40
ERROR_FOLDERS = ("src/", "cli/", "include/", "bindings/", "python/")
LITERAL = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(rf"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|{LITERAL}|'(?:\\.|[^'\\\n])'|[;{{}}]""", re.DOTALL)
COMMENT = re.compile(r"^(?P<code>[^/\"]*(?:\"[^\"]*\"[^/\"]*)*)//+[!<]?(?P<text>.*)$|^\s*(?:/\*+|\*(?=\s))(?!/)(?P<block>.*?)(?:\*/)?$")
NO_TEXT = re.compile(r"SPDX-License|^namespace |clang-format o|NOLINT|^\W*$")
JOINED = re.compile(r"\s*((<<|\+)[^,;?]*(<<|\+)\s*)?$")  # "a" "b", and "a" + name + "b"
# What the code around a literal says where it is of an error.
ERROR_CODE = re.compile(
    r"(?i)\b(throw|raise\w*|require\w*|refus\w*|fail\w*|\w*error\w*|\w*failure|usage|missing|\w*disagree\w*|warn\w*)\b|\bwrong\(")
ERROR_WORDS = re.compile(r"\bgot \{|, expected |\bcannot\b|\bcould not\b|\bmust\b|\bneeds?\b|\bnot supported\b")
PYTHON_ERROR = re.compile(r"(?i)usage|error|refuse|raise|fail|_text|behind|wrong|warn")


def files_of(root: Path) -> list[str]:
    found = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def comments_of(source: str) -> list[tuple[int, str]]:
    """The first line and the text of every comment, with the code that it is about."""
    found: list[tuple[int, str]] = []
    begin, held = 0, []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        match = COMMENT.match(line)
        text = "" if match is None else (match["text"] or match["block"] or "").strip()
        beside = match is not None and match["code"] is not None and match["code"].strip() != ""
        if found and not held and line.lstrip().startswith("///<"):  # the comment above goes on
            found[-1] = (found[-1][0], found[-1][1].replace("\n", f" {text}\n", 1))
            continue
        if match is not None and not beside:
            if not NO_TEXT.search(text):
                begin = begin or number
                held.append(text)
            continue
        if held:
            found.append((begin, " ".join(held) + f"\n  | {line.strip()}"))
            begin, held = 0, []
        if beside and not NO_TEXT.search(text):
            found.append((number, f"{text}\n  | {match['code'].strip()}"))
    return found


def is_sentence(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text


def cpp_errors(source: str) -> list[tuple[int, str]]:
    """Literals that are joined are one text; a statement ends at ; { or }."""
    found: list[tuple[int, str]] = []
    code, texts, at = "", [], 0

    def close() -> None:
        nonlocal code, texts
        if texts and re.search(r"\bwrong\(", code):  # wrong(op, what, got, expected)
            texts = [(texts[0][0], ", ".join(text for _, text in texts))]
        of_error = ERROR_CODE.search(code) is not None
        returned = re.search(r"\breturn\b", code) is not None
        found.extend((line, text) for line, text in texts if is_sentence(text) and (
            of_error or ERROR_WORDS.search(text) or (returned and len(text.split()) > 5)))
        code, texts = "", []

    for token in TOKEN.finditer(source):
        between = source[at:token.start()]
        code += between
        at = token.end()
        if token[0].startswith('"') and "#include" not in between:
            if texts and JOINED.match(between):
                texts[-1] = (texts[-1][0], texts[-1][1] + ("{}" if between.strip() else "") + token[0][1:-1])
            else:
                texts.append((source.count("\n", 0, token.start()) + 1, token[0][1:-1]))
        elif token[0] in ";}" or (token[0] == "{" and not re.search(r"(Error|Failure)\s*$", code)):
            close()
    close()
    return found


def python_errors(source: str) -> list[tuple[int, str]]:
    found = {}
    for node in ast.walk(ast.parse(source)):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if not (isinstance(node, (ast.Raise, ast.Return)) or PYTHON_ERROR.search(name)):
            continue
        parts = {id(v) for s in ast.walk(node) if isinstance(s, ast.JoinedStr) for v in s.values}
        for part in ast.walk(node):
            if isinstance(part, ast.JoinedStr):
                text = "".join(v.value if isinstance(v, ast.Constant) else "{" + ast.unparse(v.value) + "}"
                               for v in part.values)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in parts:
                text = part.value
            else:
                continue
            if is_sentence(text):
                found[part.lineno, part.col_offset] = text
    return [(line, text) for (line, _), text in sorted(found.items())]


def errors_of(name: str, source: str) -> list[tuple[str, int, str]]:
    if not name.startswith(ERROR_FOLDERS) or not name.endswith((".h", ".cc", ".cu", ".py")):
        return []
    of = python_errors if name.endswith(".py") else cpp_errors
    return [(name, line, text) for line, text in of(source)]


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("seed", nargs="?")
    parser.add_argument("folders", nargs="*")
    for switch in ("--all", "--headers", "--errors"):
        parser.add_argument(switch, action="store_true")
    asked = parser.parse_args()
    folders = [asked.seed or "", *asked.folders] if asked.all else asked.folders or [""]
    names = [f for f in files_of(ROOT) if f.startswith(tuple(folders))]
    headers = [f for f in names if f.endswith(".h")]
    errors = [e for f in names for e in errors_of(f, (ROOT / f).read_text("utf-8", "replace"))]
    if not asked.all:
        draw = random.Random(int(asked.seed))
        headers = sorted(draw.sample(headers, min(HEADERS, len(headers))))
        errors = sorted(draw.sample(errors, min(ERRORS, len(errors))))
    for name in [] if asked.errors else headers:
        print(f"\n== {name}")
        for line, text in comments_of((ROOT / name).read_text("utf-8")):
            print(f"{name}:{line}: {text}")
    for name, line, text in [] if asked.headers else errors:
        print(textwrap.fill(f"{name}:{line}: {text}", 160, subsequent_indent="    "))


if __name__ == "__main__":
    main()
