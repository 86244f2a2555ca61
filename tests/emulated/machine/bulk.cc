// SPDX-License-Identifier: Apache-2.0
#include "machine/bulk.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "machine/device.h"
#include "machine/driver.h"

namespace tilelace::emulated {
namespace {

/// Where 128-byte swizzle puts a byte.
std::uint32_t swizzled(std::uint32_t at) { return at ^ ((at >> 7U & 7U) << 4U); }

TensorMap decode(const CUtensorMap& map) {
  TensorMap made;
  std::memcpy(&made, &map, sizeof made);
  return made;
}

unsigned elements(const TensorMap& m) { return m.box[0] * m.box[1]; }

/// For each row of a box: its number, where it begins, and how many bytes of it are there.
template <class Visit>
void each_row(const TensorMap& m, int x, int y, const Visit& visit) {
  for (unsigned r = 0; r < m.box[1]; ++r) {
    const long row = y + static_cast<long>(r);
    const bool there = row >= 0 && row < static_cast<long>(m.extents[1]);
    const long left = static_cast<long>(m.extents[0]) - x;
    const long in = !there || left <= 0 ? 0 : std::min<long>(left, m.box[0]);
    std::byte* const at = in == 0 ? nullptr : m.data + x * 2 + row * static_cast<long>(m.stride);
    visit(row, r * m.box[0] * 2, at, static_cast<std::size_t>(in) * 2);
  }
}

/// 16 bytes at a time: as swizzle moves them.
void put(Cta& cta, std::uint32_t to, const std::byte* from, std::size_t bytes, std::size_t row,
         bool swizzle) {
  for (std::size_t b = 0; b < row; b += 16) {
    const auto plain = to + static_cast<std::uint32_t>(b);
    std::byte* const at = cta.at(swizzle ? swizzled(plain) : plain);
    const std::size_t some = b >= bytes ? 0 : std::min<std::size_t>(16, bytes - b);
    if (some > 0) std::memcpy(at, from + b, some);
    std::memset(at + some, 0, 16 - some);
  }
}

Asked ask_load(const void* where) {
  Fiber& fiber = Machine::self();
  return order::ask(fiber.loads, Machine::get().knower(), "'s bulk loads", where);
}

}  // namespace

void tensor_load(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier, int x, int y,
                 unsigned mask) {
  const TensorMap m = decode(map);
  const Asked asked = ask_load(__builtin_return_address(0));
  std::vector<Cta*> ctas;
  for (int i = 0; i < static_cast<int>(own_cta().cluster->ctas.size()); ++i)
    if ((mask >> static_cast<unsigned>(i) & 1U) != 0) ctas.push_back(&peer_cta(i));
  const auto [wanted_map, end] = Machine::self().wanted;
  const long wanted = wanted_map == &map ? end : std::numeric_limits<long>::max();
  for (Cta* cta : ctas)
    Machine::get().later(cta, [=] {
      each_row(m, x, y, [&](long row, unsigned at, const std::byte* from, std::size_t bytes) {
        if (row < wanted) order::touch(asked, order::Access::read, from, bytes);
        // Of a cluster two may bring the same: they need not wait for each other.
        order::touch(asked, order::Access::add, cta->at(to + at), m.box[0] * 2);
        put(*cta, to + at, from, bytes, m.box[0] * 2, m.swizzled);
      });
      Machine::get().arrive(*cta, barrier, -2L * elements(m), asked);
    });
}

void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  Cta* const cta = &own_cta();
  const Asked asked = ask_load(__builtin_return_address(0));
  Machine::get().later(cta, [=] {
    order::touch(asked, order::Access::read, from, bytes);
    order::touch(asked, order::Access::write, cta->at(to), bytes);
    std::memcpy(cta->at(to), from, bytes);
    Machine::get().arrive(*cta, barrier, -static_cast<long>(bytes), asked);
  });
}

void send_word(std::uint32_t to, std::uint32_t barrier, int rank, int word) {
  Cta* const cta = &peer_cta(rank);
  const Asked asked = ask_load(__builtin_return_address(0));
  Machine::get().later(cta, [=] {
    std::memcpy(cta->at(to), &word, sizeof word);
    Machine::get().arrive(*cta, barrier, -static_cast<long>(sizeof word), asked);
  });
}

namespace {

/// `where`: in the program.
void store_from(std::uint32_t from, std::uint32_t bytes, const void* where,
                std::function<void(const std::byte*, const Asked&)> land) {
  Fiber* const fiber = &Machine::self();
  Cta* const cta = fiber->cta;
  BulkGroup* const group = &fiber->groups.back();
  ++group->reads;
  ++group->writes;
  Knower& knower = fiber->knower;
  const Asked reading = order::ask(fiber->sends, knower, "'s bulk stores' reads", where);
  const Asked asked = order::ask(fiber->stores, knower, "'s bulk stores", where);
  group->sent = reading.by.step;
  group->stored = asked.by.step;
  Machine::get().later(cta, [=, land = std::move(land)] {
    order::touch(reading, order::Access::read, cta->at(from), bytes);
    const auto held =
        std::make_shared<std::vector<std::byte>>(cta->at(from), cta->at(from) + bytes);
    --group->reads;
    Machine::get().wake(fiber->waiters);
    Machine::get().later(cta, [=] {
      land(held->data(), asked);
      --group->writes;
      Machine::get().wake(fiber->waiters);
    });
  });
}

}  // namespace

void bulk_store(std::uint32_t from, std::uint32_t bytes,
                std::function<void(const std::byte*, const Asked&)> land) {
  store_from(from, bytes, __builtin_return_address(0), std::move(land));
}

void tensor_store(const CUtensorMap& map, std::uint32_t from, int x, int y) {
  const TensorMap m = decode(map);
  const void* const where = __builtin_return_address(0);
  store_from(from, elements(m) * 2, where, [=](const std::byte* held, const Asked& asked) {
    each_row(m, x, y, [&](long /*row*/, unsigned at, std::byte* to, std::size_t bytes) {
      order::touch(asked, order::Access::write, to, bytes);
      for (std::size_t b = 0; b < bytes; b += 16) {
        const auto plain = from + at + static_cast<std::uint32_t>(b);
        const std::byte* const piece = held + ((m.swizzled ? swizzled(plain) : plain) - from);
        std::memcpy(to + b, piece, std::min<std::size_t>(16, bytes - b));
      }
    });
  });
}

void await_stores(int most, bool read) {
  Fiber& fiber = Machine::self();
  // The last group is not committed; of the others the newest `most` may be under way.
  const auto end = [&] {
    return std::prev(fiber.groups.end(),
                     std::min<std::ptrdiff_t>(most + 1, std::ssize(fiber.groups)));
  };
  const auto open = [&] {
    return std::any_of(fiber.groups.begin(), end(),
                       [&](const BulkGroup& g) { return (read ? g.reads : g.writes) > 0; });
  };
  Machine::get().yield();
  while (open()) Machine::get().park(fiber.waiters, "a wait for bulk stores");
  for (auto g = fiber.groups.begin(); order::is_on() && g != end(); ++g) {
    order::know(fiber.knower, {fiber.sends.number, g->sent}, true);
    if (!read) order::know(fiber.knower, {fiber.stores.number, g->stored}, false);
  }
  // Those whose writes were not waited for stay: a later wait says that they are over.
  if (!read) fiber.groups.erase(fiber.groups.begin(), end());
}

namespace {

constexpr unsigned kWarpgroup = 128;

/// Products are of all threads of a warpgroup: what one of them waits for has been asked for by
/// all, and is done for all.
struct Warpgroup {
  Cta& cta;
  unsigned first;

  static Warpgroup own() { return {own_cta(), thread_number() / kWarpgroup * kWarpgroup}; }
  [[nodiscard]] Waiters& waiters() const { return cta.warpgroups.at(first / kWarpgroup); }
  [[nodiscard]] bool has_committed(std::uint64_t groups) const {
    for (unsigned t = first; t < first + kWarpgroup; ++t)
      if (cta.fibers.at(t)->committed < groups) return false;
    return true;
  }
  void multiply(std::uint64_t groups) const {
    const Threads threads = &cta.fibers[first];
    while (threads[0]->multiplied < groups) {
      const auto& products = threads[0]->products.front();
      for (std::size_t i = 0; i < products.size(); ++i) products[i].run(threads, i);
      for (unsigned t = 0; t < kWarpgroup; ++t) {
        ++threads[t]->multiplied;
        threads[t]->products.pop_front();
        threads[t]->asked.pop_front();
      }
    }
  }
};

}  // namespace

void multiply(ProductTile& tile, int cols) {
  for (int row = 0; row < ProductTile::kRows; ++row) {
    float* const sums = tile.sums[row];
    for (int c = 0; c < cols; ++c) sums[c] = 0;
    for (int k = 0; k < ProductTile::kSteps; ++k)
      for (int c = 0; c < cols; ++c) sums[c] += tile.a[row][k] * tile.b[k][c];
  }
}

void ask_product(const Product& product) {
  Fiber& fiber = Machine::self();
  fiber.products.back().push_back(product);
  if (order::is_on() && thread_number() % kWarpgroup == 0)
    fiber.asked.back().push_back(order::ask(
        fiber.products_of, fiber.knower, "'s warpgroup's products", __builtin_return_address(0)));
}

void read_operand(Threads threads, std::size_t i, std::uint64_t operand, unsigned rows) {
  const auto at = static_cast<std::uint32_t>((operand & 0x3FFFU) << 4U);
  // All steps of a row at once, with the first one.
  if (!order::is_on() || at % 128 != 0) return;
  order::touch(threads[0]->asked.front().at(i), order::Access::read, threads[0]->cta->at(at),
               std::size_t{rows} * 128);
}

void commit_products() {
  Fiber& fiber = Machine::self();
  fiber.multiplies.push_back(fiber.products_of.step);
  ++fiber.committed;
  fiber.products.emplace_back();
  fiber.asked.emplace_back();
  const Warpgroup all = Warpgroup::own();
  Machine::get().wake(all.waiters());
  if (!all.has_committed(fiber.committed)) return;
  // Now, or when somebody waits for it.
  if (Machine::get().random() % 2 == 0) all.multiply(fiber.committed);
}

void await_products(int most) {
  const Fiber& fiber = Machine::self();
  const Warpgroup all = Warpgroup::own();
  const auto left = static_cast<std::uint64_t>(most);
  if (fiber.committed <= left) return;
  while (!all.has_committed(fiber.committed - left))
    Machine::get().park(all.waiters(), "a wait for products");
  all.multiply(fiber.committed - left);
  const Fiber& first = *all.cta.fibers[all.first];
  if (order::is_on())
    order::know(Machine::self().knower,
                {first.products_of.number, first.multiplies[fiber.committed - left - 1]}, true);
}

void load_shared(std::uint32_t from, void* to, std::uint32_t bytes) {
  const std::byte* const at = own_cta().at(from);
  if (order::is_on())
    order::touch(Machine::self().knower, order::Access::read, at, bytes,
                 __builtin_return_address(0));
  std::memcpy(to, at, bytes);
}

void store_shared(std::uint32_t to, const void* from, std::uint32_t bytes) {
  std::byte* const at = own_cta().at(to);
  if (order::is_on())
    order::touch(Machine::self().knower, order::Access::write, at, bytes,
                 __builtin_return_address(0));
  std::memcpy(at, from, bytes);
}

void store_shared_least(std::uint32_t to, int value) {
  int before = 0;
  std::byte* const at = own_cta().at(to);
  if (order::is_on())
    order::touch(Machine::self().knower, order::Access::add, at, sizeof value,
                 __builtin_return_address(0));
  std::memcpy(&before, at, sizeof before);
  if (value < before) std::memcpy(at, &value, sizeof value);
}

void init_barrier(std::uint32_t at, int arrivals) {
  Mbarrier made;
  made.count = made.pending = arrivals;
  Cta& cta = own_cta();
  cta.mbarriers[at] = made;
  if (order::is_on())
    order::touch(Machine::self().knower, order::Access::write, cta.at(at), 8,
                 __builtin_return_address(0));
}

bool test_barrier(std::uint32_t at, int parity) {
  Cta& cta = own_cta();
  const Mbarrier& m = cta.mbarriers.at(at);
  Machine::get().look_at(cta, at);
  const bool over = static_cast<int>(m.phase & 1U) != parity;
  if (over) order::take(Machine::self().knower, m.passed);
  return over;
}

void store_matrices(std::uint32_t at, const std::uint32_t (&r)[4], bool transposed) {
  // Lane l names the address of row l % 8 of matrix l / 8, and holds two neighbours of row l / 4 of
  // each matrix.
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned side = meet_warp(r[i]);
    std::array<std::uint64_t, 32> values = own_warp().values[side];
    const unsigned lane = thread_number() % 32;
    if (lane / 8 == i) {
      if (order::is_on())
        order::touch(Machine::self().knower, order::Access::write, own_cta().at(at), 16,
                     __builtin_return_address(0));
      for (unsigned c = 0; c < 8; ++c) {
        const unsigned row = transposed ? c : lane % 8, col = transposed ? lane % 8 : c;
        const auto pair = static_cast<std::uint32_t>(values[row * 4 + col / 2]);
        const auto half = static_cast<std::uint16_t>(col % 2 == 0 ? pair : pair >> 16U);
        std::memcpy(own_cta().at(at + 2 * c), &half, 2);
      }
    }
  }
}

void launch_dependents() {
  Cta& cta = own_cta();
  Machine::get().trigger(cta);
}

void wait_prerequisites() {
  Op& op = *own_cta().op;
  Machine::get().yield();
  while (op.early && !op.early->done)
    Machine::get().park(op.launch->waiters, "a wait for the kernel before");
  if (op.early && order::is_on()) order::take(Machine::get().knower(), op.early->end);
}

}  // namespace tilelace::emulated
