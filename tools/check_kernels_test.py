#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Made-up dumps with one mistake each, which check_kernels.py must find, and sound ones."""
import sys

from check_kernels import chosen_tiles
from kernel_code import (
    check_gemms,
    missing_kernels,
    missing_multimem,
    parse_resources,
    read_tiles,
    resource_findings,
    stray_multimem,
)

TILES = read_tiles("""
inline constexpr GemmTile kGemmTiles[] = {
    // 128 rows, two warpgroups on one tile.
    {"c128",      2, 1, 128,  3, 2, 1, 2, false, false, 1},
    {"p64",       2, 2,  64,  2, 1, 1, 2, true, false, 1},
    {"v16",       1, 1,  16,  2, 1, 1, 1, false, true, 2},
};
""")
HARDWARE, PULLED = "KeptBySwitch", "KeptByPeers"


def dump(tile, instructions, dtype="13__nv_bfloat16", name="Gemm"):
    """As cuobjdump -sass prints it; "loop" marks where BRA back goes."""
    number = list(TILES).index(tile) if tile in TILES else 999
    mangled = (f"_ZN8tilelace4cuda11gemm_kernelINS0_{len(name)}{name}INS0_4Sm90INS0_6TileOfILi{number}EEE"
               f"{dtype}EEEEEvNT_6ParamsE")
    lines, start, address = [f"\t\tFunction : {mangled}"], 0, 0
    for text in instructions:
        if text == "loop":
            start = address
            continue
        text = text.replace("back", hex(start))
        lines.append(f"        /*{address:04x}*/                   {text} ;     /* 0x0000000000007947 */")
        lines.append("                                               /* 0x000fea0003800000 */")
        address += 16
    return lines


def batch(size, wait="0x1"):
    return (["WARPGROUP.ARRIVE"] + ["HGMMA.64x128x16.F32 R24, gdesc[UR28], R24"] * (size - 1) +
            ["HGMMA.64x128x16.F32 R24, gdesc[UR28], R24, gsb0",
             f"WARPGROUP.DEPBAR.LE gsb0, {wait}"])


def sound(stages=3, size=4, load="UTMALDG.2D.MULTICAST [UR8], [UR4]"):
    loop = ["loop"] + batch(size) * stages + ["@!P0 BRA back"]
    return (["LDC R1, c[0x0][0x28]", "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8"] + loop +
            ["WARPGROUP.DEPBAR.LE gsb0, 0x0", "UTMASTG.2D [UR4], [UR6]", "EXIT",
             "USETMAXREG.DEALLOC.CTAPOOL 0x28", "loop", load, "@P1 BRA back"])


def without(instructions, word):
    return [i for i in instructions if word not in i]


def serialised():
    one = ["WARPGROUP.ARRIVE", "HGMMA.64x128x16.F32 R24, gdesc[UR28], R24, gsb0",
           "WARPGROUP.DEPBAR.LE gsb0, 0x0"]
    return sound()[:2] + ["loop"] + one * 12 + sound()[sound().index("@!P0 BRA back"):]


PLAIN = "UTMALDG.2D [UR8], [UR4]"
def halves(size):
    """A batch that is closed half by half, the stage before waited for in between."""
    product = "HGMMA.64x128x16.F32 R24, gdesc[UR28], R24"
    half = [product] * (size // 2 - 1) + [product + ", gsb0"]
    return ["WARPGROUP.ARRIVE"] + half + ["WARPGROUP.DEPBAR.LE gsb0, 0x1"] + half


LOAD = "LDGMC.E.F32ADD.BF16x8.RN.STRONG.SYS R12, [R4.64+URZ]"
PEERS = "LDG.E.128.STRONG.SYS R12, desc[UR4][R4.64]"
SHARED = ["STG.E.128.STRONG.SYS desc[UR4][R4.64], R12", "@P0 MEMBAR.ALL.SYS",
          "@P0 REDG.E.ADD.STRONG.SYS desc[UR4][R6.64], R7"]


def switched(load=LOAD):
    """A GEMM that sums what all ranks have, by this load."""
    return sound() + ["LDC R9, c[0x0][0x28]", load] + SHARED


SOUND = [dump("c128", sound()),
         dump("c128", sound()[:3] + halves(4) * 3 + sound()[sound().index("@!P0 BRA back"):]), dump("p64", sound(2, 8, PLAIN)),
         dump("c128", sound()[:3] + ["BSYNC B4"] + sound()[3:]),
         dump("p64", ["BSYNC B4"] + sound(2, 8, PLAIN) + ["WARPSYNC.ALL"]),
         dump("v16", without(sound(2, 4, PLAIN), "USETMAXREG"), "6__half"),
         dump("c128", switched(), name=HARDWARE),
         dump("c128", switched(LOAD.replace("BF16x8", "F16x8")), "6__half", HARDWARE),
         dump("c128", switched(PEERS), name=PULLED)]

# what is wrong, the dump, a part of the finding
WRONG = [
    ("spill", dump("c128", sound() + ["@P0 STL.128 [R1], R4", "LDL R23, [R22]"]),
     "c128 bf16: STL (local memory), got 1, expected none"),
    ("reload", dump("c128", sound() + ["LDL.LU R23, [R22]"]), "LDL (local memory), got 1"),
    ("no wgmma", dump("c128", without(without(sound(), "HGMMA"), "WARPGROUP")),
     "c128 bf16: HGMMA, got none, expected some"),
    ("no tensor load", dump("c128", without(sound(), "UTMALDG")), "UTMALDG, got none"),
    ("no tensor store", dump("c128", without(sound(), "UTMASTG")), "UTMASTG, got none"),
    ("no multicast", dump("c128", sound(load=PLAIN)), "UTMALDG.MULTICAST, got none"),
    ("no more registers", dump("c128", without(sound(), "TRY_ALLOC")),
     "USETMAXREG.TRY_ALLOC, got none"),
    ("no fewer registers", dump("p64", without(sound(2, 8, PLAIN), "DEALLOC")),
     "p64 bf16: USETMAXREG.DEALLOC, got none"),
    ("serialised", dump("c128", serialised()),
     "HGMMA after each WARPGROUP.ARRIVE, got 1, expected 4 (wgmma serialised)"),
    ("serialised waits", dump("c128", serialised()),
     "wait in the main loop, got WARPGROUP.DEPBAR.LE gsb0, 0x0"),
    ("one wait for all", dump("c128", sound()[:3] + batch(4, "0x0") + sound()[3:]),
     "wait in the main loop"),
    ("half a batch", dump("p64", sound(4, 4, PLAIN)), "got 4, expected 8"),
    ("groups in a batch", dump("c128", [i.replace("R24, gdesc[UR28], R24", "R24, g, R24, gsb0")
                                        for i in sound()]), "HGMMA that close a group"),
    ("no loop", dump("c128", [i for i in sound() if i != "@!P0 BRA back"]), "main loop, got none"),
    ("warps that meet in every step",
     dump("p64", [t for i in sound(2, 8, PLAIN)
                  for t in (["BSYNC B4", "WARPSYNC.ALL"] if i == "WARPGROUP.ARRIVE" else []) + [i]]),
     "p64 bf16: BSYNC and WARPSYNC in the main loop, got 4, expected none"),
    ("unknown tile", dump("c999", sound()), "name, got no tile"),
    ("sums by nobody", dump("c128", without(switched(), "LDGMC"), name=HARDWARE),
     "c128 bf16 gemm_ar multimem: LDGMC.F32ADD.BF16x8, got none, expected some"),
    ("sums of another type", dump("c128", switched(), "6__half", HARDWARE),
     "c128 fp16 gemm_ar multimem: LDGMC.F32ADD.F16x8, got none"),
    ("sums in the elements' type", dump("c128", switched(LOAD.replace("F32ADD.", "ADD.")),
                                        name=HARDWARE), "LDGMC.F32ADD.BF16x8, got none"),
    ("sums in a plain kernel", dump("c128", sound() + [LOAD]),
     "c128 bf16: LDGMC, got 1 others, expected none"),
    ("sums of the hardware in a kernel that pulls",
     dump("c128", switched(PEERS) + [LOAD], name=PULLED),
     "c128 bf16 gemm_ar pull: LDGMC, got 1 others, expected none"),
    ("loads from peers in the hardware's kernel", dump("c128", switched() + [PEERS], name=HARDWARE),
     "LDG.E.128.STRONG.SYS, got 1, expected none"),
    ("no stores to all", dump("c128", without(switched(), "STG"), name=HARDWARE),
     "STG.E.128.STRONG.SYS, got none"),
    ("no counts of all", dump("c128", without(switched(), "REDG"), name=HARDWARE),
     "REDG.E.ADD.STRONG.SYS, got none"),
    ("spill beside sums", dump("c128", switched() + ["STL.128 [R1], R4"], name=HARDWARE),
     "c128 bf16 gemm_ar multimem: STL (local memory), got 1"),
]

RESOURCES = """
Resource usage:
 Common:
  GLOBAL:0
 Function _ZN8tilelace4test43_GLOBAL__N__9ac5bdad_10_kernels_cu_b54fe5a614compare_kernelEPK5uint4:
  REG:38 STACK:{stack} SHARED:7168 LOCAL:{local} CONSTANT[0]:824 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def resource_mistakes():
    for stack, local, expected in [(0, 0, []), (16, 0, ["compare_kernel: stack, got 16 bytes"]),
                                   (0, 8, ["compare_kernel: local memory, got 8 bytes"])]:
        text = RESOURCES.format(stack=stack, local=local)
        found = list(resource_findings(parse_resources(text.splitlines())))
        if len(found) != len(expected) or any(e not in f for e, f in zip(expected, found)):
            yield f"stack {stack}, local {local}: found {found}"


def code_mistakes():
    for lines in SOUND:
        findings, seen, sizes = check_gemms(lines, TILES)
        if findings or len(seen) != 1 or len(sizes) != 1:
            yield f"sound, but: {findings} {seen} {sizes}"
    if list(stray_multimem(SOUND[0])) or len(list(stray_multimem(SOUND[-2]))) != 1:
        yield "sums by the switch in code that is not of the GEMM: not found"
    for name, lines, part in WRONG:
        # Beside a sound one, whose code must not hide it.
        findings, _, _ = check_gemms(SOUND[1] + lines + SOUND[2], TILES)
        if not any(part in f for f in findings):
            yield f"{name}: not found, only {findings}"
    seen = [(t, d, "Gemm") for t in TILES for d in ("bf16", "fp16")]
    fused = [(*seen[0][:2], "AgGemm")]
    if list(missing_kernels(TILES, seen + fused)) or len(list(missing_kernels(TILES, seen[1:]))) != 1:
        yield "missing kernels: not found"
    if len(list(missing_kernels(TILES, seen + 2 * fused))) != 1:
        yield "kernels that are there twice: not found"
    few = [s for s in seen if s[:2] == ("c128", "bf16")]
    if list(missing_kernels(["c128"], few, ["bf16"])) or not list(missing_kernels(["c128"], [], ["bf16"])):
        yield "missing kernels of chosen tiles: not found"
    if (chosen_tiles('"command": "nvcc \\"-DTILELACE_TILES=\\\\\\",c128,v16,\\\\\\"\\" -DX=,p80,"') != ["c128", "v16"] or
            chosen_tiles("nvcc -DX=,v16, a.cu")):
        yield "chosen tiles: not read"
    switch = [("p64", d, kind) for d in ("bf16", "fp16") for kind in (HARDWARE, PULLED)]
    if list(missing_multimem(switch)) or not list(missing_multimem(switch[1:])):
        yield "kernels whose sums the switch makes: not found"


def main():
    failures = [*code_mistakes(), *resource_mistakes()]
    print("\n".join(failures) or f"{len(WRONG) + 7} made-up mistakes found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
