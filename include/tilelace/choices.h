// SPDX-License-Identifier: Apache-2.0
// The enums of a Plan, in a header of their own, so that kernels need not include plan.h.
#pragma once
#include <cstdint>
#include <string_view>

namespace tilelace {

/// The fused ops. `ag_gemm`: all-gather + GEMM; `gemm_rs`: GEMM + reduce-scatter; `gemm_ar`: GEMM +
/// all-reduce. tilelace/ops.h declares the calls; op_table.h lists the operands.
enum class Op : std::uint8_t { ag_gemm, gemm_rs, gemm_ar };
/// The function applied to the fp32 result, after the bias and before rounding. `none`: no
/// function; `gelu`: GELU by the error function; `gelu_tanh`: GELU's tanh approximation; `silu`:
/// x * sigmoid(x); `swiglu`: silu(gate) * up, for ag_gemm with two weights and one output.
enum class Activation : std::uint8_t { none, gelu, gelu_tanh, silu, swiglu };
/// How a call runs. `fused`: tiles and transfers in one schedule. `medium`: one GEMM per shard,
/// overlapped with transfers of other shards. `unfused`: collective and GEMM one after the other.
enum class Path : std::uint8_t { fused, medium, unfused };
/// Who sends to whom. `mesh`: each rank sends to all others. `ring`: each rank sends to the next.
/// `two_level`: ranks send within nodes and between nodes; all nodes have equally many ranks.
enum class RouteKind : std::uint8_t { mesh, ring, two_level };
/// Who moves bytes. `push`: a copy engine of the sender. `pull`: a copy engine of the receiver.
/// `store`: the workers that compute. `nccl`: NCCL (GPU ranks). `multimem`: the NVLink switch adds
/// the partial sums of all ranks, in its own order, and stores the result on all ranks (GPU ranks,
/// gemm_ar). More in transport_table.h.
enum class Transport : std::uint8_t { push, pull, store, nccl, multimem };

/// Where a rank keeps its tensors and computes: `cpu`, or `cuda` with one GPU per rank.
enum class Device : std::uint8_t { cpu, cuda };

/// The op's name, as the command and records spell it, or "unknown op". Errors: none.
std::string_view name_of(Op);
/// The activation's name; "?" for an unknown value. Errors: none.
std::string_view name_of(Activation);
/// The path's name; "?" for an unknown value. Errors: none.
std::string_view name_of(Path);
/// The route's name; "?" for an unknown value. Errors: none.
std::string_view name_of(RouteKind);
/// The transport's name; "?" for an unknown value. Errors: none.
std::string_view name_of(Transport);
/// The device's name; "?" for an unknown value. Errors: none.
std::string_view name_of(Device);

}  // namespace tilelace
