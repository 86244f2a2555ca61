// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/architecture.h"
#include "plan/gpu/kernel_choice.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace {

namespace {

/// "a, b or c".
std::string one_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

}  // namespace

std::string_view name_of(Op op) { return row_of(op).name; }

std::string names_of_ops() {
  std::vector<std::string_view> names;
  for (const OpRow& row : op_table()) names.push_back(row.name);
  return one_of(names);
}

std::string names_of_dtypes(std::string_view DTypeRow::*column) {
  std::vector<std::string_view> names;
  for (const DTypeRow& row : kDTypes) names.push_back(row.*column);
  return one_of(names);
}

std::string names_of_gpu_dtypes() {
  std::vector<std::string_view> names;
  for (const DTypeRow& row : kDTypes)
    if (row.on_gpus) names.push_back(row.name);
  return one_of(names);
}

std::string_view name_of(Activation a) {
  switch (a) {
    case Activation::none: return "none";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::silu: return "silu";
    case Activation::swiglu: return "swiglu";
  }
  return "?";
}

std::string_view name_of(Path p) {
  switch (p) {
    case Path::fused: return "fused";
    case Path::medium: return "medium";
    case Path::unfused: return "unfused";
  }
  return "?";
}

std::string_view name_of(RouteKind r) {
  switch (r) {
    case RouteKind::mesh: return "mesh";
    case RouteKind::ring: return "ring";
    case RouteKind::two_level: return "two_level";
  }
  return "?";
}

std::string_view name_of(Transport t) { return row_of(t).name; }

std::string_view name_of(Device d) {
  switch (d) {
    case Device::cpu: return "cpu";
    case Device::cuda: return "cuda";
  }
  return "?";
}

namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const auto v : values) text += fmt::format("{}{}", text.empty() ? "" : "+", v);
  return text;
}

/// Of the first one nothing, as ever.
std::string of_architecture(const Machine& m) {
  return m.architecture == 0 ? "" : fmt::format(" of {}", name_of_architecture(m.architecture));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Problem& p) {
  os << fmt::format("{} ranks {} m {} n {} k {} {} bias {} act {}", name_of(p.op), p.ranks, p.m,
                    list(p.n), p.k, name_of(p.dtype), p.bias ? "yes" : "no", name_of(p.activation));
  if (p.return_gathered) os << " gathered";
  if (p.residual) os << " residual";
  if (!p.rows.empty()) os << " rows " << list(p.rows);
  return os;
}

std::ostream& operator<<(std::ostream& os, const Machine& m) {
  if (m.device == Device::cuda)
    return os << fmt::format("GPUs{}, {} multiprocessors each{}, link {:.3g} GB/s{}{}",
                             of_architecture(m), m.multiprocessors,
                             m.shared_device ? " (a share)" : "", m.link_bytes_per_s * 1e-9,
                             m.multicast == Multicast::usable ? ", multicast" : "",
                             m.cublas ? "" : ", no cuBLASLt");
  return os << fmt::format(
             "workers {} local_ranks {} link {:.3g} GB/s {:.3g} us, {:.3g} GFLOP/s a rank",
             m.workers, m.local_ranks, m.link_bytes_per_s * 1e-9, m.link_latency_s * 1e6,
             m.rank_flops_per_s * 1e-9);
}

std::ostream& operator<<(std::ostream& os, const Plan& p) {
  os << fmt::format("{} {} {} {} tile {}x{} chunk {} workers {}", name_of(p.op), name_of(p.path),
                    name_of(p.route), name_of(p.transport), p.tile_m, p.tile_n, p.chunk_rows,
                    p.workers);
  if (p.route == RouteKind::two_level) os << " local " << p.local_ranks;
  if (row_of(p.op).shares) os << " blocks " << p.blocks;
  if (row_of(p.op).sums) os << " partials " << name_of(p.partials);
  if (p.straddle) os << " straddle";
  if (p.kernel != nullptr) os << "; " << *p.kernel;
  return os;
}

}  // namespace tilelace
