// SPDX-License-Identifier: Apache-2.0
// Made and let go many times, large, and outliving its owner.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checks.h"
#include "core/check.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

std::string use_once(Member& m, std::uint32_t seed) {
  const auto memory = allocate_device(m.group, m.gpu.device(), 4 * kMiB, kTimeout_s);
  return pass_around(
      m.group, m.gpu, *memory, [&m] { m.barrier(); }, seed);
}

}  // namespace

Held look(const Member& m) {
  m.barrier();
  Held held;
  held.free_bytes = Gpu::free_bytes();
  // Looking takes a descriptor, which another thread that looks would count.
  if (!m.group.one_process() || m.rank() == 0) held.descriptors = open_descriptors();
  m.barrier();
  return held;
}

std::string grown(const Held& before, const Held& after) {
  constexpr std::size_t kSlack = 8 * kMiB;
  if (after.descriptors != before.descriptors)
    return fmt::format("{} descriptors open, expected {}", after.descriptors, before.descriptors);
  if (after.free_bytes + kSlack < before.free_bytes)
    return fmt::format("{} bytes free, expected {}", after.free_bytes, before.free_bytes);
  return {};
}

std::string pass_around(const Group& group, const Gpu& gpu, const DeviceMemory& memory,
                        const std::function<void()>& barrier, std::uint32_t seed) {
  const int ranks = group.ranks();
  const std::size_t bytes = std::min(memory.bytes() / 16 * 16, kMiB);
  std::byte* const theirs = memory.peer((group.rank() + 1) % ranks);
  const auto of = [&](int rank) { return seed * 64 + static_cast<std::uint32_t>(rank); };
  // Both ends of the memory.
  const std::size_t last = (memory.bytes() - bytes) / 16 * 16;
  fill(theirs, bytes, Words::bits, of(group.rank()), gpu.stream());
  fill(theirs + last, bytes, Words::bits, of(group.rank()), gpu.stream());
  gpu.finish("writing to the next rank");
  barrier();
  const Expected expected = bits_of(of((group.rank() + ranks - 1) % ranks));
  std::string wrong;
  if (last >= bytes) wrong = gpu.differences("start", memory.local(), bytes, expected);
  if (wrong.empty()) wrong = gpu.differences("end", memory.local() + last, bytes, expected);
  barrier();
  return wrong;
}

void check_cycles(Member& m) {
  constexpr int kFirst = 10;  // caches of the driver and the library fill
  const int cycles = m.model == "hidden" ? std::min(m.options.cycles, 40) : m.options.cycles;
  std::string wrong;
  Held before;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < cycles; ++i) {
    if (i == std::min(kFirst, cycles - 1)) before = look(m);
    const std::string found = use_once(m, static_cast<std::uint32_t>(i));
    if (wrong.empty() && !found.empty()) wrong = fmt::format("cycle {}: {}", i, found);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const Held after = look(m);
  if (wrong.empty()) wrong = grown(before, after);
  const double lost =
      static_cast<double>(before.free_bytes) - static_cast<double>(after.free_bytes);
  m.say("create, use, destroy", wrong,
        {{"cycles", cycles},
         {"ms a cycle", took.count() / cycles},
         {"descriptors", static_cast<double>(after.descriptors)},
         {"MiB lost", lost / kMiB}});
}

void check_large(Member& m) {
  constexpr int kRounds = 3;
  constexpr double kBar_ms = 100;
  m.barrier();
  const std::size_t room = Gpu::free_bytes() / static_cast<std::size_t>(m.ranks_a_gpu);
  std::size_t gib = static_cast<std::size_t>(m.options.gib);
  while (gib > 1 && gib * 1024 * kMiB > room / 10 * 9) gib /= 2;
  for (const std::string& other : m.group.all_gather(std::to_string(gib), kTimeout_s))
    gib = std::min<std::size_t>(gib, std::stoul(other));
  std::vector<double> map_ms;
  Figures figures{{"GiB a rank", static_cast<double>(gib)}};
  std::string wrong;
  for (int i = 0; i < kRounds; ++i) {
    const auto memory = allocate_device(m.group, m.gpu.device(), gib * 1024 * kMiB, kTimeout_s);
    const SetupFacts& f = memory->facts();
    map_ms.push_back((f.exchange_us + f.map_us) / 1e3);
    const auto most = [&](const char* name, double us) {
      figures[name] = std::max(figures[name], us / 1e3);
    };
    most("create ms", f.create_us);
    most("exchange ms", f.exchange_us);
    most("map ms", f.map_us);
    most("zero ms", f.zero_us);
    const std::string found = pass_around(
        m.group, m.gpu, *memory, [&m] { m.barrier(); }, 1000U + static_cast<std::uint32_t>(i));
    if (wrong.empty()) wrong = found;
  }
  std::sort(map_ms.begin(), map_ms.end());
  figures["exchange and map ms, median"] = map_ms[kRounds / 2];
  if (wrong.empty() && map_ms[kRounds / 2] >= kBar_ms)
    wrong = fmt::format(
        "exchange and map of {} GiB took {:.1f} ms (median of {}), expected less than {}", gib,
        map_ms[kRounds / 2], kRounds, kBar_ms);
  m.say("large, mapped in < 100 ms", wrong, figures);
}

namespace {

constexpr std::size_t kDeathBytes = 8 * kMiB;
constexpr std::uint32_t kDeathSeed = 0xdead00;

/// Waits for the word of the death watch. Empty, or what is wrong with it.
std::string await_error(const Member& m, int victim) {
  constexpr auto kBound = std::chrono::seconds(5);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const Caught caught = catch_error([&] { m.group.throw_if_aborted("death"); });
    if (caught.kind == ErrorKind::peer &&
        caught.text.find(fmt::format("rank {}", victim)) != std::string::npos)
      return {};
    if (caught.kind) return "error of another kind: " + caught.text;
    if (std::chrono::steady_clock::now() - start > kBound)
      return fmt::format("no error within 5 s of the end of rank {}", victim);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Reads all of the dead rank's memory, writes an own block of it in every way, reads it again.
std::string use_memory_of(const Member& m, const DeviceMemory& memory, int victim) {
  const std::size_t half = kDeathBytes / 2;  // the first stays as it is, the second is written
  std::string wrong = m.gpu.differences("the dead rank's memory", memory.peer(victim), half,
                                        bits_of(kDeathSeed + static_cast<std::uint32_t>(victim)));
  const std::size_t block = half / static_cast<std::size_t>(m.ranks()) / 64 * 16;  // of 4 a rank
  std::byte* const own =
      memory.peer(victim) + half + static_cast<std::size_t>(m.rank()) * 4 * block;
  const cudaStream_t stream = m.gpu.stream();
  const std::uint32_t seed = kDeathSeed + 100 + static_cast<std::uint32_t>(m.rank());
  fill(own, block, Words::bits, seed, stream);
  bulk_store(own + block, block, seed, stream);
  require_cuda(cudaMemcpyAsync(own + 2 * block, own, block, cudaMemcpyDefault, stream), "copy");
  fill(memory.local(), block, Words::bits, seed, stream);
  require_cuda(cudaMemcpyAsync(own + 3 * block, memory.local(), block, cudaMemcpyDefault, stream),
               "push");
  require_cuda(cudaMemcpyAsync(memory.local() + block, own, block, cudaMemcpyDefault, stream),
               "pull");
  m.gpu.finish("using a dead rank's memory");
  const char* names[] = {"stores", "TMA stores", "copy within", "push"};
  for (std::size_t i = 0; i < 4 && wrong.empty(); ++i)
    wrong = m.gpu.differences(names[i], own + i * block, block, bits_of(seed));
  if (wrong.empty())
    wrong = m.gpu.differences("pull", memory.local() + block, block, bits_of(seed));
  return wrong;
}

std::string recover(Member& m) {
  const auto group = make_socket_group(m.rank(), std::move(m.spare), kTimeout_s);
  const auto memory = allocate_device(*group, m.gpu.device(), kDeathBytes, kTimeout_s);
  return pass_around(
      *group, m.gpu, *memory, [&] { group->all_gather("", kTimeout_s); }, 4242);
}

}  // namespace

void check_death(Member& m) {
  const int victim = m.ranks() - 1;
  auto memory = allocate_device(m.group, m.gpu.device(), kDeathBytes, kTimeout_s);
  fill(memory->local(), kDeathBytes, Words::bits, kDeathSeed + static_cast<std::uint32_t>(m.rank()),
       m.gpu.stream());
  m.gpu.finish("filling");
  m.barrier();
  if (m.rank() == victim) {
    // Nothing runs on its GPU any more: a rank that may be storing to peers must not end.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // all have left the barrier
    _exit(0);
  }
  m.say_of(victim, "death: error of kind peer", await_error(m, victim));
  std::string wrong = use_memory_of(m, *memory, victim);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its contexts are gone by now
  if (wrong.empty()) wrong = use_memory_of(m, *memory, victim);
  m.say_of(victim, "death: memory stays", wrong);
  const Caught refused = catch_error([&] { m.barrier(); });
  m.say_of(victim, "death: collectives end",
           refused.kind == ErrorKind::peer ? "" : "all_gather: " + refused.text);
  memory.reset();
  wrong = recover(m);
  m.say_of(victim, "death: new group, new memory", wrong);
}

}  // namespace tilelace::comm::test
