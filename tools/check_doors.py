#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many doors a new op, element type, transport or architecture goes through: files that name one
outside its own files. A number may only fall. And no `default:` in a switch over an enum of ours, or
the compiler no longer says where a new value is missing.

Names are looked for in code and in strings that are a name and no more (or begin an error with one);
comments, docstrings, help texts, tests and docs do not count.
usage: check_doors.py [--list] [ROOT]
  --list  the files of each count, with the lines that name something
"""
import ast
import io
import re
import sys
import tokenize
from pathlib import Path

COUNTED = ["src", "cli", "include", "python"]
SWITCHES = ["src", "cli", "include", "tests", "examples"]
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".c"}
BUILD = ["CMakeLists.txt", "CMakePresets.json", "pyproject.toml", "cmake"]

# Files outside its own that may name one, and labels that may be there: today's numbers, which only
# fall.
LIMITS = {"op": 12, "dtype": 8, "transport": 7, "architecture": 1, "default": 0}
KINDS = [kind for kind in LIMITS if kind != "default"]
# Switches over an enum of ours that keep a default, and why.
MAY_DEFAULT = {
    "src/backend/cuda/device/activation.h": "with all values named nvcc makes other code of kernels",
    "tests/conformance/values.h": "the same, of the kernels that judge results",
}

OPS = ("ag_gemm", "gemm_rs", "gemm_ar")
SUMS = ("gemm_rs", "gemm_ar")
TRANSPORTS = ("push", "pull", "store", "nccl", "multimem")
ALL = None  # own for every value

# What belongs to whom: (kind, path or its beginning before a star, its values, why).
OWN = [
    ("op", "include/tilelace/choices.h", ALL, "the enum"),
    ("op", "include/tilelace/op_table.h", ALL, "the table of ops"),
    ("op", "include/tilelace/ops.h", ALL, "the public calls"),
    ("op", "include/tilelace/c.h", ALL, "the public calls in C"),
    ("op", "src/plan/words/names.cc", ALL, "the names"),
    ("op", "src/op/ops.cc", ALL, "the public calls"),
    ("op", "src/bindings/c_api.cc", ALL, "the public calls in C"),
    ("op", "src/bindings/c_structs.h", ALL, "what the calls in C are told"),
    ("op", "src/bindings/torch/library.cc", ALL, "torch's table of calls"),
    ("op", "src/bindings/torch/calls.*", ALL, "torch's calls"),
    ("op", "python/tilelace/__init__.py", ALL, "what the package exports"),
    ("op", "python/tilelace/ops.py", ALL, "the public calls in Python"),
    ("op", "src/schedule/ag_gemm.h", ("ag_gemm",), "its schedule"),
    ("op", "src/schedule/gather_order.h", ("ag_gemm",), "its order of tiles"),
    ("op", "src/schedule/push_order.h", ("ag_gemm",), "its order of rows sent"),
    ("op", "src/schedule/gemm_reduce*", SUMS, "their schedule"),
    ("op", "src/plan/ways/ag_gemm_*", ("ag_gemm",), "its plans"),
    ("op", "src/plan/gpu/ag_gemm_planner.cc", ("ag_gemm",), "its plans"),
    ("op", "src/plan/gpu/gemm_rs_planner.cc", ALL, "its plans"),
    ("op", "src/plan/gpu/gemm_ar_planner.cc", ("gemm_ar",), "its plans"),
    ("op", "src/plan/ways/gather_*", ("ag_gemm",), "its plans"),
    ("op", "src/plan/ways/gemm_rs_way.*", ("gemm_rs",), "its plans"),
    ("op", "src/plan/ways/gemm_ar_way.*", ("gemm_ar",), "its plans"),
    ("op", "src/plan/ways/copied_partials_way.*", ("gemm_rs",), "its plans"),
    ("op", "src/plan/ways/kept_partials_way.*", ("gemm_ar",), "its plans"),
    ("op", "src/plan/ways/unfused_sum_way.*", SUMS, "their unfused plans"),
    ("op", "src/backend/cpu/gather_verbs.h", ("ag_gemm",), "its verbs"),
    ("op", "src/backend/cuda/kernels/gemm_kernels.h", ALL, "the table of kernels"),
    ("op", "src/backend/cuda/kernels/ops/*", ALL, "its policy"),
    ("op", "src/backend/cuda/kernels/sm90/ag_gemm.cu", ("ag_gemm",), "its kernels"),
    ("op", "src/backend/cuda/kernels/sm90/gemm_rs.cu", ("gemm_rs",), "its kernels"),
    ("op", "src/backend/cuda/kernels/sm90/gemm_ar.cu", ("gemm_ar",), "its kernels"),
    ("op", "src/backend/cuda/gather/ag_gemm_calls.*", ("ag_gemm",), "its launches"),
    ("op", "src/backend/cuda/gather/gather_*", ("ag_gemm",), "its rows on their way"),
    ("op", "src/backend/cuda/link/nccl_rows*", ("ag_gemm",), "its rows by NCCL"),
    ("op", "src/backend/cuda/reduce/gemm_rs_calls.*", ("gemm_rs",), "its launches"),
    ("op", "src/backend/cuda/reduce/gemm_ar_calls.*", ("gemm_ar",), "its launches"),
    ("op", "src/backend/cuda/reduce/copied_partials.*", ("gemm_rs",), "its launches"),
    ("op", "src/backend/cuda/reduce/kept_partials.*", ("gemm_ar",), "its launches"),
    ("op", "src/backend/cuda/reduce/unfused_sums.*", SUMS, "their unfused launches"),
    ("op", "src/backend/cuda/reduce/reduce_launch.*", SUMS, "their unfused launches"),
    ("dtype", "include/tilelace/dtype.h", ALL, "the enum and its table"),
    ("dtype", "include/tilelace/c_types.h", ALL, "the enum in C"),
    ("dtype", "include/tilelace/collectives.h", ALL, "elements of collectives and their table"),
    ("dtype", "include/tilelace/all_reduce_norm.h", ALL, "which elements it takes"),
    ("dtype", "src/backend/cpu/row_norm.cc", ALL, "how the host norms rows"),
    ("dtype", "src/backend/cuda/device/row_norm.h", ALL, "the elements of its kernels"),
    ("dtype", "include/tilelace/half.h", ALL, "how the host converts"),
    ("dtype", "src/core/half.h", ALL, "how the host reads and writes an element"),
    ("dtype", "python/tilelace/_rotary_kernel.py", ALL, "the type in which it adds, of elements of any"),
    ("dtype", "src/backend/cuda/collectives/exchange_kernels.h", ALL, "which kernel adds up elements of collectives"),
    ("dtype", "src/backend/cpu/item_sums.cc", ALL, "how the host adds elements of collectives"),
    ("dtype", "src/backend/cpu/gemm/convert.cc", ALL, "how the host converts rows"),
    ("dtype", "src/backend/cuda/base/gpu_elements.h", ALL, "the types of kernels"),
    ("dtype", "src/backend/cuda/base/element_types.h", ALL, "the table of GPUs and their libraries"),
    ("dtype", "src/backend/cuda/device/elements.h", ALL, "how kernels convert"),
    ("dtype", "src/backend/cuda/device/proxy.h", ALL, "the instructions that add in place"),
    ("dtype", "src/backend/cuda/device/sums_by.h", ALL, "the instructions of the switch"),
    ("architecture", "src/core/architecture.h", ALL, "the table"),
    ("architecture", "src/plan/gemm/architecture_plans.cc", ALL, "its tiles and their cost"),
    ("architecture", "src/backend/cuda/gemm/architecture_kernels.cc", ALL, "its kernels"),
    ("architecture", "src/backend/cuda/moe/architecture_grouped.cc", ALL, "its kernels of experts"),
    ("architecture", "src/backend/cuda/kernels/sm90/*", ALL, "its room"),
    ("architecture", "src/backend/cuda/CMakeLists.txt", ALL, "builds its room"),
    ("architecture", "cmake/kernel_lists.cmake", ALL, "builds its room"),
    ("transport", "include/tilelace/choices.h", ALL, "the enum"),
    ("transport", "src/backend/cuda/vendor/nccl*", ("nccl",), "NCCL itself"),
    ("transport", "src/backend/cuda/link/copy_engine.*", ("push", "pull"), "copy engines"),
    ("transport", "include/tilelace/transport_table.h", ALL, "the table of transports"),
    ("transport", "src/schedule/moves.h", ALL, "its facts as kernels may ask them"),
    ("transport", "src/check/step.cc", ("push", "pull", "store"), "verbs that are called so"),
]


def words(names):
    """Of identifiers: the names between underscores or alone, in small letters or large ones."""
    return re.compile(r"(?<![A-Za-z0-9])(" + "|".join(names) + r")(?![A-Za-z0-9])", re.IGNORECASE)


OP_WORDS = words(OPS)
DTYPE_WORDS = words(["bf16", "fp16", "fp32", "bfloat16", "float16", "float32", "half2", "__half2?",
                     "__nv_bfloat162?", "CUDA_R_(?:16BF|16F|32F)", "nccl(?:Bf|F)loat(?:16|32)",
                     "ScalarType::(?:Half|Float)", r"\w+_B?FLOAT(?:16|32)", "torch.half"])
DTYPE_TEXT = re.compile(r"(bf16|fp16|fp32|f16|f32|bfloat16|float16|float32)", re.IGNORECASE)
TRANSPORT_ENUM = re.compile(rf"\bTransport\s*::\s*({'|'.join(TRANSPORTS)})\b")
TRANSPORT_BARE = re.compile(rf"(?<![\w.>:])({'|'.join(TRANSPORTS)})\b(?!\s*\()")
ARCHITECTURE = re.compile(r"\bsm_?90a?\b|\bcompute_90a?\b|major\s*==\s*9\b|\(\s*9\s*,\s*0\s*\)"
                          r"|\bcase\s+90\b|\b__CUDA_ARCH__\s*[=<>]+\s*900\b|\b9\.0(?![\dF])", re.IGNORECASE)


# One pass over C++: comments and strings are what they are wherever they begin.
PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![\w])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def cpp_pieces(text):
    """The code, comments and strings blank, and the strings as (line, text)."""
    strings = []

    def blank(match):
        piece = match.group(0)
        if piece.startswith('"'):
            strings.append((text.count("\n", 0, match.start()) + 1, piece[1:-1]))
        first = "0" if piece.startswith("'") else " "
        return first + re.sub(r"[^\n]", " ", piece[1:])
    code = PIECE.sub(blank, text)
    # What a file includes is said again where it is used.
    included = {number for number, line in enumerate(code.split("\n"), 1)
                if re.match(r"\s*#\s*include\b", line)}
    code = re.sub(r"(?m)^[ \t]*#[ \t]*include\b.*$", "", code)
    return code, [(line, string) for line, string in strings if line not in included]


def docstring_lines(tree):
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                    and isinstance(first.value.value, str)):
                lines.add(first.lineno)
    return lines


def python_pieces(text):
    docs, code, strings = docstring_lines(ast.parse(text)), [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.STRING and line not in docs:
            strings.append((line, token.string.strip("rbfuRBFU").strip("\"'")))
        elif token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER):
            while len(code) < line:
                code.append("")
            code[line - 1] += " " + token.string
    return re.sub(r" ?\. ", ".", "\n".join(code)), strings


def build_pieces(text):
    """CMake and its like: all is code, but comments."""
    return re.sub(r"#[^\n]*", "", text), []


def is_name(pattern, string):
    """A string that is names and no more (a list of them, too), or that an error begins with."""
    rest = [part for part in re.split(r"[\s,|]+", string) if part]
    if rest and all(pattern.fullmatch(part) for part in rest):
        return True
    return bool(re.match(pattern.pattern + ":", string, re.IGNORECASE))


def transports_bare(code):
    """Where `using enum` or an alias lets a file name a transport in other words."""
    aliases = re.findall(r"\busing\s+(\w+)\s*=\s*(?:\w+::)*Transport\s*;", code)
    patterns = [re.compile(rf"\b{alias}\s*::\s*({'|'.join(TRANSPORTS)})\b") for alias in aliases]
    if re.search(r"\busing\s+enum\s+(?:\w+::)*Transport\b", code):
        patterns.append(TRANSPORT_BARE)
    return patterns


def lines_of(pattern, code):
    for match in pattern.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, match.group(match.re.groups and 1 or 0)


def named(path, text):
    """(kind, line, value) of each name in a file."""
    pieces = (python_pieces if path.endswith(".py") else
              cpp_pieces if Path(path).suffix in SUFFIXES else build_pieces)
    code, strings = pieces(text)
    for line, value in lines_of(ARCHITECTURE, code):
        yield "architecture", line, value
    if pieces is build_pieces:
        return
    for kind, pattern in [("op", OP_WORDS), ("dtype", DTYPE_WORDS), ("transport", TRANSPORT_ENUM)]:
        for line, value in lines_of(pattern, code):
            yield kind, line, value
    for pattern in transports_bare(code):
        for line, value in lines_of(pattern, code):
            yield "transport", line, value
    for line, string in strings:
        if is_name(OP_WORDS, string):
            yield "op", line, OP_WORDS.search(string).group(1)
        if is_name(DTYPE_TEXT, string):
            yield "dtype", line, string
        if string in TRANSPORTS and is_transport_text(text, line, string):
            yield "transport", line, string
        if ARCHITECTURE.search(string):
            yield "architecture", line, string


def is_transport_text(text, line, string):
    """Their names are common words: only beside the word, in a comparison or a list of them."""
    around = text.split("\n")[line - 1]
    compared = re.search(rf"""[=!]=\s*["']{string}["']|["']{string}["']\s*[=!]=""", around)
    others = [t for t in TRANSPORTS if t != string and re.search(rf"""["']{t}["']""", around)]
    return bool(compared or others or re.search("transport", around, re.IGNORECASE))


def owned(kind, path, value):
    for own_kind, own_path, values, _ in OWN:
        matches = path.startswith(own_path[:-1]) if own_path.endswith("*") else path == own_path
        if own_kind == kind and matches and (values is ALL or value.lower() in values):
            return True
    return False


def files_of(root, folders):
    for folder in folders:
        entries = [root / folder] if (root / folder).is_file() else sorted((root / folder).rglob("*"))
        for file in entries:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(root).as_posix(), file


def doors(root):
    """{kind: {path: [(line, value)]}} outside of own files."""
    found = {kind: {} for kind in KINDS}
    for path, file in list(files_of(root, COUNTED)) + list(files_of(root, BUILD)):
        if (file.suffix not in SUFFIXES | {".py"} and not path.startswith(tuple(BUILD))
                and file.name != "CMakeLists.txt"):
            continue
        for kind, line, value in named(path, file.read_text(encoding="utf-8")):
            if not owned(kind, path, value):
                found[kind].setdefault(path, []).append((line, value))
    return found


ENUM = re.compile(r"\benum\s+(?:class\s+|struct\s+)?(\w+)\s*(?::\s*[\w:]+\s*)?\{([^}]*)\}")
SWITCH = re.compile(r"\bswitch\s*\(")
LABEL = re.compile(r"\bcase\b((?:::|[^:;{}])+):(?!:)|\bdefault\s*:(?!:)")
VALUE = re.compile(r"\s*((?:\w+\s*::\s*)*)(\w+)\s*")


def enums(root):
    """{name: its values} of all enums of ours."""
    found = {}
    for path, file in files_of(root, SWITCHES):
        if file.suffix in SUFFIXES:
            code = cpp_pieces(file.read_text(encoding="utf-8"))[0]
            for name, values in ENUM.findall(code):
                found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", values))
    return found


def closing(code, at, opens, closes):
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == opens) - (code[i] == closes)
        if depth == 0:
            return i
    return len(code)


def switch_labels(code, begin):
    """(offset, value; None for default) of the labels of a switch, not of those inside of it."""
    body = code.index("{", closing(code, code.index("(", begin), "(", ")"))
    end, inner, labels = closing(code, body, "{", "}"), [], []
    for nested in SWITCH.finditer(code, body, end):
        start = code.index("{", closing(code, nested.end() - 1, "(", ")"))
        inner.append((start, closing(code, start, "{", "}")))
    for label in LABEL.finditer(code, body, end):
        if not any(a < label.start() < b for a, b in inner):
            labels.append((label.start(), label.group(1)))
    return labels


def is_ours(labels, known, opened, aliases):
    """Whether a switch's labels are values of an enum of ours; `opened`: what `using enum` names,
    `aliases`: other names."""
    for value in [VALUE.fullmatch(value) for _, value in labels if value]:
        if value is None:
            continue
        qualifier, name = value.groups()
        enum = re.split(r"\s*::\s*", qualifier)[-2] if qualifier else None
        if enum in known or enum in aliases or (not qualifier and any(
                name in values for owner, values in known.items()
                if owner in opened or owner.startswith("tilelace_"))):
            return True
    return all(value is None for _, value in labels)


def defaults(root):
    """{path: lines} of labels `default:` of switches over an enum of ours."""
    known, found = enums(root), {}
    for path, file in files_of(root, SWITCHES):
        if file.suffix not in SUFFIXES or path in MAY_DEFAULT:
            continue
        code = cpp_pieces(file.read_text(encoding="utf-8"))[0]
        opened = {name.split("::")[-1] for name in re.findall(r"\busing\s+enum\s+([\w:]+)", code)}
        aliases = {alias for alias, name in re.findall(
            r"\busing\s+(\w+)\s*=\s*(?:\w+\s*::\s*)*(\w+)\s*;", code) if name in known}
        for switch in SWITCH.finditer(code):
            labels = switch_labels(code, switch.start())
            if is_ours(labels, known, opened, aliases):
                found.setdefault(path, []).extend(
                    (code.count("\n", 0, at) + 1, "default") for at, value in labels if value is None)
    return {path: lines for path, lines in found.items() if lines}


def counts(root):
    """{kind: (number, what is counted, {path: [(line, value)]})}"""
    all_counts = {kind: (len(files), "files", files) for kind, files in doors(root).items()}
    labels = defaults(root)
    all_counts["default"] = (sum(map(len, labels.values())), "labels over enums of ours", labels)
    return all_counts


def findings_of(found, limits):
    for kind, (number, what, _) in found.items():
        if number > limits[kind]:
            yield f"{kind}: got {number} {what}, expected at most {limits[kind]} (--list says where)"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = counts(root)
    for kind, (number, what, files) in found.items():
        falls = ", which may fall to that" if number < LIMITS[kind] else ""
        print(f"{kind}: {number} {what}, at most {LIMITS[kind]}{falls}")
        if "--list" in sys.argv[1:]:
            for path, names in sorted(files.items()):
                print(f"  {path}: " + ", ".join(f"{line} {value}" for line, value in names))
    findings = list(findings_of(found, LIMITS))
    print("\n".join([*findings, f"doors: {'more' if findings else 'no more'} than there were"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
