// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <mutex>
#include <regex>
#include <thread>

#include "backend/cuda/cuda_check.h"
#include "comm/cuda/capabilities.h"
#include "comm/std_atomics.h"
#include "core/check.h"

namespace tilelace::gpu_test {

using cuda::check;

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
  check(cudaSetDevice(rank.device), "the rank's device");
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

int choose_ranks(int asked) {
  const int devices = comm::device_count();
  require(devices > 0, "--ranks: got no device, expected at least one");
  const int ranks = asked > 0 ? asked : devices;
  require(ranks >= 2 && ranks <= 16, "--ranks: got {} ({} devices), expected 2 to 16", ranks,
          devices);
  return ranks;
}

JsonLines::JsonLines(const std::string& path, bool append) : file_(nullptr, std::fclose) {
  if (path.empty()) return;
  if (path == "-") {
    file_ = {stdout, [](std::FILE* f) { return std::fflush(f); }};
    return;
  }
  file_.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
  require(file_ != nullptr, "--json: {}: got \"{}\", expected a file to write", path,
          std::strerror(errno));
}

void JsonLines::write(const Json& line) {
  if (!file_) return;
  const std::string text = line.dump() + "\n";
  require(std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0,
          "--json: got \"{}\", expected a place for a record", std::strerror(errno));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

std::string device_name() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "the name of device 0");
  return properties.name;
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::smatch match;
  if (std::getline(file, line) && std::regex_search(line, match, std::regex(R"((\d+\.\d+[.\d]*))")))
    return match[1];
  int version = 0;
  check(cudaDriverGetVersion(&version), "the driver's version");
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

double now_s() { return static_cast<double>(comm::StdAtomics::now_ns()) * 1e-9; }

}  // namespace tilelace::gpu_test
