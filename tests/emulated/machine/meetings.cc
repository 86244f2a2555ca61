// SPDX-License-Identifier: Apache-2.0
// Threads that wait for each other.
#include <cstdio>
#include <cstdlib>

#include "machine/device.h"

namespace tilelace::emulated {

void Machine::pass(Warp& warp) {
  Given together;
  order::meet(warp.came, together);
  warp.came.clear();
  warp.here = 0;
  ++warp.round;
  wake(warp.waiters);
}

unsigned meet_warp(std::uint64_t value, bool orders) {
  Fiber& fiber = Machine::self();
  Warp& w = warp_of(fiber);
  const unsigned round = w.round, side = round & 1U, lane = number_of(fiber) % 32;
  if (w.here == 0) w.mask[side] = 0;
  w.values[side][lane] = value;
  w.mask[side] |= 1U << lane;
  if (orders && order::is_on() && fiber.knower.away == 0) w.came.push_back(&fiber.knower);
  if (++w.here == w.lanes) Machine::get().pass(w);
  while (w.round == round) Machine::get().park(w.waiters, "a warp's exchange");
  return side;
}

bool meet(Meeting& m, int threads, bool mine, bool stays, const char* where) {
  const unsigned round = m.round;
  m.all = m.all && mine;
  Knower& knower = Machine::self().knower;
  if (order::is_on() && !stays)
    order::give(knower, m.left);
  else if (order::is_on() && knower.away == 0)
    m.came.push_back(&knower);
  if (++m.here == threads) {
    m.here = 0;
    m.kept = m.all;
    m.all = true;
    order::meet(m.came, m.left);
    m.came.clear();
    m.left = {};
    ++m.round;
    Machine::get().wake(m.waiters);
  } else if (m.here > threads) {
    std::fprintf(stderr, "emulated GPUs: %d threads at a barrier of %d\n", m.here, threads);
    std::abort();
  }
  if (!stays) return true;
  while (m.round == round) Machine::get().park(m.waiters, where);
  return m.kept;
}

bool meet_named(int id, int threads, bool mine, bool stays) {
  static constexpr const char* kNames[] = {"barrier 0", "barrier 1", "barrier 2", "barrier 3",
                                           "barrier 4", "barrier 5", "barrier 6", "barrier 7"};
  Machine::get().yield();
  Meeting& m = Machine::self().cta->barriers.at(static_cast<std::size_t>(id));
  return meet(m, threads, mine, stays, kNames[id & 7]);
}

}  // namespace tilelace::emulated
