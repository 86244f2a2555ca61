/* SPDX-License-Identifier: Apache-2.0 */
/* The C API: handles and status codes over the C++ API. The C++ headers describe the calls, which
 * of them are collective, and their shapes, alignment and traffic (communicator.h, ops.h, plan.h,
 * collectives.h, all_reduce_norm.h, moe.h).
 * A whole program: examples/ag_gemm.c. This header includes the others of the C API: c_types.h and
 * c_moe.h.
 *
 * In a struct that has a struct_size, first set all bytes to 0, then struct_size to the struct's
 * sizeof, then the fields. A program that was compiled with an older header keeps working: the
 * library uses defaults for fields that older structs lack. A program with a newer header works,
 * but a call that uses a new field is a usage error. tilelace_tensor never changes.
 *
 * Only the C++ API has: tune(); PlanOptions (here the planner chooses how calls run, and
 * tilelace_query_plan prints its plan); plans without a communicator (make_plan); the options
 * `checked` and `multicast`, from_sockets, machine() and findings(), a limit for synchronize other
 * than 300 s, check_call and refuse, gemm_only and collective_only, describe_collective and
 * describe_all_reduce_norm. */
#ifndef TILELACE_C_H
#define TILELACE_C_H
#include <stddef.h>
#include <stdint.h>

#include "tilelace/c_moe.h"
#include "tilelace/c_types.h"
#include "tilelace/version.h"

/** Version of this header; grows with every field and function. See tilelace_api_version(). */
#define TILELACE_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/** The ops of tilelace/ops.h; docs/ops.md has their operands. */
typedef enum tilelace_op {
  TILELACE_AG_GEMM = 0, /**< all-gather, then GEMM */
  TILELACE_GEMM_RS = 1, /**< GEMM, then reduce-scatter */
  TILELACE_GEMM_AR = 2  /**< GEMM, then all-reduce */
} tilelace_op;

/** All zeros: the defaults, which are workers by the number of cores, 10 s timeout, no emulated
 * link and CPU ranks. */
typedef struct tilelace_options {
  size_t struct_size;      /**< sizeof(tilelace_options), bytes */
  int32_t workers;         /**< CPU ranks: compute threads per rank; 0: cores / ranks */
  int32_t max_workers;     /**< limit of workers (GPU ranks: of SMs for calls); 0: no limit */
  double timeout_s;        /**< limit of every wait, seconds; 0: 10 */
  double link_bytes_per_s; /**< CPU ranks: emulated wire, bytes per second; 0: none */
  double link_latency_s;   /**< CPU ranks: emulated wire, seconds per transfer */
  int32_t device;          /**< a tilelace_device */
  int32_t gpu;             /**< 0: chosen by rank or launcher; g > 0: device g - 1 */
  /** GPU ranks: the file of a table of measured plans, or "off" for no table. NULL: the file that
   * TILELACE_TUNING names, or else the installed tables. */
  const char* tuning;
  double autotune_seconds; /**< GPU ranks: time in which a first call may tune; 0: off */
  const char* cache;       /**< GPU ranks: a folder that keeps tuned plans; NULL: none */
  int32_t deterministic;   /**< boolean; needs autotune_seconds 0 */
} tilelace_options;

/** One problem of tilelace_prepare. num_rows 0: m is split evenly. */
typedef struct tilelace_problem {
  size_t struct_size; /**< sizeof(tilelace_problem), bytes */
  int32_t op;         /**< a tilelace_op */
  /** m: the most rows that a call will have, over all ranks; k: length of this rank's sum. */
  int64_t m, k;
  int32_t dtype;      /**< a tilelace_dtype */
  int32_t activation; /**< a tilelace_activation */
  /** Booleans. bias: calls add a bias; return_gathered: ag_gemm also returns the gathered a. */
  int32_t bias, return_gathered;
  int32_t residual;               /**< boolean; gemm_rs and gemm_ar */
  const tilelace_tensor* weights; /**< num_weights tensors [n_i, k] */
  size_t num_weights;             /**< ag_gemm: one or more; else one */
  const int64_t* rows;            /**< rows of each rank; NULL: even, remainder on first ranks */
  size_t num_rows;                /**< 0, or the number of ranks */
} tilelace_problem;

/** Arguments of tilelace_ag_gemm; every tensor has the same dtype. */
typedef struct tilelace_ag_gemm_args {
  size_t struct_size;             /**< sizeof(tilelace_ag_gemm_args), bytes */
  int64_t m;                      /**< rows of all ranks together */
  tilelace_tensor a;              /**< [m_r, k], this rank's rows */
  const tilelace_tensor* weights; /**< each [n_i, k], as prepared */
  size_t num_weights;             /**< one or more */
  const tilelace_tensor* bias;    /**< NULL, or one [1, n_i] per weight */
  const tilelace_tensor* out;     /**< each [m, n_i]; swiglu: one */
  int32_t activation;             /**< a tilelace_activation */
  tilelace_tensor gathered;       /**< [m, k]; data NULL: not wanted */
  const int64_t* rows;            /**< rows of each rank; NULL: even split */
  size_t num_rows;                /**< 0, or the number of ranks */
  void* stream;                   /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_ag_gemm_args;

/** Arguments of tilelace_gemm_rs and tilelace_gemm_ar; every tensor has the same dtype. */
typedef struct tilelace_gemm_reduce_args {
  size_t struct_size; /**< sizeof(tilelace_gemm_reduce_args), bytes */
  int64_t m;          /**< rows of x */
  /** x [m, k], weight [n, k], bias [1, n] or absent; out: gemm_rs [m_r, n], gemm_ar [m, n]. */
  tilelace_tensor x, weight, bias, out;
  int32_t activation;       /**< a tilelace_activation; not swiglu */
  const int64_t* rows;      /**< gemm_rs: rows of each rank; NULL: even split */
  size_t num_rows;          /**< 0, or the number of ranks */
  void* stream;             /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  tilelace_tensor residual; /**< all 0: none; else like out, added once to the sum */
} tilelace_gemm_reduce_args;

/** An operand of an op by its name in docs/ops.md. */
typedef struct tilelace_operand {
  const char* name;       /**< "a", "x", "weight", "bias", "residual", "out", "gathered" */
  tilelace_tensor tensor; /**< shaped as docs/ops.md says */
} tilelace_operand;

/** A call of any op. Operands may be in any order; the i-th weight, bias and out form a group. */
typedef struct tilelace_call_args {
  size_t struct_size;               /**< sizeof(tilelace_call_args), bytes */
  const char* op;                   /**< "ag_gemm", "gemm_rs", "gemm_ar" */
  int64_t m;                        /**< rows of all ranks together */
  const tilelace_operand* operands; /**< inputs and results */
  size_t num_operands;              /**< length of operands */
  int32_t activation;               /**< a tilelace_activation */
  const int64_t* rows;              /**< rows of each rank; NULL: even split */
  size_t num_rows;                  /**< 0, or the number of ranks */
  void* stream;                     /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_call_args;

/** How all_reduce and reduce_scatter combine elements. */
typedef enum tilelace_reduction {
  TILELACE_SUM = 0, /**< sum in rank order, in fp32 or in the integer's type */
  TILELACE_AVG = 1, /**< the sum, divided by the number of ranks; floats only */
  TILELACE_MAX = 2  /**< the largest */
} tilelace_reduction;

/** Arguments of a collective, as tilelace::CollectiveArgs (tilelace/collectives.h), which says the
 * extents of in and out. lines, shots, workers, chunk: 0 leaves the choice to the planner. */
typedef struct tilelace_collective_args {
  size_t struct_size;    /**< sizeof(tilelace_collective_args), bytes */
  const void* in;        /**< contiguous elements, aligned to one element */
  void* out;             /**< contiguous elements, aligned like in */
  int32_t item;          /**< a tilelace_item */
  int32_t reduction;     /**< a tilelace_reduction; all_reduce and reduce_scatter */
  const int64_t* counts; /**< elements: one entry, or one per rank */
  size_t num_counts;     /**< 1, or the number of ranks */
  const int64_t* takes;  /**< all_to_all: elements from each rank; one entry: from every rank */
  size_t num_takes;      /**< all_to_all: 1, or the number of ranks */
  void* stream;          /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines;         /**< 1: lines, small units that carry their flag; -1: chunks */
  int32_t shots;         /**< all_reduce: 1, one-shot; 2, two-shot */
  int32_t workers;       /**< GPU ranks: limit of CTAs */
  int64_t chunk;         /**< bytes that a worker moves at a time */
} tilelace_collective_args;

/** Whether all_reduce_norm quantises the normalised rows to e4m3, and with which scales. */
typedef enum tilelace_norm_quant {
  TILELACE_QUANT_NONE = 0,  /**< no quantisation */
  TILELACE_QUANT_TOKEN = 1, /**< with one scale per row */
  TILELACE_QUANT_BLOCK = 2, /**< with one scale per 128 columns of a row */
  TILELACE_QUANT_GIVEN = 3  /**< with one scale, which is read */
} tilelace_norm_quant;

/** Arguments of tilelace_all_reduce_norm (tilelace/all_reduce_norm.h). lines, workers, chunk: 0
 * leaves the choice to the planner. */
typedef struct tilelace_all_reduce_norm_args {
  size_t struct_size;   /**< sizeof(tilelace_all_reduce_norm_args), bytes */
  const void* x;        /**< [m, n] */
  const void* residual; /**< [m, n]; NULL: none */
  const void* weight;   /**< [n] */
  void* out;            /**< [m, n], the next residual; NULL: not wanted */
  void* normed;         /**< [m, n]; NULL: only quantised is wanted */
  void* quantised;      /**< [m, n] e4m3 bytes */
  float* scales;        /**< written: [m] for token, [m, n / 128] for block; read: [1] for given */
  int64_t m;            /**< rows */
  int64_t n;            /**< columns: a multiple of 8 (block: of 128), at most 16384 */
  float eps;            /**< added to the mean square; there is no default: 0 means 0 */
  int32_t item;         /**< a tilelace_item: bf16 or fp16 */
  int32_t quant;        /**< a tilelace_norm_quant */
  void* stream;         /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines;        /**< 1: lines, small units that carry their flag; -1: chunks */
  int32_t workers;      /**< GPU ranks: limit of CTAs */
  int64_t chunk;        /**< bytes that a worker moves at a time: whole rows */
} tilelace_all_reduce_norm_args;

/** Memory that all ranks can reach: tilelace::SymmetricBuffer. */
typedef struct tilelace_buffer tilelace_buffer;
/** Memory for this rank's tensors: tilelace::DeviceBuffer. */
typedef struct tilelace_device_buffer tilelace_device_buffer;

/** "major.minor.patch" of the running library; TILELACE_VERSION_STRING is the header's version. */
const char* tilelace_version(void);
/** TILELACE_API_VERSION of the header that the library was compiled with. */
int32_t tilelace_api_version(void);
/** Text of this thread's last error. Never NULL. Print or copy the text before the thread's next
 * call, which invalidates it. */
const char* tilelace_last_error(void);
/** "ok", "usage", "system", "peer" or "timeout"; "unknown" for another number. Never NULL. */
const char* tilelace_status_name(tilelace_status status);

/** Makes a group whose ranks are threads of this process. Fills out[0 .. ranks - 1], one per rank.
 * options may be NULL, also in the functions below. Local. Errors: usage, system. */
tilelace_status tilelace_communicator_threads(int32_t ranks, const tilelace_options* options,
                                              tilelace_communicator** out);
/** Joins this process, as one rank, to a group of one user's processes on one host. They meet in
 * `directory`, which is made if absent. Collective. Errors: usage, system, timeout, peer. */
tilelace_status tilelace_communicator_process(int32_t rank, int32_t ranks, const char* directory,
                                              const tilelace_options* options,
                                              tilelace_communicator** out);
/** Joins this process as the rank that torchrun, mpirun or `tilelace launch` assigned to it.
 * Collective. Errors: usage (no launcher, several hosts), system, timeout, peer. */
tilelace_status tilelace_communicator_launched(const tilelace_options* options,
                                               tilelace_communicator** out);
/** Makes a communicator over the listed ranks, numbered in the order of the list, with nothing
 * prepared. Collective over the listed ranks only. Errors: usage, system, peer, timeout. */
tilelace_status tilelace_communicator_subgroup(tilelace_communicator* communicator,
                                               const int32_t* ranks, size_t num_ranks,
                                               tilelace_communicator** out);
/** Ends this rank's membership and frees the handle. Local. NULL is allowed. */
void tilelace_communicator_destroy(tilelace_communicator* communicator);
/** *rank: this member's number, 0 to size - 1. Local. Errors: usage (NULL). */
tilelace_status tilelace_communicator_rank(const tilelace_communicator* communicator,
                                           int32_t* rank);
/** *size: the number of ranks in the group. Local. Errors: usage (NULL). */
tilelace_status tilelace_communicator_size(const tilelace_communicator* communicator,
                                           int32_t* size);
/** Waits until every rank has made this call. On GPU ranks only the threads wait, not the streams.
 * Collective. Errors: peer, timeout. */
tilelace_status tilelace_communicator_barrier(tilelace_communicator* communicator);
/** GPU ranks: waits at most 300 s for the work in the stream (a cudaStream_t) and returns the
 * errors of that work. CPU ranks: returns at once. Local. Errors: usage, system, peer, timeout. */
tilelace_status tilelace_synchronize(tilelace_communicator* communicator, void* stream);
/** Ends every wait of the group, on every rank, with an error of kind peer. Local, any thread. NULL
 * is allowed. */
void tilelace_communicator_abort(tilelace_communicator* communicator);
/** Allocates staging for these problems and packs the weights, as Communicator::prepare. Replaces
 * what was prepared before. Collective; ranks list the same problems. Errors: usage, system,
 * peer, timeout. */
tilelace_status tilelace_prepare(tilelace_communicator* communicator,
                                 const tilelace_problem* problems, size_t num_problems);
/** As tilelace_prepare, but keeps what was prepared before. Collective. Errors: the same. */
tilelace_status tilelace_prepare_more(tilelace_communicator* communicator,
                                      const tilelace_problem* problems, size_t num_problems);

/** out_i [m, n_i] = act(A [m, k] * weight_i^T + bias_i) on every rank; A joins all ranks' `a`.
 * Collective. CPU ranks: blocking. GPU ranks: enqueued on args->stream. Alignment: 16 bytes
 * (tilelace_tensor). Traffic: (ranks - 1) * m_r * k elements leave each rank. More in
 * tilelace/ops.h, ag_gemm. Errors: usage, peer, timeout; GPU ranks: the next call or
 * tilelace_synchronize returns errors that depend on peers. */
tilelace_status tilelace_ag_gemm(tilelace_communicator* communicator,
                                 const tilelace_ag_gemm_args* args);
/** out [m_r, n]: this rank's rows of act(S + bias), or of S + bias + residual, where S is the sum
 * over ranks of x [m, k] * weight^T. Collective. Stream, alignment and errors: as tilelace_ag_gemm.
 * Traffic: (m - m_r) * n partials leave each rank. More in tilelace/ops.h, gemm_rs. */
tilelace_status tilelace_gemm_rs(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
/** out [m, n]: as tilelace_gemm_rs, but every rank gets all m rows, bitwise equal. Collective.
 * Stream, alignment and errors: as tilelace_ag_gemm. Traffic: (ranks - 1) / ranks * m * n partials
 * and as many results leave each rank. More in tilelace/ops.h, gemm_ar. */
tilelace_status tilelace_gemm_ar(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
/** Calls the op that args->op names, as the three functions above do. Collective. Errors: as
 * tilelace_ag_gemm. */
tilelace_status tilelace_call(tilelace_communicator* communicator, const tilelace_call_args* args);

/** Allocates the staging of collectives, once. Without this call the first collective allocates
 * the staging and must not be captured. Collective.
 * Errors: usage, system, peer, timeout. */
tilelace_status tilelace_prepare_collectives(tilelace_communicator* communicator);
/** out [count] = the sum (or avg, max) over ranks of `in` [count], bitwise equal on every rank.
 * Collective. CPU ranks: blocking. GPU ranks: enqueued on args->stream. Alignment: an element; 16
 * bytes are faster. Traffic: tilelace/collectives.h. Errors: usage, system, peer, timeout; GPU
 * ranks: the next call or tilelace_synchronize returns errors that depend on peers. */
tilelace_status tilelace_all_reduce(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** out [sum of counts] = every rank's `in` [counts[rank]], in rank order. Collective. Stream,
 * alignment, traffic and errors: as tilelace_all_reduce. */
tilelace_status tilelace_all_gather(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** out [counts[rank]] = this rank's part of the sum over ranks of `in` [sum of counts]. Collective.
 * Stream, alignment, traffic and errors: as tilelace_all_reduce. */
tilelace_status tilelace_reduce_scatter(tilelace_communicator* communicator,
                                        const tilelace_collective_args* args);
/** Sends each rank its part of `in` [sum of counts]; out [sum of takes] = the parts received, in
 * rank order. Collective. Stream, alignment, traffic and errors: as tilelace_all_reduce. */
tilelace_status tilelace_all_to_all(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** Adds x of all ranks and the residual, then normalises each row. Results are bitwise equal on
 * every rank. Collective. Stream and errors: as tilelace_all_reduce. Alignment: 16 bytes, scales 4.
 * Traffic: (ranks - 1) * m * n elements leave each rank. More in tilelace/all_reduce_norm.h. */
tilelace_status tilelace_all_reduce_norm(tilelace_communicator* communicator,
                                         const tilelace_all_reduce_norm_args* args);

/** Writes the plan and the planner's reason as text: at most size - 1 bytes and a final 0, or
 * nothing if size is 0. *needed (may be NULL): the length in bytes of the whole text, without the
 * 0. Local. Errors: usage. */
tilelace_status tilelace_query_plan(const tilelace_communicator* communicator,
                                    const tilelace_problem* problem, char* text, size_t size,
                                    size_t* needed);

/** Allocates zero-filled memory of equal size on every rank. Every rank can read and write all
 * parts. Collective. Errors: usage (sizes differ), system, peer, timeout. */
tilelace_status tilelace_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                       tilelace_buffer** out);
/** Frees this rank's handle; the memory is freed with the last handle. All work on the memory must
 * have finished. Local. NULL is allowed. */
void tilelace_buffer_destroy(tilelace_buffer* buffer);
/** *address: where this rank reaches the part of `rank`. Local. Errors: usage (no such rank). */
tilelace_status tilelace_buffer_peer(const tilelace_buffer* buffer, int32_t rank, void** address);

/** Allocates zero-filled memory for the rank's tensors: on its GPU, or on the host for CPU ranks.
 * Local. Errors: usage, system. */
tilelace_status tilelace_device_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                              tilelace_device_buffer** out);
/** Frees the buffer. All work on it must have finished. Local. NULL is allowed. */
void tilelace_device_buffer_destroy(tilelace_device_buffer* buffer);
/** The buffer's first byte, aligned to 256 bytes; NULL if `buffer` is NULL. Local. */
void* tilelace_device_buffer_data(const tilelace_device_buffer* buffer);
/** Copies host memory into the buffer, at byte `offset`. Local, blocking; does not wait for work in
 * the caller's streams. Errors: usage (beyond the buffer), system. */
tilelace_status tilelace_device_buffer_upload(tilelace_device_buffer* buffer, const void* from,
                                              size_t bytes, size_t offset);
/** Copies the buffer, from byte `offset`, into host memory. Local, blocking; call
 * tilelace_synchronize before it. Errors: usage (beyond the buffer), system. */
tilelace_status tilelace_device_buffer_download(const tilelace_device_buffer* buffer, void* to,
                                                size_t bytes, size_t offset);

#ifdef __cplusplus
}
#endif
#endif
