// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: products grouped by expert, and a layer's two halves around them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tilelace/choices.h"
#include "tilelace/collectives.h"
#include "tilelace/tensor.h"

namespace tilelace {

class Communicator;

/// What becomes of an expert's product, in fp32, before it is rounded. `none`, `gelu`, `gelu_tanh`
/// and `silu`: as `Activation` has them. `swiglu`: the weight's first half of rows is the gate, the
/// second up; out = silu(gate) * up. `swiglu_clamped`, gpt-oss's: rows are gate, up, gate, up ...;
/// the gate is at most 7, up within -7 and 7; out = (up + 1) * gate * sigmoid(1.702 * gate).
enum class ExpertActivation : std::uint8_t { none, gelu, gelu_tanh, silu, swiglu, swiglu_clamped };

/// Facts about an activation.
struct ExpertActivationRow {
  ExpertActivation activation;  ///< the one that the row is for
  std::string_view name;        ///< as the command and torch spell it
  bool gated = false;           ///< two rows of the weight make one column of the result
};

/// In the order of the enum.
inline constexpr std::array kExpertActivations{
    ExpertActivationRow{ExpertActivation::none, "none"},
    ExpertActivationRow{ExpertActivation::gelu, "gelu"},
    ExpertActivationRow{ExpertActivation::gelu_tanh, "gelu_tanh"},
    ExpertActivationRow{ExpertActivation::silu, "silu"},
    ExpertActivationRow{ExpertActivation::swiglu, "swiglu", true},
    ExpertActivationRow{ExpertActivation::swiglu_clamped, "swiglu_clamped", true}};

/// The row of an activation; std::out_of_range for a value that names none.
constexpr const ExpertActivationRow& row_of(ExpertActivation a) {
  return kExpertActivations.at(static_cast<std::size_t>(a));
}

/// Bounds of swiglu_clamped, and its factor in the sigmoid.
inline constexpr float kSwigluLimit = 7.0F;
inline constexpr float kSwigluAlpha = 1.702F;  ///< the factor

/// Arguments of grouped_gemm. Tensors are dense; widths are multiples of 8.
struct GroupedGemmArgs {
  TensorView x;                          ///< [rows, k], one expert's rows after the other's
  const std::int32_t* begins = nullptr;  ///< [experts + 1] on x's device: first row of each expert,
                                         ///< from 0; last: rows in all, at most those of x
  std::int64_t experts = 0;              ///< number of experts
  TensorView weight;                     ///< [experts * w, k], w of each: n, or 2 n if gated
  TensorView bias = {};                  ///< absent, or [experts, w]
  ExpertActivation activation = ExpertActivation::none;  ///< of the product and its bias
  /// Null, or factors in fp32, applied after the activation, before the rounding: row r's is
  /// scales[r], or with `sources` (not null, [rows]) scales[sources[r]].
  const float* scales = nullptr;
  const std::int32_t* sources = nullptr;  ///< as said at `scales`
  TensorView out = {};                    ///< [rows, n]; rows beyond the experts' stay as they are
  Device device = Device::cpu;            ///< where the tensors are
  void* stream = nullptr;                 ///< GPUs: a cudaStream_t; null: the default stream
};

/// out[r] = act(x[r] * weight_e^T + bias_e) * scale_r, for the rows of each expert e. Products are
/// summed in fp32 and rounded once; a row's bits depend on nothing but the row, its expert and its
/// scale. Weights of experts without rows are not read. Local: no other rank takes part. CPU
/// tensors: computed on the calling thread; blocking. GPU tensors: bf16 and fp16, at most 1024
/// experts, enqueued on args.stream; may be captured, and a captured call takes any `begins`.
/// Alignment: 16 bytes (TensorView). Traffic: none. Errors: usage (an argument; of CPU
/// tensors also `begins` that do not ascend and `sources` that name no scale).
void grouped_gemm(const GroupedGemmArgs&);

/// A layer's sizes and forms: equal on every rank, except `inner`, `first` and `here`.
struct MoeLayer {
  DType dtype{};             ///< of all tensors but ids, router weights and the map
  std::int64_t m = 0;        ///< the most tokens of a call, of all ranks together
  std::int64_t hidden = 0;   ///< columns of a token
  std::int64_t inner = 0;    ///< this rank's columns between the two products
  std::int64_t experts = 0;  ///< in all
  std::int64_t top_k = 0;    ///< choices of a token
  std::int64_t first = 0;    ///< this rank has the experts [first, first + here)
  std::int64_t here = 0;     ///< 0: all of them
  ExpertActivation activation = ExpertActivation::swiglu;  ///< of the first product
  /// Every rank has all tokens and their routing already: ag_moe gathers nothing, and the sums go
  /// to moe_ar or moe_rs. Else every rank has its own tokens.
  bool replicated = false;
  /// Router weights are applied to tokens, before the first product, and not after the second.
  bool weight_on_input = false;

  bool operator==(const MoeLayer&) const = default;
};

/// A router's choices for some tokens, dense. Ids are experts, or -1: none; a token may choose an
/// expert twice. Weights of a choice -1 are not read.
struct Routing {
  const void* ids = nullptr;       ///< [tokens, top_k]
  Item type = Item::i32;           ///< of ids: i32 or i64
  const float* weights = nullptr;  ///< [tokens, top_k]
};

/// Size of the map, in 32-bit words, for a call with m tokens of all ranks. Local. Errors: usage (a
/// layer or m that calls would refuse).
std::int64_t moe_map_words(const MoeLayer&, std::int64_t m);

/// Arguments of ag_moe. Tensors are dense.
struct AgMoeArgs {
  MoeLayer layer;               ///< as prepared
  std::int64_t m = 0;           ///< tokens of all ranks together
  TensorView x;                 ///< [m_r, hidden], this rank's tokens; replicated: [m, hidden]
  Routing routing;              ///< of the tokens in x
  TensorView weight;            ///< [here * w, hidden], w of each: inner, or 2 inner if gated
  TensorView bias = {};         ///< absent, or [here, w]
  std::int32_t* map = nullptr;  ///< [moe_map_words]: written, for the second half; 16-byte aligned
  TensorView out = {};  ///< [m * top_k, inner]: the experts' rows; those beyond stay as they are
  TensorView gathered = {};  ///< absent, or [m, hidden]: receives the tokens; not if replicated
  std::span<const std::int64_t> rows = {};  ///< tokens per rank; empty: even split, remainder first
  void* stream = nullptr;                   ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Arguments of moe_rs and moe_ar. Tensors are dense.
struct MoeReduceArgs {
  MoeLayer layer;                     ///< as for ag_moe
  std::int64_t m = 0;                 ///< tokens of all ranks together
  TensorView x;                       ///< [m * top_k, inner], as ag_moe wrote it
  const std::int32_t* map = nullptr;  ///< as ag_moe wrote it
  TensorView weight;                  ///< [here * hidden, inner]
  /// Absent, or [here, hidden]: bias of the second product. The terms of all ranks are added, so
  /// only one of the ranks that share an expert may have its bias.
  TensorView bias = {};
  /// Absent, or [m, hidden]: added to this rank's term of the sum (a shared expert's part, or a
  /// residual on one rank). moe_rs also takes [m_r, hidden], for this rank's tokens alone.
  TensorView add = {};
  TensorView out = {};                      ///< moe_rs [m_r, hidden]; moe_ar [m, hidden]
  std::span<const std::int64_t> rows = {};  ///< moe_rs: tokens of every rank; empty: as in ag_moe
  void* stream = nullptr;                   ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Makes the staging and scratch of this layer and all smaller ones; calls then make no buffers,
/// except that CPU ranks pack weights in each call. May be repeated for other layers. Collective.
/// Memory per rank: (m + m * top_k) * hidden elements, 8 * m * top_k bytes, and what
/// prepare_collectives takes. Errors: usage, system, peer, timeout.
void prepare_moe(Communicator&, const MoeLayer&);

/// A layer's first half: gathers all ranks' tokens and their routing, orders the rows by (expert,
/// token, slot), and multiplies them by their experts' weights:
/// out[row] = act(token * weight_e^T + bias_e). `map` says which row is whose. Rows are as many as
/// there are choices of this rank's experts, without padding; none is dropped. With `replicated` it
/// is local. Products are summed in fp32, rounded once; so are weighted tokens (weight_on_input).
/// Collective. CPU ranks: blocking; on return `out`, `map` and `gathered` are whole. GPU ranks:
/// bf16 and fp16, enqueued on args.stream; may be captured after prepare_moe, and a captured call
/// takes any routing. Alignment: 16 bytes; ids and weights: an element. Traffic: (ranks - 1) * m_r
/// * hidden elements and 8 or 12 bytes a choice leave each rank. Errors: usage (a wrong argument:
/// before anything is sent; ids that name no expert: on every rank, on CPU ranks before `out` is
/// written, on GPU ranks in the second half, which then writes nothing), peer, timeout, system.
void ag_moe(Communicator&, const AgMoeArgs&);

/// A layer's second half: multiplies the rows by their experts' weights and by the router's, adds
/// each token's rows in the order of its slots in fp32, then `add`, and scatters the sums: out
/// [m_r, hidden] is this rank's tokens. Rows are rounded after the product, a rank's terms after
/// its slots' sum, the result after the sum over ranks, which is that of reduce_scatter. The same
/// bits in every run. Collective. CPU ranks: blocking. GPU ranks: enqueued on args.stream,
/// errors that depend on the routing come from the next call or synchronize. Alignment:
/// 16 bytes. Traffic: (m - m_r) * hidden elements leave each rank. Errors: as ag_moe; usage: ranks
/// whose maps are of different routings, on every rank, before `out` is written.
void moe_rs(Communicator&, const MoeReduceArgs&);

/// As moe_rs, but every rank gets the sums of all tokens: out [m, hidden], the same bits on every
/// rank. Collective, visible and aligned as moe_rs. Traffic: that of all_reduce of m * hidden
/// elements. Errors: as moe_rs.
void moe_ar(Communicator&, const MoeReduceArgs&);

}  // namespace tilelace
