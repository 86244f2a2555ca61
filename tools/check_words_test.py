#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_words.py finds what it says it finds, and nothing else."""
import subprocess
import sys
import tempfile
from pathlib import Path

from check_words import findings_of, readme_findings, sentences_of

LONG = "A sentence of " + "many " * 33 + "words."
CASES = [
    # Name, text, the findings' lines.
    ("a long sentence", f"# Title\n\nShort. {LONG}\n", [3]),
    ("two short ones", "word " * 20 + "end. And " + "word " * 20 + "end.\n", []),
    ("a paragraph's first line counts", f"Short.\nStill short.\n{LONG}\n", [1]),
    ("a long list item", f"- short\n- {LONG}\n  and its second line\n", [2]),
    ("a long cell, and not its row", f"| a | b |\n|---|---|\n| {'word ' * 20}| {'word ' * 20}|\n| {LONG} | x |\n", [4]),
    ("code", f"```\n{LONG}\n1 2 3 4 5\n```\n`{LONG} 1 2 3 4`\n", []),
    ("a comment", f"<!-- {LONG}\n{LONG} -->\nText.\n", []),
    ("three numbers", "It takes 3 us, 4 us or 5.5 us.\n", [1]),
    ("two numbers, and names that have digits", "On 4 H200s of sm_90a bf16 takes `1 2 3` 1.2x in `v1.2`, 0006a.\n", []),
    ("numbers in a table", "| 1 2 3 4 |\n", []),
    ("numbers of an address", "See [the page](docs/0001-2-3.md#4-5) and https://a.b/1/2/3/4.\n", []),
    ("numbers in a heading", "## Between 1, 2 and 3\n", [1]),
    ("a link by its number", "See [0016](a.md).\n", [1]),
    ("phrases", "So many tiles.\n\nOf tiles beside such copies: pairs.\n\nWhat others have.\n", [1, 3, 5]),
    ("no phrases", "Of course, it ends.\n\nThere are so many that it ends.\n", []),
]
README = "# T\n\n![a](a.svg)\n\n<img src=\"b.svg\">\n\n```\ncode\n```\n"


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"check_words_test: {what}, got {got}, expected {expected}")


def main():
    for name, text, lines in CASES:
        expect(name, [f.line for f in findings_of(text)], lines)
    expect("sentences", sentences_of("It ends (so). Xcode begins, e.g. here; v. 2 does not! \"Yes.\" No? gemm_ar is."),
           ["It ends (so).", "Xcode begins, eg, here; v.", "2 does not!", '"Yes."', "No?", "gemm_ar is."])
    expect("a README", list(readme_findings(README)), [])
    expect("a long README without pictures", len(list(readme_findings("x\n" * 170))), 3)
    expect("a README whose code comes late", len(list(readme_findings("\n" * 40 + README))), 1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs").mkdir()
        (root / "README.md").write_text(README, encoding="utf-8")
        (root / "docs" / "page.md").write_text(f"\n{LONG}\n", encoding="utf-8")
        done = subprocess.run([sys.executable, Path(__file__).with_name("check_words.py"), "--root", root],
                              check=False, text=True, capture_output=True)
    expect("the page's finding", [line[:15] for line in done.stdout.splitlines()], ["docs/page.md:2:", "words: 2 pages,"])
    expect("exit status", done.returncode, 1)
    print("check_words_test: ok")


if __name__ == "__main__":
    main()
