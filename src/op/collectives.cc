// SPDX-License-Identifier: Apache-2.0
// The public collectives: each a call of the backend.
#include "tilelace/collectives.h"

#include <fmt/ranges.h>

#include "core/check.h"
#include "op/compare.h"
#include "op/impl.h"
#include "plan/collectives/norm.h"

namespace tilelace {
namespace {

std::string words_of(const CollectiveOptions& o) {
  return fmt::format(", options {} {} {} {}", o.lines ? static_cast<int>(*o.lines) : -1,
                     o.shots.value_or(0), o.workers.value_or(0), o.chunk.value_or(0));
}

/// What all ranks must call alike, in words.
std::string words_of(Collective c, const CollectiveArgs& args, const CollectiveOptions& o) {
  const bool lists = c == Collective::all_to_all;  // each rank has its own
  return fmt::format("{} of {} {}{}{}", row_of(c).name, row_of(args.item).name,
                     row_of(c).sums ? name_of(args.reduction) : "moved",
                     lists ? "" : fmt::format(", counts {}", fmt::join(args.counts, ",")),
                     words_of(o));
}

}  // namespace

void collect(Communicator& c, Collective collective, const CollectiveArgs& args,
             const CollectiveOptions& options) {
  auto& impl = c.impl();
  const std::string_view name = plan::known_row(collective).name;
  impl.call(name, [&] {
    op::compare(impl, name, [&] {
      plan::check_collective(collective, args, impl.group->rank(), impl.group->ranks());
      return words_of(collective, args, options);
    });
    impl.backend->collect(collective, args, options);
  });
}

void all_reduce_norm(Communicator& c, const AllReduceNormArgs& args,
                     const CollectiveOptions& options) {
  auto& impl = c.impl();
  impl.call(plan::kNormName, [&] {
    op::compare(impl, plan::kNormName, [&] {
      const auto call = plan::check_norm(args, impl.group->rank(), impl.group->ranks());
      return fmt::format("{}, meaning {:x}{}", plan::describe(call), call.sum.meaning,
                         words_of(options));
    });
    impl.backend->all_reduce_norm(args, options);
  });
}

std::string describe_all_reduce_norm(const Communicator& c, const AllReduceNormArgs& args,
                                     const CollectiveOptions& options) {
  return c.impl().backend->describe(args, options);
}

void all_reduce(Communicator& c, const CollectiveArgs& args, const CollectiveOptions& options) {
  collect(c, Collective::all_reduce, args, options);
}
void all_gather(Communicator& c, const CollectiveArgs& args, const CollectiveOptions& options) {
  collect(c, Collective::all_gather, args, options);
}
void reduce_scatter(Communicator& c, const CollectiveArgs& args, const CollectiveOptions& options) {
  collect(c, Collective::reduce_scatter, args, options);
}
void all_to_all(Communicator& c, const CollectiveArgs& args, const CollectiveOptions& options) {
  collect(c, Collective::all_to_all, args, options);
}

void prepare_collectives(Communicator& c) {
  c.impl().call("prepare_collectives", [&] { c.impl().backend->prepare_collectives({}); });
}

void refuse_collective(Communicator& c, const std::string& reason, void* stream) {
  auto& impl = c.impl();
  impl.call("refused call", [&] { op::refuse_collective(impl, reason, stream); });
}

std::string describe_collective(const Communicator& c, Collective collective,
                                const CollectiveArgs& args, const CollectiveOptions& options) {
  return c.impl().backend->describe(collective, args, options);
}

}  // namespace tilelace
