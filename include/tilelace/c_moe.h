/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts in the C API; c.h says how the API is used, moe.h describes the calls. */
#ifndef TILELACE_C_MOE_H
#define TILELACE_C_MOE_H
#include <stddef.h>
#include <stdint.h>

#include "tilelace/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The function applied to an expert's product: tilelace::ExpertActivation. */
typedef enum tilelace_expert_activation {
  TILELACE_EXPERT_NONE = 0,          /**< the product as it is */
  TILELACE_EXPERT_GELU = 1,          /**< GELU by the error function */
  TILELACE_EXPERT_GELU_TANH = 2,     /**< GELU by its tanh approximation */
  TILELACE_EXPERT_SILU = 3,          /**< x * sigmoid(x) */
  TILELACE_EXPERT_SWIGLU = 4,        /**< silu(gate) * up; gate rows precede up rows */
  TILELACE_EXPERT_SWIGLU_CLAMPED = 5 /**< gpt-oss's SwiGLU; gate and up rows alternate */
} tilelace_expert_activation;

/** Arguments of a product grouped by expert (tilelace/moe.h). Tensors are dense. */
typedef struct tilelace_grouped_gemm_args {
  size_t struct_size;     /**< sizeof(tilelace_grouped_gemm_args), bytes */
  tilelace_tensor x;      /**< [rows, k] */
  const int32_t* begins;  /**< [experts + 1]: first row of each expert, then number of rows */
  int64_t experts;        /**< number of experts */
  tilelace_tensor weight; /**< [experts * w, k]; w: n, or 2 n if gated */
  tilelace_tensor bias;   /**< all 0: none; else [experts, w] */
  int32_t activation;     /**< a tilelace_expert_activation */
  const float* scales;    /**< NULL, or factors: scales[r], or scales[sources[r]], for row r */
  const int32_t* sources; /**< NULL, or [rows]: indices into scales */
  tilelace_tensor out;    /**< [rows, n] */
  int32_t device;         /**< a tilelace_device: where the tensors are */
  void* stream;           /**< GPUs: a cudaStream_t; NULL: the default stream */
} tilelace_grouped_gemm_args;

/** A layer of experts, as tilelace::MoeLayer: equal on every rank, except inner, first and here. */
typedef struct tilelace_moe_layer {
  size_t struct_size;      /**< sizeof(tilelace_moe_layer), bytes */
  int32_t dtype;           /**< a tilelace_dtype */
  int32_t activation;      /**< a tilelace_expert_activation, of the first product */
  int64_t m;               /**< the most tokens of a call, of all ranks together */
  int64_t hidden;          /**< columns of a token */
  int64_t inner;           /**< this rank's columns between the two products */
  int64_t experts;         /**< experts of the whole layer, on all ranks together */
  int64_t top_k;           /**< experts that each token chooses */
  int64_t first;           /**< number of this rank's first expert */
  int64_t here;            /**< how many experts this rank has; 0: all */
  int32_t replicated;      /**< boolean: every rank has all tokens */
  int32_t weight_on_input; /**< boolean: router weights are applied to tokens */
} tilelace_moe_layer;

/** Arguments of a layer's first half (tilelace/moe.h). Tensors are dense. */
typedef struct tilelace_ag_moe_args {
  size_t struct_size;              /**< sizeof(tilelace_ag_moe_args), bytes */
  const tilelace_moe_layer* layer; /**< as prepared */
  int64_t m;                       /**< tokens of all ranks together */
  tilelace_tensor x;               /**< [m_r, hidden]; replicated: [m, hidden] */
  const void* ids;                 /**< [tokens of x, top_k]: an expert, or -1 */
  int32_t id_type;                 /**< TILELACE_ITEM_I32 or TILELACE_ITEM_I64; 0 is an error */
  const float* weights;            /**< [tokens of x, top_k] */
  tilelace_tensor weight;          /**< [here * w, hidden]; w: inner, or 2 inner if gated */
  tilelace_tensor bias;            /**< all 0: none; else [here, w] */
  int32_t* map;                    /**< written; tilelace_moe_map_words says its size */
  tilelace_tensor out;             /**< [m * top_k, inner] */
  tilelace_tensor gathered;        /**< all 0: not wanted; else [m, hidden] */
  const int64_t* rows;             /**< tokens of each rank; NULL: even, remainder on first ranks */
  size_t num_rows;                 /**< 0, or the number of ranks */
  void* stream;                    /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_ag_moe_args;

/** Arguments of a layer's second half (tilelace/moe.h). Tensors are dense. */
typedef struct tilelace_moe_reduce_args {
  size_t struct_size;              /**< sizeof(tilelace_moe_reduce_args), bytes */
  const tilelace_moe_layer* layer; /**< the layer of the first half */
  int64_t m;                       /**< tokens of all ranks together */
  tilelace_tensor x;               /**< [m * top_k, inner], as the first half wrote it */
  const int32_t* map;              /**< as the first half wrote it */
  tilelace_tensor weight;          /**< [here * hidden, inner] */
  tilelace_tensor bias;            /**< all 0: none; else [here, hidden] */
  tilelace_tensor add;             /**< all 0: none; else [m, hidden]; moe_rs also [m_r, hidden] */
  tilelace_tensor out;             /**< moe_rs [m_r, hidden]; moe_ar [m, hidden] */
  const int64_t* rows;             /**< moe_rs: tokens of each rank; NULL: as in ag_moe */
  size_t num_rows;                 /**< 0, or the number of ranks */
  void* stream;                    /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_moe_reduce_args;

/** out[r] = act(x[r] * weight_e^T + bias_e) * scale, for the rows of each expert e. Local. CPU
 * tensors: blocking. GPU tensors: enqueued on the stream; replays of one captured call must not
 * overlap. Alignment: 16 bytes. Traffic: none. Errors: usage. */
tilelace_status tilelace_grouped_gemm(const tilelace_grouped_gemm_args* args);
/** Allocates the staging and scratch memory that this layer and all smaller ones need. Collective.
 * Errors: usage, system, peer, timeout. */
tilelace_status tilelace_prepare_moe(tilelace_communicator* communicator,
                                     const tilelace_moe_layer* layer);
/** *words = size, in 32-bit words, of the map of a call with m tokens. Local. Errors: usage. */
tilelace_status tilelace_moe_map_words(const tilelace_moe_layer* layer, int64_t m, int64_t* words);
/** Gathers tokens and their routing, orders the rows by expert and multiplies them by the weights.
 * Collective. CPU ranks: blocking. GPU ranks: enqueued on the stream. Alignment: 16 bytes.
 * Traffic: (ranks - 1) * m_r * hidden elements leave each rank. Errors: usage, system, peer,
 * timeout. */
tilelace_status tilelace_ag_moe(tilelace_communicator* communicator,
                                const tilelace_ag_moe_args* args);
/** Multiplies the rows by the second weights, adds the rows of each token, and scatters the sums
 * over the ranks. Collective. Stream and alignment: as tilelace_ag_moe. Traffic: (m - m_r) * hidden
 * elements leave each rank. Errors: as tilelace_ag_moe. */
tilelace_status tilelace_moe_rs(tilelace_communicator* communicator,
                                const tilelace_moe_reduce_args* args);
/** As tilelace_moe_rs, but every rank gets the sums of all tokens. Collective. Stream and
 * alignment: as tilelace_ag_moe. Traffic: that of tilelace_all_reduce of m * hidden elements.
 * Errors: as tilelace_ag_moe. */
tilelace_status tilelace_moe_ar(tilelace_communicator* communicator,
                                const tilelace_moe_reduce_args* args);

#ifdef __cplusplus
}
#endif
#endif
