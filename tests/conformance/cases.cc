// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "tilelace/error.h"
#include "values.h"

namespace tilelace::conformance {
namespace {

/// By the number of ranks, so that a case takes a millisecond.
Domain domain_of(const CaseRequest& request, const PlanOptions& options) {
  Domain d;
  d.most_rows = d.most_cols = d.most_depth = request.largest > 0  ? request.largest
                                             : request.ranks <= 5 ? 120
                                                                  : 72;
  d.most_weights = 3;
  d.down = *options.tile_m;
  d.across = *options.tile_n;
  d.most_edge_rows = std::max(d.most_rows, request.ranks * d.down + 1);
  d.more_rows = {0, 0, 2, 7, 13, 31, 61, 97};
  d.more_cols = {2, 7, 13, 37, 53, 97};
  d.depths = {1, 2, 3, 7, 13, 15, 16, 17, 31, 32, 33, 37, 61, 63, 64, 65, 97};
  d.exact = !request.activations;
  d.exact_bias = true;
  return d;
}

PlanOptions make_options(Random& random, Op op, int ranks) {
  PlanOptions o;
  o.path = random.pick<Path>({Path::fused, Path::fused, Path::fused, Path::medium, Path::unfused});
  const bool ring = random.chance(20);
  const bool levels = !ring && ranks > 1 && random.chance(20);
  o.route = ring ? RouteKind::ring : levels ? RouteKind::two_level : RouteKind::mesh;
  if (levels) o.local_ranks = static_cast<int>(random.pick<std::int64_t>({1, 2, 2, 4, ranks}));
  o.transport = random.pick<Transport>({Transport::push, Transport::pull, Transport::store});
  // Most of what is never legal is left out here, some of it is left to make_plan.
  const bool mesh = o.route == RouteKind::mesh;
  if (!mesh && o.transport == Transport::store && random.chance(80)) o.transport = Transport::push;
  if (!mesh && op != Op::ag_gemm && random.chance(80)) o.transport = Transport::push;
  o.straddle = random.chance(25) && ((mesh && op != Op::gemm_ar) || random.chance(10));
  if (op == Op::gemm_ar || random.chance(3)) o.blocks = static_cast<int>(random.between(1, 4));
  o.tile_m = static_cast<int>(random.pick<std::int64_t>({3, 4, 5, 8, 8, 13, 16, 32}));
  o.tile_n = static_cast<int>(random.pick<std::int64_t>({5, 8, 16, 16, 24, 32}));
  if (random.chance(80)) o.chunk_rows = random.pick<std::int64_t>({1, 2, 3, 5, 8, 8, 16, 50});
  if (op != Op::ag_gemm && random.chance(40)) o.partials = kAccumulator;
  return o;
}

/// The first call has all rows; the later ones fewer.
void set_calls(Random& random, const CaseRequest& request, Case& c) {
  const Problem& p = c.problem;
  c.calls.push_back({p.m, p.rows});
  for (int i = 1; i < request.calls; ++i) {
    CallShape shape{random.between(0, p.m), {}};
    if (!p.rows.empty()) {
      for (const auto most : p.rows) shape.rows.push_back(random.between(0, most));
      shape.m = std::accumulate(shape.rows.begin(), shape.rows.end(), std::int64_t{0});
    }
    c.calls.push_back(shape);
  }
}

/// Those in which sums of so many ranks can be exact; the first one twice as often.
std::vector<DType> types_of(int ranks) {
  std::vector<DType> types{kDTypes[0].type};
  for (const DTypeRow& row : kDTypes)
    if (test::exact_per_row(row.type, ranks) > 0) types.push_back(row.type);
  return types;
}

bool is_legal(const Case& c) {
  Machine machine;
  machine.workers = c.workers;
  try {
    for (const auto& shape : c.calls) make_plan(problem_of(c, shape), machine, c.options);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::string Case::describe() const {
  Machine machine;
  machine.workers = workers;
  std::ostringstream text;
  text << name << ": " << problem << "; " << make_plan(problem, machine, options) << "; pad " << pad
       << " seed " << seed;
  return text.str();
}

CaseTable make_cases(const CaseRequest& request) {
  const auto types = types_of(request.ranks);
  Random random(test::hash(request.seed * 64 + static_cast<std::uint64_t>(request.ranks)) +
                static_cast<std::uint64_t>(request.op));
  CaseTable table;
  while (static_cast<int>(table.cases.size()) < request.count) {
    Case c;
    const auto dtype = random.pick(types);
    c.options = make_options(random, request.op, request.ranks);
    const Domain domain = domain_of(request, c.options);
    c.problem = draw_problem(random, request.op, request.ranks, dtype, domain);
    if (!c.problem.rows.empty())  // staging knows no others
      c.options.chunk_rows = random.pick<std::int64_t>({1, 2, 3, 5, 8});
    set_calls(random, request, c);
    c.workers = static_cast<int>(random.between(1, 3));
    c.pad = random.chance(50) ? 0 : random.between(1, 3);
    c.offset = random.between(0, 3);
    c.seed = random.next();
    if (!is_legal(c)) {
      ++table.refused;
      continue;
    }
    c.name = std::string(name_of(request.op)) + " " + std::to_string(request.ranks) +
             " ranks seed " + std::to_string(request.seed) + " case " +
             std::to_string(table.cases.size());
    table.cases.push_back(std::move(c));
  }
  return table;
}

Problem problem_of(const Case& c, const CallShape& shape) {
  Problem p = c.problem;
  p.m = shape.m;
  p.rows = shape.rows;
  return p;
}

}  // namespace tilelace::conformance
