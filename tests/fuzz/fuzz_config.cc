// SPDX-License-Identifier: Apache-2.0
// config.json of a dense model or of a mixture of experts, and what its sizes make of a layer.
#include "model/config.h"
#include "model/experts.h"
#include "model/layers.h"
#include "untrusted_file.h"

namespace tilelace::model {
namespace {

void read_dense(const std::filesystem::path& file) {
  const ModelConfig config = read_config(file);
  fuzz::expect(config.layers > 0 && config.hidden > 0 && config.heads > 0 && config.ffn > 0,
               "positive sizes");
  for (const int tp : group_sizes(config)) {
    for (const LayerGemm& g : layer_gemms(config, tp)) {
      fuzz::expect(g.k > 0 && k_slice(g, tp - 1).end <= g.full_k, "columns within the weight");
      for (std::size_t i = 0; i < g.n.size(); ++i) {
        const Slice rows = row_slice(g, i, tp - 1);
        fuzz::expect(rows.size() == g.n[i] && rows.end <= g.full_n[i], "rows within the weight");
      }
    }
  }
}

void read_mixture(const std::filesystem::path& file) {
  const ExpertsConfig config = read_experts(file);
  fuzz::expect(
      config.top_k > 0 && config.top_k <= config.experts && config.inner > 0 && config.shared >= 0,
      "sizes of a layer of experts");
}

}  // namespace
}  // namespace tilelace::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const tilelace::fuzz::UntrustedFile file(bytes, size);
  tilelace::fuzz::read_or_refuse([&] { tilelace::model::read_dense(file.path()); });
  tilelace::fuzz::read_or_refuse([&] { tilelace::model::read_mixture(file.path()); });
  return 0;
}
