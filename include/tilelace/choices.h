// SPDX-License-Identifier: Apache-2.0
// The enums that plans are made of. Separate from plan.h because kernels need only these.
#pragma once
#include <cstdint>
#include <string_view>

namespace tilelace {

/// The fused ops: `ag_gemm` all-gather + GEMM, `gemm_rs` GEMM + reduce-scatter, `gemm_ar` GEMM +
/// all-reduce. tilelace/ops.h has the calls, op_table.h the operands.
enum class Op : std::uint8_t { ag_gemm, gemm_rs, gemm_ar };
/// Applied to the fp32 result (after bias) before it is rounded, once. `none`: the result as it is;
/// `gelu` by the error function, `gelu_tanh` by its tanh approximation; `silu`: x * sigmoid(x);
/// `swiglu`: ag_gemm with exactly two weights (gate, up), out = silu(gate) * up, one output.
enum class Activation : std::uint8_t { none, gelu, gelu_tanh, silu, swiglu };
/// How a call runs. `fused`: tiles and transfers in one schedule. `medium`: one GEMM per shard,
/// overlapped with the transfers of the others. `unfused`: collective and GEMM one after the other.
enum class Path : std::uint8_t { fused, medium, unfused };
/// Who sends to whom. `mesh`: every rank to every other one, beginning with the next rank. `ring`:
/// every rank to the next one. `two_level`: within and between nodes that have equally many ranks.
enum class RouteKind : std::uint8_t { mesh, ring, two_level };
/// Who moves bytes. `push`: a copy engine of the sender. `pull`: a copy engine of the receiver.
/// `store`: the workers that compute. `nccl`: NCCL (GPU ranks). `add`: the receiver's memory adds
/// partial sums as they arrive (GPU ranks, gemm_rs), so the last bits of a sum differ from run to
/// run. `multimem`: the NVLink switch adds the partial sums of all ranks and stores the result on
/// all (GPU ranks, gemm_ar), in the switch's order. More in transport_table.h.
enum class Transport : std::uint8_t { push, pull, store, nccl, add, multimem };

/// Where a rank keeps its tensors and computes: `cpu`, or `cuda` with one GPU per rank.
enum class Device : std::uint8_t { cpu, cuda };

/// The op's name, as the command and records spell it. Errors: none; unknown values have one, too.
std::string_view name_of(Op);
/// The activation's name. Errors: none, as for ops.
std::string_view name_of(Activation);
/// The path's name. Errors: none, as for ops.
std::string_view name_of(Path);
/// The route's name. Errors: none, as for ops.
std::string_view name_of(RouteKind);
/// The transport's name. Errors: none, as for ops.
std::string_view name_of(Transport);
/// The device's name. Errors: none, as for ops.
std::string_view name_of(Device);

}  // namespace tilelace
