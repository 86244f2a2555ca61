// SPDX-License-Identifier: Apache-2.0
// Which multiprocessors share a GPC, and where the clusters of a full grid come to lie: the copy
// unit's requests for the same lines are merged within a GPC, so workers that share operands belong
// together.
#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/gemm/neighbours.h"

namespace tilelace::cuda {
namespace {

constexpr int kSharedBytes = 200 << 10;  // one CTA a multiprocessor

__global__ void where_kernel(int* multiprocessor) {
  if (threadIdx.x == 0) multiprocessor[blockIdx.x] = ptx::multiprocessor();
  // Until every CTA of the grid has its place.
  for (int i = 0; i < 50; ++i) __nanosleep(1000);
}

class Probe {
 public:
  explicit Probe(int multiprocessors)
      : count_(multiprocessors), group_(static_cast<std::size_t>(count_)) {
    std::iota(group_.begin(), group_.end(), 0);
    check(cudaMalloc(&device_, static_cast<std::size_t>(count_) * sizeof(int)),
          "memory for a probe of where CTAs run");
    check(cudaFuncSetAttribute(where_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kSharedBytes),
          "a probe of where CTAs run");
    check(cudaFuncSetAttribute(where_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "a probe of where CTAs run");
  }
  ~Probe() { cudaFree(device_); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// Multiprocessor of each CTA of as many clusters as fit; empty where this size is not to be had.
  std::vector<int> run(int cluster) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(cluster));
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = kSharedBytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int fit = 0;
    if (cudaOccupancyMaxActiveClusters(&fit, where_kernel, &config) != cudaSuccess || fit == 0) {
      cudaGetLastError();
      return {};
    }
    config.gridDim = dim3(static_cast<unsigned>(fit * cluster));
    check(cudaLaunchKernelEx(&config, where_kernel, device_), "a probe of where CTAs run");
    std::vector<int> where(static_cast<std::size_t>(fit * cluster));
    check(cudaMemcpy(where.data(), device_, where.size() * sizeof(int), cudaMemcpyDeviceToHost),
          "a probe of where CTAs run");
    return where;
  }

  int group_of(int multiprocessor) {
    auto& up = group_[static_cast<std::size_t>(multiprocessor)];
    return up == multiprocessor ? up : up = group_of(up);
  }
  void join(int a, int b) { group_[static_cast<std::size_t>(group_of(a))] = group_of(b); }

 private:
  int count_;
  std::vector<int> group_;
  int* device_ = nullptr;
};

std::vector<std::uint16_t> find_places(int multiprocessors) {
  Probe probe(multiprocessors);
  // CTAs of a cluster lie in one GPC.
  for (const int size : {16, 14, 12, 10, 8, 6, 4, 2}) {
    const auto where = probe.run(size);
    for (std::size_t i = 0; i < where.size(); ++i)
      probe.join(where[i],
                 where[i / static_cast<std::size_t>(size) * static_cast<std::size_t>(size)]);
  }
  const auto where = probe.run(2);
  const std::size_t clusters = where.size() / 2;
  if (clusters != static_cast<std::size_t>(multiprocessors / 2)) return {};
  std::vector<std::uint16_t> order(clusters);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
    return probe.group_of(where[2U * a]) < probe.group_of(where[2U * b]);
  });
  std::vector<std::uint16_t> places(clusters);
  for (std::size_t i = 0; i < clusters; ++i) places[order[i]] = static_cast<std::uint16_t>(i);
  return places;
}

}  // namespace

std::span<const std::uint16_t> neighbour_places() {
  static std::mutex mutex;
  static std::vector<std::span<const std::uint16_t>> known(64);
  static std::vector<bool> asked(64);
  const int device = current_device();
  const std::lock_guard lock(mutex);
  const auto at = static_cast<std::size_t>(device);
  if (asked.at(at)) return known[at];
  const auto places = find_places(multiprocessors_of(device));
  if (!places.empty()) {
    void* memory = nullptr;
    const std::size_t bytes = places.size() * sizeof(places[0]);
    check(cudaMalloc(&memory, bytes), "memory for the places of CTAs");
    check(cudaMemcpy(memory, places.data(), bytes, cudaMemcpyHostToDevice),
          "copying the places of CTAs");
    known[at] = {static_cast<const std::uint16_t*>(memory), places.size()};
  }
  asked[at] = true;  // not where this threw: the next call asks again
  return known[at];
}

}  // namespace tilelace::cuda
