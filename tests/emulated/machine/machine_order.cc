// SPDX-License-Identifier: Apache-2.0
// What the machine's own doings let others know: streams, the host, the beginning and end of CTAs.
#include <fmt/format.h>

#include "machine/machine.h"

namespace tilelace::emulated {

Knower& Machine::knower() { return running_ == nullptr ? acting_ : warp_of(*running_).knower; }

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
  order::begin(acting_, fmt::format("device {}: a copy", op.device), op.begin);
  if (op.action) op.action();
  op.end = acting_.known.threads;
  order::end(acting_.self);
}

void Machine::begin_order(Cta& cta) {
  for (std::size_t w = 0; w < cta.warps.size(); ++w)
    order::begin(cta.warps[w].knower,
                 fmt::format("device {} CTA {} warp {}", cta.op->device, cta.block.x, w),
                 cta.op->begin);
}

void Machine::end_order(Cta& cta) {
  Clocks& over = cta.op->end;
  for (Warp& warp : cta.warps) {
    over.join(warp.knower.known.threads);
    order::end(warp.knower.self);
  }
  for (const auto& fiber : cta.fibers)
    for (Actor* const copies : {&fiber->loads, &fiber->stores}) {
      over.know(copies->number, copies->step);
      order::end(*copies);
    }
}

}  // namespace tilelace::emulated
