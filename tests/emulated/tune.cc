// SPDX-License-Identifier: Apache-2.0
// tune() and first calls that tune, whole, on emulated GPUs: what is kept, who reads it, what a
// captured call gets, which kernels products of experts launch. Times mean nothing there.
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/kernels/sm90/grouped_kernels.h"
#include "plan/base/expert_product.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/tuning/tuned_tiles.h"
#include "plan/tuning/tuning_draft.h"
#include "tilelace/tilelace.h"

namespace tilelace {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kTokens = 8;
/// Kernels that were launched.
std::mutex launched_mutex;
std::set<const void*> launched;
/// Of which the gate's few tiles have what is predicted.
constexpr int kCols = 128;

void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("expected " + what);
}

/// Runs on every rank; throws what one of them threw.
void on_all(std::vector<Communicator>& members, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> errors(members.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < members.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        body(members[r]);
      } catch (const std::exception& e) {
        errors[r] = e.what();
        members[r].abort();
      }
    });
  for (auto& t : threads) t.join();
  std::string all;
  for (std::size_t r = 0; r < errors.size(); ++r)
    if (!errors[r].empty()) all += fmt::format("rank {}: {}; ", r, errors[r]);
  if (!all.empty()) throw std::runtime_error(all);
}

CommunicatorOptions on_gpus(const std::string& cache = "", double autotune = 0) {
  CommunicatorOptions o;
  o.device = Device::cuda;
  o.timeout_s = 60;
  o.cache = cache;
  o.autotune = autotune;
  return o;
}

Problem scatter(std::int64_t m) {
  Problem p;
  p.op = Op::gemm_rs;
  p.ranks = kRanks;
  p.m = m;
  p.n = {kCols};
  p.k = 64;
  p.dtype = DType::bf16;
  return p;
}

bool is_tuned(const Communicator& c, const Problem& p) {
  return query_plan(c, p).reason.find("tuned: the fastest") != std::string::npos;
}

/// Tensors of a gemm_rs, and a call.
class Tensors {
 public:
  Tensors(Communicator& c, std::int64_t m)
      : member_(c), m_(m), x_(c, 2 * 64 * m), weight_(c, 2 * kCols * 64), out_(c, 2 * kCols * m) {}
  void call(void* stream = nullptr) {
    GemmReduceArgs args;
    args.m = m_;
    args.x = dense(x_.data(), DType::bf16, m_, 64);
    args.weight = dense(weight_.data(), DType::bf16, kCols, 64);
    args.out = dense(out_.data(), DType::bf16, m_ / kRanks, kCols);
    args.stream = stream;
    gemm_rs(member_, args);
  }

 private:
  Communicator& member_;
  std::int64_t m_;
  DeviceBuffer x_, weight_, out_;
};

void asked_for(const std::string& file) {
  auto members = Communicator::threads(kRanks, on_gpus());
  on_all(members, [&](Communicator& c) {
    const std::vector<Problem> list = {scatter(32), scatter(32)};
    TuneOptions o;
    o.candidates = 1;
    o.problem_seconds = 0.5;
    o.force = true;  // cores that play GPUs stray
    const TuneResult result = tune(c, list, o);
    expect(result.rows.size() == 1 && result.left == 0, "one row of one problem");
    expect(result.rows[0].us > 0 && result.rows[0].plans > 0, "a plan that was timed");
    expect(is_tuned(c, scatter(32)), "the communicator to take its row");
    expect(tune(c, list, o).rows.empty(), "nothing to tune a second time");
    if (c.rank() == 0) write_tuning(result, file);
    bool refused = false;
    try {
      tune(c, std::vector<Problem>{scatter(c.rank() == 0 ? 32 : 48)}, o);
    } catch (const Error& e) {
      refused = e.kind() == ErrorKind::usage;
    }
    expect(refused, "an error where ranks tune other problems");
  });
  auto options = on_gpus();
  options.tuning = read_tuning(file);
  auto others = Communicator::threads(kRanks, options);
  expect(is_tuned(others[0], scatter(32)), "the file's row to be taken");
}

void first_calls(const std::string& cache) {
  {
    auto members = Communicator::threads(kRanks, on_gpus(cache, 0.1));
    on_all(members, [&](Communicator& c) {
      const std::vector<Preparation> room = {{scatter(64), {}, {}}};
      c.prepare(room);
      cudaStream_t stream = nullptr;
      cudaSetDevice(c.rank());
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      Tensors captured(c, 64), eager(c, 48);
      cudaGraph_t graph = nullptr;
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
      captured.call(stream);
      cudaStreamEndCapture(stream, &graph);
      cudaGraphDestroy(graph);
      expect(!is_tuned(c, scatter(64)), "no tuning while a stream is captured");
      for (int i = 0; i < 2; ++i) eager.call(stream);
      c.synchronize(stream);
      cudaStreamDestroy(stream);
    });
  }
  auto members = Communicator::threads(kRanks, on_gpus(cache));
  // The GPUs may have been too uneven to say: then predictions stay, which is said.
  expect(is_tuned(members[0], scatter(48)) || std::filesystem::is_empty(cache),
         "the cache's row to be taken");
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    std::filesystem::resize_file(entry.path(), 20);
  auto others = Communicator::threads(kRanks, on_gpus(cache));
  expect(!is_tuned(others[0], scatter(48)), "a broken cache to be left out");
}

MoeLayer small_layer() {
  MoeLayer l;
  l.dtype = DType::bf16;
  l.m = kTokens, l.hidden = 64, l.inner = 32, l.experts = 4, l.top_k = 2;
  l.replicated = true;
  return l;
}

/// What a layer's first half launches of the grouped product.
std::set<const void*> launched_by(Communicator& c) {
  const MoeLayer l = small_layer();
  prepare_moe(c, l);
  DeviceBuffer x(c, 2 * kTokens * l.hidden), ids(c, 4 * kTokens * l.top_k),
      weights(c, 4 * kTokens * l.top_k), w(c, 2 * l.experts * 2 * l.inner * l.hidden),
      map(c, 4 * static_cast<std::size_t>(moe_map_words(l, kTokens))),
      out(c, 2 * kTokens * l.top_k * l.inner);
  AgMoeArgs a;
  a.layer = l, a.m = kTokens;
  a.x = dense(x.data(), l.dtype, kTokens, l.hidden);
  a.routing = {ids.data(), Item::i32, static_cast<const float*>(weights.data())};
  a.weight = dense(w.data(), l.dtype, l.experts * 2 * l.inner, l.hidden);
  a.map = static_cast<std::int32_t*>(map.data());
  a.out = dense(out.data(), l.dtype, kTokens * l.top_k, l.inner);
  launched.clear();
  ag_moe(c, a);
  c.synchronize();
  std::set<const void*> grouped;
  for (const plan::GroupedShape& shape : plan::kSm90GroupedShapes)
    if (const void* k = cuda::grouped_entry(l.dtype, true, shape).kernel; launched.contains(k))
      grouped.insert(k);
  return grouped;
}

/// Whose calls take the tiles that tables have, each of them.
void tiles_of_tables() {
  const auto product = plan::expert_product(small_layer(), kTokens, true);
  const auto kernel = [](const plan::GroupedShape& shape) {
    return std::set{cuda::grouped_entry(DType::bf16, true, shape).kernel};
  };
  for (const plan::GroupedShape& shape : plan::kSm90GroupedShapes) {
    auto options = on_gpus();
    auto one = Communicator::threads(1, options);
    expect(launched_by(one[0]) == kernel(plan::sm90_grouped_shape(product)), "the rule's tiles");
    plan::TuningDraft draft("mine", plan::device_of(one[0].machine(), "GPU"));
    draft.put(product, shape, {5, 6, 4, ""});
    options.tuning = plan::tuning_of("mine", draft.text());
    auto tuned = Communicator::threads(1, options);
    expect(launched_by(tuned[0]) == kernel(shape), "the tiles of the table");
  }
}

void experts(const std::string& file) {
  auto members = Communicator::threads(kRanks, on_gpus());
  on_all(members, [&](Communicator& c) {
    const MoeLayer layer = small_layer();
    const std::vector<std::int64_t> sizes = {kTokens, 0, kTokens};
    TuneOptions o;
    o.problem_seconds = 0.1;
    o.force = true;
    const TuneResult result = tune_experts(c, layer, sizes, o);
    expect(result.experts.size() == 2 && result.left == 0, "both products of one size");
    const plan::GroupedPlans& shapes = plan::plans_of(c.machine().architecture).grouped;
    for (const TunedExperts& row : result.experts) {
      expect(!row.timed.empty() && row.timed.front().us > 0, "tiles and a time");
      for (const TimedTiles& t : row.timed)
        expect(t.us >= row.timed.front().us && shapes.find(t.tiles) != nullptr,
               "the fastest first");
    }
    expect(result.experts[0].first && !result.experts[1].first, "the first half first");
    for (const bool first : {true, false})
      expect(plan::choose_tiles(plan::expert_product(layer, kTokens, first), c.machine())
                     .reason.find("tuned: the fastest") == 0,
             "the communicator to take its rows");
    expect(tune_experts(c, layer, sizes, o).experts.empty(), "nothing to tune a second time");
    if (c.rank() == 0) write_tuning(result, file);
    const auto refused = [&](const MoeLayer& other) {
      try {
        tune_experts(c, other, sizes, o);
      } catch (const Error& e) {
        return e.kind() == ErrorKind::usage;
      }
      return false;
    };
    MoeLayer other = layer;
    other.inner = c.rank() == 0 ? 64 : 32;
    expect(refused(other), "an error where ranks tune other layers");
    other = layer;
    if (c.rank() == 1) other.top_k = 5;
    expect(refused(other), "an error on all ranks where one cannot");
  });
  expect(read_tuning(file)->grouped.size() == 2, "the file to have both rows");
}

}  // namespace
}  // namespace tilelace

// Linked in place of the machine's, which it calls.
extern "C" cudaError_t __real_cudaLaunchKernelExC(  // NOLINT: the linker's names
    const cudaLaunchConfig_t*, const void*, void**);
extern "C" cudaError_t __wrap_cudaLaunchKernelExC(  // NOLINT
    const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  {
    const std::scoped_lock lock(tilelace::launched_mutex);
    tilelace::launched.insert(kernel);
  }
  return __real_cudaLaunchKernelExC(config, kernel, arguments);
}

int main() {
  std::string folder = std::filesystem::temp_directory_path() / "tilelace-tune-XXXXXX";
  int code = 0;
  try {
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder");
    tilelace::asked_for(folder + "/table.json");
    std::filesystem::create_directory(folder + "/cache");
    tilelace::first_calls(folder + "/cache");
    tilelace::experts(folder + "/experts.json");
    tilelace::tiles_of_tables();
    fmt::print("tune: 2 ranks, good\n");
  } catch (const std::exception& e) {
    fmt::print("tune: {}\n", e.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
