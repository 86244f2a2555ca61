// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/moe/moe_passes.h"

#include <array>
#include <mutex>

#include "backend/backend.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/moe/moe_gpu.h"
#include "comm/cuda/driver.h"
#include "core/check.h"
#include "plan/tuning/tuned_tiles.h"

namespace tilelace::cuda {
namespace {

cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }

Gating gating_of(ExpertActivation a) {
  if (a == ExpertActivation::swiglu) return Gating::swiglu;
  return a == ExpertActivation::swiglu_clamped ? Gating::clamped : Gating::one;
}

Activation activation_of(ExpertActivation a) {
  switch (a) {
    case ExpertActivation::gelu: return Activation::gelu;
    case ExpertActivation::gelu_tanh: return Activation::gelu_tanh;
    case ExpertActivation::silu: return Activation::silu;
    case ExpertActivation::none:
    case ExpertActivation::swiglu:
    case ExpertActivation::swiglu_clamped: break;
  }
  return Activation::none;
}

const float* weights_in(const schedule::MoeMap& shape, const std::int32_t* map) {
  return reinterpret_cast<const float*>(map + shape.weights());
}

/// The device that has this memory. Errors: usage (none).
int device_of(std::string_view op, const void* memory) {
  cudaPointerAttributes at{};
  const cudaError_t status = cudaPointerGetAttributes(&at, memory);
  cudaGetLastError();
  require(status == cudaSuccess && at.type == cudaMemoryTypeDevice,
          "{}: begins: got memory that is not on a GPU, expected memory of a GPU", op);
  return at.device;
}

constexpr std::string_view kName = "mixture of experts";

/// On the GPU of each call's tensors.
class LocalGpuPasses : public GpuMoePasses {
 public:
  LocalGpuPasses() : GpuMoePasses(0) {}
  void grouped_gemm(const GroupedGemmArgs& a) override {
    const int device = device_of("grouped_gemm", a.begins);
    GpuMoePasses here(device);
    static std::array<std::once_flag, 64> loaded;
    std::call_once(loaded.at(static_cast<std::size_t>(device)), [&] { here.prepare(a.x.cols); });
    here.grouped_gemm(a);
  }
  void prepare(std::int64_t /*k*/) override {}
};

}  // namespace

void GpuMoePasses::make_map(const MapPass& p) {
  const comm::DeviceScope scope(device_, kName);
  cuda::make_map({p.shape, p.ids, p.type == Item::i64, p.map}, on(p.stream));
}

void GpuMoePasses::keep_weights(const schedule::MoeMap& shape, const float* weights,
                                std::int32_t* map, void* stream) {
  if (shape.pairs() == 0) return;
  const comm::DeviceScope scope(device_, kName);
  check(cudaMemcpyAsync(map + shape.weights(), weights,
                        static_cast<std::size_t>(shape.pairs()) * sizeof(float),
                        cudaMemcpyDeviceToDevice, on(stream)),
        "ag_moe: a copy of the router's weights");
}

void GpuMoePasses::permute(const PermutePass& p) {
  const comm::DeviceScope scope(device_, kName);
  PermuteRows rows{p.shape, p.map, p.x.data, p.rows.data, p.x.cols, p.x.dtype};
  if (p.weighted) rows.weights = weights_in(p.shape, p.map);
  permute_rows(rows, on(p.stream));
}

void GpuMoePasses::grouped_gemm(const GroupedGemmArgs& a) {
  const comm::DeviceScope scope(device_, kName);
  GroupedGemm g;
  g.x = a.x.data;
  g.weight = a.weight.data;
  g.bias = a.bias.data;
  g.out = a.out.data;
  g.begins = a.begins;
  g.scale = a.scales;
  g.sources = a.sources;
  g.rows = a.x.rows;
  g.n = a.weight.rows / a.experts;
  g.k = a.x.cols;
  g.experts = static_cast<int>(a.experts);
  g.dtype = a.x.dtype;
  g.gating = gating_of(a.activation);
  g.activation = activation_of(a.activation);
  const plan::GroupedProduct product = product_of(g);
  const auto choose = [&] { return plan::choose_tiles(product, machine_).shape; };
  const plan::GroupedShape& shape =
      machine_.tuning == nullptr ? grouped_shape(g) : shapes_.get(product, choose);
  cuda::grouped_gemm(g, shape, on(a.stream));
}

void GpuMoePasses::take_machine(const Machine& machine) {
  machine_ = machine;
  shapes_.clear();
}

std::size_t GpuMoePasses::ProductHash::operator()(const plan::GroupedProduct& p) const {
  std::size_t hash = p.gated ? 1 : 0;
  for (const std::int64_t size : {p.rows, p.n, p.k, p.experts})
    hash = hash * 0x100000001b3U + static_cast<std::size_t>(size);
  return hash;
}

void GpuMoePasses::sum_slots(const SlotSumPass& p) {
  const comm::DeviceScope scope(device_, kName);
  SumSlots sum{p.shape, p.map, p.rows.data, p.add.data, p.out.data, p.out.cols, p.out.dtype};
  sum.add_first = p.first;
  sum.add_rows = p.add.rows;
  cuda::sum_slots(sum, on(p.stream));
}

void GpuMoePasses::prepare(std::int64_t /*k*/) {
  const comm::DeviceScope scope(device_, kName);
  load_grouped_gemm();
  load_moe_rows();
}

}  // namespace tilelace::cuda

namespace tilelace {

std::unique_ptr<MoePasses> make_gpu_moe_passes() {
  return std::make_unique<cuda::LocalGpuPasses>();
}

}  // namespace tilelace
