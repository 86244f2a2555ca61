#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for the code of GPU kernels, as cuobjdump prints it. Used by check_kernels.py.

A GEMM starts a batch of wgmma (4 a 64-row block), closes it as one group or half by half, and waits
until only the group before is in flight. Where the compiler serialises wgmma, each is a group of its
own and is waited for.
"""
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

K_STEPS = 4  # wgmma of a 64-row block and a stage: 64 of k, 16 each
DTYPES = {"__half": "fp16", "__nv_bfloat16": "bf16"}
ALL_DTYPES = tuple(DTYPES.values())
# A kernel's policy (src/backend/cuda/kernels/ops) says what it is; every tile has the plain one.
PLAIN = "Gemm"
SWITCHED = "KeptBySwitch"  # the switch adds
PULLED = "KeptByPeers"
KINDS = {PLAIN: "", "AgGemm": " ag_gemm", "GemmRs": " gemm_rs", "GemmRsPairs": " gemm_rs pairs",
         "GemmAr": " gemm_ar", "GatedGemm": " gated", "GatedAgGemm": " ag_gemm gated",
         SWITCHED: " gemm_ar multimem", PULLED: " gemm_ar pull"}
# multimem.ld_reduce is an instruction of its own. multimem.st and multimem.red are those of st and
# red: the address leads them to the switch.
MULTIMEM = {"bf16": "LDGMC.F32ADD.BF16x8", "fp16": "LDGMC.F32ADD.F16x8"}


@dataclass(frozen=True)
class Tile:
    """What a row of src/plan/gemm_tiles.h demands of the code."""
    batch: int  # wgmma that are started together
    moves_registers: bool
    cluster: int
    turns: bool  # one warpgroup multiplies at a time


@dataclass
class Kernel:
    name: str  # mangled
    matrix: list = field(default_factory=list)  # (address, "arrive" | "wgmma" | "wait", value)
    branches: list = field(default_factory=list)  # (address, target)
    meetings: list = field(default_factory=list)  # addresses where threads of a warp meet again
    counts: dict = field(default_factory=dict)

    def count(self, what):
        return self.counts.get(what, 0)


def read_tiles(text):
    """{name: Tile}, in the table's order: a kernel's name has the number."""
    tiles = {}
    for line in re.findall(r'^ +\{("\w+"(?:,\s*\w+){10})\},', text, re.MULTILINE):
        name, groups, blocks, _, _, rows, cols, _, turns, _, per_sm = re.split(r",\s*", line)
        tiles[name.strip('"')] = Tile(K_STEPS * int(blocks), groups == "2" and per_sm == "1",
                                      int(rows) * int(cols), turns == "true")
    return tiles


@functools.cache
def tile_names():
    """Of src/plan/gemm_tiles.h."""
    root = Path(__file__).resolve().parent.parent
    return list(read_tiles((root / "src/plan/gemm_tiles.h").read_text(encoding="utf-8")))


NAME = re.compile(r"gemm_kernelINS0_\d+(" + "|".join(sorted(KINDS, key=len, reverse=True)) +
                  r")INS0_4Sm90INS0_6TileOfILi(\d+)EEE\d*(" + "|".join(DTYPES) + ")E")


def tile_and_dtype(mangled, names=None):
    """("c128", "bf16") of gemm_kernel<AgGemm<Sm90<TileOf<6>, __nv_bfloat16>>>; None for what it is
    not."""
    found = NAME.search(mangled)
    names = tile_names() if names is None else names
    if not found or int(found.group(2)) >= len(names):
        return None
    return names[int(found.group(2))], DTYPES[found.group(3)]


INSTRUCTION = re.compile(
    r"\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?"
    r"(HGMMA|WARPGROUP\.ARRIVE|WARPGROUP\.DEPBAR|BRA|UTMALDG|UTMASTG|LDL|STL|USETMAXREG|LDGMC"
    r"|BSYNC|WARPSYNC"
    r"|STG\.E\.128\.STRONG\.SYS|LDG\.E\.128\.STRONG\.SYS|REDG\.E\.ADD\.STRONG\.SYS)"
    r"([^;]*);")


def parse_sass(lines):
    """The kernels of `cuobjdump -sass`."""
    kernel = None
    for line in lines:
        if "Function :" in line:
            if kernel:
                yield kernel
            kernel = Kernel(line.split(":", 1)[1].strip())
            continue
        found = INSTRUCTION.match(line)
        if found and kernel:
            add_instruction(kernel, int(found.group(1), 16), found.group(2), found.group(3))
    if kernel:
        yield kernel


def add_instruction(kernel, address, name, rest):
    kernel.counts[name] = kernel.count(name) + 1
    if name == "HGMMA":
        kernel.matrix.append((address, "wgmma", "gsb0" in rest))
    elif name == "WARPGROUP.ARRIVE":
        kernel.matrix.append((address, "arrive", None))
    elif name == "WARPGROUP.DEPBAR":
        kernel.matrix.append((address, "wait", int(rest.rsplit("0x", 1)[-1].strip(), 16)))
    elif name == "BRA":
        target = re.search(r"0x([0-9a-f]+)", rest)
        if target:
            kernel.branches.append((address, int(target.group(1), 16)))
    elif name in ("BSYNC", "WARPSYNC"):
        kernel.meetings.append(address)
    elif name == "USETMAXREG":
        kernel.counts["DEALLOC" if "DEALLOC" in rest else "ALLOC"] = 1
    elif name == "UTMALDG" and "MULTICAST" in rest:
        kernel.counts["MULTICAST"] = kernel.count("MULTICAST") + 1
    elif name == "LDGMC":
        adds = next((a for a in MULTIMEM.values() if a[len("LDGMC"):] + "." in rest), name + rest)
        kernel.counts[adds] = kernel.count(adds) + 1


def main_loop(kernel):
    """First and last address of the innermost loop that holds most of the wgmma; None without."""
    wgmma = [a for a, what, _ in kernel.matrix if what == "wgmma"]
    loops = [(target, address) for address, target in kernel.branches if target < address
             and 2 * sum(target <= a <= address for a in wgmma) > len(wgmma)]
    return min(loops, key=lambda loop: loop[1] - loop[0]) if loops else None


def loop_findings(kernel, tile):
    loop = main_loop(kernel)
    if loop is None:
        yield "main loop", "none", "a loop around most HGMMA"
        return
    inside = [m for m in kernel.matrix if loop[0] <= m[0] <= loop[1]]
    batches = []  # of every WARPGROUP.ARRIVE: does each HGMMA close a group?
    for _, what, value in inside:
        if what == "arrive":
            batches.append([])
        elif what == "wgmma" and batches:
            batches[-1].append(value)
        elif what == "wait" and value == 0:
            yield ("wait in the main loop", "WARPGROUP.DEPBAR.LE gsb0, 0x0",
                   "one group in flight (wgmma serialised)")
            break
    sizes = sorted({len(b) for b in batches})
    if sizes != [tile.batch]:
        yield ("HGMMA after each WARPGROUP.ARRIVE", " and ".join(map(str, sizes)) or "none",
               f"{tile.batch} (wgmma serialised)")
    if any(closes and i + 1 != len(b) // 2 for b in batches for i, closes in enumerate(b[:-1])):
        yield ("HGMMA that close a group", "more than the last of a batch or of its half",
               "those alone")
    # Half a batch is under way meanwhile: too little to hide it (some 5 % of gemm_ar, measured).
    # Where two warpgroups multiply, the other's products hide it.
    meetings = sum(loop[0] <= a <= loop[1] for a in kernel.meetings)
    if tile.turns and meetings:
        yield "BSYNC and WARPSYNC in the main loop", meetings, "none"


def multimem_findings(kernel, dtype):
    """The hardware's loads where the switch adds, and nowhere else."""
    kind = kind_of(kernel.name)
    adds = kernel.count(MULTIMEM[dtype]) if kind == SWITCHED else 0
    if kind == SWITCHED and adds == 0:
        yield MULTIMEM[dtype], "none", "some (multimem.ld_reduce)"
    if kernel.count("LDGMC") != adds:
        yield "LDGMC", f"{kernel.count('LDGMC') - adds} others", "none"
    if kind in (SWITCHED, PULLED):
        for what in ["STG.E.128.STRONG.SYS", "REDG.E.ADD.STRONG.SYS"]:
            if kernel.count(what) == 0:
                yield what, "none", "some (stores to all ranks, counts of all ranks)"
    if kind == SWITCHED and kernel.count("LDG.E.128.STRONG.SYS"):
        yield "LDG.E.128.STRONG.SYS", kernel.count("LDG.E.128.STRONG.SYS"), "none (loads from peers)"


def stray_multimem(lines):
    """Findings in code that is not of the GEMM."""
    for kernel in parse_sass(lines):
        if kernel.count("LDGMC"):
            yield f"{short_name(kernel.name)}: LDGMC, got {kernel.count('LDGMC')}, expected none"


def kernel_findings(kernel, tile):
    """(what, got, expected) of each mistake in a GEMM's code."""
    needed = ["HGMMA", "UTMALDG", "UTMASTG"]
    if tile.moves_registers:
        needed += ["ALLOC", "DEALLOC"]
    if tile.cluster > 1:
        needed += ["MULTICAST"]
    words = {"ALLOC": "USETMAXREG.TRY_ALLOC", "DEALLOC": "USETMAXREG.DEALLOC",
             "MULTICAST": "UTMALDG.MULTICAST"}
    for what in needed:
        if kernel.count(what) == 0:
            yield words.get(what, what), "none", "some"
    for what in ["LDL", "STL"]:
        if kernel.count(what):
            yield f"{what} (local memory)", kernel.count(what), "none"
    if kernel.count("HGMMA"):
        yield from loop_findings(kernel, tile)
    yield from multimem_findings(kernel, DTYPES[NAME.search(kernel.name).group(3)])


RESOURCES = re.compile(r"\s*REG:(\d+) STACK:(\d+) .*LOCAL:(\d+)")


def parse_resources(lines):
    """(mangled name, registers, stack, local bytes) of `cuobjdump -res-usage`."""
    name = None
    for line in lines:
        if line.strip().startswith("Function "):
            name = line.strip()[len("Function "):].rstrip(":")
        found = RESOURCES.match(line)
        if found and name:
            yield (name, *map(int, found.groups()))
            name = None


def resource_findings(resources):
    for name, _, stack, local in resources:
        if stack:
            yield f"{short_name(name)}: stack, got {stack} bytes, expected none"
        if local:
            yield f"{short_name(name)}: local memory, got {local} bytes, expected none"


def kind_of(mangled):
    """Which of KINDS a kernel of the GEMM is."""
    found = NAME.search(mangled)
    return found.group(1) if found else PLAIN


def short_name(mangled, names=None):
    known = tile_and_dtype(mangled, names)
    if known:
        return " ".join(known) + KINDS[kind_of(mangled)]
    for digits in re.finditer(r"(?=(?:^|\D|\d)(\d{1,2})[a-z_])", mangled):
        at = digits.end(1)
        word = mangled[at:at + int(digits.group(1))]
        if word.endswith("kernel"):
            return word
    return mangled


def check_gemms(sass, tiles):
    """Findings, what was seen, instructions of a stage in the main loops."""
    findings, seen, sizes = [], [], []
    for kernel in parse_sass(sass):
        known = tile_and_dtype(kernel.name, list(tiles))
        tile = tiles.get(known[0]) if known else None
        if tile is None:
            findings.append(f"{kernel.name}: name, got no tile of gemm_tiles.h, expected one")
            continue
        seen.append((*known, kind_of(kernel.name)))
        findings += [f"{short_name(kernel.name, list(tiles))}: {what}, got {got}, expected {expected}"
                     for what, got, expected in kernel_findings(kernel, tile)]
        loop = main_loop(kernel)
        if loop:
            batches = sum(what == "arrive" and loop[0] <= at <= loop[1]
                          for at, what, _ in kernel.matrix)
            sizes.append(((loop[1] - loop[0]) // 16 + 1) // max(batches, 1))
    return findings, seen, sizes


def missing_kernels(tiles, seen, dtypes=ALL_DTYPES):
    for name in tiles:
        for dtype in sorted(dtypes):
            for kind, words in KINDS.items():
                count = seen.count((name, dtype, kind))
                if count > 1 or (count == 0 and kind == PLAIN):
                    yield f"gemm_tiles.h: {name} {dtype}{words}: kernels, got {count}, expected 1"


def span(values):
    low, high = min(values, default=0), max(values, default=0)
    return str(low) if low == high else f"{low}..{high}"


def missing_multimem(seen, dtypes=ALL_DTYPES):
    """A kernel whose sums the switch makes, of each type, and one whose ranks pull of its tile."""
    made = {kind: {s[:2] for s in seen if s[2] == kind} for kind in (SWITCHED, PULLED)}
    for dtype in sorted(dtypes):
        if not any(s[1] == dtype for s in made[SWITCHED]):
            yield f"kept_partials: {dtype}: kernels, got none, expected one or more"
    if not made[SWITCHED] <= made[PULLED]:
        yield "kept_partials: tiles of kernels that pull, got none for some of the switch's"
