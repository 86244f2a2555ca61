// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "tilelace/error.h"

namespace tilelace::conformance {
namespace {

const std::vector<std::int64_t> kPrimes{2, 3, 5, 7, 11, 13, 17, 23, 31, 37, 53, 61, 79, 97};

std::int64_t largest_extent(const CaseRequest& request) {
  if (request.largest > 0) return request.largest;
  return request.ranks <= 5 ? 120 : 72;
}

/// An extent from the edge set around `unit` (a tile), at least `least`.
std::int64_t edge(Random& random, std::int64_t unit, int ranks, std::int64_t least) {
  const std::vector<std::int64_t> set{0,         1,
                                      ranks - 1, ranks + 1,
                                      unit - 1,  unit,
                                      unit + 1,  random.pick(kPrimes),
                                      unit * 2,  unit * ranks + ranks - 1};
  return std::max(least, random.pick(set));
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
  if (op != Op::ag_gemm && random.chance(40)) o.partials = DType::fp32;
  return o;
}

/// m in `ranks` parts of any size, some empty.
std::vector<std::int64_t> uneven_rows(Random& random, std::int64_t m, int ranks) {
  std::vector<std::int64_t> cuts{0, m};
  for (int i = 1; i < ranks; ++i) {
    cuts.push_back(random.chance(25) ? random.pick(cuts) : random.between(0, m));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = cuts[r + 1] - cuts[r];
  return rows;
}

void set_extents(Random& random, const CaseRequest& request, std::size_t number, Case& c) {
  Problem& p = c.problem;
  const std::int64_t most = largest_extent(request);
  c.from_edges = number % 2 == 0;
  const std::int64_t weights = p.op != Op::ag_gemm ? 1 : random.pick<std::int64_t>({1, 1, 1, 2, 3});
  for (std::int64_t i = 0; i < weights; ++i) {
    p.n.push_back(c.from_edges ? edge(random, *c.options.tile_n, p.ranks, 1)
                               : random.between(1, most));
  }
  p.m = c.from_edges ? edge(random, *c.options.tile_m, p.ranks, 0) : random.between(0, most);
  p.k = c.from_edges ? edge(random, random.pick<std::int64_t>({16, 32, 64}), p.ranks, 1)
                     : random.between(1, most);
  if (p.op != Op::gemm_ar && random.chance(30)) {
    p.rows = uneven_rows(random, p.m, p.ranks);
    c.options.chunk_rows = random.pick<std::int64_t>({1, 2, 3, 5, 8});  // staging knows no others
  }
}

void set_epilogue(Random& random, const CaseRequest& request, Case& c) {
  Problem& p = c.problem;
  p.bias = random.chance(30);
  p.residual = p.op != Op::ag_gemm && random.chance(30);
  if (!request.activations || p.residual) return;
  p.activation = random.pick<Activation>({Activation::none, Activation::none, Activation::gelu,
                                          Activation::gelu_tanh, Activation::silu});
  if (p.op == Op::ag_gemm && random.chance(30)) {
    p.activation = Activation::swiglu;
    p.n = {p.n[0], p.n[0]};
  }
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

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t Random::next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

std::string Case::describe() const {
  Machine machine;
  machine.workers = workers;
  std::ostringstream text;
  text << name << ": " << problem << "; " << make_plan(problem, machine, options) << "; pad " << pad
       << " seed " << seed;
  return text.str();
}

CaseTable make_cases(const CaseRequest& request) {
  Random random(mix(request.seed * 64 + static_cast<std::uint64_t>(request.ranks)) +
                static_cast<std::uint64_t>(request.op));
  CaseTable table;
  while (static_cast<int>(table.cases.size()) < request.count) {
    Case c;
    c.problem.op = request.op;
    c.problem.ranks = request.ranks;
    c.problem.dtype = random.pick<DType>({DType::bf16, DType::bf16, DType::fp16, DType::fp32});
    c.options = make_options(random, request.op, request.ranks);
    set_extents(random, request, table.cases.size(), c);
    set_epilogue(random, request, c);
    c.problem.return_gathered = request.op == Op::ag_gemm && random.chance(50);
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
