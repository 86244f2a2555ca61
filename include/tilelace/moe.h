// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: a product grouped by expert, and the two halves of a layer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilelace/choices.h"
#include "tilelace/collectives.h"
#include "tilelace/tensor.h"

namespace tilelace {

class Communicator;

/// The function applied to an expert's product, in fp32, before the result is rounded. `none`,
/// `gelu`, `gelu_tanh` and `silu` are those of `Activation`. `swiglu`: the weight's rows are
/// first those of gate, then those of up; out = silu(gate) * up. `swiglu_clamped` (gpt-oss): the
/// weight's rows alternate between gate and up; gate is clamped to at most 7, and up is clamped to
/// -7..7; out = (up + 1) * gate * sigmoid(1.702 * gate).
enum class ExpertActivation : std::uint8_t { none, gelu, gelu_tanh, silu, swiglu, swiglu_clamped };

/// Facts about an activation.
struct ExpertActivationRow {
  ExpertActivation activation;  ///< the activation that the row is for
  std::string_view name;        ///< the name in the command and in torch
  bool gated = false;           ///< two rows of the weight make one column of the result
};

/// The rows of all activations, in the order of the enum.
inline constexpr std::array kExpertActivations{
    ExpertActivationRow{ExpertActivation::none, "none"},
    ExpertActivationRow{ExpertActivation::gelu, "gelu"},
    ExpertActivationRow{ExpertActivation::gelu_tanh, "gelu_tanh"},
    ExpertActivationRow{ExpertActivation::silu, "silu"},
    ExpertActivationRow{ExpertActivation::swiglu, "swiglu", true},
    ExpertActivationRow{ExpertActivation::swiglu_clamped, "swiglu_clamped", true}};

/// The row of an activation; throws std::out_of_range if the value names no activation.
constexpr const ExpertActivationRow& row_of(ExpertActivation a) {
  return kExpertActivations.at(static_cast<std::size_t>(a));
}

/// The limit to which swiglu_clamped clamps gate and up.
inline constexpr float kSwigluLimit = 7.0F;
inline constexpr float kSwigluAlpha = 1.702F;  ///< swiglu_clamped's factor inside the sigmoid

/// Arguments of grouped_gemm. Tensors are dense; widths are multiples of 8.
struct GroupedGemmArgs {
  TensorView x;                          ///< [rows, k]: the rows of expert 0, of expert 1, ...
  const std::int32_t* begins = nullptr;  ///< [experts + 1] on x's device: each expert's first row
                                         ///< (0 for expert 0), then the number of all experts' rows
  std::int64_t experts = 0;              ///< number of experts
  TensorView weight;                     ///< [experts * w, k]; w is n (gated activation: 2 n)
  TensorView bias = {};                  ///< absent, or [experts, w]
  ExpertActivation activation = ExpertActivation::none;  ///< applied to product + bias
  /// Null, or fp32 factors, applied after the activation and before rounding. The factor of row r
  /// is scales[r], or scales[sources[r]] if `sources` is not null.
  const float* scales = nullptr;
  const std::int32_t* sources = nullptr;  ///< null, or [rows]: see `scales`
  TensorView out = {};                    ///< [rows, n]; rows without an expert are not written
  Device device = Device::cpu;            ///< where the tensors are
  void* stream = nullptr;                 ///< GPUs: a cudaStream_t; null: the default stream
};

/// out[r] = act(x[r] * weight_e^T + bias_e) * scale_r, for the rows of each expert e. Products are
/// summed in fp32 and rounded once; a row's bits depend on nothing but the row, its expert and its
/// scale. Weights of experts without rows are not read. Local: no other rank takes part. CPU
/// tensors: computed on the calling thread; blocking. GPU tensors: bf16 and fp16, at most 1024
/// experts, enqueued on args.stream. May be captured; a replay reads `begins` anew and must not
/// overlap with another replay of the same captured call.
/// Alignment: 16 bytes (TensorView). Traffic: none. Errors: usage (a wrong argument; a GPU
/// without kernels for it; for CPU tensors also `begins` that do not ascend and `sources` that name
/// no scale).
void grouped_gemm(const GroupedGemmArgs&);

/// The sizes and options of a layer: equal on every rank, except `inner`, `first` and `here`.
struct MoeLayer {
  DType dtype{};             ///< type of all tensors but ids, router weights and the map
  std::int64_t m = 0;        ///< largest number of tokens of a call, all ranks together
  std::int64_t hidden = 0;   ///< columns of a token
  std::int64_t inner = 0;    ///< this rank's columns of the first product's result
  std::int64_t experts = 0;  ///< number of experts of the whole layer
  std::int64_t top_k = 0;    ///< number of experts that each token chooses
  std::int64_t first = 0;    ///< this rank has the experts [first, first + here)
  std::int64_t here = 0;     ///< how many experts this rank has; 0: all
  ExpertActivation activation = ExpertActivation::swiglu;  ///< after the first product
  /// true: every rank already has all tokens and their routing, so ag_moe gathers nothing; moe_ar
  /// or moe_rs follows. false: every rank has its own tokens.
  bool replicated = false;
  /// true: router weights multiply the tokens before the first product; false: they multiply the
  /// rows after the second product.
  bool weight_on_input = false;

  bool operator==(const MoeLayer&) const = default;
};

/// A router's choices for some tokens; both arrays are dense. An id is an expert's number, or -1
/// for no choice; the weight of an id -1 is not read. A token may choose an expert twice.
struct Routing {
  const void* ids = nullptr;       ///< [tokens, top_k]
  Item type = Item::i32;           ///< type of the ids: i32 or i64
  const float* weights = nullptr;  ///< [tokens, top_k]
};

/// Size, in 32-bit words, of the map that ag_moe writes for m tokens over all ranks. Local.
/// Errors: usage (a layer or m that calls would refuse).
std::int64_t moe_map_words(const MoeLayer&, std::int64_t m);

/// Arguments of ag_moe. Tensors are dense.
struct AgMoeArgs {
  MoeLayer layer;        ///< the layer that was prepared
  std::int64_t m = 0;    ///< tokens of all ranks together
  TensorView x;          ///< [m_r, hidden], this rank's tokens; replicated: [m, hidden]
  Routing routing;       ///< choices for the tokens in x
  TensorView weight;     ///< [here * w, hidden]; w is inner (gated activation: 2 inner)
  TensorView bias = {};  ///< absent, or [here, w]
  std::int32_t* map =
      nullptr;          ///< [moe_map_words], 16-byte aligned: output that moe_rs or moe_ar takes
  TensorView out = {};  ///< [m * top_k, inner], rows sorted by expert; unused rows are not written
  TensorView gathered = {};  ///< absent (always if replicated), or [m, hidden] for all tokens
  std::span<const std::int64_t> rows =
      {};  ///< tokens of each rank; empty: an even split, with the remainder on the first ranks
  void* stream = nullptr;  ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Arguments of moe_rs and moe_ar. Tensors are dense.
struct MoeReduceArgs {
  MoeLayer layer;                     ///< the layer that ag_moe got
  std::int64_t m = 0;                 ///< tokens of all ranks together
  TensorView x;                       ///< [m * top_k, inner], as ag_moe wrote it
  const std::int32_t* map = nullptr;  ///< as ag_moe wrote it
  TensorView weight;                  ///< [here * hidden, inner]
  /// Absent, or [here, hidden]: bias of the second product. All ranks' terms are added, so only one
  /// of the ranks that share an expert may add that expert's bias.
  TensorView bias = {};
  /// Absent, or [m, hidden]: added to this rank's term of the sum (a shared expert's part, or a
  /// residual on one rank). moe_rs also takes [m_r, hidden], for this rank's tokens alone.
  TensorView add = {};
  TensorView out = {};                      ///< moe_rs: [m_r, hidden]; moe_ar: [m, hidden]
  std::span<const std::int64_t> rows = {};  ///< moe_rs: tokens of each rank; empty: as in ag_moe
  void* stream = nullptr;                   ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Allocates staging and scratch memory for this layer and smaller layers, so that calls allocate
/// nothing, except that CPU ranks pack weights in each call. May be repeated for other layers:
/// graphs stay valid, and the memory that they use is kept. Collective; local if staging is ready.
/// Memory per rank: (m + m * top_k) * hidden elements, 8 * m * top_k bytes, and what
/// prepare_collectives takes. Errors: usage (also GPUs without kernels for experts), system, peer,
/// timeout.
void prepare_moe(Communicator&, const MoeLayer&);
/// Replaces a prepare_moe that this rank cannot make: the peers get a usage error with this reason
/// instead of waiting. Collective, like the replaced call. Errors: peer, timeout.
void refuse_prepare_moe(Communicator&, const std::string& reason);

/// A layer's first half: gathers all ranks' tokens and their routing, orders the rows by (expert,
/// token, slot), and multiplies them by their experts' weights: out[row] = act(token * weight_e^T +
/// bias_e). A slot is one of a token's top_k choices. `map` says which row belongs to which (token,
/// slot). Each (token, slot) that chose an expert of this rank has one row: no padding, no dropped
/// choice. Products are summed in fp32 and rounded once; with weight_on_input the weighted tokens
/// are rounded, too. Collective (`replicated`: local). CPU ranks: blocking. GPU ranks: bf16 and
/// fp16, enqueued on args.stream; may be captured after prepare_moe; a replay reads the routing
/// anew. Alignment: 16 bytes; ids and router weights: their element size. Traffic: each rank sends
/// m_r * hidden elements and 8 or 12 bytes per choice to every other rank. Errors: usage (a wrong
/// argument, before anything is sent), peer, timeout, system. An id that names no expert is a usage
/// error on every rank: on CPU ranks before `out` is written, on GPU ranks in moe_rs or moe_ar.
void ag_moe(Communicator&, const AgMoeArgs&);

/// A layer's second half: multiplies rows by their experts' weights and, unless weight_on_input,
/// by router weights; adds each token's rows in slot order, then `add`, in fp32. Then it
/// reduce-scatters these sums: out [m_r, hidden] has this rank's tokens. Values are rounded three
/// times: each row after the products, each rank's sum for a token, and the sum over ranks (as in
/// reduce_scatter). All runs give the same bits. Collective. CPU ranks: blocking. GPU ranks:
/// enqueued on args.stream; the next call or synchronize throws errors that depend on the routing.
/// Alignment: 16 bytes. Traffic: (m - m_r) * hidden elements leave each rank. Errors: as ag_moe;
/// usage, on every rank before `out` is written, if the maps of two ranks come from different
/// routings or, on GPUs, if an id names no expert.
void moe_rs(Communicator&, const MoeReduceArgs&);

/// As moe_rs, but every rank gets the sums of all tokens: out [m, hidden], the same bits on every
/// rank. Collective. Stream and alignment: as moe_rs. Traffic: that of an all_reduce of m * hidden
/// elements. Errors: as moe_rs.
void moe_ar(Communicator&, const MoeReduceArgs&);

}  // namespace tilelace
