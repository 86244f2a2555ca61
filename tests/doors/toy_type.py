#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new element type comes by rows of tables: adds a toy type to a copy of the tree, counts the files
that it touches, builds the copy for CPU ranks and asks all who go through the table for the type.

toy8 is the upper byte of an fp16, rounded to nearest even; GPUs do not have it.
usage: toy_type.py [--count] [--into DIR]
  --count     only adds it and counts the files: what the gate does, in a second
  --into DIR  a copy that stays, for builds that begin where the last one ended
"""
import re
import sys
from pathlib import Path

from tree_copy import (
    ROOT,
    add_to_copy,
    arguments,
    build,
    build_program,
    configure,
    expect,
    file_called,
    run,
    run_torch,
    say,
    torch_folder,
    tracked,
)

ROW = """},
    {DType::toy8, "toy8", "float8_e5m2", "F8_E5M2", 1, 1.0 / 8, -17, false, 0}};
"""
SIGN = "(bits >> 24) & 0x80U"
ROUNDED = "magnitude + 0xfffffU + ((magnitude >> 21) & 1U)"
ELEMENT = f"""struct HostToy8 {{
  using Word = std::uint8_t;
  static float to_float(Word w) {{ return fp16_to_float(static_cast<std::uint16_t>(w << 8)); }}
  static Word from_float(float f) {{
    const auto bits = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t sign = {SIGN};
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t word = 0x7fU;
    if (magnitude < 0x38800000U)  // below 2^-14: subnormal, let the adder round
      word = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 128.0F) - 0x43000000U;
    else if (magnitude < 0x47700000U)
      word = ({ROUNDED} - 0x38000000U) >> 21;
    else if (magnitude <= 0x7f800000U)  // 61440 and above round to infinity
      word = 0x7cU;
    return static_cast<Word>(sign | word);
  }}
}};

/// Calls f(HostBf16"""
EDITS = [
    ("dtype.h", r"(enum class DType : std::uint8_t \{[^}]*?) \}", r"\1, toy8 }"),
    ("dtype.h", r"\}\};\n(?=///[^\n]*\ninline constexpr DTypeRow kNoDType)", ROW),
    ("core/half.h", r"/// Calls f\(HostBf16", ELEMENT),
    ("core/half.h", r"(?=\n  \}\n  throw Error)", "\n    case DType::toy8: return f(HostToy8{});"),
    ("c_types.h", r"(TILELACE_FP32 = \d)", r"\1,\n  TILELACE_TOY8 = 3"),
    ("torch/tensors.cc", r"(\{ScalarType::Float, DType::fp32\})",
     r"\1,\n                                     {ScalarType::Float8_e5m2, DType::toy8}"),
]
# Other toys than the type asks for, and what finds them.
WRONG = [
    ("truncated", ROUNDED, "magnitude", ("wrong: rounding", "wrong: bounds")),
    ("without its last bit", f"({ROUNDED} - 0x38000000U) >> 21", f"({ROUNDED} - 0x38000000U) >> 21 & ~1U",
     ("wrong: rounding", "wrong: bounds")),
    # Operands have no sign then either: results are what such operands come to.
    ("without a sign", SIGN, "0U", ("wrong: rounding",)),
]
CONFORMANCE = ["cases.cc", "host_place.cc", "operands.cc", "problems.cc", "runner.cc"]
OPS = ("ag_gemm", "gemm_rs", "gemm_ar")


def check_switches() -> None:
    """What no build here would say: a switch elsewhere, in kernels' host code, lacks the type."""
    edited = {file_called(name) for name, _, _ in EDITS}
    asks = [f for f in tracked() if f.endswith((".h", ".cc", ".cu")) and f not in edited
            and re.search(r"\bcase (\w+::)*DType::", (ROOT / f).read_text())]
    if asks:
        sys.exit(f"toy type: got switches over element types in {', '.join(asks)}, expected rows")


def program_of(tree: Path, at: Path) -> Path:
    return build_program(tree, at, "toy_type.cc", *(tree / "tests/conformance" / f for f in CONFORMANCE))


def check_command(tree: Path, at: Path) -> None:
    tilelace = at / "bin/tilelace"
    expect(run(tilelace, "run", "--help"), "bf16, fp16, fp32 or toy8")
    size = ("--tp", 3, "--m", 37, "--n", 66, "--k", 63, "--dtype", "toy8")
    for op in OPS:
        expect(run(tilelace, "plan", op, *size), f"{op} ranks 3", "toy8")
    expect(run(tilelace, "plan", "gemm_rs", *size, "--backend", "cuda", fails=True),
           "dtype on GPUs: got toy8, expected bf16 or fp16")
    expect(run(tilelace, "plan", "gemm_rs", *size[:-1], "toy9", fails=True),
           'got "toy9", expected bf16, fp16, fp32, toy8')
    found = run(tilelace, "run", "--model", tree / "tests/data/model/tiny_llama.json", "--tp", 2, "--m", 37,
                "--dtype", "toy8", "--iterations", 3)
    say("  run:", found.splitlines()[-1])


TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
import tilelace
rank, ranks = dist.get_rank(), dist.get_world_size()
group = tilelace._groups.group_name(dist.group.WORLD)
def numbers(rows, cols, seed):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (rows, cols), generator=made).float()
def as_toy(t):
    return t.to(torch.float8_e5m2)
sizes, k, n = [7, 2], 13, 24
parts = [numbers(size, k, r) for r, size in enumerate(sizes)]
weight = numbers(n, k, 9)
gathered, outs = torch.ops.tilelace.ag_gemm(
    as_toy(parts[rank]), [as_toy(weight)], None, group, return_gathered=True, sizes=sizes)
assert gathered.dtype == outs[0].dtype == torch.float8_e5m2
assert torch.equal(gathered.float(), torch.cat(parts)), gathered
assert torch.equal(outs[0].float(), as_toy(torch.cat(parts) @ weight.T).float()), outs
tilelace.leave(dist.group.WORLD)
dist.destroy_process_group()
"""


def check_all(tree: Path) -> None:
    torch = torch_folder()
    at = configure(tree, torch)
    say("values:", run(program_of(tree, at)).splitlines()[-1])
    build(at, "tilelace_cli")
    check_command(tree, at)
    say("command: plans, and runs on 2 ranks")
    if torch is None:
        say("not run: torch")
    else:
        run_torch(tree, at, TORCH)
        say("torch: values of two ranks")
    # The values are asked for: a toy that rounds otherwise is found, by the bounds of results, too.
    half = tree / file_called("core/half.h")
    text = half.read_text()
    for name, right, wrong, finds in WRONG:
        assert text.count(right) == 1, f"{right}: got {text.count(right)} places, expected one"
        half.write_text(text.replace(right, wrong))
        found = run(program_of(tree, at), fails=True)
        expect(found, *finds)
        say(f"{name}:", found.splitlines()[-1])


def main() -> None:
    asked = arguments(__doc__).parse_args()
    check_switches()
    add_to_copy("toy type", asked, EDITS, check_all)


if __name__ == "__main__":
    main()
