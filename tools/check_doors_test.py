#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted names and labels that check_doors.py must find, each on its line, and none beside them."""
import sys
import tempfile
from pathlib import Path

from check_doors import counts, findings_of

ENUMS = """enum class Op { ag_gemm, gemm_rs, gemm_ar };
enum class Transport : std::uint8_t { push, pull, store };
"""
# Names nothing, or only what is its own, or only where it does not count.
CLEAN = {
    "include/tilelace/choices.h": ENUMS,
    "include/tilelace/dtype.h": "enum class DType { bf16, fp16, fp32 };\n",
    "src/core/half.h": "float bf16_to_float(int bits);\n",
    "src/plan/ways/gemm_rs_way.cc": "auto op = Op::gemm_rs;\n",
    "src/plan/comment.cc": '#include "plan/ways/ag_gemm_way.h"\n// Op::ag_gemm, bf16\n'
                           "/* Transport::push\nsm_90 */\n",
    "src/plan/text.cc": 'const char* help = "bf16 or fp16; as ag_gemm does, push or pull";\n',
    "src/plan/near.cc": "int gemm_args, half, push, bf16s; v.push(1); Mover::push; int ag_gemms;\n",
    "src/plan/own_default.cc": "switch (n) { case 1: return 1; default: return 0; }\n"
                               "switch (c) { case '{': return 1; default: return 0; }\n"
                               "switch (e) { case cudaSuccess: return 1; default: return 0; }\n"
                               "switch (op) { case f: switch (n) { case 1: default: return 2; } }\n",
    "python/tilelace/docs.py": '"""ag_gemm, bf16."""\ndef f():\n    "gemm_rs"\n'
                               "    return 1  # torch.bfloat16\n",
    "tests/unit/a_test.cc": "auto op = Op::ag_gemm; auto t = DType::bf16;\n",
    "docs/a.py": "Op.ag_gemm\n",
}

# kind, file, its text, the line of what it names
PLANTED = [
    ("op", "src/plan/ways/gemm_ar_way.cc", "auto op = Op::gemm_rs;\n", 1),
    ("op", "src/plan/op1.cc", "\nbool b = p.op == tilelace::Op::gemm_rs;\n", 2),
    ("op", "src/plan/op2.cc", "using enum Op;\nbool b = op == ag_gemm;\n", 2),
    ("op", "cli/op3.cc", '// a\n/* b\n*/ bool b = name == "ag_gemm";\n', 3),
    ("op", "cli/op4.cc", 'auto o = list("ag_gemm,gemm_rs");\n', 1),
    ("op", "src/plan/op5.cc", 'fail("gemm_ar: out, got none");\n', 1),
    ("op", "src/plan/op6.cc", "void prepare_ag_gemm();\n", 1),
    ("op", "src/bindings/op7.c", "int op = TILELACE_AG_GEMM;\n", 1),
    ("op", "python/tilelace/op8.py", '"""Doc."""\nops.gemm_rs(x)\n', 2),
    ("op", "python/tilelace/op9.py", 'a = name == "gemm_rs"\n', 1),
    ("dtype", "src/plan/type1.cc", "bool b = t == DType::fp32;\n", 1),
    ("dtype", "src/plan/type2.cc", "using enum tilelace::DType;\nbool b = t == fp32;\n", 2),
    ("dtype", "src/backend/cuda/type3.cu", "template void f<__half>();\n", 1),
    ("dtype", "src/backend/cuda/type4.cu", "__nv_bfloat162 pair;\n", 1),
    ("dtype", "cli/type5.cc", 'return text == "BF16" ? 1 : 0;\n', 1),
    ("dtype", "src/backend/cuda/type6.cc", "return CUDA_R_16BF;\n", 1),
    ("dtype", "src/backend/cuda/type7.cc", "return ncclFloat16;\n", 1),
    ("dtype", "python/tilelace/type8.py", "\nt = torch.bfloat16\n", 2),
    ("transport", "src/plan/move1.cc", "bool b = t == Transport::pull;\n", 1),
    ("transport", "src/plan/move2.cc", "using enum Transport;\nbool b = t == pull;\n", 2),
    ("transport", "src/plan/move3.cc", "using T = tilelace::Transport;\nbool b = t == T::pull;\n", 2),
    ("transport", "cli/move4.cc", 'bool b = word == "push";\n', 1),
    ("transport", "cli/move5.cc", 'list("push", "pull");\n', 1),
    ("architecture", "src/plan/chip1.cc", "bool b = c.compute_major == 9;\n", 1),
    ("architecture", "src/plan/chip2.cc", 'fail("built for sm_90");\n', 1),
    ("architecture", "python/tilelace/chip3.py", "a = capability == (9, 0)\n", 1),
    ("architecture", "cmake/chip4.cmake", "# sm_90a\nset(F -arch=sm_90a)\n", 2),
    ("default", "src/plan/d1.cc",
     "switch (op) {\n  case Op::ag_gemm: return 1;\n  default: return 0;\n}\n", 3),
    ("default", "tests/d2.cc",
     "using enum Transport;\nswitch (t) {\n  case push: return 1;\n  default: return 0;\n}\n", 4),
    ("default", "src/plan/d3.cc",
     ("switch (n) {\n  case 1:\n    switch (op) {\n      case Op::ag_gemm: return 1;\n"
     "      default: break;\n    }\n  default: return 0;\n}\n"), 5),
    ("default", "src/plan/d6.cc",
     "using O = tilelace::Op;\nswitch (n) { case O::ag_gemm:\n default: ; }\n", 3),
    ("default", "src/plan/d4.cc", "switch (op) {\n  default: return 0;\n}\n", 2),
    ("default", "src/plan/d5.cc",
     "enum class Way { a, b };\nswitch (f(x, y)) { case tilelace::Way::a:\ndefault: return 0; }\n", 3),
]


def plant(root, files):
    for path, text in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def found_in(root):
    return {(kind, path, line) for kind, (_, _, files) in counts(root).items()
            for path, names in files.items() for line, _ in names}


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plant(root, CLEAN.items())
        failures += [f"clean tree, but: {finding}" for finding in sorted(found_in(root))]
        plant(root, [(path, text) for _, path, text, _ in PLANTED])
        wanted = {(kind, path, line) for kind, path, _, line in PLANTED}
        labels = {path for kind, path, _, _ in PLANTED if kind == "default"}
        found = {f for f in found_in(root) if f[0] == "default" or f[1] not in labels}
        failures += [f"not found: {w}" for w in sorted(wanted - found)]
        failures += [f"found without cause: {f}" for f in sorted(found - wanted)]
        numbers = {kind: number for kind, (number, _, _) in counts(root).items()}
        if list(findings_of(counts(root), numbers)):
            failures.append("as many as there were: got findings, expected none")
        for kind, number in numbers.items():
            grown = list(findings_of(counts(root), {**numbers, kind: number - 1}))
            if not grown or not grown[0].startswith(f"{kind}: got {number} "):
                failures.append(f"{kind}: one more than there were: got {grown[:1]}, expected a finding")
    print("\n".join(failures) or f"{len(PLANTED)} planted names and labels found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
