// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <algorithm>
#include <cmath>

namespace tilelace::gpu_test {
namespace {

using KindFigure = std::pair<cuda::NcclBuffer, Figure>;

std::string us_of(const std::vector<KindFigure>& figures, cuda::NcclBuffer kind) {
  for (const auto& [k, f] : figures)
    if (k == kind) return fmt::format("{:.1f}", f.us);
  return "-";
}

}  // namespace

double Result::roof_us() const {
  return std::max(figures.gemm.us, row.wire_bytes() / link_gb_per_s * 1e-3);
}

const KindFigure& fastest(const std::vector<KindFigure>& figures) {
  return *std::min_element(
      figures.begin(), figures.end(),
      [](const KindFigure& a, const KindFigure& b) { return a.second.us < b.second.us; });
}

Json record(const Result& x, const std::string& commit) {
  const Figures& f = x.figures;
  const auto& unfused = fastest(f.unfused);
  Json r;
  r["schema"] = "tilelace.bench/1";
  r["op"] = name_of(x.row.op);
  r["model"] = x.row.model;
  r["layer"] = nullptr;
  r["ranks"] = x.row.ranks;
  r["m"] = x.row.m;
  r["n"] = x.row.n;
  r["k"] = x.row.k;
  r["dtype"] = name_of(x.row.gemm.dtype);
  r["backend"] = "cuda";
  r["mode"] = "graph";
  r["gemm_us"] = f.gemm.us;
  r["collective_us"] = fastest(f.collective).second.us;
  r["unfused_us"] = unfused.second.us;
  for (const char* key : {"medium_us", "fused_us", "path"}) r[key] = nullptr;
  r["roof_us"] = x.roof_us();
  for (const char* key : {"ect_us", "efficiency", "speedup"}) r[key] = nullptr;
  r["peers"] = Json::object();
  for (const auto& [kind, figure] : f.collective)
    r["peers"][std::string(name_of(kind))] = figure.us;
  for (const auto& [kind, figure] : f.unfused)
    r["peers"][fmt::format("unfused_{}", name_of(kind))] = figure.us;
  r["plan"] = fmt::format("cublas {}, {}", f.plan, name_of(unfused.first));
  r["transport"] = "nccl";
  const auto error = f.verified.error;
  r["error"] = error && std::isfinite(*error) ? Json(*error) : Json(nullptr);
  r["exact"] = f.verified.exact ? Json(*f.verified.exact) : Json(nullptr);
  r["verified"] = x.good();
  r["iterations"] = x.rounds;
  r["spread"] = unfused.second.spread;
  r["device"] = device_name();
  r["driver"] = driver_version();
  r["commit"] = commit.empty() ? Json(nullptr) : Json(commit);
  r["time"] = utc_now();
  return r;
}

void print_table(const std::vector<Result>& results) {
  using cuda::NcclBuffer;
  fmt::print("us; nccl, reg, win: the collective alone in plain, registered and window buffers\n");
  fmt::print("{:<9} {:<8} {:>6} {:>9} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9} {:>6}  {}\n", "model",
             "op", "m", "gemm", "nccl", "reg", "win", "unfused", "exposed", "roof", "spread",
             "unfused with, verified");
  for (const Result& x : results) {
    const Figures& f = x.figures;
    const auto& [kind, unfused] = fastest(f.unfused);
    fmt::print(
        "{:<9} {:<8} {:>6} {:>9.1f} {:>8} {:>8} {:>8} {:>9.1f} {:>8.1f} {:>9.1f} {:>6.3f}  "
        "{}, {}\n",
        x.row.model, name_of(x.row.op), x.row.m, f.gemm.us, us_of(f.collective, NcclBuffer::plain),
        us_of(f.collective, NcclBuffer::registered), us_of(f.collective, NcclBuffer::window),
        unfused.us, unfused.us - f.gemm.us, x.roof_us(), unfused.spread, name_of(kind),
        x.good() ? "yes" : "WRONG: " + f.verified.trouble);
  }
}

}  // namespace tilelace::gpu_test
