// SPDX-License-Identifier: Apache-2.0
#include "moe/tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/check.h"
#include "gpu_times.h"
#include "json_values.h"
#include "machine.h"
#include "model/experts.h"
#include "moe/layer_record.h"
#include "plan/base/expert_product.h"
#include "plan/gemm/architecture_plans.h"
#include "record.h"
#include "table.h"
#include "text_width.h"
#include "tilelace/tune.h"

namespace tilelace::cli {
namespace {

/// Of plans of other ops.
constexpr const char* kNotOfTiles[] = {"--candidates", "--no-check"};
/// A layer's: both have the same products.
constexpr const char* kLayerOp = "moe_rs";

MoeWork tuned_work(const MoeSizes& sizes, const MoeRequest& request, const SessionOptions& s) {
  MoeWork work = layer_work("tune", sizes, request, s.m, s.dtype, s.ranks);
  require(row_of(work.layer.dtype).on_gpus, "tune: --dtype: got {}, expected {}",
          name_of(work.layer.dtype), names_of_gpu_dtypes());
  require(work.layer.experts <= plan::kMostMoeExperts,
          "tune: experts: got {}, expected at most {} on GPUs", work.layer.experts,
          plan::kMostMoeExperts);
  work.device = Device::cuda;
  work.gpus = gpu_facts();
  plan::grouped_plans_of("tune", work.gpus.architecture);
  check_gpu_options(s, work.gpus);
  std::ranges::sort(work.sizes);
  work.sizes.erase(std::unique(work.sizes.begin(), work.sizes.end()), work.sizes.end());
  return work;
}

std::string text_of(const TunedExperts& row) {
  Json j;
  j["m"] = row.m, j["first"] = row.first, j["rule_us"] = row.rule_us, j["timed"] = Json::array();
  for (const TimedTiles& t : row.timed) j["timed"].push_back({t.tiles, t.us});
  return j.dump();
}

TunedExperts tuned_of(const std::string& text) {
  const Json j = Json::parse(text);
  TunedExperts row{j["m"], j["first"], {}, j["rule_us"]};
  for (const Json& t : j["timed"]) row.timed.push_back({t[0], t[1]});
  return row;
}

Table tiles_table() {
  return {{{"product", 7, true},
           {"m", 7},
           {"rows", 8, false, 1, "rows: of an expert, mean."},
           {"us", 6},
           {"gain", 8, false, 0, "gain: how much longer the rule's tiles take."},
           {"tiles", 0, true, 0, "tiles: the fastest."}},
          "The products of ag_moe (up) and of moe_rs or moe_ar (down), us.",
          text_columns()};
}

/// On each rank; rank 0 sends a row at a time.
void tune_sizes(const MoeWork& work, const TuneRequest& request, Communicator& member,
                const Send& send) {
  tilelace::TuneOptions options;
  options.force = request.force;
  const double begin = seconds_now();
  for (const std::int64_t m : work.sizes) {
    if (most_of(member, seconds_now() - begin) > 60 * request.minutes) return;
    for (const TunedExperts& row : tune_experts(member, work.layer, std::array{m}, options).experts)
      send(member.rank() == 0 ? text_of(row) : "");
  }
}

class TilesTuning {
 public:
  TilesTuning(MoeWork work, const TuneRequest& request)
      : work_(std::move(work)),
        request_(request),
        file_(open_table(request, work_.gpus)),
        table_(tiles_table()) {
    std::size_t there = 0;
    std::erase_if(work_.sizes, [&](std::int64_t m) {
      const bool has =
          !request.again && file_.has(product(m, true)) && file_.has(product(m, false));
      there += has ? 2 : 0;
      return has;
    });
    print_filled(layer_text(work_));
    fmt::print("{} GPUs, {}: {} products to tune, {} more are in {} already\n", work_.ranks,
               work_.gpus.name, 2 * work_.sizes.size(), there, request_.out);
  }

  int run(const SessionOptions& session) {
    file_.write();
    const bool shows = !session.quiet && session.json != "-" && !work_.sizes.empty();
    RecordFile records(session.json, true);  // as the table goes on
    if (shows) fmt::print("\n{}\n", table_.header());
    if (!work_.sizes.empty())
      run_ranks({work_.ranks, false, group_options(session)},
                [&](Communicator& c, const Send& send) { tune_sizes(work_, request_, c, send); },
                {[&](int /*rank*/, const std::string& text) {
                   const TunedExperts row = tuned_of(text);
                   records.write(tiles_record(work_, row));
                   take(row, shows);
                 },
                 [] {}});
    if (shows) fmt::print("\n{}", table_.legend());
    tally_.print(2 * std::ssize(work_.sizes), file_, request_.out);
    return kDone;
  }

 private:
  [[nodiscard]] plan::GroupedProduct product(std::int64_t m, bool first) const {
    return plan::expert_product(work_.layer, m, first);
  }

  void take(const TunedExperts& row, bool shows) {
    const plan::GroupedProduct p = product(row.m, row.first);
    const TimedTiles& best = row.timed.front();
    const plan::GroupedPlans& plans = plan::plans_of(work_.gpus.architecture).grouped;
    file_.put(p, *plans.find(best.tiles), {best.us, row.rule_us, row.timed.size()});
    file_.write();
    tally_.add(best.us, row.rule_us);
    if (!shows) return;
    fmt::print("{}\n",
               table_.line({row.first ? "up" : "down", fmt::format("{}", row.m),
                            fmt::format("{:.1f}", static_cast<double>(p.rows) /
                                                      static_cast<double>(p.experts)),
                            show_us(best.us), show_gain(best.us, row.rule_us), best.tiles}));
    std::fflush(stdout);
  }

  MoeWork work_;
  const TuneRequest& request_;
  TuningFile file_;
  Table table_;
  TuneTally tally_;
};

}  // namespace

bool tunes_experts(const MoeSizes& sizes) {
  return sizes.ops.empty() ? model::is_mixture(sizes.model) : are_moe("tune", sizes.ops);
}

int tune_layers(const CLI::App& command, MoeSizes sizes, const MoeRequest& request,
                const SessionOptions& session, const TuneRequest& table) {
  if (sizes.ops.empty()) sizes.ops = kLayerOp;
  refuse_options(command, kNotOfTiles, sizes.ops);
  return TilesTuning(tuned_work(sizes, request, session), table).run(session);
}

}  // namespace tilelace::cli
