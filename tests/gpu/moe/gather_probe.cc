// SPDX-License-Identifier: Apache-2.0
// How rows that an index chooses may reach a product: clocks of a step of 64 columns, with all
// multiprocessors busy and operands in L2. Ways: boxes of rows that lie in order, as a permute
// before makes them, or 16 bytes per cp.async by 96, 128 or 256 threads; alone, beside the weight's
// boxes, and beside both those and the product. Integers, so that results are known exactly.
#include "moe/gather_probe.h"

#include <CLI/CLI.hpp>
#include <random>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/gemm/tensor_map.h"
#include "json_lines.h"
#include "moe/buffer.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kTokens = 4096, kMostWeight = 256, kMostRows = 256, kTilesOfCta = 4;

class Bench {
 public:
  Bench(std::size_t k, std::size_t ctas);
  Json run(const ProbeWay&) const;

 private:
  [[nodiscard]] int value(std::size_t row, std::size_t column) const {
    return values_[row * k_ + column];
  }
  [[nodiscard]] int wrong(const ProbeWay&) const;

  std::size_t k_, ctas_;
  std::vector<int> values_;  ///< rows of x, then of the weight: -1, 0 or 1
  std::vector<int> chosen_;
  Buffer x_, weight_, index_, out_, clocks_;
};

Bench::Bench(std::size_t k, std::size_t ctas)
    : k_(k),
      ctas_(ctas),
      values_((kTokens + kMostWeight) * k),
      chosen_(ctas * kTilesOfCta * kMostRows),
      x_(kTokens * k * 2),
      weight_(kMostWeight * k * 2),
      index_(chosen_.size() * 4),
      out_(ctas * kMostWeight * kMostRows * 4),
      clocks_(ctas * 8) {
  std::mt19937 rng(7);
  constexpr std::uint16_t kBits[] = {0xbf80, 0, 0x3f80};  // as bf16
  std::vector<std::uint16_t> bits(values_.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto which = rng() % 3;
    values_[i] = static_cast<int>(which) - 1;
    bits[i] = kBits[which];
  }
  const auto of_x = bits.begin() + static_cast<std::ptrdiff_t>(kTokens * k);
  x_.upload(std::vector<std::uint16_t>(bits.begin(), of_x));
  weight_.upload(std::vector<std::uint16_t>(of_x, bits.end()));
  for (int& row : chosen_) row = static_cast<int>(rng() % kTokens);
  index_.upload(chosen_);
}

/// Of the first CTA's first tile.
int Bench::wrong(const ProbeWay& way) const {
  int count = 0;
  const auto rows = static_cast<std::size_t>(way.rows);
  const auto got = out_.download<float>(static_cast<std::size_t>(way.weight) * rows);
  const std::size_t first = static_cast<std::size_t>(chosen_[0]) / rows * rows;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t token = way.loaders > 0 ? static_cast<std::size_t>(chosen_[r]) : first + r;
    for (std::size_t w = 0; w < static_cast<std::size_t>(way.weight); ++w) {
      int sum = 0;
      for (std::size_t i = 0; i < k_; ++i) sum += value(token, i) * value(kTokens + w, i);
      count += got[w * rows + r] == static_cast<float>(sum) ? 0 : 1;
    }
  }
  return count;
}

Json Bench::run(const ProbeWay& way) const {
  const auto k = static_cast<std::int64_t>(k_);
  ProbeParams p{};
  p.weight = cuda::rows_map({weight_.data(), kMostWeight, k}, DType::bf16, 128);
  p.rows = cuda::rows_map({x_.data(), kTokens, k}, DType::bf16, 128);
  p.x = x_.as<__nv_bfloat16>();
  p.index = index_.as<int>();
  p.out = out_.as<float>();
  p.clocks = clocks_.as<long long>();
  p.k = static_cast<int>(k);
  p.tiles = static_cast<int>(ctas_ * kTilesOfCta);
  double best = 1e30;
  for (int i = 0; i < 9; ++i) {
    cuda::check(way.launch(p, static_cast<int>(ctas_)), "probe");
    double sum = 0;
    for (const long long c : clocks_.download<long long>(ctas_)) sum += static_cast<double>(c);
    best = std::min(best, sum / static_cast<double>(ctas_ * kTilesOfCta * k_ / 64));
  }
  const int bad = way.product && way.weights ? wrong(way) : 0;
  const auto how = way.loaders == 0 ? std::string("boxes, in order")
                                    : fmt::format("cp.async, {} threads", way.loaders);
  const char* const beside = way.product ? "weight, product" : way.weights ? "weight" : "-";
  fmt::print("{:3} x {:3}  k {:5}  {:22} {:15} {:6.0f} clocks{}\n", way.weight, way.rows, k, how,
             beside, best, bad == 0 ? "" : fmt::format(", {} WRONG", bad));
  std::fflush(stdout);
  return {{"schema", "tilelace.gather_probe/1"},
          {"weight_rows", way.weight},
          {"rows", way.rows},
          {"k", k},
          {"way", how},
          {"beside", beside},
          {"clocks", best},
          {"wrong", bad}};
}

int run(const std::vector<std::size_t>& ks, const std::string& file) {
  cudaDeviceProp device{};
  cuda::check(cudaGetDeviceProperties(&device, 0), "device");
  JsonLines json(file, true);
  int bad = 0;
  fmt::print("{}; a step of either shape is 1024 clocks of tensor cores\n", device.name);
  for (const std::size_t k : ks) {
    const Bench bench(k, static_cast<std::size_t>(device.multiProcessorCount));
    for (const ProbeWay& way : probe_ways()) {
      Json line = bench.run(way);
      line["device"] = device.name;
      bad += line["wrong"].get<int>();
      json.write(line);
    }
  }
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  CLI::App app("Times ways in which rows that an index chooses reach a grouped product");
  std::vector<std::size_t> ks{2048, 4096};
  std::string json;
  app.add_option("--k", ks, "columns; multiples of 64")->delimiter(',');
  app.add_option("--json", json, "appends JSON lines to this file");
  return tilelace::gpu_test::run_program("gpu_gather_probe", app, argc, argv,
                                         [&] { return tilelace::gpu_test::run(ks, json); });
}
