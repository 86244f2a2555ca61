// SPDX-License-Identifier: Apache-2.0
#include "moe/plan.h"

#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "core/check.h"
#include "job.h"
#include "machine.h"
#include "op/moe_room.h"
#include "plan/base/expert_product.h"
#include "plan/collectives/expert_collectives.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/tuning/tuned_tiles.h"
#include "session.h"
#include "text_width.h"
#include "tuning_file.h"

namespace tilelace::cli {
namespace {

/// Of other ops alone, or not of plans.
constexpr const char* kNotOfPlan[] = {"--ops", "--rows", "--workers", "--link", "--plan"};

Machine machine_of(const MoePlanning& o) {
  CommunicatorOptions group;
  group.device = parse_device(o.backend);
  Machine machine = machine_for(o.ranks, group);
  machine.architecture = parse_architecture(o.architecture, group.device);
  require(group.device == Device::cuda || o.tuning.empty(),
          "--tuning: GPU ranks only, add --backend cuda");
  if (group.device != Device::cuda) return machine;
  plan::grouped_plans_of("plan", machine.architecture);
  take_tables(o.tuning, o.ranks, machine);
  return machine;
}

/// How one call of one half would run.
class HalfPlan {
 public:
  HalfPlan(const MoeWork& work, const Machine& machine, std::string_view op, std::int64_t m)
      : layer_(work.layer), ranks_(work.ranks), m_(m), machine_(machine) {
    layer_.replicated = is_replicated(op);
    first_ = is_first_half(op);
  }

  void print() const {
    print_passes();
    print_product();
    if (first_)
      for (const auto& gather : plan::expert_gathers(layer_, m_, ranks_)) print_part(gather);
    else
      print_part(plan::expert_sum(
          layer_, m_, ranks_,
          layer_.replicated ? Collective::all_reduce : Collective::reduce_scatter));
    const auto bytes = op::MoeBytes::of(layer_, m_);
    const auto shown = [](std::size_t b) { return show_bytes(static_cast<std::int64_t>(b)); };
    cli::print_part(
        "scratch",
        fmt::format("{} per rank, of both halves: rows {}, tokens {}, ids {}", shown(bytes.all()),
                    shown(bytes.rows), shown(bytes.tokens), shown(bytes.ids)));
    cli::print_part("map",
                    fmt::format("{}, the caller's", show_bytes(4 * moe_map_words(layer_, m_))));
  }

 private:
  void print_passes() const {
    cli::print_part("passes", first_
                                  ? "all_gather of tokens, ids and weights; map; permute; product. "
                                    "Replicated tokens are not gathered"
                              : layer_.replicated ? "product; sum of slots; all_reduce"
                                                  : "product; sum of slots; reduce_scatter");
  }

  void print_product() const {
    const plan::GroupedProduct p = plan::expert_product(layer_, m_, first_);
    cli::print_part("product", fmt::format("{} rows of {} experts, n {}{}, k {}", p.rows, p.experts,
                                           p.n, p.gated ? " (gate and up)" : "", p.k));
    if (machine_.device == Device::cpu) {
      cli::print_part("tiles", "one expert after the other, on the calling thread");
      return;
    }
    const auto [shape, reason] = plan::choose_tiles(p, machine_);
    const auto tiles = plan::grouped_tiles(p, shape);
    cli::print_part("tiles",
                    fmt::format("{}: up to {} rows x {} columns{}, {} across; {} high are walked "
                                "under the same columns",
                                shape.name, shape.most, shape.columns(p.gated),
                                shape.cluster > 1 ? fmt::format(" of {} CTAs", shape.cluster) : "",
                                tiles.columns, tiles.deep));
    cli::print_part("why", reason);
  }

  void print_part(const plan::ExpertCollective& e) const {
    const std::string name(e.what);
    const bool gpus = machine_.device == Device::cuda;
    const plan::CollectiveMachine machine{
        .workers = gpus ? machine_.multiprocessors : machine_.workers,
        .architecture = machine_.architecture,
        .gpu = gpus};
    const plan::CollectivePlan p = plan::plan_collective(e.call, machine, {}, false);
    const std::string how =
        gpus ? fmt::format("{}; predicted {:.1f} us", plan::describe(p), p.predicted_us)
             : fmt::format("chunks{}", p.shots == 2 ? " in two shots" : "");
    const auto sent_by = [&](int rank) {
      return show_bytes(static_cast<std::int64_t>(plan::sent_bytes(e.call, p, rank)));
    };
    const std::string first = sent_by(0), last = sent_by(ranks_ - 1);
    const std::string sent =
        first == last ? fmt::format("each rank sends {}", first)
                      : fmt::format("rank 0 sends {}, rank {} sends {}", first, ranks_ - 1, last);
    cli::print_part(name.c_str(),
                    fmt::format("{}: {}; {}", row_of(e.call.collective).name, how, sent));
  }

  MoeLayer layer_;
  int ranks_;
  std::int64_t m_;
  const Machine& machine_;
  bool first_ = false;
};

}  // namespace

int plan_moe(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
             const MoePlanning& o) {
  refuse_options(command, kNotOfPlan, sizes.ops);
  const MoeWork work = layer_work("plan", sizes, request, o.m, o.dtype, o.ranks);
  const Machine machine = machine_of(o);
  require(machine.device == Device::cpu || row_of(work.layer.dtype).on_gpus,
          "plan: --dtype: got {}, expected {}", name_of(work.layer.dtype), names_of_gpu_dtypes());
  require(machine.device == Device::cpu || work.layer.experts <= plan::kMostMoeExperts,
          "plan: experts: got {}, expected at most {} on GPUs", work.layer.experts,
          plan::kMostMoeExperts);
  print_filled(layer_text(work) + (machine.device == Device::cpu
                                       ? ", CPU ranks"
                                       : fmt::format(", {}", fmt::streamed(machine))));
  for (const std::string& op : work.ops)
    for (const std::int64_t m : work.sizes) {
      fmt::print("\n{} m {}\n", op, m);
      HalfPlan(work, machine, op, m).print();
    }
  return kDone;
}

}  // namespace tilelace::cli
