// SPDX-License-Identifier: Apache-2.0
// What a plan chooses among. Apart from plan.h for the sake of the kernels, which read these only.
#pragma once
#include <cstdint>
#include <string_view>

namespace tilelace {

enum class Op : std::uint8_t { ag_gemm, gemm_rs, gemm_ar };
/// Applied to the fp32 result (after bias) before the one rounding. `swiglu` is for ag_gemm with
/// exactly two weights (gate, up): out = silu(gate) * up, one output.
enum class Activation : std::uint8_t { none, gelu, gelu_tanh, silu, swiglu };
/// How a call runs: one fused schedule, one GEMM a shard, or collective and GEMM one after the
/// other.
enum class Path : std::uint8_t { fused, medium, unfused };
/// Who sends to whom: everyone to everyone (rotated), neighbour to neighbour, or nodes x local
/// ranks.
enum class RouteKind : std::uint8_t { mesh, ring, two_level };
/// Who moves bytes: a copy engine that pushes, a copy engine that pulls, the compute worker itself,
/// NCCL (GPU ranks), the memory of who gets them, which adds them up as they come (GPU ranks,
/// gemm_rs; the order of a sum, hence its last bits, differs from run to run), or the switch, which
/// adds up what all ranks have and stores with all (GPU ranks, gemm_ar; the order is the switch's).
/// transport_table.h has their facts.
enum class Transport : std::uint8_t { push, pull, store, nccl, add, multimem };

/// Where a rank's tensors are and its products run.
enum class Device : std::uint8_t { cpu, cuda };

std::string_view name_of(Op);
std::string_view name_of(Activation);
std::string_view name_of(Path);
std::string_view name_of(RouteKind);
std::string_view name_of(Transport);
std::string_view name_of(Device);

}  // namespace tilelace
