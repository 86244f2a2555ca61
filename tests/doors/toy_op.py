#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new op comes by rows of tables: adds a toy op to a copy of the tree, counts the files that it
touches, builds the copy for CPU ranks and asks all who go through the table for the op.

toy_scale gathers rows and doubles them; it has no weights, and no kernels for GPUs.
usage: toy_op.py [--count] [--into DIR] [--scale X]
  --count     only adds it and counts the files: what the gate does, in a second
  --into DIR  a copy that stays, for builds that begin where the last one ended
  --scale X   another toy than the values ask for: they must be found wrong
"""
from pathlib import Path

from tree_copy import (
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
)

OPERANDS = """inline constexpr std::array kToyScale{
    OperandRow{Role::input, "a", Extent::m_r, Extent::k},
    OperandRow{Role::out, "out", Extent::m, Extent::k},
    OperandRow{Role::gathered, "gathered", Extent::m, Extent::k, false, true},
};

"""
ROW = """    OpRow{.op = Op::toy_scale,
          .name = "toy_scale",
          .help = "all-gather and scale: rows of all ranks, doubled",
          .collective = "toy_gather",
          .gathers = true,
          .operands = kToyScale},
"""
WORK = """namespace {

void scale(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= @SCALE@F;
}

}  // namespace

TileWork tile_work_of"""
DOC = ("| toy_scale | all-gather and scale: rows of all ranks, doubled | a [m_r, k] "
       "| out [m, k], gathered [m, k] or none |\n")


def edits(scale: str) -> list[tuple[str, str, str]]:
    """(a file's name, before or after or in place of which text, what comes there)"""
    return [
        ("choices.h", r"(enum class Op : std::uint8_t \{[^}]*?) \}", r"\1, toy_scale }"),
        ("op_table.h", r"(?=inline constexpr std::array kOps\{)", OPERANDS),
        ("op_table.h", r"(?=\};\n\n///[^\n]*\ninline constexpr OpRow kNoOp)", ROW),
        ("planners.cc", r"(std::array rows\{[^}]*)\}", r"\1, &kNoPlanner}"),
        ("tile_work.cc", r"TileWork tile_work_of", WORK.replace("@SCALE@", scale)),
        ("tile_work.cc", r"(std::array rows\{[^}]*)\}", r"\1, TileWork{scale}}"),
        ("ops.md", r"(?<=\|\n)(?=\n)", DOC),
    ]


def check_command(tree: Path, at: Path) -> None:
    tilelace = at / "bin/tilelace"
    table = run(tilelace, "plan", "--ops", "--wide")
    expect((tree / "docs/ops.md").read_text(), table)
    expect(table, DOC)
    size = ("--tp", 3, "--n", 64, "--k", 64)
    expect(run(tilelace, "plan", "toy_scale", "--m", 37, *size), "toy_scale", "gathered m 37")
    expect(run(tilelace, "plan", "toy_scale", "--m", 37, *size, "--backend", "cuda", fails=True),
           "toy_scale: device: got cuda, expected cpu")
    found = run(tilelace, "check", "--op", "toy_scale", "--tp", 3, "--m", 37, "--n", 64, "--workers", 2)
    expect(found, "0 with findings")
    say("  check:", found.splitlines()[0])
    played = run(tilelace, "simulate", "toy_scale", "--machine", tree / "machines/h200x4.json",
                 "--tp", 4, "--m", 1024, "--n", 4096, "--k", 4096, "--json", "-")
    expect(played, '"toy_scale"')
    say("  run: not run, it takes the products of models")


TORCH = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
import tilelace
rank, ranks = dist.get_rank(), dist.get_world_size()
group = tilelace._groups.group_name(dist.group.WORLD)
sizes = [7, 2]
a = (torch.arange(sizes[rank] * 24).reshape(-1, 24) % 31 + rank).bfloat16()
parts = [(torch.arange(s * 24).reshape(-1, 24) % 31 + r).bfloat16() for r, s in enumerate(sizes)]
whole = torch.cat(parts)
gathered, outs = torch.ops.tilelace.toy_scale(a, [], None, group, return_gathered=True, sizes=sizes)
assert torch.equal(gathered, whole), gathered
assert len(outs) == 1 and torch.equal(outs[0], 2 * whole), outs
assert torch.equal(torch.ops.tilelace.toy_gather(a, group, sizes=sizes), whole)
given = a.clone().requires_grad_()
try:
    torch.ops.tilelace.toy_scale(given, [], None, group, sizes=sizes)[1][0].sum().backward()
    sys.exit("gradients: got some, expected an error")
except tilelace.Error as error:
    assert "ops without weights have no gradient: call them under torch.no_grad" in str(error), error
tilelace.leave(dist.group.WORLD)
dist.destroy_process_group()
"""


def check_all(tree: Path, right: bool) -> None:
    torch = torch_folder()
    at = configure(tree, torch)
    say("values:", run(build_program(tree, at, "toy_op.cc"), fails=not right).splitlines()[-1])
    if not right:
        return
    build(at, "tilelace_cli")
    check_command(tree, at)
    say("command, checker, simulator: as the table says")
    if torch is None:
        say("not run: torch")
    else:
        run_torch(tree, at, TORCH)
        say("torch: values of two ranks")
    # The values are asked for: a toy that does something else is found.
    work = tree / file_called("tile_work.cc")
    text = work.read_text()
    work.write_text(text.replace("*= 2.0F", "*= 3.0F"))
    assert work.read_text() != text
    wrong = run(build_program(tree, at, "toy_op.cc"), fails=True)
    expect(wrong, "expected")
    say("another scale:", wrong.splitlines()[-1])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--scale", default="2")
    asked = parser.parse_args()
    scale = float(asked.scale)
    add_to_copy("toy op", asked, edits(f"{scale}"), lambda tree: check_all(tree, scale == 2))


if __name__ == "__main__":
    main()
