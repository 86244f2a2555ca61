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
  TILELACE_OK = 0,
  TILELACE_USAGE = 1,
  TILELACE_SYSTEM = 2,
  TILELACE_PEER = 3,
  TILELACE_TIMEOUT = 4
} tilelace_status;

typedef enum tilelace_dtype {
  TILELACE_BF16 = 0,
  TILELACE_FP16 = 1,
  TILELACE_FP32 = 2
} tilelace_dtype;

typedef enum tilelace_device { TILELACE_CPU = 0, TILELACE_CUDA = 1 } tilelace_device;

typedef enum tilelace_op {
  TILELACE_AG_GEMM = 0,
  TILELACE_GEMM_RS = 1,
  TILELACE_GEMM_AR = 2
} tilelace_op;

typedef enum tilelace_activation {
  TILELACE_ACT_NONE = 0,
  TILELACE_ACT_GELU = 1,
  TILELACE_ACT_GELU_TANH = 2,
  TILELACE_ACT_SILU = 3,
  TILELACE_ACT_SWIGLU = 4
} tilelace_activation;

/** A row-major matrix; stride in elements. data NULL: absent, or empty. */
typedef struct tilelace_tensor {
  void* data;
  int32_t dtype; /**< a tilelace_dtype */
  int64_t rows, cols, stride;
} tilelace_tensor;

/** Zeros are the defaults: workers by cores, timeout 10 s, no emulated link, CPU ranks. */
typedef struct tilelace_options {
  size_t struct_size; /**< sizeof(tilelace_options) */
  int32_t workers;
  int32_t max_workers;
  double timeout_s;
  double link_bytes_per_s;
  double link_latency_s;
  int32_t device; /**< a tilelace_device */
  int32_t gpu;    /**< 0: chosen by rank or launcher; g: the device g - 1 */
  /** GPU ranks: a table of measured plans as a file, "off" for none; NULL: TILELACE_TUNING's, or
   * those that came with the library. */
  const char* tuning;
  double autotune_seconds; /**< GPU ranks: that a problem's first call may time plans; 0: off */
  const char* cache;       /**< GPU ranks: a folder that keeps what was tuned; NULL: none */
  int32_t deterministic;   /**< boolean; refuses autotune_seconds */
} tilelace_options;

/** One entry of prepare; num_rows 0: m split evenly. */
typedef struct tilelace_problem {
  size_t struct_size;             /**< sizeof(tilelace_problem) */
  int32_t op;                     /**< a tilelace_op */
  int64_t m, k;                   /**< m: the largest that calls will have */
  int32_t dtype;                  /**< a tilelace_dtype */
  int32_t activation;             /**< a tilelace_activation */
  int32_t bias, return_gathered;  /**< booleans */
  int32_t residual;               /**< boolean; gemm_rs and gemm_ar */
  const tilelace_tensor* weights; /**< num_weights of [n_i, k] */
  size_t num_weights;
  const int64_t* rows;
  size_t num_rows;
} tilelace_problem;

typedef struct tilelace_ag_gemm_args {
  size_t struct_size; /**< sizeof(tilelace_ag_gemm_args) */
  int64_t m;
  tilelace_tensor a;
  const tilelace_tensor* weights;
  size_t num_weights;
  const tilelace_tensor* bias; /**< NULL, or one a weight */
  const tilelace_tensor* out;  /**< one a weight; swiglu: one */
  int32_t activation;
  tilelace_tensor gathered; /**< data NULL: not wanted */
  const int64_t* rows;      /**< NULL: even split */
  size_t num_rows;
  void* stream; /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_ag_gemm_args;

typedef struct tilelace_gemm_reduce_args {
  size_t struct_size; /**< sizeof(tilelace_gemm_reduce_args) */
  int64_t m;
  tilelace_tensor x, weight, bias, out;
  int32_t activation;
  const int64_t* rows;
  size_t num_rows;
  void* stream;             /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  tilelace_tensor residual; /**< all 0: none */
} tilelace_gemm_reduce_args;

/** An operand of an op by its name in docs/ops.md. */
typedef struct tilelace_operand {
  const char* name;
  tilelace_tensor tensor;
} tilelace_operand;

/** A call of any op; operands in any order, several of one name in theirs. */
typedef struct tilelace_call_args {
  size_t struct_size; /**< sizeof(tilelace_call_args) */
  const char* op;
  int64_t m;
  const tilelace_operand* operands;
  size_t num_operands;
  int32_t activation;
  const int64_t* rows; /**< of every rank; NULL: even split */
  size_t num_rows;
  void* stream; /**< GPU ranks: a cudaStream_t; NULL: the default stream */
} tilelace_call_args;

typedef enum tilelace_item {
  TILELACE_ITEM_BF16 = 0,
  TILELACE_ITEM_FP16 = 1,
  TILELACE_ITEM_FP32 = 2,
  TILELACE_ITEM_I32 = 3,
  TILELACE_ITEM_I64 = 4,
  TILELACE_ITEM_U8 = 5
} tilelace_item;

typedef enum tilelace_reduction {
  TILELACE_SUM = 0,
  TILELACE_AVG = 1,
  TILELACE_MAX = 2
} tilelace_reduction;

/** A collective (tilelace/collectives.h). Of how it runs 0 is: as the planner says. */
typedef struct tilelace_collective_args {
  size_t struct_size; /**< sizeof(tilelace_collective_args) */
  const void* in;
  void* out;
  int32_t item;          /**< a tilelace_item */
  int32_t reduction;     /**< a tilelace_reduction; all_reduce and reduce_scatter */
  const int64_t* counts; /**< of elements: one, or one a rank */
  size_t num_counts;
  const int64_t* takes; /**< all_to_all: likewise */
  size_t num_takes;
  void* stream;  /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines; /**< 1: units that carry the call's number; -1: chunks */
  int32_t shots;
  int32_t workers;
  int64_t chunk; /**< bytes */
} tilelace_collective_args;

typedef enum tilelace_norm_quant {
  TILELACE_QUANT_NONE = 0,
  TILELACE_QUANT_TOKEN = 1,
  TILELACE_QUANT_BLOCK = 2,
  TILELACE_QUANT_GIVEN = 3
} tilelace_norm_quant;

/** all_reduce, residual and RMSNorm (tilelace/all_reduce_norm.h). Of how it runs 0 is: as the
 * planner says. */
typedef struct tilelace_all_reduce_norm_args {
  size_t struct_size;   /**< sizeof(tilelace_all_reduce_norm_args) */
  const void* x;        /**< [m, n] */
  const void* residual; /**< [m, n]; NULL: none */
  const void* weight;   /**< [n] */
  void* out;            /**< [m, n], the next residual; NULL: not wanted */
  void* normed;         /**< [m, n]; NULL: only what is quantised is wanted */
  void* quantised;      /**< [m, n] e4m3 bytes */
  float* scales;        /**< token [m], block [m, n / 128], given [1] */
  int64_t m, n;
  float eps;     /**< as it stands: 0 is 0 */
  int32_t item;  /**< a tilelace_item: bf16 or fp16 */
  int32_t quant; /**< a tilelace_norm_quant */
  void* stream;  /**< GPU ranks: a cudaStream_t; NULL: the default stream */
  int32_t lines; /**< 1: units that carry the call's number; -1: chunks */
  int32_t workers;
  int64_t chunk; /**< bytes */
} tilelace_all_reduce_norm_args;

typedef struct tilelace_communicator tilelace_communicator;
typedef struct tilelace_buffer tilelace_buffer;
typedef struct tilelace_device_buffer tilelace_device_buffer;

/** "major.minor.patch". */
const char* tilelace_version(void);
/** TILELACE_API_VERSION of the header that the library was compiled with. */
int32_t tilelace_api_version(void);
/** Text of this thread's last error; never NULL; valid until its next call. */
const char* tilelace_last_error(void);
const char* tilelace_status_name(tilelace_status status);

/** Fills out[0 .. ranks - 1]. options may be NULL everywhere. */
tilelace_status tilelace_communicator_threads(int32_t ranks, const tilelace_options* options,
                                              tilelace_communicator** out);
tilelace_status tilelace_communicator_process(int32_t rank, int32_t ranks, const char* directory,
                                              const tilelace_options* options,
                                              tilelace_communicator** out);
/** The rank that torchrun, mpirun or `tilelace launch` says. */
tilelace_status tilelace_communicator_launched(const tilelace_options* options,
                                               tilelace_communicator** out);
tilelace_status tilelace_communicator_subgroup(tilelace_communicator* communicator,
                                               const int32_t* ranks, size_t num_ranks,
                                               tilelace_communicator** out);
/** NULL is allowed. */
void tilelace_communicator_destroy(tilelace_communicator* communicator);
tilelace_status tilelace_communicator_rank(const tilelace_communicator* communicator,
                                           int32_t* rank);
tilelace_status tilelace_communicator_size(const tilelace_communicator* communicator,
                                           int32_t* size);
tilelace_status tilelace_communicator_barrier(tilelace_communicator* communicator);
/** GPU ranks: waits for the work in the stream and tells what went wrong in it. */
tilelace_status tilelace_synchronize(tilelace_communicator* communicator, void* stream);
/** Any thread. NULL is allowed. */
void tilelace_communicator_abort(tilelace_communicator* communicator);
tilelace_status tilelace_prepare(tilelace_communicator* communicator,
                                 const tilelace_problem* problems, size_t num_problems);
/** As tilelace_prepare, but what was prepared before stays. */
tilelace_status tilelace_prepare_more(tilelace_communicator* communicator,
                                      const tilelace_problem* problems, size_t num_problems);

tilelace_status tilelace_ag_gemm(tilelace_communicator* communicator,
                                 const tilelace_ag_gemm_args* args);
tilelace_status tilelace_gemm_rs(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
tilelace_status tilelace_gemm_ar(tilelace_communicator* communicator,
                                 const tilelace_gemm_reduce_args* args);
/** The op of this name: as the three above. */
tilelace_status tilelace_call(tilelace_communicator* communicator, const tilelace_call_args* args);

/** Staging for collectives, once; the first one does it, too. */
tilelace_status tilelace_prepare_collectives(tilelace_communicator* communicator);
tilelace_status tilelace_all_reduce(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
tilelace_status tilelace_all_gather(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
tilelace_status tilelace_reduce_scatter(tilelace_communicator* communicator,
                                        const tilelace_collective_args* args);
tilelace_status tilelace_all_to_all(tilelace_communicator* communicator,
                                    const tilelace_collective_args* args);
tilelace_status tilelace_all_reduce_norm(tilelace_communicator* communicator,
                                         const tilelace_all_reduce_norm_args* args);

/** The plan's print and reason, cut to size - 1 characters; *needed (may be NULL): its length. */
tilelace_status tilelace_query_plan(const tilelace_communicator* communicator,
                                    const tilelace_problem* problem, char* text, size_t size,
                                    size_t* needed);

tilelace_status tilelace_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                       tilelace_buffer** out);
void tilelace_buffer_destroy(tilelace_buffer* buffer);
tilelace_status tilelace_buffer_peer(const tilelace_buffer* buffer, int32_t rank, void** address);

/** Zero-filled memory where the rank's tensors are: on its GPU, or the host's. */
tilelace_status tilelace_device_buffer_create(tilelace_communicator* communicator, size_t bytes,
                                              tilelace_device_buffer** out);
void tilelace_device_buffer_destroy(tilelace_device_buffer* buffer);
void* tilelace_device_buffer_data(const tilelace_device_buffer* buffer);
/** Blocking copies from and to host memory; offset in bytes. */
tilelace_status tilelace_device_buffer_upload(tilelace_device_buffer* buffer, const void* from,
                                              size_t bytes, size_t offset);
tilelace_status tilelace_device_buffer_download(const tilelace_device_buffer* buffer, void* to,
                                                size_t bytes, size_t offset);

#ifdef __cplusplus
}
#endif
#endif
