/* SPDX-License-Identifier: Apache-2.0 */
/* The C API: the C++ one with handles and status codes. What calls mean, which are collective,
 * their shapes, alignment and traffic stand in the C++ headers (communicator.h, ops.h, plan.h,
 * collectives.h, all_reduce_norm.h).
 * A whole program: examples/ag_gemm.c.
 *
 * Structs with a struct_size: set all of it to 0, then struct_size to its sizeof, then what is
 * wanted. A program that was compiled with an older header goes on working: what its structs lack
 * has its default. One with a newer header does where it uses nothing new; if not, the call is a
 * usage error. tilelace_tensor stays as it is.
 *
 * Only in C++: tune(), PlanOptions (calls run as the planner says; tilelace_query_plan prints the
 * plan) and plans without a communicator (make_plan), the options `checked` and `multicast`,
 * from_sockets, machine() and findings(), another bound of synchronize than 300 s, check_call and
 * refuse, the parts of a call alone (gemm_only, collective_only), describe_collective and
 * describe_all_reduce_norm. */
#ifndef TILELACE_C_H
#define TILELACE_C_H
#include <stddef.h>
#include <stdint.h>

/** Of this header; grows with every field and function. The library's: tilelace_api_version(). */
#define TILELACE_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/** 0, or the kind of the error whose text tilelace_last_error() returns. */
typedef enum tilelace_status {
  TILELACE_OK = 0,     /**< the call did what it says */
  TILELACE_USAGE = 1,  /**< a wrong argument, or ranks that disagree */
  TILELACE_SYSTEM = 2, /**< the machine: memory, sockets, the GPU */
  TILELACE_PEER = 3,   /**< another rank died or gave up */
  TILELACE_TIMEOUT = 4 /**< a wait reached its bound */
} tilelace_status;

/** Element type of a tensor; GPU ranks take the first two. Sums run in fp32. */
typedef enum tilelace_dtype {
  TILELACE_BF16 = 0, /**< bfloat16, 2 bytes */
  TILELACE_FP16 = 1, /**< IEEE half, 2 bytes */
  TILELACE_FP32 = 2  /**< IEEE single, 4 bytes; CPU ranks only */
} tilelace_dtype;

/** Where a rank's tensors are: TILELACE_CPU, or TILELACE_CUDA for a GPU a rank. */
typedef enum tilelace_device { TILELACE_CPU = 0, TILELACE_CUDA = 1 } tilelace_device;

/** The ops of tilelace/ops.h; docs/ops.md has their operands. */
typedef enum tilelace_op {
  TILELACE_AG_GEMM = 0, /**< all-gather, then GEMM */
  TILELACE_GEMM_RS = 1, /**< GEMM, then reduce-scatter */
  TILELACE_GEMM_AR = 2  /**< GEMM, then all-reduce */
} tilelace_op;

/** Applied to the fp32 result, after the bias and before the one rounding. */
typedef enum tilelace_activation {
  TILELACE_ACT_NONE = 0,      /**< the result as it is */
  TILELACE_ACT_GELU = 1,      /**< GELU by the error function */
  TILELACE_ACT_GELU_TANH = 2, /**< GELU by its tanh approximation */
  TILELACE_ACT_SILU = 3,      /**< x * sigmoid(x) */
  TILELACE_ACT_SWIGLU = 4     /**< ag_gemm with two weights: silu(gate) * up, one output */
} tilelace_activation;

/** A row-major matrix [rows, cols] that the caller owns. data NULL: absent, or empty.
 * Alignment: data and the bytes of a stride are multiples of 16. */
typedef struct tilelace_tensor {
  void* data;    /**< the first element; GPU ranks: device memory */
  int32_t dtype; /**< a tilelace_dtype */
  /** Extents in elements; stride: elements from one row to the next, at least cols. */
  int64_t rows, cols, stride;
} tilelace_tensor;

/** Zeros are the defaults: workers by cores, timeout 10 s, no emulated link, CPU ranks. */
typedef struct tilelace_options {
  size_t struct_size;      /**< sizeof(tilelace_options), bytes */
  int32_t workers;         /**< CPU ranks: compute threads a rank; 0: cores / ranks */
  int32_t max_workers;     /**< most workers; GPU ranks: multiprocessors for calls; 0: no limit */
  double timeout_s;        /**< bound of every wait, seconds; 0: 10 */
  double link_bytes_per_s; /**< CPU ranks: emulated wire, bytes per second; 0: none */
  double link_latency_s;   /**< CPU ranks: emulated wire, seconds a transfer */
  int32_t device;          /**< a tilelace_device */
  int32_t gpu;             /**< 0: chosen by rank or launcher; g: the device g - 1 */
  /** GPU ranks: a table of measured plans as a file, "off" for none; NULL: TILELACE_TUNING's, or
   * those that came with the library. */
  const char* tuning;
  double autotune_seconds; /**< GPU ranks: a problem's first call may time plans for it; 0: off */
  const char* cache;       /**< GPU ranks: a folder that keeps what was tuned; NULL: none */
  int32_t deterministic;   /**< boolean; refuses autotune_seconds */
} tilelace_options;

/** One entry of prepare; num_rows 0: m split evenly. */
typedef struct tilelace_problem {
  size_t struct_size; /**< sizeof(tilelace_problem), bytes */
  int32_t op;         /**< a tilelace_op */
  /** m: rows of all ranks together, the most that calls will have; k: terms of this rank. */
  int64_t m, k;
  int32_t dtype;      /**< a tilelace_dtype */
  int32_t activation; /**< a tilelace_activation */
  /** Booleans. bias: one is added; return_gathered: ag_gemm, the gathered a is a result, too. */
  int32_t bias, return_gathered;
  int32_t residual;               /**< boolean; gemm_rs and gemm_ar */
  const tilelace_tensor* weights; /**< num_weights of [n_i, k] */
  size_t num_weights;             /**< ag_gemm: one or more; else one */
  const int64_t* rows;            /**< of every rank's shard; NULL: even split, remainder first */
  size_t num_rows;                /**< 0, or the number of ranks */
} tilelace_problem;

/** Arguments of tilelace_ag_gemm; every tensor has the same dtype. */
typedef struct tilelace_ag_gemm_args {
  size_t struct_size;             /**< sizeof(tilelace_ag_gemm_args), bytes */
  int64_t m;                      /**< rows of all ranks together */
  tilelace_tensor a;              /**< [m_r, k], this rank's rows */
  const tilelace_tensor* weights; /**< each [n_i, k], as prepared */
  size_t num_weights;             /**< one or more */
  const tilelace_tensor* bias;    /**< NULL, or one [1, n_i] a weight */
  const tilelace_tensor* out;     /**< each [m, n_i]; swiglu: one */
  int32_t activation;             /**< a tilelace_activation */
  tilelace_tensor gathered;       /**< [m, k]; data NULL: not wanted */
  const int64_t* rows;            /**< of every rank; NULL: even split */
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
  const int64_t* rows;      /**< gemm_rs: of every rank; NULL: even split */
  size_t num_rows;          /**< 0, or the number of ranks */
  void* stream;             /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  tilelace_tensor residual; /**< all 0: none; else like out, added once to the sum */
} tilelace_gemm_reduce_args;

/** An operand of an op by its name in docs/ops.md. */
typedef struct tilelace_operand {
  const char* name;       /**< "a", "x", "weight", "bias", "residual", "out", "gathered" */
  tilelace_tensor tensor; /**< of the shape that the op's row has */
} tilelace_operand;

/** A call of any op; operands in any order, several of one name in theirs. */
typedef struct tilelace_call_args {
  size_t struct_size;               /**< sizeof(tilelace_call_args), bytes */
  const char* op;                   /**< "ag_gemm", "gemm_rs", "gemm_ar" */
  int64_t m;                        /**< rows of all ranks together */
  const tilelace_operand* operands; /**< results, too */
  size_t num_operands;              /**< operands that there are */
  int32_t activation;               /**< a tilelace_activation */
  const int64_t* rows;              /**< of every rank; NULL: even split */
  size_t num_rows;                  /**< 0, or the number of ranks */
  void* stream;                     /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_call_args;

/** Element type of a collective. One that only moves takes any type of the same width. */
typedef enum tilelace_item {
  TILELACE_ITEM_BF16 = 0, /**< bfloat16, 2 bytes */
  TILELACE_ITEM_FP16 = 1, /**< IEEE half, 2 bytes */
  TILELACE_ITEM_FP32 = 2, /**< IEEE single, 4 bytes */
  TILELACE_ITEM_I32 = 3,  /**< int32_t */
  TILELACE_ITEM_I64 = 4,  /**< int64_t */
  TILELACE_ITEM_U8 = 5    /**< uint8_t */
} tilelace_item;

/** How all_reduce and reduce_scatter combine elements. */
typedef enum tilelace_reduction {
  TILELACE_SUM = 0, /**< in fp32, or in the integer's type; in rank order */
  TILELACE_AVG = 1, /**< the sum, divided by the number of ranks; floats only */
  TILELACE_MAX = 2  /**< the largest */
} tilelace_reduction;

/** Arguments of a collective, as tilelace::CollectiveArgs (tilelace/collectives.h), which says the
 * extents of in and out. lines, shots, workers, chunk: 0 leaves the choice to the planner. */
typedef struct tilelace_collective_args {
  size_t struct_size;    /**< sizeof(tilelace_collective_args), bytes */
  const void* in;        /**< elements one after the other, aligned to an element */
  void* out;             /**< the same */
  int32_t item;          /**< a tilelace_item */
  int32_t reduction;     /**< a tilelace_reduction; all_reduce and reduce_scatter */
  const int64_t* counts; /**< elements: one, or one a rank */
  size_t num_counts;     /**< 1, or the number of ranks */
  const int64_t* takes;  /**< all_to_all: elements from each rank; one: the same from all */
  size_t num_takes;      /**< all_to_all: 1, or the number of ranks */
  void* stream;          /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines;         /**< 1: units that carry the call's number; -1: chunks */
  int32_t shots;         /**< all_reduce: 1, every rank adds all; 2, owners add and send the sum */
  int32_t workers;       /**< GPU ranks: CTAs at most */
  int64_t chunk;         /**< bytes that a worker moves at a time */
} tilelace_collective_args;

/** What all_reduce_norm quantises to e4m3, and by which scale. */
typedef enum tilelace_norm_quant {
  TILELACE_QUANT_NONE = 0,  /**< nothing */
  TILELACE_QUANT_TOKEN = 1, /**< by a scale a row */
  TILELACE_QUANT_BLOCK = 2, /**< by a scale for 128 columns of a row */
  TILELACE_QUANT_GIVEN = 3  /**< by one scale, which is read */
} tilelace_norm_quant;

/** all_reduce, residual and RMSNorm (tilelace/all_reduce_norm.h). Of how it runs 0 is: as the
 * planner says. */
typedef struct tilelace_all_reduce_norm_args {
  size_t struct_size;   /**< sizeof(tilelace_all_reduce_norm_args), bytes */
  const void* x;        /**< [m, n] */
  const void* residual; /**< [m, n]; NULL: none */
  const void* weight;   /**< [n] */
  void* out;            /**< [m, n], the next residual; NULL: not wanted */
  void* normed;         /**< [m, n]; NULL: only what is quantised is wanted */
  void* quantised;      /**< [m, n] e4m3 bytes */
  float* scales;        /**< token [m], block [m, n / 128], given [1] */
  int64_t m;            /**< rows */
  int64_t n;            /**< columns: a multiple of 8, at most 16384; block: of 128 */
  float eps;            /**< as it stands: 0 is 0 */
  int32_t item;         /**< a tilelace_item: bf16 or fp16 */
  int32_t quant;        /**< a tilelace_norm_quant */
  void* stream;         /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines;        /**< 1: units that carry the call's number; -1: chunks */
  int32_t workers;      /**< GPU ranks: CTAs at most */
  int64_t chunk;        /**< bytes that a worker moves at a time: whole rows */
} tilelace_all_reduce_norm_args;

/** A rank's membership in a group: tilelace::Communicator. One thread at a time. */
typedef struct tilelace_communicator tilelace_communicator;
/** Memory that all ranks reach: tilelace::SymmetricBuffer. */
typedef struct tilelace_buffer tilelace_buffer;
/** Memory where this rank's tensors are: tilelace::DeviceBuffer. */
typedef struct tilelace_device_buffer tilelace_device_buffer;

/** "major.minor.patch" of the library. */
const char* tilelace_version(void);
/** TILELACE_API_VERSION of the header that the library was compiled with. */
int32_t tilelace_api_version(void);
/** Text of this thread's last error. Never NULL. Valid until the thread's next call: print it, or
 * copy it, before that. */
const char* tilelace_last_error(void);
/** "ok", "usage", "system", "peer" or "timeout"; "unknown" for another number. Never NULL. */
const char* tilelace_status_name(tilelace_status status);

/** All ranks of a group as members of this process, one for each thread that will call. Fills
 * out[0 .. ranks - 1]. options may be NULL here and below. Local. Errors: usage, system. */
tilelace_status tilelace_communicator_threads(int32_t ranks, const tilelace_options* options,
                                              tilelace_communicator** out);
/** This process as one of the ranks, which are processes of one host and user and meet in
 * `directory` (made if absent). Collective. Errors: usage, system, timeout, peer. */
tilelace_status tilelace_communicator_process(int32_t rank, int32_t ranks, const char* directory,
                                              const tilelace_options* options,
                                              tilelace_communicator** out);
/** This process as the rank that torchrun, mpirun or `tilelace launch` says. Collective.
 * Errors: usage (no launcher, several hosts), system, timeout, peer. */
tilelace_status tilelace_communicator_launched(const tilelace_options* options,
                                               tilelace_communicator** out);
/** A communicator over the listed ranks, in their new order, with nothing prepared. Collective over
 * the listed ranks only. Errors: usage, system, peer, timeout. */
tilelace_status tilelace_communicator_subgroup(tilelace_communicator* communicator,
                                               const int32_t* ranks, size_t num_ranks,
                                               tilelace_communicator** out);
/** Ends this rank's membership and frees the handle. Local. NULL is allowed. */
void tilelace_communicator_destroy(tilelace_communicator* communicator);
/** *rank: this member's number, 0 to size - 1. Local. Errors: usage (NULL). */
tilelace_status tilelace_communicator_rank(const tilelace_communicator* communicator,
                                           int32_t* rank);
/** *size: how many ranks the group has. Local. Errors: usage (NULL). */
tilelace_status tilelace_communicator_size(const tilelace_communicator* communicator,
                                           int32_t* size);
/** Waits until every rank is here; GPU ranks: their threads, not their streams. Collective.
 * Errors: peer, timeout. */
tilelace_status tilelace_communicator_barrier(tilelace_communicator* communicator);
/** GPU ranks: waits at most 300 s for the work in the stream (a cudaStream_t), and tells what went
 * wrong in it. CPU ranks: returns at once. Local. Errors: usage, system, peer, timeout. */
tilelace_status tilelace_synchronize(tilelace_communicator* communicator, void* stream);
/** Ends every wait of the group, on every rank, with an error of kind peer. Local, any thread. NULL
 * is allowed. */
void tilelace_communicator_abort(tilelace_communicator* communicator);
/** Communicator::prepare: sizes staging, packs the weights; what was prepared before is replaced.
 * Collective, the same problems on every rank. Errors: usage, system, peer, timeout. */
tilelace_status tilelace_prepare(tilelace_communicator* communicator,
                                 const tilelace_problem* problems, size_t num_problems);
/** As tilelace_prepare, but what was prepared before stays. Collective. Errors: the same. */
tilelace_status tilelace_prepare_more(tilelace_communicator* communicator,
                                      const tilelace_problem* problems, size_t num_problems);

/** out_i [m, n_i] = act(all ranks' a [m, k] * weight_i^T + bias_i), on every rank. Collective. CPU
 * ranks: blocking. GPU ranks: enqueued on args->stream. Alignment: 16 bytes (tilelace_tensor).
 * Traffic: (ranks - 1) * m_r * k elements leave each rank. More in tilelace/ops.h, ag_gemm.
 * Errors: usage, peer, timeout; GPU ranks: those that depend on peers come from the next call or
 * tilelace_synchronize. */
tilelace_status tilelace_ag_gemm(tilelace_communicator* communicator,
                                 const tilelace_ag_gemm_args* args);
/** out [m_r, n]: this rank's rows of act(sum over ranks of x [m, k] * weight^T + bias), or of the
 * sum + bias + residual. Collective, in the stream, aligned and with errors as tilelace_ag_gemm.
 * Traffic: (m - m_r) * n partials leave each rank. More in tilelace/ops.h, gemm_rs. */
tilelace_status tilelace_gemm_rs(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
/** out [m, n]: all rows of the same sum, the same bits on every rank. Collective, in the stream,
 * aligned and with errors as tilelace_ag_gemm. Traffic: (ranks - 1) / ranks * m * n partials and as
 * many results leave each rank. More in tilelace/ops.h, gemm_ar. */
tilelace_status tilelace_gemm_ar(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
/** The op that args->op names, as the three above. Collective. Errors: as tilelace_ag_gemm. */
tilelace_status tilelace_call(tilelace_communicator* communicator, const tilelace_call_args* args);

/** Staging for collectives, once; the first one does it, too, unless it is captured. Collective.
 * Errors: usage, system, peer, timeout. */
tilelace_status tilelace_prepare_collectives(tilelace_communicator* communicator);
/** out [count] = the sum (or avg, max) of all ranks' in [count], the same bits on every rank.
 * Collective. CPU ranks: blocking. GPU ranks: enqueued on args->stream. Alignment: an element; 16
 * bytes are faster. Traffic: tilelace/collectives.h. Errors: usage, system, peer, timeout; GPU
 * ranks: those that depend on peers come from the next call or tilelace_synchronize. */
tilelace_status tilelace_all_reduce(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** out [sum of counts] = every rank's in [counts[rank]], in rank order. Collective, in the stream,
 * aligned, with traffic and errors as tilelace_all_reduce. */
tilelace_status tilelace_all_gather(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** out [counts[rank]] = this rank's part of the sum of all ranks' in [sum of counts]. Collective,
 * in the stream, aligned, with traffic and errors as tilelace_all_reduce. */
tilelace_status tilelace_reduce_scatter(tilelace_communicator* communicator,
                                        const tilelace_collective_args* args);
/** To each rank its part of in [sum of counts]; out [sum of takes] = what came, in rank order.
 * Collective, in the stream, aligned, with traffic and errors as tilelace_all_reduce. */
tilelace_status tilelace_all_to_all(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
/** x of all ranks added up, the residual added, each row normed; the same bits on every rank.
 * Collective, in the stream and with errors as tilelace_all_reduce. Alignment: 16 bytes, scales 4.
 * Traffic: (ranks - 1) * m * n elements leave each rank. More in tilelace/all_reduce_norm.h. */
tilelace_status tilelace_all_reduce_norm(tilelace_communicator* communicator,
                                         const tilelace_all_reduce_norm_args* args);

/** The plan's print and reason, cut to size - 1 bytes and a 0; size 0: nothing is written. *needed
 * (may be NULL): its length in bytes, without the 0. Local. Errors: usage. */
tilelace_status tilelace_query_plan(const tilelace_communicator* communicator,
                                    const tilelace_problem* problem, char* text, size_t size,
                                    size_t* needed);

/** Zero-filled memory of equal size on every rank, which every rank reaches. Collective.
 * Errors: usage (sizes differ), system, peer, timeout. */
tilelace_status tilelace_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                       tilelace_buffer** out);
/** Lets go of it; freed when the last rank does. Work on it must be done. Local. NULL is allowed.
 */
void tilelace_buffer_destroy(tilelace_buffer* buffer);
/** *address: that rank's part, as this rank reaches it. Local. Errors: usage (no such rank). */
tilelace_status tilelace_buffer_peer(const tilelace_buffer* buffer, int32_t rank, void** address);

/** Zero-filled memory where the rank's tensors are: on its GPU, or the host's. Local.
 * Errors: usage, system. */
tilelace_status tilelace_device_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                              tilelace_device_buffer** out);
/** Frees it; work on it must be done. Local. NULL is allowed. */
void tilelace_device_buffer_destroy(tilelace_device_buffer* buffer);
/** Its first byte, aligned to 256 bytes; NULL for NULL. Local. */
void* tilelace_device_buffer_data(const tilelace_device_buffer* buffer);
/** Copies from host memory into it; offset in bytes. Local, blocking; waits for no stream of the
 * caller. Errors: usage (beyond the buffer), system. */
tilelace_status tilelace_device_buffer_upload(tilelace_device_buffer* buffer, const void* from,
                                              size_t bytes, size_t offset);
/** Copies from it into host memory; offset in bytes. Local, blocking; call tilelace_synchronize
 * before it. Errors: usage (beyond the buffer), system. */
tilelace_status tilelace_device_buffer_download(const tilelace_device_buffer* buffer, void* to,
                                                size_t bytes, size_t offset);

#ifdef __cplusplus
}
#endif
#endif
