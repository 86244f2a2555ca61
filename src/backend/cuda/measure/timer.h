// SPDX-License-Identifier: Apache-2.0
// Times variants of the same work by replays of graphs over rotating buffers. Each sample follows a
// warm-up of the same variant, so that clocks have settled.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace tilelace::cuda::measure {

/// Memory for copies of a tensor, used in rotation. The copies together exceed L2 if there is room.
class Pool {
 public:
  explicit Pool(std::size_t bytes);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Address of the i-th copy of a tensor of this size; i wraps around.
  [[nodiscard]] void* at(int i, std::size_t size) const;
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

struct Variant {
  std::string name;
  std::function<void(int call, cudaStream_t)> launch;
  int plan = -1;  ///< index of Tilelace's plan; -1: cuBLAS
  cudaGraphExec_t graph = nullptr;
  int calls = 0;  ///< calls per graph
  double quick_us = 0;
  std::vector<double> samples{};

  [[nodiscard]] double median() const { return quantile(5); }
  /// Spread of the samples, p90 / p10.
  [[nodiscard]] double spread() const { return quantile(9) / quantile(1); }

 private:
  [[nodiscard]] double quantile(std::size_t tenths) const;
};

class Timer {
 public:
  explicit Timer(double quick_ms);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// Makes the variant's graph of 4 to 32 calls, which take about 1 ms if a call takes `guess_us`.
  void capture(Variant& v, double guess_us) const;
  /// Mean time of a call over about `sample_ms` of replays, after about `load_ms` of warm-up.
  [[nodiscard]] double time_us(const Variant& v, double load_ms, double sample_ms) const;
  /// Captures all variants, times them in order and in reverse (clocks drift), then sorts by time.
  void first_look(std::vector<Variant>& all, double guess_us) const;
  /// Takes `rounds` samples of each variant; each round goes through the variants in random order.
  void sample(std::vector<Variant>& all, int rounds, double sample_ms);
  /// Drops all variants but the first `count`, with their graphs.
  static void keep(std::vector<Variant>& all, std::size_t count);

 private:
  double quick_ms_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::mt19937 rng_{7};
};

}  // namespace tilelace::cuda::measure
