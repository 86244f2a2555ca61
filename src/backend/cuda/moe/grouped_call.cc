// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <optional>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/moe/architecture_grouped.h"
#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::cuda {
namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();

void require_address(const void* p, const char* name, bool null_is_right = false) {
  require(p != nullptr || null_is_right,
          "grouped_gemm: {}: got null, expected memory of the device", name);
  require(reinterpret_cast<std::uintptr_t>(p) % 16 == 0,
          "grouped_gemm: {}: got address {}, expected a multiple of 16 bytes", name, p);
}

void check_call(const GroupedGemm& g) {
  const bool gated = g.gating != Gating::one;
  require(g.experts >= 1 && g.experts <= kMostMoeExperts,
          "grouped_gemm: experts: got {}, expected 1 to {}", g.experts, kMostMoeExperts);
  const auto require_width = [](const char* name, std::int64_t width, std::int64_t grain) {
    require(width > 0 && width % grain == 0, "grouped_gemm: {}: got {}, expected a multiple of {}",
            name, width, grain);
  };
  require_width("n", g.n, plan::grain_of(g.dtype, gated));
  require_width("k", g.k, plan::grain_of(g.dtype));
  require(g.rows >= 0 && g.rows <= kMostInt && g.n <= kMostInt / g.experts && g.k <= kMostInt,
          "grouped_gemm: got rows {}, n {}, k {}, expected each of them, and experts x n, to be at "
          "most 2^31 - 1",
          g.rows, g.n, g.k);
  require(g.activation != Activation::swiglu && (!gated || g.activation == Activation::none),
          "grouped_gemm: activation: got {}, expected {}", name_of(g.activation),
          gated ? "none: the gating has its own activation" : "any but swiglu, which is a gating");
  if (g.rows == 0) return;
  require_address(g.x, "x");
  require_address(g.weight, "weight");
  require_address(g.out, "out");
  require_address(g.bias, "bias", true);
  require(g.begins != nullptr, "grouped_gemm: begins: got null, expected memory of the device");
}

/// The current device's number in core/architecture.h.
int architecture_here() {
  thread_local std::array<std::optional<int>, 64> known{};
  const int device = current_device();
  std::optional<int>& number = known.at(static_cast<std::size_t>(device));
  if (number) return *number;
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "capability");
  number = architecture_of(major, minor);
  require(number.has_value(),
          "grouped_gemm: device {}: got sm_{}{}, expected {}, for which this build has kernels",
          device, major, minor, devices_with_kernels());
  return *number;
}

const plan::GroupedPlans& plans_here() {
  return plan::grouped_plans_of("grouped_gemm", architecture_here());
}

}  // namespace

plan::GroupedProduct product_of(const GroupedGemm& g) {
  return {g.rows, g.n, g.k, g.experts, g.gating != Gating::one, g.dtype};
}

std::span<const plan::GroupedShape> grouped_shapes() { return plans_here().shapes; }

const plan::GroupedShape& grouped_shape(const GroupedGemm& g) {
  return plans_here().rule(product_of(g));
}

void grouped_gemm(const GroupedGemm& g, const plan::GroupedShape& shape, cudaStream_t stream) {
  require(with_element(g.dtype, [](auto) { return true; }),
          "grouped_gemm: dtype: got {}, expected {} on GPUs", name_of(g.dtype),
          names_of_gpu_dtypes());
  check_call(g);
  const ArchitectureGrouped& kernels = grouped_of(architecture_here());
  if (g.rows > 0) kernels.launch(g, shape, stream);
}

void load_grouped_gemm() { grouped_of(architecture_here()).load(); }

}  // namespace tilelace::cuda
