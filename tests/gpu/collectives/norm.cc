// SPDX-License-Identifier: Apache-2.0
#include "collectives/norm.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "backend/cuda/base/cuda_check.h"
#include "conformance/norm_reference.h"
#include "device_architecture.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;
using test::NormCase;
using test::NormResults;

/// Device memory with a guard behind what it holds.
class NormMemory {
 public:
  NormMemory(const void* data, std::size_t bytes, cudaStream_t stream) : bytes_(bytes) {
    check(cudaMalloc(&at_, bytes + kGuard), "memory");
    std::vector<std::uint8_t> poison(bytes + kGuard, kPoison);
    if (data != nullptr && bytes > 0) std::memcpy(poison.data(), data, bytes);
    check(cudaMemcpyAsync(at_, poison.data(), poison.size(), cudaMemcpyHostToDevice, stream),
          "input");
    check(cudaStreamSynchronize(stream), "input");
  }
  template <class T>
  NormMemory(const std::vector<T>& values, cudaStream_t stream)
      : NormMemory(values.data(), values.size() * sizeof(T), stream) {}
  ~NormMemory() { cudaFree(at_); }
  NormMemory(const NormMemory&) = delete;
  NormMemory& operator=(const NormMemory&) = delete;

  [[nodiscard]] void* data() const { return at_; }
  /// "", or the first byte that differs.
  std::string difference(const char* what, const void* want) const {
    std::vector<std::uint8_t> have(bytes_ + kGuard), all(bytes_ + kGuard, kPoison);
    if (bytes_ > 0) std::memcpy(all.data(), want, bytes_);
    check(cudaMemcpy(have.data(), at_, have.size(), cudaMemcpyDeviceToHost), "result");
    for (std::size_t i = 0; i < all.size(); ++i)
      if (have[i] != all[i])
        return fmt::format("{}: byte {} of {}: got {:02x}, expected {:02x}", what, i, bytes_,
                           have[i], all[i]);
    return "";
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::uint8_t kPoison = 0xa5;
  void* at_ = nullptr;
  std::size_t bytes_;
};

void run_norm(const Rank& rank, cuda::CollectiveCalls& calls, const AllReduceNormArgs& args,
              const CollectiveOptions& options) {
  const plan::NormCall call = plan::check_norm(args, rank.rank, rank.ranks);
  const int architecture = architecture_of_device(rank.device);
  calls.run(call, plan::plan_norm(call, calls.machine(architecture), options), args);
}

std::string check_norm_case(const NormCaller& c, const NormCase& n) {
  const NormResults want = test::norm_results(n, c.ranks);
  const auto bytes = static_cast<std::size_t>(n.m * n.n) * 2;
  const NormMemory x(test::norm_input(n, c.rank, n.m * n.n), c.stream),
      residual(test::norm_input(n, c.ranks, n.m * n.n), c.stream),
      weight(test::norm_input(n, c.ranks + 1, n.n), c.stream), other(nullptr, bytes, c.stream),
      normed(nullptr, bytes, c.stream), quantised(nullptr, want.quantised.size(), c.stream),
      scales(n.quant == NormQuant::given ? want.scales.data() : nullptr,
             want.scales.size() * sizeof(float), c.stream);
  const NormMemory& out = n.in_place ? residual : other;
  AllReduceNormArgs args = test::norm_args(n, {x.data(), residual.data(), weight.data(), out.data(),
                                               normed.data(), quantised.data(), scales.data()});
  args.stream = c.stream;
  c.meet();
  c.enqueue(args, n.options);
  c.finish();
  std::string wrong;
  if (n.out) wrong = out.difference("out", want.out.data());
  if (n.normed && wrong.empty()) wrong = normed.difference("normed", want.normed.data());
  if (wrong.empty()) wrong = quantised.difference("quantised", want.quantised.data());
  if (wrong.empty()) wrong = scales.difference("scales", want.scales.data());
  return wrong;
}

}  // namespace

NormCaller kernel_caller(Rank& rank, cuda::CollectiveCalls& calls, cudaStream_t stream,
                         double timeout_s) {
  return {rank.rank,
          rank.ranks,
          stream,
          [&rank] { rank.meet(); },
          [&](const AllReduceNormArgs& args, const CollectiveOptions& options) {
            run_norm(rank, calls, args, options);
          },
          [&calls, stream, timeout_s] { calls.calls.finish(stream, 4 * timeout_s); }};
}

std::vector<std::string> check_norms(const NormCaller& c, int calls, std::uint64_t seed) {
  test::NormDraw draw(seed, c.ranks > 2 ? 150000 : 300000);
  std::vector<std::string> findings;
  for (int i = 0; i < calls; ++i) {
    const NormCase n = draw.next(true);
    const std::string wrong = check_norm_case(c, n);
    if (!wrong.empty()) findings.push_back(fmt::format("rank {}: {}: {}", c.rank, n.text(), wrong));
  }
  return findings;
}

}  // namespace tilelace::gpu_test
