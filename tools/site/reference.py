# SPDX-License-Identifier: Apache-2.0
"""Pages of the site's reference: one for each public header, one for each public module of Python."""
import re
from itertools import groupby

import public_api

MODULES = {
    "tilelace": "Ops, collectives, groups, memory and tuning. What all ops have in common is on the page of "
                "[tilelace.ops](tilelace.ops.md).",
    "tilelace.ops": "", "tilelace.collectives": "", "tilelace.moe": "", "tilelace.memory": "", "tilelace.nn": "",
    "tilelace.tensor_parallel": "", "tilelace.transformers": "", "tilelace.megatron": "",
    "tilelace.inductor": "", "tilelace.compat.symm_mem": "",
}
ONLY_TEXT = ("tilelace.ops", "tilelace.collectives", "tilelace.memory")  # their functions: tilelace
TITLES = {"field": "field", "enumerator": "value"}


def linked_record(match):
    """A decision record by its number."""
    found = sorted((public_api.ROOT / "docs/decisions").glob(f"{match[1]}-*.md"))
    return f"[{match[0]}](../decisions/{found[0].name})" if found else match[0]


def escaped(text):
    """Text of a comment as Markdown: code stays code, everything else is taken literally."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\*_\[\]<>|#~])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?<![\w/.])docs/((?:[\w.-]+/)*[\w-]+\.md)", r"[docs/\1](../\1)", parts[i])
        parts[i] = re.sub(r"(?<![\w/.])docs/decisions/(\d{4})(?![\w-])", linked_record, parts[i])
    return "".join(parts)


def cell(text):
    return " ".join(escaped(text).split())


class Source:
    """A header's lines."""

    def __init__(self, path):
        self.lines = path.read_text(encoding="utf-8").splitlines()

    def declaration(self, symbol):
        """As the header has it, without comments and without the body of a function or class."""
        taken = []
        for text in self.lines[symbol.line - 1:]:
            taken.append(re.sub(r"\s*(///?<?|/\*\*?<?) .*", "", text))
            if text.startswith("#") or re.search(r"[;{}]$", taken[-1]):
                break
        text = "\n".join(taken)
        if symbol.kind in ("function", "method", "class"):
            text = re.split(r"(?<=[)\w])\s*\{(?!\}[,)])|(?<=\))\s*:", text, maxsplit=1)[0]
        indent = len(text) - len(text.lstrip())
        return re.sub(rf"(?m)^ {{{indent}}}", "", text).rstrip(" {")

    def tables_in_doc(self, line):
        """Lines of the comment above that are laid out in columns."""
        shown = []
        for text in reversed(self.lines[:line - 1]):
            if not text.lstrip().startswith("///"):
                break
            shown.append(text.lstrip()[3:])
        return [s[1:] for s in reversed(shown) if s.startswith("   ")]

    def intro(self):
        """The comment that opens the file, behind its licence."""
        text = []
        for line in self.lines:
            stripped = line.strip()
            if stripped.startswith(("//", "/*", "*")):
                text.append(re.sub(r"^(///?|/\*+|\*/?)\s?|\s*\*/$", "", stripped))
            else:
                break
        return "\n".join(line for line in text if "SPDX" not in line)


def apart(text):
    """Each part of a long docstring as a paragraph of its own."""
    return re.sub(r"(?<=[.;)]) (Collective|Local|Alignment|Traffic|Memory|Errors)(?=[.:, ])", r"\n\n\1", text)


def doc_of(symbol, source):
    columns = source.tables_in_doc(symbol.line)
    if not columns:
        return apart(escaped(symbol.doc))
    flat = " ".join(" ".join(columns).split())
    before, _, after = symbol.doc.partition(flat)
    if not after and flat not in symbol.doc:
        return apart(escaped(symbol.doc))
    return "\n".join([escaped(before.strip()), "", "```text", *columns, "```", "", apart(escaped(after.strip()))])


def code(text, language):
    return f"```{language}\n{text}\n```"


def table(symbols):
    kind = TITLES[symbols[0].kind]
    rows = [f"| {kind} | what it is |", "|---|---|"]
    for s in symbols:
        default = s.value.lstrip("= ").strip() if s.kind == "field" else ""
        name = f"`{s.type} {s.short}`" if s.type else f"`{s.short}`"
        name += f" = `{default}`" if default and default != "{}" else ""
        rows.append(f"| {name} | {cell(s.doc)} |")
    return "\n".join(rows)


def children(symbol, symbols, source, language):
    inside = [s for s in symbols if s.parent and s.parent.name == symbol.name and s.file == symbol.file]
    for kind, group in groupby(inside, key=lambda s: s.kind):
        group = list(group)
        if kind in TITLES:
            if kind == "field" or any(s.doc for s in group):
                yield table(group)
            continue
        for s in group:
            yield f"### {escaped(s.short)}"
            yield code(source.declaration(s), language)
            yield doc_of(s, source)


def header_page(file, symbols):
    source = Source(public_api.ROOT / file)
    include = file.removeprefix("include/")
    language = "c" if public_api.C_HEADER.fullmatch(file) else "cpp"
    blocks = [f"# {escaped(include)}", escaped(source.intro()), code(f'#include "{include}"', language)]
    seen = set()
    for s in symbols:
        if s.parent or (s.kind == "type" and s.short in seen):
            continue
        seen.add(s.short)
        blocks += [f"## {escaped(s.short)}", code(source.declaration(s), language), doc_of(s, source)]
        blocks += children(s, symbols, source, language)
    return "\n\n".join(b for b in blocks if b) + "\n"


def pages():
    """(path in the site, Markdown) of every page."""
    headers = public_api.of_headers()
    for file, symbols in groupby(headers, key=lambda s: s.file):
        yield f"reference/{file.rpartition('/')[2].removesuffix('.h')}.h.md", header_page(file, list(symbols))
    for module, text in MODULES.items():
        # The functions of these are what tilelace itself offers.
        options = "\n    options:\n      members: false" if module in ONLY_TEXT else ""
        yield f"reference/{module}.md", f"# {module}\n\n{text}\n\n::: {module}{options}\n"
