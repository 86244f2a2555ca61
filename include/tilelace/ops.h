// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "tilelace/communicator.h"
#include "tilelace/plan.h"
#include "tilelace/tensor.h"

namespace tilelace {

/// The tensors of a call by what they are to it; op_table.h says which an op has, and their shapes.
struct Operands {
  TensorView input;                          ///< a or x
  std::span<const TensorView> weights = {};  ///< as prepared
  std::span<const TensorView> bias = {};     ///< empty, or one a weight
  std::span<const TensorView> out = {};      ///< Problem::outputs() of them
  TensorView gathered = {};                  ///< ag_gemm: absent, or [m, k]
  void* stream = nullptr;    ///< GPU ranks: a cudaStream_t; null: the default stream
  TensorView residual = {};  ///< gemm_rs, gemm_ar: absent, or like `out`
};

/// A call of any op. The problem says which optional operands there are; m is the call's own.
struct CallArgs {
  Problem problem;    ///< of this call; equal on every rank
  Operands operands;  ///< this rank's tensors
};

/// Arguments of ag_gemm; every tensor has the problem's dtype.
struct AgGemmArgs {
  std::int64_t m = 0;                        ///< rows of all ranks together
  TensorView a;                              ///< [m_r, k], this rank's rows
  std::span<const TensorView> weights;       ///< each [n_i, k], as prepared
  std::span<const TensorView> bias;          ///< empty, or one [1, n_i] a weight
  Activation activation = Activation::none;  ///< swiglu: two weights, one result
  std::span<const TensorView> out;           ///< each [m, n_i]; swiglu: one [m, n_0]
  TensorView gathered;                       ///< absent, or [m, k]: receives the gathered a
  std::span<const std::int64_t> rows;  ///< rows of every rank; empty: even split, remainder first
  void* stream = nullptr;              ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Arguments of gemm_rs and gemm_ar.
struct GemmReduceArgs {
  std::int64_t m = 0;                        ///< rows of x
  TensorView x;                              ///< [m, k], this rank's columns of the operand
  TensorView weight;                         ///< [n, k], as prepared
  TensorView bias;                           ///< absent, or [1, n]: added once, after the sum
  Activation activation = Activation::none;  ///< not swiglu
  TensorView out;                            ///< gemm_rs [m_r, n]; gemm_ar [m, n]
  std::span<const std::int64_t> rows;        ///< gemm_rs: rows of every rank; empty: even split
  void* stream = nullptr;    ///< GPU ranks: a cudaStream_t; null: the default stream
  TensorView residual = {};  ///< absent, or like `out` and apart from it (where that has
                             ///< no rows: 0 x n): added once, in fp32, after the sum;
                             ///< gemm_ar: equal on all ranks; needs activation none
};

/// All-gather + GEMM: out_i [m, n_i] = act(A [m, k] * weight_i^T + bias_i), on every rank, where A
/// is the a [m_r, k] of all ranks, one after the other. m >= 0; shards may differ in rows or be
/// empty; several weights share one gather. On GPUs: bf16 and fp16, n and k multiples of 8, at most
/// 8 ranks, tensors on the rank's GPU with their rows one after the other. Collective. CPU ranks:
/// blocking; on return `out` and `gathered` are whole and the inputs are free again. GPU ranks:
/// enqueued on args.stream, after what is in it; what comes later in the stream sees `out` and
/// `gathered` whole and may write the inputs. Until then no other stream may touch them. May be
/// captured (Communicator says how). Alignment: 16 bytes (TensorView). Traffic: (ranks - 1) * m_r *
/// k elements leave each rank (mesh and push). Errors: usage (a wrong argument: before anything is
/// sent; ranks that disagree: before any result is written), peer, timeout; on GPUs those that
/// depend on peers come from the next call or synchronize().
void ag_gemm(Communicator&, const AgGemmArgs&, const PlanOptions& = {});

/// GEMM + reduce-scatter: out [m_r, n] is this rank's rows of act(S + bias), or of S + bias +
/// residual, where S is the sum over ranks of x [m, k] * weight^T.
/// The sum runs in fp32 in rank order 0..ranks-1 and is rounded once: the same bits in every run.
/// (The ring and two-level routes sum along their route, also in a fixed order.)
/// On GPUs: bf16 and fp16, n and k multiples of 8, at most 8 ranks, fused or one after the other as
/// the plan says; unfused each rank's partial is rounded, its own too. Collective. CPU ranks:
/// blocking. GPU ranks: enqueued on args.stream, as ag_gemm; what comes later in the stream sees
/// `out` whole and may write the inputs. Alignment: 16 bytes. Traffic: (m - m_r) * n partials leave
/// each rank (mesh). Errors: as ag_gemm.
void gemm_rs(Communicator&, const GemmReduceArgs&, const PlanOptions& = {});

/// GEMM + all-reduce: every rank gets the whole [m, n] of gemm_rs, the same bits on every rank. Of
/// the residual a rank reads the rows that it sums: its shard of m, or all.
/// On GPUs as gemm_rs; fused it stores straight into an `out` in a SymmetricBuffer (that of the
/// same offset on all ranks). Collective, visible and aligned as gemm_rs.
/// Traffic: (ranks - 1) / ranks * m * n partials and as many results leave each rank; unfused on
/// GPUs with transport pull (few rows) (ranks - 1) * m * n partials. Errors: as ag_gemm.
void gemm_ar(Communicator&, const GemmReduceArgs&, const PlanOptions& = {});

/// The op of the problem, as the three above, which make CallArgs of what they are given.
/// Collective. Errors: as ag_gemm.
void call(Communicator&, const CallArgs&, const PlanOptions& = {});

/// Throws what the call would refuse these arguments for, whatever is prepared. For callers that
/// prepare when a new problem comes: what is wrong on one rank should be found before it prepares
/// and its peers do not. Local; nothing is told to the peers (refuse does that). Errors: usage.
void check_call(Communicator&, const CallArgs&, const PlanOptions& = {});
/// As above, of ag_gemm. Local. Errors: usage.
void check_call(Communicator&, const AgGemmArgs&, const PlanOptions& = {});
/// As above, of gemm_rs or gemm_ar. Local. Errors: usage.
void check_call(Communicator&, Op, const GemmReduceArgs&, const PlanOptions& = {});

/// Takes the place of a call that this rank cannot make: the peers, each in its next call, get a
/// usage error with this reason instead of waiting, and all ranks stay in step (on GPUs once all
/// have prepared again). For callers with checks of their own. Collective, as the call it stands
/// for; GPU ranks: enqueued on `stream`. Errors: peer, timeout.
void refuse(Communicator&, const std::string& reason, void* stream = nullptr);
/// As refuse, in the place of Communicator::prepare. Collective. Errors: peer, timeout.
void refuse_prepare(Communicator&, const std::string& reason);

/// What make_plan says for this problem on this communicator, as calls of it will use it. Local;
/// nothing needs to be prepared. Errors: usage (of another number of ranks, malformed, an option
/// that is not legal for it).
Plan query_plan(const Communicator&, const Problem&, const PlanOptions& = {});

/// The GEMM of the problem alone, to be timed, on operands that are all there (no communication):
/// for ag_gemm `a` is the gathered [m, k], for gemm_rs and gemm_ar `out` receives the rank's own
/// partial [m, n]. GPU ranks: the kernel that is fastest by itself, asynchronous on the stream. CPU
/// ranks: blocking. Local. Errors: usage, system; on GPUs as ag_gemm.
void gemm_only(Communicator&, const CallArgs&);
/// As above, of ag_gemm. Local. Errors: the same.
void gemm_only(Communicator&, const AgGemmArgs&);
/// As above, of gemm_rs and gemm_ar. Local. Errors: the same.
void gemm_only(Communicator&, const GemmReduceArgs&);
/// The collective of the problem alone, to be timed: the all-gather, reduce-scatter or all-reduce
/// of the unfused path. ag_gemm: a -> gathered; gemm_rs, gemm_ar: x is the partial [m, n] -> out.
/// GPU ranks: the transport of the unfused plan, for sums after a copy of the partial to where
/// peers reach it, asynchronous on the stream. CPU ranks: blocking. Collective. Errors: as ag_gemm.
void collective_only(Communicator&, const CallArgs&);
/// As above, of ag_gemm. Collective. Errors: as ag_gemm.
void collective_only(Communicator&, const AgGemmArgs&);
/// As above, of gemm_rs or gemm_ar. Collective. Errors: as ag_gemm.
void collective_only(Communicator&, Op, const GemmReduceArgs&);
/// The problem that collective_only plans for this one, of which only what travels counts (n of a
/// sum, k of a gather): what is prepared for it. Local. Errors: none.
Problem collective_of(Problem);

}  // namespace tilelace
