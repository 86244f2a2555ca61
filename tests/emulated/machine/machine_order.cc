// SPDX-License-Identifier: Apache-2.0
// What the machine's own doings let others know: streams, the host, the beginning and end of CTAs.
#include <fmt/format.h>

#include "machine/machine.h"

namespace tilelace::emulated {

Knower& Machine::knower() { return running_ == nullptr ? acting_ : running_->knower; }

void Machine::see(const Op& op) {
  if (!order::is_on()) return;
  auto more = std::make_shared<Clocks>(*host_);
  more->join(op.end);
  host_ = std::move(more);
}

void Machine::act(Op& op) {
  if (!order::is_on()) {
    if (op.action) op.action();
    return;
  }
  order::begin(acting_lanes_, fmt::format("device {}: a copy", op.device), 1);
  order::begin(acting_, acting_lanes_, 0, std::make_shared<Known>(Known{op.begin, op.begin, {}}));
  if (op.action) op.action();
  order::leave({&acting_}, op.end);
  order::end(acting_lanes_);
}

void Machine::begin_order(Cta& cta) {
  const auto known = std::make_shared<Known>(Known{cta.op->begin, cta.op->begin, {}});
  for (std::size_t w = 0; w < cta.warps.size(); ++w)
    order::begin(cta.warps[w].order,
                 fmt::format("device {} CTA {} warp {}", cta.op->device, cta.block.x, w),
                 cta.warps[w].lanes);
  for (std::size_t t = 0; t < cta.fibers.size(); ++t)
    order::begin(cta.fibers[t]->knower, cta.warps[t / 32].order, static_cast<int>(t % 32), known);
}

void Machine::end_order(Cta& cta) {
  Clocks& over = cta.op->end;
  std::vector<const Knower*> lanes;
  for (const auto& fiber : cta.fibers) lanes.push_back(&fiber->knower);
  Clocks all;
  order::leave(lanes, all);
  order::touch_end(all, lanes[0]->self, cta.memory, cta.used);
  for (const auto& [at, barrier] : cta.mbarriers)
    order::touch_end(all, lanes[0]->self, cta.at(at), barrier.others);
  order::forget(cta.memory, cta.used);
  over.join(all);
  for (Warp& warp : cta.warps) order::end(warp.order);
  for (const auto& fiber : cta.fibers)
    for (Actor* const copies :
         {&fiber->loads, &fiber->sends, &fiber->stores, &fiber->products_of}) {
      if (copies->number == 0) continue;
      over.know_all(*copies);
      order::end(*copies);
    }
}

}  // namespace tilelace::emulated
