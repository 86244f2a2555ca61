// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <algorithm>
#include <cmath>

namespace tilelace::gpu_test {
namespace {

Json us_or_null(const Figure* f) { return f == nullptr ? Json(nullptr) : Json(f->us); }

template <class T>
Json or_null(const std::optional<T>& x) {
  return x ? Json(*x) : Json(nullptr);
}

std::string us_of(const Figure* f) { return f == nullptr ? "-" : fmt::format("{:.1f}", f->us); }

std::string of(const std::optional<double>& x) { return x ? fmt::format("{:.2f}", *x) : "-"; }

}  // namespace

double Result::roof_us() const {
  return std::max(gemm_us(), row.wire_bytes() / link_gb_per_s * 1e-3);
}

std::optional<double> Result::efficiency() const {
  const Figure* unfused = figures.fastest(Method::unfused);
  if (fused() == nullptr || unfused == nullptr || unfused->us <= gemm_us()) return {};
  return 1 - (fused()->us - gemm_us()) / (unfused->us - gemm_us());
}

std::optional<double> Result::speedup() const {
  const Figure* unfused = figures.fastest(Method::unfused);
  if (fused() == nullptr || unfused == nullptr) return {};
  return unfused->us / fused()->us;
}

Json record(const Result& x, const std::string& commit) {
  const Figures& f = x.figures;
  const Figure* fused = x.fused();
  const Figure* unfused = f.fastest(Method::unfused);
  Json r;
  r["schema"] = "tilelace.bench/1";
  r["op"] = name_of(x.row.op);
  r["model"] = x.row.model;
  r["layer"] = x.row.layer;
  r["ranks"] = x.row.ranks;
  r["m"] = x.row.m;
  r["n"] = x.row.n;
  r["k"] = x.row.k;
  r["dtype"] = name_of(x.row.gemm.dtype);
  r["backend"] = "cuda";
  r["mode"] = "graph";
  r["gemm_us"] = x.gemm_us();
  r["collective_us"] = us_or_null(f.fastest(Method::collective));
  r["unfused_us"] = us_or_null(unfused);
  r["beside_us"] = us_or_null(f.fastest(Method::beside));
  r["medium_us"] = us_or_null(f.fastest(Method::medium));
  r["fused_us"] = us_or_null(fused);
  r["path"] = fused == nullptr ? Json(nullptr) : Json(name_of(f.path));
  r["roof_us"] = x.roof_us();
  r["ect_us"] = fused == nullptr ? Json(nullptr) : Json(fused->us - x.gemm_us());
  r["efficiency"] = or_null(x.efficiency());
  r["speedup"] = or_null(x.speedup());
  r["peers"] = Json::object();
  for (const Figure& figure : f.all)
    if (figure.name != "fused") r["peers"][figure.name] = figure.us;
  r["plan"] = fused != nullptr ? fused->plan : "cublas " + f.named("cublas")->plan;
  r["transport"] = fused != nullptr ? f.transport : "nccl";
  const auto error = f.verified.error;
  r["error"] = error && std::isfinite(*error) ? Json(*error) : Json(nullptr);
  r["exact"] = or_null(f.verified.exact);
  r["verified"] = x.good();
  r["iterations"] = x.rounds;
  const Figure* timed = fused != nullptr ? fused : unfused;
  r["spread"] = timed == nullptr ? Json(nullptr) : Json(timed->spread);
  r["link_gb_per_s"] = x.link_gb_per_s;
  r["device"] = device_name();
  r["driver"] = driver_version();
  r["commit"] = commit.empty() ? Json(nullptr) : Json(commit);
  r["time"] = utc_now();
  return r;
}

void print_table(const std::vector<Result>& results) {
  fmt::print(
      "us; gemm: the fastest of cublas and tilelace; nccl: the fastest kind of buffer; beside: a "
      "product and copies of as many bytes that do not wait for each other; E: overlap efficiency; "
      "x: unfused / fused\n");
  fmt::print(
      "{:<9} {:<8} {:<7} {:>6} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9}  "
      "{}\n",
      "model", "op", "layer", "m", "cublas", "tilelace", "nccl", "unfused", "beside", "medium",
      "fused", "default", "E", "x", "roof", "plan, verified");
  for (const Result& x : results) {
    const Figures& f = x.figures;
    const Figure* standard = f.named("fused_default");
    fmt::print(
        "{:<9} {:<8} {:<7} {:>6} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} "
        "{:>9.1f}  "
        "{}{}\n",
        x.row.model, name_of(x.row.op), x.row.layer, x.row.m, us_of(f.named("cublas")),
        us_of(f.named("tilelace_gemm")), us_of(f.fastest(Method::collective)),
        us_of(f.fastest(Method::unfused)), us_of(f.fastest(Method::beside)),
        us_of(f.fastest(Method::medium)), us_of(x.fused()),
        us_of(standard == nullptr ? x.fused() : standard), of(x.efficiency()), of(x.speedup()),
        x.roof_us(), x.fused() != nullptr ? x.fused()->plan : "-",
        x.good() ? "" : "  WRONG: " + f.verified.trouble);
  }
}

}  // namespace tilelace::gpu_test
