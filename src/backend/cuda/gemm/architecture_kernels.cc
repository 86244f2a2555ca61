// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm/architecture_kernels.h"

#include <array>
#include <unordered_map>

#include "core/architecture.h"
#include "core/check.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::cuda {
namespace {

constexpr std::array kRows{ArchitectureKernels{"sm_90a", sm90_kernels}};
static_assert(are_architectures(kRows));

/// Of an architecture: each call looks its kernel up.
using ByTile =
    std::unordered_map<std::string_view, std::array<const GemmKernel*, std::size(kDTypes)>>;
const std::array<ByTile, kRows.size()>& by_tile() {
  static const auto all = [] {
    std::array<ByTile, kRows.size()> maps;
    for (std::size_t a = 0; a < kRows.size(); ++a)
      for (const GemmKernel& k : kRows[a].kernels())
        maps[a][k.tile.name][static_cast<std::size_t>(k.dtype)] = &k;
    return maps;
  }();
  return all;
}

}  // namespace

const GemmKernel* ArchitectureKernels::find(std::string_view tile, DType dtype) const {
  const auto& found = by_tile()[static_cast<std::size_t>(this - kRows.data())];
  const auto at = found.find(tile);
  return at == found.end() ? nullptr : at->second[static_cast<std::size_t>(dtype)];
}

const ArchitectureKernels& kernels_of(int architecture) {
  return kRows.at(static_cast<std::size_t>(architecture));
}

void require_kernels(int architecture) {
  for (const plan::GemmTile& tile : plan::plans_of(architecture).tiles)
    for (const DTypeRow& type : kDTypes) {
      if (!type.on_gpus) continue;
      const GemmKernel* const kernel = kernels_of(architecture).find(tile.name, type.type);
      if (kernel == nullptr || kernel->tile != tile)
        raise(ErrorKind::system, "gemm: tile {} of {} in {}: {}", tile.name,
              name_of_architecture(architecture), type.name,
              kernel == nullptr ? "this build has no kernel for the tile"
                                : "this build has a kernel of another shape for the tile");
    }
}

}  // namespace tilelace::cuda
