#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README and task pages (docs/*.md) in sentences that are read once; quick, no network.

usage: check_words.py [--root FOLDER] [PAGE.md...]     without pages: the README and docs/*.md
Findings, a line each, FILE:LINE: what; exit 1 if there is any:
  - a sentence of more than 35 words, in text, list items, headings and cells of tables
  - a sentence outside tables and code with more than two numbers: they belong in a table
  - phrases that readers stumble over (PHRASES), and links that name a record by its number
  - README: at most 160 lines, its first block of code within the first 40, at least two pictures
Inline code counts as one word and has no numbers; of a link its text counts, not its address.
"""
import argparse
import itertools
import re
import sys
from pathlib import Path
from typing import NamedTuple

WORDS, NUMBERS = 35, 2
README_LINES, README_CODE, README_PICTURES = 160, 40, 2
PHRASES = [
    (re.compile(r"\bso (many|few|much)\b(?! (that|as)\b)", re.IGNORECASE), '"{}": say which number'),
    (re.compile(r"\bwhat others have\b", re.IGNORECASE), '"{}": name them'),
    (re.compile(r"\bas many of\b", re.IGNORECASE), '"{}": say which number'),
    (re.compile(r"^Of (?!course\b)[^.:,]{1,60}[:,]"), '"{}": an inverted genitive; begin with the subject'),
]
CODE = "Xcode"  # inline code: a word without numbers that may begin a sentence
FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
HEADING = re.compile(r"^#{1,6}\s+")
RULE = re.compile(r"^\s*\|?[\s:|-]*-[\s:|-]*\|?\s*$")
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)|<img\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])[-+±]?\d[\d,.]*\d*(?:[eE][-+]?\d+)?(?:[x%])?(?![\w])")
SHORT = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx|incl)\.", re.IGNORECASE)
# A name like gemm_ar may begin a sentence.
END = re.compile(r"[.!?…][)\]\"'*_]*\s+(?=[^a-z\s]|[a-z]+[_\d])")


class Block(NamedTuple):
    line: int
    kind: str  # text, item, heading, cell
    text: str


class Finding(NamedTuple):
    line: int
    what: str


def cells_of(row):
    return re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "/"), row.strip().strip("|")))


def blocks_of(text):
    """What is read as one piece: a paragraph, a list item, a heading, a cell of a table."""
    blocks, held, kind, begin, fence, comment = [], [], "text", 0, "", False

    def close():
        nonlocal kind
        if held:
            blocks.append(Block(begin, kind, " ".join(held)))
            held.clear()
        kind = "text"

    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if fence or match:
            close()
            if not fence:
                fence = match[1]
            elif line.strip().startswith(fence):
                fence = ""
            continue
        if comment or line.lstrip().startswith("<!--"):
            close()
            comment = "-->" not in line
            continue
        stripped = line.strip()
        if not stripped:
            close()
        elif stripped.startswith("|"):
            close()
            if not RULE.match(stripped):
                blocks += [Block(number, "cell", cell) for cell in cells_of(stripped)]
        elif HEADING.match(line):
            close()
            blocks.append(Block(number, "heading", HEADING.sub("", line)))
        else:
            if ITEM.match(line):
                close()
                kind, stripped = "item", ITEM.sub("", line).strip()
            if not held:
                begin = number
            held.append(stripped.lstrip("> "))
    close()
    return blocks


def plain(text):
    """As it is read: without addresses, marks and tags; code is one word."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"(`+)(.+?)\1", CODE, text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", CODE, text)
    text = re.sub(r"<[^>]*>", " ", text)
    text = text.replace("**", "").replace("\\", "")
    return " ".join(text.split())


def sentences_of(text):
    text = SHORT.sub(lambda m: m[1].replace(".", "") + ",", text)
    ends = [0, *(m.end() for m in END.finditer(text)), len(text)]
    return [s for s in (text[a:b].strip() for a, b in itertools.pairwise(ends)) if s]


def words_of(sentence):
    return [w for w in sentence.split() if re.search(r"[^\W_]", w)]


def start_of(sentence):
    words = sentence.split()
    return " ".join(words[:6]).replace(CODE, "…") + (" …" if len(words) > 6 else "")


def findings_of(text):
    for block in blocks_of(text):
        for label in re.findall(r"\[([^\]]*)\]\([^)]*\)", block.text):
            if re.fullmatch(r"(decision |record )?\d{4}", label):
                yield Finding(block.line, f'link "{label}": say what it answers, not a number')
        for sentence in sentences_of(plain(block.text)):
            count = len(words_of(sentence))
            if count > WORDS:
                yield Finding(block.line, f'{count} words, expected at most {WORDS}: "{start_of(sentence)}"')
            numbers = NUMBER.findall(sentence)
            if block.kind != "cell" and len(numbers) > NUMBERS:
                yield Finding(block.line, f"{len(numbers)} numbers, expected at most {NUMBERS} outside tables: "
                              f'"{start_of(sentence)}"')
            for phrase, what in PHRASES:
                if match := phrase.search(sentence):
                    yield Finding(block.line, what.format(match[0].replace(CODE, "…")))


def readme_findings(text):
    lines = text.splitlines()
    if len(lines) > README_LINES:
        yield Finding(README_LINES + 1, f"{len(lines)} lines, expected at most {README_LINES}")
    code = next((i for i, line in enumerate(lines, 1) if FENCE.match(line)), None)
    if code is None or code > README_CODE:
        yield Finding(code or 1, f"first block of code, expected within {README_CODE} lines")
    pictures = len(PICTURE.findall(text))
    if pictures < README_PICTURES:
        yield Finding(1, f"{pictures} pictures, expected at least {README_PICTURES}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("pages", nargs="*", type=Path)
    asked = parser.parse_args()
    readme = asked.root / "README.md"
    pages = asked.pages or [readme, *sorted((asked.root / "docs").glob("*.md"))]
    found = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        findings = list(findings_of(text))
        if page.name == "README.md" and page.resolve().parent == asked.root.resolve():
            findings += readme_findings(text)
        name = page.resolve().relative_to(asked.root.resolve()) if page.resolve().is_relative_to(
            asked.root.resolve()) else page
        for finding in sorted(findings):
            print(f"{name}:{finding.line}: {finding.what}")
        found += len(findings)
    print(f"words: {len(pages)} pages, {'clean' if not found else f'{found} findings'}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
