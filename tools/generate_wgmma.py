#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the wrappers of wgmma.mma_async, one a width: C++ has no way to spell an operand list of
variable length. Shape m64 nN k16, both operands in shared memory (K-major), fp32 accumulators.

usage: generate_wgmma.py FILE
"""
import sys

HEAD = """// SPDX-License-Identifier: Apache-2.0
// Made by tools/generate_wgmma.py.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tilelace::cuda {

/// d (64 x N, this thread's N / 2 values) = a (64 x 16) * b (N x 16)^T + (keep ? d : 0).
/// a, b: shared-memory descriptors. By a whole warpgroup, asynchronous.
template <class Element, int N>
struct Wgmma;
"""
TYPES = {"__nv_bfloat16": "bf16", "__half": "f16"}


def wrapper(element, n):
    count = n // 2
    regs = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    kind = TYPES[element]
    return f"""
template <>
struct Wgmma<{element}, {n}> {{
  static __device__ __forceinline__ void multiply(float (&d)[{count}], std::uint64_t a,
                                                  std::uint64_t b, int keep) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind} {{{regs}}}, "
        "%{count}, %{count + 1}, p, 1, 1, 0, 0;\\n}}\\n"
        : {outs}
        : "l"(a), "l"(b), "r"(keep));
  }}
}};
"""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    parts = [HEAD]
    parts += [wrapper(e, n) for e in TYPES for n in range(8, 257, 8)]
    parts.append("\n}  // namespace tilelace::cuda\n")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("".join(parts))


if __name__ == "__main__":
    main()
