// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <cerrno>
#include <cstring>

#include "commit.h"
#include "core/check.h"
#include "json_values.h"
#include "machine.h"

namespace tilelace::cli {
std::string record_line(const Workload& work, const Row& row) {
  Json r;
  r["schema"] = "tilelace.bench/1";
  r["op"] = row.op;
  r["model"] = or_null(work.model);
  r["layer"] = or_null(row.layer);
  r["ranks"] = work.ranks;
  r["m"] = row.m;
  r["n"] = row.n;
  r["k"] = row.k;
  r["dtype"] = name_of(work.dtype);
  const bool gpus = work.device == Device::cuda;
  r["backend"] = name_of(work.device);
  r["mode"] = gpus ? "graph" : "eager";
  r["gemm_us"] = or_null(row.time(Way::gemm));
  r["collective_us"] = or_null(row.time(Way::collective));
  r["unfused_us"] = or_null(row.time(Way::unfused));
  r["beside_us"] = or_null(row.time(Way::beside));
  r["medium_us"] = or_null(row.time(Way::medium));
  r["fused_us"] = or_null(row.time(Way::fused));
  const bool one = row.plans.empty();  // an MLP's halves have a plan each
  r["path"] = one ? Json(name_of(row.plan.path)) : Json();
  r["longer_us"] = or_null(row.longer_us());
  r["ect_us"] = or_null(row.ect());
  r["efficiency"] = or_null(row.efficiency());
  r["speedup"] = or_null(row.speedup());
  r["peers"] = Json(row.peers);
  r["plan"] = one ? fmt::format("{}", fmt::streamed(row.plan)) : row.plans;
  r["transport"] = one ? Json(name_of(row.plan.transport)) : Json();
  r["error"] = or_null(row.error);
  r["exact"] = or_null(row.exact);
  r["verified"] = or_null(row.verified);
  r["iterations"] = row.iterations;
  r["spread"] = or_null(row.spread);
  if (!row.candidates.empty()) {  // what plans depend on, as a rank has it
    const Problem p = problem_of(job_of(work, row.number).gemm, row.m, work.dtype);
    r["rank_n"] = p.n;
    r["rank_k"] = p.k;
    r["swiglu"] = p.activation == Activation::swiglu;
  }
  r["candidates"] = Json::array();
  for (const Candidate& c : row.candidates)
    r["candidates"].push_back(
        {{"plan", fmt::format("{}", fmt::streamed(c.way.plan))},
         {"kind", c.way.kind},
         {"predicted_us", c.way.predicted_us > 0 ? Json(c.way.predicted_us) : Json()},
         {"us", c.us}});
  r["device"] = gpus ? work.gpus.name : device_name();
  r["driver"] = or_null(work.gpus.driver);
  r["commit"] = built_commit();
  r["time"] = utc_now();
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RecordFile::RecordFile(const std::string& path, bool adds)
    : path_(path), file_(nullptr, std::fclose) {
  if (path.empty() || is_stdout()) return;
  file_.reset(std::fopen(path.c_str(), adds ? "ae" : "we"));
  require(file_ != nullptr, "--json: cannot write {}: {}", path, std::strerror(errno));
}

void RecordFile::write(const std::string& line) {
  std::FILE* out = is_stdout() ? stdout : file_.get();
  if (out == nullptr) return;
  const bool good = std::fputs((line + "\n").c_str(), out) >= 0 && std::fflush(out) == 0;
  require(good, "--json: cannot write {}: {}", path_, std::strerror(errno));
}

}  // namespace tilelace::cli
