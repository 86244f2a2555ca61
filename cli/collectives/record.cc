// SPDX-License-Identifier: Apache-2.0
#include "collectives/figures.h"
#include "commit.h"
#include "json_values.h"
#include "machine.h"

namespace tilelace::cli {

std::string collective_record(const CollectiveWork& work, const CollectiveTimes& t,
                              const std::string& nccl) {
  const bool gpus = work.device == Device::cuda;
  Json r;
  r["schema"] = "tilelace.collectives/1";
  r["op"] = row_of(t.op).name;
  r["ranks"] = t.ranks;
  r["bytes"] = t.bytes;
  r["dtype"] = name_of(work.dtype);
  r["backend"] = name_of(work.device);
  r["mode"] = gpus ? "graph" : "eager";
  r["in_place"] = work.in_place;
  r["symmetric"] = work.symmetric;
  r["us"] = t.time_us();
  r["samples"] = t.us.size();
  r["spread"] = t.spread();
  r["algbw"] = algorithm_rate(t.bytes, t.time_us());
  r["busbw"] = bus_rate(t.op, t.ranks, t.bytes, t.time_us());
  r["plan"] = t.plan;
  r["baselines"] = Json::object();
  for (const auto& [name, samples] : t.baselines) r["baselines"][name] = or_null(t.time_us(name));
  r["verified"] = work.check ? Json(t.complaint.empty()) : Json();
  r["device"] = gpus ? work.gpus.name : device_name();
  r["driver"] = or_null(work.gpus.driver);
  r["nccl"] = or_null(nccl);
  r["commit"] = built_commit();
  r["time"] = utc_now();
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilelace::cli
