// SPDX-License-Identifier: Apache-2.0
// Collectives on GPUs: random calls bit by bit, in streams and graphs, with and without delays.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/collectives/collective_calls.h"
#include "collectives/api.h"
#include "collectives/norm.h"
#include "collectives/reference.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "device_architecture.h"
#include "harness.h"
#include "ops/stress_kernels.h"
#include "program.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

struct Options {
  int ranks = 0, calls = 300, norms = 0, stress = 0, straggle = 0;
  std::int64_t most = 60000;
  std::uint64_t seed = 1;
  double timeout_s = 20, limit_s = 280;
  bool drop = false, api = false;
};

/// One rank's memory and calls.
class Caller {
 public:
  Caller(Rank& rank, const Options& o)
      : rank_(rank),
        o_(o),
        most_(multiprocessors(rank)),
        calls_(*rank.group, rank.device, o.timeout_s,
               {.multiprocessors = most_, .architecture = architecture_of_device(rank.device)}) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    warm_up();
  }
  ~Caller() {
    for (void* memory : memory_) cudaFree(memory);
    cudaStreamDestroy(stream_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] NormCaller norm_caller() {
    return kernel_caller(rank_, calls_, stream_, o_.timeout_s);
  }
  std::byte* memory(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), "memory");
    memory_.push_back(data);
    return static_cast<std::byte*>(data);
  }
  /// Of all ranks, which peers reach. Collective.
  std::byte* symmetric(std::size_t bytes) {
    shared_.push_back(
        comm::allocate_device(*rank_.group, rank_.device, bytes, o_.timeout_s, false));
    return shared_.back()->local();
  }
  void run(const CollectiveCase& c, const void* in, void* out) {
    std::vector<std::int64_t> sends, takes;
    CollectiveArgs args{in, out, c.item, c.reduction, c.counts, {}, stream_};
    if (c.collective == Collective::all_to_all) {
      for (int q = 0; q < c.ranks; ++q) {
        sends.push_back(c.sent(rank_.rank, q));
        takes.push_back(c.sent(q, rank_.rank));
      }
      if (c.matrix.empty()) sends.resize(1), takes.resize(1);
      args.counts = sends, args.takes = takes;
    }
    const plan::CollectiveCall call =
        plan::check_collective(c.collective, args, rank_.rank, c.ranks);
    cuda::CollectiveTensors tensors{in, out, stream_};
    const bool direct = cuda::reach_peers(
        call, tensors, [&] { return reachable(in); }, [&] { return reachable(out); });
    const plan::CollectivePlan plan = plan::plan_collective(
        call, calls_.machine(architecture_of_device(rank_.device)), c.options, direct);
    direct_ += plan.direct ? 1 : 0;
    calls_.run(call, plan, tensors);
  }
  /// Calls that used the peers' tensors.
  [[nodiscard]] int direct() const { return direct_; }
  void finish() { calls_.calls.finish(stream_, 4 * o_.timeout_s); }

 private:
  [[nodiscard]] static int multiprocessors(const Rank& rank) {
    const int count = cuda::multiprocessors_of(rank.device);
    const int devices = comm::device_count();
    const int sharers = (rank.ranks + devices - 1) / devices;
    return sharers > 1 ? (count - 2) / sharers : count;
  }

  [[nodiscard]] cuda::ReachableTensor reachable(const void* data) const {
    const auto* const at = static_cast<const std::byte*>(data);
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      const comm::DeviceMemory& m = *shared_[i];
      if (at >= m.local() && at < m.local() + m.bytes())
        return {m.base(), m.stride(), static_cast<std::size_t>(at - m.local()),
                static_cast<std::uint32_t>(i)};
    }
    return {};
  }

  /// What the driver loads for copies it loads by their first: where ranks share a device it would
  /// wait until their calls have ended.
  void warm_up() {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100000}, std::size_t{4} << 20U}) {
      Bytes host(bytes);
      std::byte* const there = memory(bytes);
      check(cudaMemcpyAsync(there, host.data(), bytes, cudaMemcpyHostToDevice, stream_), "a copy");
      check(cudaStreamSynchronize(stream_), "a copy");
      check(cudaMemcpy(host.data(), there, bytes, cudaMemcpyDeviceToHost), "a copy");
      check(cudaMemcpy(there, host.data(), bytes, cudaMemcpyHostToDevice), "a copy");
      check(cudaMemset(there, 0, bytes), "memory");
    }
    check(cudaDeviceSynchronize(), "copies");
    rank_.meet();
  }

  Rank& rank_;
  const Options& o_;
  int most_;
  cuda::CollectiveCalls calls_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
  std::vector<std::shared_ptr<comm::DeviceMemory>> shared_;
  int direct_ = 0;
};

struct Findings {
  std::mutex mutex;
  std::vector<std::string> list;
  void add(std::string text) {
    const std::scoped_lock lock(mutex);
    if (list.size() < 20) list.push_back(std::move(text));
  }
};

constexpr std::size_t kGuard = 256;

/// One call with guards around its result; where the first wrong byte is.
void check_case(Caller& caller, const Rank& rank, const CollectiveCase& c, std::byte* room,
                std::size_t half, Findings& findings, bool drop) {
  const Bytes input = input_of(c, rank.rank);
  Bytes want = expected_of(c, rank.rank);
  const auto item = static_cast<std::size_t>(c.bytes());
  Bytes guarded(2 * kGuard + std::max(want.size(), input.size()) + 128, std::byte{0xA5});
  std::byte* const out_at = room + kGuard + item * static_cast<std::size_t>(c.out_off);
  std::byte* in_at = room + half + item * static_cast<std::size_t>(c.in_off);
  std::byte* out = out_at;
  std::byte* base = room;
  if (c.in_place) {
    const auto own = item * static_cast<std::size_t>(
                                c.collective == Collective::all_reduce ? 0 : c.before(rank.rank));
    const bool gathers = c.collective == Collective::all_gather;
    in_at = gathers ? out_at + own : out_at;
    out = gathers ? out_at : out_at + own;
  }
  check(cudaMemcpyAsync(base, guarded.data(), guarded.size(), cudaMemcpyHostToDevice,
                        caller.stream()),
        "poison");
  Bytes spoiled = input;
  if (drop && !spoiled.empty() && rank.rank == 0) spoiled[spoiled.size() / 2] ^= std::byte{0x40};
  if (!input.empty())
    check(cudaMemcpyAsync(in_at, spoiled.data(), spoiled.size(), cudaMemcpyHostToDevice,
                          caller.stream()),
          "input");
  caller.run(c, in_at, out);
  caller.finish();
  // Around the result, and in place around what holds it, nothing may have changed.
  Bytes after(guarded.size());
  check(cudaMemcpy(after.data(), base, after.size(), cudaMemcpyDeviceToHost), "result");
  Bytes whole = guarded;
  if (c.in_place) std::copy(input.begin(), input.end(), whole.begin() + (in_at - base));
  std::copy(want.begin(), want.end(), whole.begin() + (out - base));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (after[i] == whole[i]) continue;
    findings.add(fmt::format("rank {}: byte {} of [{}, {}): got {:02x}, expected {:02x}: {}",
                             rank.rank, static_cast<std::ptrdiff_t>(i) - (out - base), 0,
                             want.size(), static_cast<int>(after[i]), static_cast<int>(whole[i]),
                             c.text()));
    return;
  }
}

void check_calls(Rank& rank, const Options& o, Findings& findings) {
  Caller caller(rank, o);
  RandomCases cases(o.seed, rank.ranks, o.most);
  const std::size_t half =
      2 * kGuard + 8 * static_cast<std::size_t>(o.most) * static_cast<std::size_t>(rank.ranks) +
      65536;
  std::byte* const rooms[] = {caller.memory(2 * half), caller.symmetric(2 * half)};
  for (int i = 0; i < o.calls; ++i) {
    CollectiveCase c = cases.next();
    if (i % 4 == 1) c.options.lines = false, c.options.shots.reset();  // direct where it may be
    try {
      check_case(caller, rank, c, rooms[i % 2], half, findings, o.drop);
    } catch (const Error& e) {
      throw Error(e.kind(), fmt::format("{} (rank {}, {})", e.what(), rank.rank, c.text()));
    }
  }
  if (o.calls >= 100 && caller.direct() < o.calls / 10)
    findings.add(
        fmt::format("rank {}: {} of {} calls were direct", rank.rank, caller.direct(), o.calls));
  rank.meet();  // before memory is given back, which waits for the device
}

/// Calls back to back, checked on the device.
void stress(Rank& rank, const Options& o, int calls, bool delays, Findings& findings) {
  Caller caller(rank, o);
  RandomCases cases(o.seed + 17, rank.ranks, o.most);
  struct Made {
    CollectiveCase c;
    std::byte *in, *out, *expected;
    std::int64_t elements;
  };
  std::vector<Made> made;
  // Half of them are where peers reach them, on all ranks at the same place.
  const std::size_t part = (8 * static_cast<std::size_t>(o.most * rank.ranks) + 256) / 256 * 256;
  std::byte* const shared = caller.symmetric(48 * part);
  while (made.size() < 48) {
    CollectiveCase c = cases.next();
    c.in_place = false, c.in_off = c.out_off = 0;
    const Bytes input = input_of(c, rank.rank), want = expected_of(c, rank.rank);
    std::byte* const in = shared + made.size() * part;
    const bool reach = made.size() % 2 == 0;
    Made m{c, reach ? in : caller.memory(input.size() + 16),
           reach ? in + part : caller.memory(want.size() + 16), caller.memory(want.size() + 16),
           static_cast<std::int64_t>(want.size()) / 16 * 8};
    check(cudaMemcpy(m.in, input.data(), input.size(), cudaMemcpyHostToDevice), "input");
    check(cudaMemcpy(m.expected, want.data(), want.size(), cudaMemcpyHostToDevice), "results");
    check(cudaMemset(m.out, 0xFF, want.size() + 16), "poison");
    made.push_back(m);
  }
  auto* const totals = reinterpret_cast<StressTotals*>(caller.memory(sizeof(StressTotals)));
  check(cudaMemset(totals, 0, sizeof *totals), "totals");
  check(cudaDeviceSynchronize(), "inputs");
  rank.meet();  // else it would wait for calls of ranks that share the device
  std::mt19937_64 order(o.seed + 5), own(o.seed + 99 + static_cast<std::uint64_t>(rank.rank));
  const auto one = [&](int i) {
    const Made& m = made[order() % made.size()];
    if (delays && own() % 4 == 0)
      check(enqueue_spin(static_cast<std::int64_t>(own() % 60000), 1 + static_cast<int>(own() % 8),
                         caller.stream()),
            "a delay");
    caller.run(m.c, m.in, m.out);
    StressCheck c;
    c.out = m.out, c.expected = m.expected, c.m = 1, c.n = m.elements, c.call = i;
    c.borders[1] = 1, c.totals = totals;
    if (m.elements > 0) check(enqueue_check(c, caller.stream()), "a check");
  };
  // A third in graphs.
  cudaGraphExec_t graph = nullptr;
  for (int i = 0; i < calls;) {
    if (i % 60 == 0 && !delays) {
      cudaGraph_t captured = nullptr;
      // Graphs are made while no rank that shares the device has calls under way.
      caller.finish();
      rank.meet();
      check(cudaStreamBeginCapture(caller.stream(), cudaStreamCaptureModeThreadLocal), "a capture");
      for (int k = 0; k < 7; ++k) one(i);
      check(cudaStreamEndCapture(caller.stream(), &captured), "a capture");
      if (graph != nullptr) cudaGraphExecDestroy(graph);
      check(cudaGraphInstantiate(&graph, captured, 0), "a graph");
      cudaGraphDestroy(captured);
      rank.meet();
      for (int k = 0; k < 3; ++k) check(cudaGraphLaunch(graph, caller.stream()), "a replay");
      i += 21;
    }
    one(i++);
    if (i % 500 == 0) caller.finish();
  }
  caller.finish();
  rank.meet();
  if (graph != nullptr) cudaGraphExecDestroy(graph);
  StressTotals t{};
  check(cudaMemcpy(&t, totals, sizeof t, cudaMemcpyDeviceToHost), "totals");
  if (t.wrong != 0)
    findings.add(fmt::format("rank {}: {} wrong in {} of {} calls, the first in call {} at {}",
                             rank.rank, t.wrong, t.wrong_calls, t.calls, t.call, t.col));
  if (rank.rank == 0)
    fmt::print("{}: {} calls that were checked, {} wrong\n", delays ? "delays" : "stress", t.calls,
               t.wrong_calls);
}

void check_norms(Rank& rank, const Options& o, Findings& findings) {
  Caller caller(rank, o);
  for (std::string& wrong : check_norms(caller.norm_caller(), o.norms, o.seed))
    findings.add(std::move(wrong));
}

int main_of(int argc, char** argv) {
  CLI::App app{"Collectives on GPUs: results bit by bit"};
  Options o;
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU; more share devices)");
  app.add_option("--calls", o.calls, "random calls whose results are compared");
  app.add_option("--norm", o.norms, "random calls of all_reduce_norm whose results are compared");
  app.add_option("--stress", o.stress, "calls back to back");
  app.add_option("--straggle", o.straggle, "likewise with delays");
  app.add_option("--most", o.most, "elements of a random call");
  app.add_option("--seed", o.seed, "of calls and data");
  app.add_option("--timeout-s", o.timeout_s, "bound of every wait");
  app.add_option("--limit-seconds", o.limit_s, "ends the process");
  app.add_flag("--drop", o.drop, "test of the test: a bit of an input is wrong, must be noticed");
  app.add_flag("--api", o.api, "the public API, too: a GPU a rank");
  return run_program("gpu_collectives", app, argc, argv, [&] {
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    // With fewer queues than streams one rank's work stands behind another's that waits for it; the
    // driver, which has been asked for its devices, reads this as it starts.
    if (share_devices(o.ranks) && std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") == nullptr) {
      setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
      execv("/proc/self/exe", argv);
    }
    const int ranks = choose_ranks(o.ranks);
    const Watchdog watchdog("gpu_collectives", o.limit_s);
    Findings findings;
    run_ranks(ranks, [&](Rank& rank) {
      if (o.calls > 0) check_calls(rank, o, findings);
      rank.meet();
      if (o.norms > 0) check_norms(rank, o, findings);
      rank.meet();
      if (o.stress > 0) stress(rank, o, o.stress, false, findings);
      rank.meet();
      if (o.straggle > 0) stress(rank, o, o.straggle, true, findings);
    });
    if (o.api)
      for (std::string& f : check_api(ranks, o.timeout_s, o.seed)) findings.add(std::move(f));
    for (const std::string& f : findings.list) fmt::print("WRONG {}\n", f);
    const bool good = findings.list.empty() != o.drop;
    fmt::print("{} ranks, {} calls compared, seed {}: {}\n", ranks, o.calls, o.seed,
               good ? "all right" : "not right");
    return good ? 0 : 1;
  });
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) { return tilelace::gpu_test::main_of(argc, argv); }
