// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "pair.h"

namespace tilelace::gpu_test {
namespace {

/// What a GPU has to send, and to receive, in both halves.
double wire_bytes(const PairRow& row) {
  const double all = static_cast<double>(row.m * row.hidden * 2);
  return 2 * all * (row.ranks - 1) / row.ranks;
}

}  // namespace

Json record(const PairResult& x, double link_gb_per_s, const std::string& commit) {
  const PairRow& row = x.row;
  Json r;
  r["schema"] = "tilelace.bench/1";
  r["op"] = row.name();
  r["model"] = row.model;
  r["layer"] = "mlp";
  r["ranks"] = row.ranks;
  r["m"] = row.m;
  r["n"] = row.inner * row.ranks;
  r["k"] = row.hidden;
  r["dtype"] = "bf16";
  r["backend"] = "cuda";
  r["mode"] = "graph";
  r["gemm_us"] = x.gemms_us;
  r["collective_us"] = nullptr;
  r["unfused_us"] = x.unfused_us;
  r["medium_us"] = nullptr;
  r["fused_us"] = x.fused_us;
  r["path"] = nullptr;  // each half has its own
  r["roof_us"] = std::max(x.gemms_us, wire_bytes(row) / link_gb_per_s * 1e-3);
  r["ect_us"] = x.fused_us - x.gemms_us;
  r["efficiency"] = x.unfused_us > x.gemms_us
                        ? Json(1 - (x.fused_us - x.gemms_us) / (x.unfused_us - x.gemms_us))
                        : Json(nullptr);
  r["speedup"] = x.speedup();
  r["peers"] = {{"fused_default", x.default_us}};
  r["plan"] = x.first_plan + " | " + x.second_plan;
  r["transport"] = nullptr;
  r["error"] = nullptr;
  r["exact"] = nullptr;
  r["difference"] = x.good() ? Json(x.difference) : Json(nullptr);  // from the unfused result
  r["verified"] = x.good();
  r["iterations"] = x.rounds;
  r["spread"] = x.spread;
  r["link_gb_per_s"] = link_gb_per_s;
  r["device"] = device_name();
  r["driver"] = driver_version();
  r["commit"] = commit.empty() ? Json(nullptr) : Json(commit);
  r["time"] = utc_now();
  return r;
}

void print_pairs(const std::vector<PairResult>& results) {
  fmt::print("us; gemms: both products by cuBLASLt; default: both plans by prediction\n");
  fmt::print("{:<9} {:<7} {:>6} {:>9} {:>9} {:>9} {:>9} {:>6} {:>10} {:>10}  {}\n", "model", "pair",
             "m", "gemms", "unfused", "fused", "default", "x", "difference", "allowed", "plans");
  for (const PairResult& x : results)
    fmt::print(
        "{:<9} {:<7} {:>6} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>6.2f} {:>10.5f} {:>10.5f}  {} | "
        "{}{}\n",
        x.row.model, x.row.name(), x.row.m, x.gemms_us, x.unfused_us, x.fused_us, x.default_us,
        x.speedup(), x.difference, x.allowed, x.first_plan, x.second_plan,
        x.good() ? "" : "  WRONG");
}

}  // namespace tilelace::gpu_test
