/* SPDX-License-Identifier: Apache-2.0 */
/* The C API's statuses, types and tensors, and the handle of a communicator. c.h says how the API
 * is used. */
#ifndef TILELACE_C_TYPES_H
#define TILELACE_C_TYPES_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 0, or the kind of the error whose text tilelace_last_error() returns. */
typedef enum tilelace_status {
  TILELACE_OK = 0,     /**< the call succeeded */
  TILELACE_USAGE = 1,  /**< a wrong argument, or ranks that disagree */
  TILELACE_SYSTEM = 2, /**< the machine failed: memory, sockets, the GPU */
  TILELACE_PEER = 3,   /**< another rank died or gave up */
  TILELACE_TIMEOUT = 4 /**< a wait reached its limit */
} tilelace_status;

/** Element type of a tensor; GPU ranks take the first two. Sums run in fp32. */
typedef enum tilelace_dtype {
  TILELACE_BF16 = 0, /**< bfloat16, 2 bytes */
  TILELACE_FP16 = 1, /**< IEEE half, 2 bytes */
  TILELACE_FP32 = 2  /**< IEEE single, 4 bytes; CPU ranks only */
} tilelace_dtype;

/** Element type of a collective. Collectives that only move elements take any type of the same
 * width. */
typedef enum tilelace_item {
  TILELACE_ITEM_BF16 = 0, /**< bfloat16, 2 bytes */
  TILELACE_ITEM_FP16 = 1, /**< IEEE half, 2 bytes */
  TILELACE_ITEM_FP32 = 2, /**< IEEE single, 4 bytes */
  TILELACE_ITEM_I32 = 3,  /**< int32_t */
  TILELACE_ITEM_I64 = 4,  /**< int64_t */
  TILELACE_ITEM_U8 = 5    /**< uint8_t */
} tilelace_item;

/** Where a rank keeps its tensors: TILELACE_CPU, or TILELACE_CUDA with one GPU per rank. */
typedef enum tilelace_device { TILELACE_CPU = 0, TILELACE_CUDA = 1 } tilelace_device;

/** The function applied to the fp32 result after the bias is added and before rounding. */
typedef enum tilelace_activation {
  TILELACE_ACT_NONE = 0,      /**< the result as it is */
  TILELACE_ACT_GELU = 1,      /**< GELU by the error function */
  TILELACE_ACT_GELU_TANH = 2, /**< GELU by its tanh approximation */
  TILELACE_ACT_SILU = 3,      /**< x * sigmoid(x) */
  TILELACE_ACT_SWIGLU = 4     /**< ag_gemm with two weights: silu(gate) * up, one output */
} tilelace_activation;

/** A row-major matrix [rows, cols] that the caller owns. data NULL: absent, or empty. Alignment:
 * data and the stride in bytes are multiples of 16. */
typedef struct tilelace_tensor {
  void* data;    /**< the first element; GPU ranks: device memory */
  int32_t dtype; /**< a tilelace_dtype */
  /** rows, cols: extents in elements; stride: elements from one row to the next, at least cols. */
  int64_t rows, cols, stride;
} tilelace_tensor;

/** A rank's membership in a group: tilelace::Communicator. One thread at a time. */
typedef struct tilelace_communicator tilelace_communicator;

#ifdef __cplusplus
}
#endif
#endif
