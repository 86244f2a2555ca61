// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/measure/ranks.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "comm/cuda/capabilities.h"
#include "comm/std_atomics.h"
#include "tilelace/error.h"

namespace tilelace::cuda::measure {

std::vector<std::vector<double>> Rank::gather(const std::vector<double>& mine) const {
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()),
                               mine.size() * sizeof(double));
  std::vector<std::vector<double>> all;
  for (const std::string& part : group->all_gather(bytes, kMeetSeconds)) {
    all.emplace_back(part.size() / sizeof(double));
    std::memcpy(all.back().data(), part.data(), part.size());
  }
  return all;
}

double Rank::max(double mine) const {
  double most = mine;
  for (const auto& part : gather({mine})) most = std::max(most, part.at(0));
  return most;
}

namespace {

void run_rank(Rank& rank, const std::function<void(Rank&)>& body) {
  check(cudaSetDevice(rank.device), "selecting the rank's device");
  check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "the rank's stream");
  const auto drop = [](cudaStream_t* s) { cudaStreamDestroy(*s); };
  const std::unique_ptr<cudaStream_t, decltype(drop)> owner(&rank.stream, drop);
  body(rank);
}

}  // namespace

void run_ranks(int ranks, const std::function<void(Rank&)>& body) {
  auto groups = comm::make_thread_groups(ranks);
  const int devices = comm::device_count();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Rank rank{r, ranks, r % devices, groups[static_cast<std::size_t>(r)].get(), nullptr};
      try {
        run_rank(rank, body);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
        const auto self = static_cast<std::uint16_t>(r);
        rank.group->abort({static_cast<std::uint8_t>(ErrorKind::peer), self, self});
      }
    });
  }
  for (auto& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

double now_s() { return static_cast<double>(comm::StdAtomics::now_ns()) * 1e-9; }

}  // namespace tilelace::cuda::measure
