# SPDX-License-Identifier: Apache-2.0
"""The public symbols of C++ and C (include/tilelace) and of Python (python/tilelace), with their docstrings.

Headers are read by doxygen, the package as source: nothing is built or imported.
"""
import ast
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
HEADERS = "include/tilelace"
PACKAGE = "python/tilelace"

DOXYFILE = """
INPUT = {headers}
FILE_PATTERNS = *.h
OUTPUT_DIRECTORY = {out}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
SORT_MEMBER_DOCS = NO
QUIET = YES
PREDEFINED = __cplusplus
EXCLUDE_SYMBOLS = tilelace::detail tilelace::plan std
"""


# What Doxygen calls the pages of C++'s names, and of the headers that are in C: c.h and those it includes.
OF_API = re.compile(r"namespacetilelace\.|class|struct|version_8h\.|c(__\w+)?_8h\.")
C_HEADER = re.compile(r".*/c(_\w+)?\.h")


class Symbol(NamedTuple):
    name: str  # qualified in Python and in classes; a function of C++ with its arguments
    kind: str  # function, method, class, enum, field, enumerator, constant, type, macro
    file: str
    line: int
    doc: str
    parent: "Symbol | None" = None
    parameters: tuple = ()
    can_fail: bool = False
    type: str = ""
    value: str = ""  # of a field without one: ""

    @property
    def short(self):
        return re.split(r"[.:]", self.name.partition("(")[0])[-1]


# --- headers


def text_of(node):
    """A description as written: paragraphs, and preformatted lines as they are."""
    if node is None:
        return ""
    for mark, dashes in (("ndash", "--"), ("mdash", "---")):  # doxygen's own idea of what these are
        for dash in node.iter(mark):
            dash.text = dashes
    paragraphs = [" ".join("".join(p.itertext()).split()) for p in node.iter("para")]
    return "\n\n".join(p for p in paragraphs if p)


def doc_of(node):
    return "\n\n".join(filter(None, (text_of(node.find("briefdescription")), text_of(node.find("detaileddescription")))))


def type_of(node):
    kind = node.find("type")
    return " ".join("".join(kind.itertext()).split()) if kind is not None else ""


def parameters_of(node):
    return tuple((p.findtext("declname") or "", type_of(p)) for p in node.findall("param"))


def member(node, parent, is_c):
    name, kind = node.findtext("name"), node.get("kind")
    arguments = node.findtext("argsstring") or ""
    location = node.find("location")
    place = (location.get("file"), int(location.get("line")))
    returned = type_of(node)
    qualified = f"{parent.name}::{name}" if parent else name
    if kind == "function":
        never = (node.get("noexcept") == "yes" or node.get("constexpr") == "yes" or "constexpr" in returned
                 or "=default" in arguments.replace(" ", "") or name.startswith(("operator", "~")))
        can_fail = "tilelace_status" in returned if is_c else not never
        return Symbol(qualified + arguments, "method" if parent else "function", *place, doc_of(node), parent,
                      parameters_of(node), can_fail, returned)
    kinds = {"variable": "field" if parent else "constant", "enum": "enum", "typedef": "type", "define": "macro"}
    value = " ".join("".join(node.find("initializer").itertext()).split()) if node.find("initializer") is not None else ""
    return Symbol(qualified, kinds[kind], *place, doc_of(node), parent, (), False, returned, value)


def is_the_languages(node, parent):
    """Moves, destructors and comparisons by default: C++ says what they do."""
    name, arguments = node.findtext("name"), node.findtext("argsstring") or ""
    return parent and (name.startswith("~") or name == "operator=" or "=default" in arguments.replace(" ", "")
                       or f"{parent.short} &&" in arguments)


def members(node, parent, is_c):
    for section in node.findall("sectiondef"):
        if section.get("kind", "").startswith(("private", "friend")):
            continue
        for inner in section.findall("memberdef"):
            if inner.get("prot") != "public" or is_the_languages(inner, parent):
                continue
            symbol = member(inner, parent, is_c)
            yield symbol
            for value in inner.findall("enumvalue"):
                yield Symbol(f"{symbol.name}::{value.findtext('name')}", "enumerator", symbol.file, symbol.line,
                             doc_of(value), symbol)


def run_doxygen(out, root=ROOT):
    if not shutil.which("doxygen"):
        raise SystemExit("doxygen is not installed; tools/install_dependencies.sh all installs it")
    config = Path(out) / "Doxyfile"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(DOXYFILE.format(headers=root / HEADERS, out=out), encoding="utf-8")
    done = subprocess.run(["doxygen", str(config)], check=False, cwd=root, capture_output=True, text=True)
    if done.returncode or done.stderr.strip():
        raise SystemExit(f"doxygen: {done.stderr.strip()}")
    return Path(out) / "xml"


def of_headers(root=ROOT):
    """Symbols of the headers, in the order of files and lines."""
    with tempfile.TemporaryDirectory() as folder:
        xml = run_doxygen(folder, root)
        symbols = []
        for file in sorted(xml.glob("*.xml")):
            if not OF_API.match(file.name):
                continue
            for node in ElementTree.parse(file).getroot().findall("compounddef"):
                is_c = node.get("kind") == "file" or node.findtext("compoundname").startswith("tilelace_")
                parent = None
                if node.get("kind") in ("class", "struct"):
                    place = node.find("location")
                    parent = Symbol(node.findtext("compoundname").removeprefix("tilelace::"), "class",
                                    place.get("file"), int(place.get("line")), doc_of(node))
                    symbols.append(parent)
                symbols += members(node, parent, is_c)
    relative = [s._replace(file=str(Path(s.file).resolve().relative_to(root.resolve()))
                           if Path(s.file).is_absolute() else s.file) for s in symbols]
    hidden = [s for s in relative if s.kind == "macro" and s.name.endswith(("_H", "_"))]  # guards, parts of others
    return sorted((s for s in relative if s not in hidden), key=lambda s: (s.file, s.line))


# --- the package


def is_public(name):
    return not name.startswith("_")


def parameters_in(node):
    a = node.args
    return tuple((p.arg, ast.unparse(p.annotation) if p.annotation else "")
                 for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg not in ("self", "cls"))


def in_class(node, name, file, package):
    symbol = Symbol(name, "class", file, node.lineno, ast.get_docstring(node) or "")
    yield symbol
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and is_public(inner.name):
            yield Symbol(f"{name}.{inner.name}", "method", file, inner.lineno, ast.get_docstring(inner) or "", symbol,
                         parameters_in(inner), True)
        elif isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            symbol = symbol._replace(parameters=parameters_in(inner))
        elif isinstance(inner, ast.AnnAssign) and is_public(inner.target.id):
            yield Symbol(f"{name}.{inner.target.id}", "field", file, inner.lineno, "", symbol, (), False,
                         ast.unparse(inner.annotation))
    for base in node.bases:  # of a module of the package that is not public itself
        found = package.get(ast.unparse(base).rpartition(".")[2])
        if found and not is_public(found[1].stem):
            yield from list(in_class(found[0], name, found[2], package))[1:]


def of_package(root=ROOT):
    """Symbols of the modules without an underscore, and of what tilelace itself offers."""
    folder = root / PACKAGE
    trees = {f: ast.parse(f.read_text(encoding="utf-8")) for f in sorted(folder.rglob("*.py"))}
    package = {n.name: (n, f, str(f.relative_to(root))) for f, t in trees.items() for n in t.body
               if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and is_public(n.name)}
    symbols = []
    for file, tree in trees.items():
        if not is_public(file.stem) and file.stem != "__init__":
            continue
        inside = [p for p in file.relative_to(folder).with_suffix("").parts if p != "__init__"]
        module = ".".join(("tilelace", *inside))
        own = str(file.relative_to(root))
        symbols.append(Symbol(module, "module", own, 1, ast.get_docstring(tree) or ""))
        # tilelace offers names of modules with an underscore; those of the others are listed there.
        offered = [(alias.name, True) for node in tree.body if isinstance(node, ast.ImportFrom)
                   for alias in node.names if module == "tilelace" and alias.name in package
                   and not is_public(package[alias.name][1].stem)]
        names = [n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and is_public(n.name)]
        for name, _ in [*offered, *((n, False) for n in names)]:
            node, _, where = package[name] if (name, True) in offered else (
                next(n for n in tree.body if getattr(n, "name", "") == name), file, own)
            qualified = f"{module}.{name}"
            if isinstance(node, ast.ClassDef):
                symbols += in_class(node, qualified, where, package)
            else:
                symbols.append(Symbol(qualified, "function", where, node.lineno, ast.get_docstring(node) or "", None,
                                      parameters_in(node), True))
    return symbols
