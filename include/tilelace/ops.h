// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "tilelace/communicator.h"
#include "tilelace/plan.h"
#include "tilelace/tensor.h"

namespace tilelace {

/// The tensors of a call, by role. op_table.h says which tensors an op has, and their shapes.
struct Operands {
  TensorView input;                          ///< a or x
  std::span<const TensorView> weights = {};  ///< prepared ones, or other weights (see Preparation)
  std::span<const TensorView> bias = {};     ///< empty, or one per weight
  std::span<const TensorView> out = {};      ///< Problem::outputs() results
  TensorView gathered = {};                  ///< ag_gemm: absent, or [m, k]
  void* stream = nullptr;    ///< GPU ranks: a cudaStream_t; null: the default stream
  TensorView residual = {};  ///< gemm_rs, gemm_ar: absent, or shaped like `out`
};

/// A call of any op. Its problem says the call's m and which optional operands the call has.
struct CallArgs {
  Problem problem;    ///< the call's problem; equal on every rank
  Operands operands;  ///< this rank's tensors
};

/// Arguments of ag_gemm; every tensor has the problem's dtype.
struct AgGemmArgs {
  std::int64_t m = 0;                        ///< rows of all ranks together
  TensorView a;                              ///< [m_r, k], this rank's rows
  std::span<const TensorView> weights;       ///< each [n_i, k]; prepared or not
  std::span<const TensorView> bias;          ///< empty, or one [1, n_i] per weight
  Activation activation = Activation::none;  ///< swiglu takes two weights and gives one result
  std::span<const TensorView> out;           ///< each [m, n_i]; swiglu: one [m, n_0]
  TensorView gathered;                       ///< absent, or [m, k]: receives the gathered a
  std::span<const std::int64_t> rows;  ///< rows of each rank; empty: m split evenly (Problem::rows)
  void* stream = nullptr;              ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Arguments of gemm_rs and gemm_ar.
struct GemmReduceArgs {
  std::int64_t m = 0;                        ///< rows of x
  TensorView x;                              ///< [m, k], this rank's columns of the whole x
  TensorView weight;                         ///< [n, k]; prepared or not
  TensorView bias;                           ///< absent, or [1, n]: added once, after the sum
  Activation activation = Activation::none;  ///< any but swiglu
  TensorView out;                            ///< gemm_rs: [m_r, n]; gemm_ar: [m, n]
  std::span<const std::int64_t> rows;        ///< gemm_rs: rows of each rank; empty: m split evenly
  void* stream = nullptr;    ///< GPU ranks: a cudaStream_t; null: the default stream
  TensorView residual = {};  ///< Absent, or shaped like `out`, which it must not overlap (0 x n
                             ///< if `out` has no rows). It is added once, in fp32, after the sum.
                             ///< Only without an activation. gemm_ar: equal on all ranks.
};

/// All-gather + GEMM: out_i [m, n_i] = act(A [m, k] * weight_i^T + bias_i), on every rank. A stacks
/// all ranks' a [m_r, k] in rank order. m >= 0. Shards may differ in rows or be empty. Several
/// weights share one gather. On GPUs: bf16 and fp16, n and k multiples of 8, at most 8 ranks,
/// contiguous tensors on the rank's GPU. Collective. CPU ranks: blocking; on return `out` and
/// `gathered` are complete and the inputs may be written. GPU ranks: enqueued on args.stream after
/// the work in it; later work in the stream sees the whole `out` and `gathered` and may write the
/// inputs. Other streams must not use the tensors before the call is done. May be captured (see
/// Communicator). Alignment: 16 bytes (TensorView). Traffic: (ranks - 1) * m_r * k elements leave
/// each rank (mesh, push). Errors: usage (a wrong argument, before anything is sent; ranks that
/// disagree, before any result is written), peer, timeout; on GPUs the next call or synchronize()
/// throws errors that depend on peers.
void ag_gemm(Communicator&, const AgGemmArgs&, const PlanOptions& = {});

/// GEMM + reduce-scatter: out [m_r, n] is this rank's rows of act(S + bias), or of S + bias +
/// residual, where S is the sum over ranks of x [m, k] * weight^T.
/// The sum runs in fp32 in rank order 0..ranks-1 and is rounded once; all runs give the same bits.
/// (Ring and two-level routes of CPU ranks sum along their route, also in a fixed order.) Partials
/// are sent in type Plan::partials; on GPUs, plans that are not fused round each rank's own partial
/// to that type, too. On GPUs: bf16 and fp16, n and k multiples of 8, at most 8 ranks, fused,
/// medium or unfused as the plan says.
/// Collective. CPU ranks: blocking. GPU ranks: enqueued on args.stream, as ag_gemm; later work in
/// the stream sees the whole `out` and may write the inputs. Alignment: 16 bytes.
/// Traffic: (m - m_r) * n partials leave each rank (mesh). Errors: as ag_gemm.
void gemm_rs(Communicator&, const GemmReduceArgs&, const PlanOptions& = {});

/// GEMM + all-reduce: out [m, n] has all rows of gemm_rs's result, the same bits on every rank. A
/// rank reads only the residual rows that it sums: its shard of m or, in some plans, all rows. On
/// GPUs: the limits of gemm_rs; a fused plan stores directly into the peers' `out` if `out` is in a
/// SymmetricBuffer, at the same offset on all ranks. Collective. Stream and alignment: as gemm_rs.
/// Traffic: (ranks - 1) / ranks * m * n partials and as many results leave each rank; for unfused
/// plans with transport pull on GPUs: (ranks - 1) * m * n partials. Errors: as ag_gemm.
void gemm_ar(Communicator&, const GemmReduceArgs&, const PlanOptions& = {});

/// Calls the problem's op: ag_gemm, gemm_rs or gemm_ar.
/// Collective. Errors: as ag_gemm.
void call(Communicator&, const CallArgs&, const PlanOptions& = {});

/// Throws the error that a call with these arguments would throw; the problem need not be prepared.
/// Callers that prepare when they meet a new problem should check first, so that no rank prepares
/// while another one fails. Local: peers learn nothing (refuse() tells them). Errors: usage.
void check_call(Communicator&, const CallArgs&, const PlanOptions& = {});
/// As above, for ag_gemm. Local. Errors: usage.
void check_call(Communicator&, const AgGemmArgs&, const PlanOptions& = {});
/// As above, for gemm_rs or gemm_ar. Local. Errors: usage.
void check_call(Communicator&, Op, const GemmReduceArgs&, const PlanOptions& = {});

/// Replaces a call that this rank cannot make. Instead of waiting, the peers get a usage error with
/// this reason from their call, and all ranks can go on (on GPUs once all have prepared again).
/// Callers that check arguments themselves use this. Collective, like the replaced call. GPU ranks:
/// enqueued on `stream`. Errors: peer, timeout.
void refuse(Communicator&, const std::string& reason, void* stream = nullptr);
/// As refuse, but in place of Communicator::prepare. Collective. Errors: peer, timeout.
void refuse_prepare(Communicator&, const std::string& reason);

/// The plan that calls of this problem will use on this communicator. Local; nothing needs to be
/// prepared. Errors: usage (the number of ranks is not the communicator's, a malformed problem, an
/// option that is not possible for the problem).
Plan query_plan(const Communicator&, const Problem&, const PlanOptions& = {});

/// Runs only the GEMM of the problem, without communication, so that it can be timed. For ag_gemm
/// `a` is the gathered [m, k]; for gemm_rs and gemm_ar `out` receives this rank's partial [m, n].
/// GPU ranks: the GEMM kernel with the best predicted time, asynchronous on the stream. CPU ranks:
/// blocking. Local. Errors: usage, system; on GPUs as ag_gemm.
void gemm_only(Communicator&, const CallArgs&);
/// As above, for ag_gemm. Local. Errors: the same.
void gemm_only(Communicator&, const AgGemmArgs&);
/// As above, for gemm_rs and gemm_ar. Local. Errors: the same.
void gemm_only(Communicator&, const GemmReduceArgs&);
/// Runs only the collective of the problem, so that it can be timed: the all-gather, reduce-scatter
/// or all-reduce of the unfused path. ag_gemm: from `a` to `gathered`; gemm_rs, gemm_ar: from the
/// partial `x` [m, n] to `out`. GPU ranks: by the unfused plan's transport, asynchronous on the
/// stream; a sum first copies the partial to memory that peers can reach. CPU ranks: blocking.
/// Collective. Errors: as ag_gemm.
void collective_only(Communicator&, const CallArgs&);
/// As above, for ag_gemm. Collective. Errors: as ag_gemm.
void collective_only(Communicator&, const AgGemmArgs&);
/// As above, for gemm_rs or gemm_ar. Collective. Errors: as ag_gemm.
void collective_only(Communicator&, Op, const GemmReduceArgs&);
/// The problem that must be prepared before collective_only of this problem. It keeps the width
/// of the rows that travel: n for a sum, k for a gather. Local. Errors: none.
Problem collective_of(Problem);

}  // namespace tilelace
