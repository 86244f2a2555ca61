// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gather_exchange.h"

#include <algorithm>

#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/share.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {

bool is_exchanged(const AgGemmWay& way) {
  return way.path == Path::unfused && row_of(way.transport).by_workers();
}

CollectiveCall gathered_rows(const Problem& p, int rank) {
  const auto all = static_cast<std::size_t>(p.ranks);
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const Index row = input_row_bytes(p);
  CollectiveCall c{.collective = Collective::all_gather,
                   .reduction = Reduction::sum,
                   .item = item_of(p.dtype),
                   .rank = rank,
                   .ranks = p.ranks,
                   .sends = std::vector<Parcel>(all, {0, split.shard(rank).size() * row}),
                   .takes = {},
                   .counts = {}};
  for (int q = 0; q < p.ranks; ++q) {
    const schedule::RowRange rows = split.shard(q);
    c.takes.push_back({rows.begin * row, rows.size() * row});
    c.counts.push_back(rows.size() * p.k);
  }
  return c;
}

CollectiveMachine collective_machine(const GemmMachine& machine) {
  return {.workers = machine.multiprocessors,
          .architecture = machine.architecture,
          .shared = machine.shared};
}

bool may_be_lines(const Problem& p, const CollectiveMachine& machine) {
  CollectiveMachine share = machine;
  share.workers = share_places(machine.workers);
  share.shared = true;
  return may_be_lines(gathered_rows(p, 0), share, 1);
}

CollectivePlan gathering_plan(std::optional<bool> lines, const CollectiveCall& call,
                              const CollectiveMachine& machine) {
  CollectiveOptions o;
  o.lines = lines;
  return plan_collective(call, machine, o, true);
}

double gathering_us(const Problem& p, bool lines, const GemmMachine& machine) {
  return gathering_plan(lines, gathered_rows(p, 0), collective_machine(machine)).predicted_us;
}

std::int64_t gathering_line_bytes(const Problem& p) {
  const Index units = p.m * input_row_bytes(p) / schedule::kUnitBytes + kMostChunk;
  return word_bytes(p.ranks) + std::min(kLineBytes, (p.ranks - 1) * units * kBytesOfLines);
}

}  // namespace tilelace::plan
