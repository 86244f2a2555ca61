// SPDX-License-Identifier: Apache-2.0
// gpu_places: whatever else stands on the device, does a kernel within its share of it find its
// places, as plan/gemm/share.h says? And does it not where that is not kept to? One GPU.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "harness.h"
#include "json_lines.h"
#include "places_kernels.h"
#include "plan/gemm/share.h"
#include "program.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr double kLateS = 0.03;  // who stands, stands within microseconds
constexpr double kLimitS = 120;

/// A communicator, as far as places go: one kernel at a time that holds them.
class Holder {
 public:
  Holder() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    void* page = nullptr;
    check(cudaMallocHost(&page, sizeof(HoldPage)), "a page");
    page_ = static_cast<HoldPage*>(page);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    release();
    cudaStreamDestroy(stream_);
    cudaFreeHost(page_);
  }

  /// How many of its CTAs do not stand.
  int hold(int ctas, int cluster) {
    *page_ = {};
    check(enqueue_hold(page_, ctas, cluster, stream_), "a kernel that holds");
    holds_ = true;
    const double end = now_s() + kLateS;
    while (began() < ctas && now_s() < end) std::this_thread::yield();
    return ctas - began();
  }
  void release() {
    if (!holds_) return;
    static_cast<volatile HoldPage*>(page_)->release = 1;
    cudaStreamSynchronize(stream_);
    holds_ = false;
  }
  [[nodiscard]] bool holds() const { return holds_; }
  [[nodiscard]] int tpc(int cta) const { return page_->multiprocessor[cta] / 2; }

 private:
  [[nodiscard]] int began() const {
    return static_cast<int>(static_cast<volatile HoldPage*>(page_)->began);
  }
  cudaStream_t stream_ = nullptr;
  HoldPage* page_ = nullptr;
  bool holds_ = false;
};

struct Kernel {
  int ctas, cluster;
};
using Draw = Kernel (*)(std::mt19937_64&, int share);

int up_to(std::mt19937_64& rng, int most) {
  return 1 + static_cast<int>(rng() % static_cast<std::uint64_t>(std::max(1, most)));
}

/// What calls on a share launch.
Kernel draw_kept(std::mt19937_64& rng, int share) {
  const int places = plan::share_places(share);
  const int ctas = plan::standing_ctas(up_to(rng, places), places);
  return {ctas, plan::stands_in_pairs(ctas) ? 2 : 1};
}
Kernel draw_one_by_one(std::mt19937_64& rng, int share) {
  return rng() % 2 == 0 ? Kernel{share, 1} : Kernel{share / 2 * 2, 2};
}
Kernel draw_fours(std::mt19937_64& rng, int share) {
  return rng() % 2 == 0 ? draw_kept(rng, share) : Kernel{std::max(4, share / 4 * 4), 4};
}

struct Row {
  const char* name;
  Draw draw;
  bool must_stand;
  int rounds;
};
constexpr std::array kRows{
    Row{"pairs, and few enough others", draw_kept, true, 600},
    Row{"mutant: one by one, up to the share", draw_one_by_one, false, 600},
    Row{"mutant: clusters of four", draw_fours, false, 150},
};

struct Options {
  int rounds = 0;
  std::uint64_t seed = 1;
  std::string json;
};

/// In how many rounds a kernel did not stand at once. Shares of whole TPCs of random sizes.
int rounds_short(const Row& row, int rounds, int multiprocessors, std::mt19937_64& rng) {
  int missed = 0;
  for (int sharers = 2; sharers <= 4; ++sharers) {
    std::vector<int> shares(static_cast<std::size_t>(sharers), 2);
    for (int left = multiprocessors - 2 * sharers; left >= 2; left -= 2)
      shares[rng() % shares.size()] += 2;
    std::vector<std::unique_ptr<Holder>> holders;
    for (int i = 0; i < sharers; ++i) holders.push_back(std::make_unique<Holder>());
    for (int round = 0; round < rounds / 3; ++round) {
      const auto who = static_cast<std::size_t>(rng() % holders.size());
      holders[who]->release();
      const Kernel k = row.draw(rng, shares[who]);
      if (holders[who]->hold(k.ctas, k.cluster) == 0) continue;
      ++missed;
      for (auto& h : holders) h->release();
    }
  }
  return missed;
}

int run(const Options& o) {
  const Watchdog watchdog("gpu_places", kLimitS);
  check(cudaSetDevice(0), "the device");
  check(load_hold(), "loading kernels");
  const int count = cuda::multiprocessors_of(0);
  JsonLines json(o.json, false);
  std::mt19937_64 rng(o.seed);
  bool good = true;
  const auto tell = [&](const char* name, int rounds, int missed, bool as_said) {
    good = good && as_said;
    fmt::print("{:<38} {:>6} rounds, {:>4} with CTAs that did not stand  {}\n", name, rounds,
               missed, as_said ? "ok" : "FAILED");
    Json line;
    line["schema"] = "tilelace.places/1";
    line["name"] = name;
    line["multiprocessors"] = count;
    line["seed"] = o.seed;
    line["rounds"] = rounds;
    line["short"] = missed;
    line["good"] = as_said;
    line["time"] = utc_now();
    json.write(line);
  };
  {
    Holder pairs;
    int apart = pairs.hold(count / 2 * 2, 2);
    for (int i = 0; i + 1 < count; i += 2) apart += pairs.tpc(i) == pairs.tpc(i + 1) ? 0 : 1;
    tell("a pair stands on one TPC", 1, apart, apart == 0);
  }
  for (const Row& row : kRows) {
    const int rounds = o.rounds > 0 ? o.rounds : row.rounds;
    const int missed = rounds_short(row, rounds, count, rng);
    tell(row.name, rounds, missed, (missed == 0) == row.must_stand);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Do kernels within their shares of a GPU find their places beside each other?");
  Options o;
  app.add_option("--rounds", o.rounds, "kernels of each row (default: its own)")
      ->check(CLI::Range(3, 1000000));
  app.add_option("--seed", o.seed, "of shares and kernels")->capture_default_str();
  app.add_option("--json", o.json, "write JSON lines to this file, - for standard output");
  return run_program("gpu_places", app, argc, argv, [&] { return run(o); });
}
