// SPDX-License-Identifier: Apache-2.0
// All-gather + GEMM on two GPUs, a thread of this process each.
//
// usage: ag_gemm_gpu [cuda|cpu]    (default cuda; cpu runs the same program on CPU ranks)
//
// Every rank holds some rows of A and its own slice of the weight's rows (the output's columns),
// both on its GPU. The call sends the rows to the other GPU while the product of what is there
// runs.
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace {

using tilelace::DType;

constexpr int kRanks = 2;
constexpr std::int64_t kRows = 512;  // of all ranks together
constexpr std::int64_t kDepth = 1024;
constexpr std::int64_t kCols = 768;  // of one rank
constexpr int kCalls = 10;

// Small integers: exact in bf16, and so are their sums here.
float a_at(std::int64_t row, std::int64_t k) { return (row * 7 + k) % 64 == 0 ? 1.0F : 0.0F; }
float w_at(int rank, std::int64_t col, std::int64_t k) {
  return static_cast<float>((rank + 2 * col + 3 * k) % 3) - 1;
}

// bf16 is the upper half of a float.
std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}
float from_bf16(std::uint16_t value) {
  const std::uint32_t bits = std::uint32_t{value} << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

/// What one rank does; true if its output is right.
bool run_rank(tilelace::Communicator& comm) {
  const int rank = comm.rank();
  const std::int64_t rows = kRows / kRanks;

  // This rank's rows of A and its weight [n, k], made on the host and copied to the GPU. A program
  // that has an allocator passes its own device pointers instead: 16-byte aligned, rows dense.
  std::vector<std::uint16_t> a(rows * kDepth), weight(kCols * kDepth), out(kRows * kCols);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < kDepth; ++k) a[i * kDepth + k] = to_bf16(a_at(rank * rows + i, k));
  for (std::int64_t j = 0; j < kCols; ++j)
    for (std::int64_t k = 0; k < kDepth; ++k) weight[j * kDepth + k] = to_bf16(w_at(rank, j, k));
  tilelace::DeviceBuffer a_memory(comm, a.size() * 2);
  tilelace::DeviceBuffer weight_memory(comm, weight.size() * 2);
  tilelace::DeviceBuffer out_memory(comm, out.size() * 2);
  a_memory.upload(a.data(), a.size() * 2);
  weight_memory.upload(weight.data(), weight.size() * 2);
  const tilelace::TensorView weight_view = dense(weight_memory.data(), DType::bf16, kCols, kDepth);
  const tilelace::TensorView out_view = dense(out_memory.data(), DType::bf16, kRows, kCols);

  // Once: say which problems will come, so that staging is sized and kernels are loaded.
  // Collective.
  tilelace::Preparation preparation;
  preparation.problem = {.op = tilelace::Op::ag_gemm,
                         .ranks = kRanks,
                         .m = kRows,
                         .n = {kCols},
                         .k = kDepth,
                         .dtype = DType::bf16};
  preparation.weights = {weight_view};
  comm.prepare({&preparation, 1});
  if (rank == 0) {
    std::ostringstream text;
    text << tilelace::query_plan(comm, preparation.problem);
    std::printf("plan: %s\n", text.str().c_str());
  }

  // As often as wanted: the call. On GPUs it returns when its work is in the stream.
  tilelace::AgGemmArgs args;
  args.m = kRows;
  args.a = dense(a_memory.data(), DType::bf16, rows, kDepth);
  args.weights = {&weight_view, 1};
  args.out = {&out_view, 1};
  args.stream = nullptr;  // a cudaStream_t of this GPU; null is the default stream
  for (int i = 0; i < kCalls; ++i) tilelace::ag_gemm(comm, args);

  // Waits for the stream; errors of the kernels (a peer that did not come, say) surface here.
  comm.synchronize();
  out_memory.download(out.data(), out.size() * 2);

  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      float want = 0;
      for (std::int64_t k = (64 - i * 7 % 64) % 64; k < kDepth; k += 64)
        want += a_at(i, k) * w_at(rank, j, k);
      if (from_bf16(out[i * kCols + j]) != want) return false;
    }
  }
  return true;
}

int run(const tilelace::CommunicatorOptions& options) {
  std::vector<tilelace::Communicator> comms = tilelace::Communicator::threads(kRanks, options);
  std::vector<int> right(kRanks, 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        right[r] = run_rank(comms[r]) ? 1 : 0;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        comms[r].abort();  // the peers need not wait for this rank
      }
    });
  }
  for (std::thread& t : threads) t.join();
  int all = 0;
  for (const int ok : right) all += ok;
  std::printf("ag_gemm: %d of %d ranks have the right product\n", all, kRanks);
  return all == kRanks ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tilelace::CommunicatorOptions options;
  const bool cpu = argc > 1 && std::string_view(argv[1]) == "cpu";
  options.device = cpu ? tilelace::Device::cpu : tilelace::Device::cuda;
  try {
    return run(options);
  } catch (const tilelace::Error& e) {  // no GPU, no driver, one GPU only
    std::fprintf(stderr, "ag_gemm_gpu: %s\n", e.what());
    return e.kind() == tilelace::ErrorKind::usage ? 2 : 3;
  }
}
