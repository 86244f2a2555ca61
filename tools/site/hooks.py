# SPDX-License-Identifier: Apache-2.0
"""What MkDocs is told of this repository: pages outside docs/, links into the tree, the reference.

Pages are written for a reader of the repository: their links are relative to their file, also where
they lead out of docs/. Here such a link leads to a page of the site: another page, a source as a page
of its own, or a list of a folder's files. A link to what is not there stays, and MkDocs complains.
"""
import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
import reference

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "CONTRIBUTING.md": "CONTRIBUTING.md",
         "CHANGELOG.md": "CHANGELOG.md", "SECURITY.md": "SECURITY.md", "benchmarks/README.md": "benchmarks.md"}
LANGUAGES = {".h": "cpp", ".cc": "cpp", ".c": "c", ".cuh": "cpp", ".cu": "cpp", ".py": "python", ".sh": "bash",
             ".json": "json", ".toml": "toml", ".txt": "text", "": "text"}
LINK = re.compile(r"""(\]\(|\b(?:src|srcset|href)=["'])([^)\s"'#]+)""")
FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s")
LONGEST = 100_000  # bytes of a source that is shown as a page


def path_of(src_uri):
    """A page's path in the repository."""
    names = {site: path for path, site in PAGES.items()}
    return names.get(src_uri, f"docs/{src_uri}")


def target_of(path, url):
    """What a link of that page leads to, if it is a file or folder of the repository."""
    if re.match(r"[a-z]+:|/", url):
        return None
    target = os.path.normpath(os.path.join(os.path.dirname(path), url))
    return target if not target.startswith("..") and (ROOT / target).exists() else None


def site_uri(target):
    if target in PAGES:
        return PAGES[target]
    if target.startswith("docs/") and (ROOT / target).is_file():
        return target.removeprefix("docs/")
    whole = ROOT / target
    if whole.is_dir():
        return f"source/{target}/index.md"
    return f"source/{target}" + (".md" if whole.suffix in LANGUAGES and whole.stat().st_size <= LONGEST else "")


def outside_code(text, change):
    """Applies `change` to each line that is in no block of code."""
    lines, fence = [], ""
    for line in text.splitlines():
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif fence and line.strip().startswith(fence):
            fence = ""
        elif not fence:
            line = change(line)
        lines.append(line)
    return "\n".join(lines)


def links_of(text):
    found = []
    outside_code(text, lambda line: found.extend(m[2] for m in LINK.finditer(line)) or line)
    return found


def source_page(target):
    whole = ROOT / target
    if whole.is_dir():
        names = sorted(f"{p.name}/" if p.is_dir() else p.name for p in whole.iterdir() if not p.name.startswith("."))
        return f"# {target}\n\nFiles of this folder:\n\n" + "".join(f"* `{name}`\n" for name in names)
    language = LANGUAGES[whole.suffix]
    return f"# {target}\n\n~~~~~{language}\n{whole.read_text(encoding='utf-8').rstrip()}\n~~~~~\n"


def on_files(files, config):
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in PAGES}
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, content=texts[path]))
    for uri, text in reference.pages():
        files.append(File.generated(config, uri, content=text))
    for file in files.documentation_pages():
        if file.generated_by is None:
            texts[path_of(file.src_uri)] = file.content_string
    targets = {target_of(path, url) for path, text in texts.items() for url in links_of(text)} - {None}
    for target in sorted(targets):
        uri = site_uri(target)
        if not uri.startswith("source/"):
            continue
        if uri.endswith(".md"):
            files.append(File.generated(config, uri, content=source_page(target)))
        else:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri.startswith(("reference/", "source/")):
        return markdown
    path = path_of(uri)

    def relinked(match):
        target = target_of(path, match[2])
        if target is None:
            return match[0]
        return match[1] + os.path.relpath(site_uri(target), os.path.dirname(uri) or ".")

    before = ""

    def change(line):
        """GitHub begins a list without an empty line before it; MkDocs' Markdown does not."""
        nonlocal before
        begins = ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith((" ", "|"))
        before = line
        return ("\n" if begins else "") + LINK.sub(relinked, line)

    return outside_code(markdown, change)
