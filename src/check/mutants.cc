// SPDX-License-Identifier: Apache-2.0
#include "check/mutants.h"

#include <utility>

namespace tilelace::check {

namespace {

CallSpec small(Op op, RouteKind route, Transport transport, Index m) {
  CallSpec s;
  s.op = op;
  s.m = m;
  s.cols = 2;
  s.tile_m = 4;
  s.chunk_rows = 3;
  s.route = route;
  s.local = 2;
  s.transport = transport;
  s.deliver = op == Op::ag_gemm;
  s.blocks = op == Op::gemm_ar ? 2 : 1;
  return s;
}

CheckConfig three_of(const CallSpec& spec) {
  CheckConfig c;
  c.calls = {spec, spec, spec};
  c.ranks = 4;
  c.workers = 2;
  return c;
}

CallSpec small_sum(Op op, Transport transport, Index m) {
  CallSpec s = small(op, RouteKind::mesh, transport, m);
  s.cols = s.blocks = 1;
  s.unfused = true;
  return s;
}

/// Sums of pushed partials between calls of other ops.
std::vector<CallSpec> pushed_sums() {
  ExchangeSpec sum{Collective::all_reduce, {33}, 1, 2, 2, false, false, false};
  std::vector<CallSpec> all(3);
  all[0].exchange = sum;
  sum.shots = 2;
  sum.lines = true;
  sum.chunk = 4;
  sum.units = {26};
  all[1].exchange = sum;
  all[2].exchange = {Collective::reduce_scatter, {35, 0, 41, 7}, 1, 2, 2, false, false, false};
  return all;
}

CallSpec copied_sum() {
  CallSpec s = small_sum(Op::gemm_rs, Transport::pull, 42);
  s.copied = true;
  return s;
}

/// Partials are kept, and tiles summed whole: few, so that every rank has a share of rows in each.
std::vector<CallSpec> switched_sums() {
  std::vector<CallSpec> all;
  for (const bool direct : {false, true}) {
    all.push_back(small(Op::gemm_ar, RouteKind::mesh, Transport::multimem, 42));
    all.back().blocks = 1;
    all.back().tile_m = 6;
    all.back().shots = 2;
    all.back().direct = direct;
  }
  all.push_back(all.front());
  all.back().shots = 1;
  return all;
}

/// On one actor, on one CTA's, on three CTAs'.
CheckConfig three_on(const CallSpec& spec, int workers) {
  CheckConfig c = three_of(spec);
  c.workers = workers;
  return c;
}

/// Finished tiles that go to all. Every rank has two blocks of three columns and two rows of tiles;
/// or columns.
std::vector<CallSpec> shared_tiles() {
  std::vector<CallSpec> all{small(Op::gemm_ar, RouteKind::mesh, Transport::store, 58)};
  all[0].cols = 3;
  all[0].lag = 2;
  CallSpec columns = all[0];
  columns.by_columns = true;
  columns.blocks = 1;
  columns.cols = 8;
  all.push_back(columns);
  return all;
}

/// In all the ways that kernels of ag_gemm walk: chunks begin and end within tiles.
std::vector<CallSpec> gather_walks() {
  CallSpec shards = small(Op::ag_gemm, RouteKind::mesh, Transport::push, 58);
  shards.cols = 4;
  CallSpec whole = shards;
  whole.transport = Transport::store;
  whole.walk.whole = true;
  std::vector<CallSpec> all(4, shards);
  all[0].walk.apart = 2;
  all[1].walk.apart = 0;
  all[1].walk.joins = {3, 9, 15};
  all[2] = all[3] = whole;
  all[3].walk.across = true;
  return all;
}

/// The same of gemm_rs; the shards of pairs have one or two rows of tiles.
std::vector<CallSpec> reduce_walks() {
  CallSpec together = small(Op::gemm_rs, RouteKind::mesh, Transport::store, 42);
  together.walk.together = true;
  CallSpec pairs = small(Op::gemm_rs, RouteKind::mesh, Transport::store, 27);
  pairs.rows = {8, 3, 11, 5};
  pairs.walk.pairs = true;
  pairs.walk.along_cols = true;
  return {together, pairs};
}

/// Sums behind the product between calls that send.
CheckConfig mixed_sums() {
  CheckConfig c = three_of(small_sum(Op::gemm_ar, Transport::store, 33));
  c.calls.push_back(small(Op::ag_gemm, RouteKind::mesh, Transport::push, 33));
  c.calls.push_back(small_sum(Op::gemm_rs, Transport::pull, 50));
  c.calls.push_back(small(Op::gemm_rs, RouteKind::mesh, Transport::store, 42));
  c.calls.push_back(small_sum(Op::gemm_ar, Transport::pull, 9));
  for (const CallSpec& spec : pushed_sums()) c.calls.push_back(spec);
  c.calls.push_back(copied_sum());
  for (const CallSpec& spec : switched_sums()) c.calls.push_back(spec);
  for (const CallSpec& spec : shared_tiles()) c.calls.push_back(spec);
  for (const CallSpec& spec : gather_walks()) c.calls.push_back(spec);
  for (const CallSpec& spec : reduce_walks()) c.calls.push_back(spec);
  return c;
}

/// Between calls that send before their admission, which this kind never does: its slots and
/// headers are for them.
CheckConfig mixed_shared() {
  CheckConfig c = three_of(shared_tiles()[0]);
  c.calls[1] = small(Op::ag_gemm, RouteKind::mesh, Transport::push, 33);
  c.calls[2] = shared_tiles()[1];
  c.calls.push_back(small(Op::gemm_rs, RouteKind::mesh, Transport::store, 42));
  c.calls.push_back(shared_tiles()[1]);
  for (const CallSpec& spec : pushed_sums()) c.calls.push_back(spec);
  c.calls.push_back(shared_tiles()[0]);
  return c;
}

/// Calls that share the slots and cut flags differently.
CheckConfig mixed() {
  CheckConfig c = three_of(small(Op::ag_gemm, RouteKind::mesh, Transport::push, 33));
  c.calls[1] = small(Op::gemm_rs, RouteKind::mesh, Transport::push, 50);
  c.calls[2] = small(Op::ag_gemm, RouteKind::mesh, Transport::push, 9);
  c.calls[2].chunk_rows = 1;
  c.calls.push_back(small(Op::gemm_ar, RouteKind::mesh, Transport::store, 40));
  return c;
}

/// The chunk size changes from call to call, so one flag index belongs to different ranks: rank 2
/// may raise in the next call what rank 1 has yet to raise at rank 3 in this one.
CheckConfig rechunked() {
  CheckConfig c = three_of(small(Op::ag_gemm, RouteKind::mesh, Transport::push, 33));
  c.calls[1].chunk_rows = 5;
  return c;
}

}  // namespace

std::vector<CheckConfig> mutant_scenarios() {
  std::vector<CheckConfig> all;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    for (const RouteKind route : {RouteKind::mesh, RouteKind::ring, RouteKind::two_level}) {
      for (const Transport transport : {Transport::push, Transport::pull, Transport::store}) {
        const CallSpec spec = small(op, route, transport, 42);
        if (!legal(spec, 4)) all.push_back(three_of(spec));
      }
    }
    // Rank 0 has no rows, so nothing but headers holds it back. Then: the count wraps.
    CheckConfig empty = three_of(small(op, RouteKind::mesh, Transport::push, 21));
    if (op != Op::gemm_ar) {
      for (CallSpec& call : empty.calls) call.rows = {0, 8, 6, 7};
    }
    empty.first_epoch = 0xFFFFFFFE;
    all.push_back(empty);
    CheckConfig cut = three_of(small(op, RouteKind::mesh, Transport::store, 42));
    for (CallSpec& call : cut.calls) call.straddle = op != Op::gemm_ar;
    all.push_back(cut);
  }
  for (const auto& [op, transport] :
       {std::pair(Op::gemm_rs, Transport::pull), std::pair(Op::gemm_ar, Transport::pull),
        std::pair(Op::gemm_ar, Transport::store)}) {
    all.push_back(three_of(small_sum(op, transport, 42)));
  }
  all.push_back(three_of(copied_sum()));
  for (const CallSpec& spec : switched_sums())
    for (const int workers : {1, 2, 9}) all.push_back(three_on(spec, workers));
  for (const CallSpec& spec : shared_tiles())
    for (const int workers : {1, 2, 6}) all.push_back(three_on(spec, workers));
  for (const CallSpec& spec : gather_walks()) all.push_back(three_of(spec));
  for (const CallSpec& spec : reduce_walks())
    for (const int workers : {1, 2, 5}) all.push_back(three_on(spec, workers));
  CheckConfig no_rows = three_of(small_sum(Op::gemm_rs, Transport::pull, 21));
  for (CallSpec& call : no_rows.calls) call.rows = {0, 8, 6, 7};
  no_rows.first_epoch = 0xFFFFFFFE;
  all.push_back(no_rows);
  all.push_back(mixed_sums());
  all.push_back(mixed_shared());
  all.push_back(rechunked());
  all.push_back(mixed());
  all.push_back(mixed());
  all.back().seed = 1;
  return all;
}

std::vector<MutantResult> run_mutants() {
  std::vector<CheckConfig> scenarios = mutant_scenarios();
  for (const CheckConfig& c : exchange_scenarios()) scenarios.push_back(c);
  std::vector<MutantResult> results;
  for (int i = 0; i < kMutants; ++i) {
    MutantResult& result = results.emplace_back();
    result.mutant = static_cast<Mutant>(i + 1);
    for (CheckConfig c : scenarios) {
      c.mutant = result.mutant;
      const CheckReport report = check(c);
      if (!report.mutated) continue;
      ++result.applied;
      if (report.findings.empty()) continue;
      if (result.caught++ == 0) result.finding = report.findings.front().text;
    }
  }
  return results;
}

}  // namespace tilelace::check
