// SPDX-License-Identifier: Apache-2.0
// Macros for code that both nvcc and a host compiler compile.
#pragma once

#if defined(__CUDACC__)
#define TILELACE_HD __host__ __device__
#else
#define TILELACE_HD
#endif

// Makes role loops (schedule/verbs.h) device functions in device code, plain functions elsewhere.
#if defined(__CUDA_ARCH__) || (defined(__CUDACC__) && defined(TILELACE_DEVICE_LOOPS))
#define TILELACE_ROLE __device__ __forceinline__
#else
#define TILELACE_ROLE inline
#endif

// Loops that nvcc must unroll (TILELACE_UNROLL), to keep values in registers, or must not unroll.
#if defined(__CUDACC__)
#define TILELACE_UNROLL _Pragma("unroll")
#define TILELACE_NO_UNROLL _Pragma("unroll 1")
#else
#define TILELACE_UNROLL
#define TILELACE_NO_UNROLL
#endif
