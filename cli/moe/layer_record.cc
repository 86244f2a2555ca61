// SPDX-License-Identifier: Apache-2.0
#include "moe/layer_record.h"

#include "commit.h"
#include "machine.h"
#include "plan/base/expert_product.h"
#include "plan/gemm/architecture_plans.h"
#include "row.h"

namespace tilelace::cli {

Json layer_json(const MoeWork& work, const std::string& op, std::int64_t m) {
  const MoeLayer& l = work.layer;
  Json r;
  r["schema"] = "tilelace.moe/1";
  r["op"] = op;
  r["model"] = or_null(work.model);
  r["ranks"] = work.ranks;
  r["m"] = m;
  r["hidden"] = l.hidden;
  r["inner"] = l.inner * work.ranks;
  r["experts"] = l.experts;
  r["top_k"] = l.top_k;
  r["activation"] = row_of(l.activation).name;
  r["dtype"] = name_of(l.dtype);
  r["commit"] = built_commit();
  r["time"] = utc_now();
  return r;
}

std::string moe_record(const MoeWork& work, const MoeTimes& t) {
  Json r = layer_json(work, t.op, t.m);
  const bool gpus = work.device == Device::cuda;
  r["backend"] = gpus ? "cuda" : "cpu";
  r["routing"] = name_of(t.routing);
  r["imbalance"] = t.imbalance;
  r["first_us"] = quantile(t.first_us, 0.5);
  r["us"] = quantile(t.us, 0.5);
  r["samples"] = t.us.size();
  r["verified"] = work.check ? Json(t.complaint.empty()) : Json();
  r["device"] = gpus ? work.gpus.name : device_name();
  r["driver"] = or_null(work.gpus.driver);
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tiles_record(const MoeWork& work, const TunedExperts& row) {
  Json r = layer_json(work, "grouped_gemm", row.m);
  const plan::GroupedProduct p = plan::expert_product(work.layer, row.m, row.first);
  r["product"] = row.first ? "up" : "down";
  r["rows"] = p.rows, r["rank_n"] = p.n, r["rank_k"] = p.k, r["gated"] = p.gated;
  r["rule"] = plan::plans_of(work.gpus.architecture).grouped.rule(p).name;
  r["rule_us"] = row.rule_us > 0 ? Json(row.rule_us) : Json();
  r["candidates"] = Json::array();
  for (const TimedTiles& t : row.timed)
    r["candidates"].push_back({{"tiles", t.tiles}, {"us", t.us}});
  r["device"] = work.gpus.name;
  r["driver"] = or_null(work.gpus.driver);
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilelace::cli
