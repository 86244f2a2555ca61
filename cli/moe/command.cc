// SPDX-License-Identifier: Apache-2.0
#include "moe/command.h"

#include <fmt/core.h>

#include <optional>

#include "core/check.h"
#include "gpu_times.h"
#include "machine.h"
#include "moe/layer_record.h"
#include "moe/measure.h"
#include "progress.h"
#include "record.h"
#include "sizes.h"
#include "table.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

/// Of other ops alone, where a command has them.
constexpr const char* kOfOthers[] = {
    "--layer", "--rows", "--kinds",   "--candidates", "--minutes",  "--multicast", "--checked",
    "--brief", "--plan", "--weights", "--size",       "--in-place", "--symmetric", "--baselines"};

void check_room(const MoeWork& work) {
  const MoeLayer& l = work.layer;
  const std::int64_t width = l.inner * (row_of(l.activation).gated ? 2 : 1);
  const std::int64_t elements = l.experts * l.hidden * (width + l.inner) +
                                l.m * l.top_k * (l.inner + l.hidden) + 3 * l.m * l.hidden;
  const bool gpus = work.device == Device::cuda;
  const double needed = static_cast<double>(elements) * static_cast<double>(size_of(l.dtype)) *
                        (gpus ? 1 : work.ranks);
  const auto available = gpus ? std::optional(work.gpus.memory_bytes) : available_memory();
  if (!available) return;
  require(needed <= 0.9 * static_cast<double>(*available),
          "memory: this layer needs {}{}, and {} is available: take a smaller --m or layer",
          show_bytes(static_cast<std::int64_t>(needed)), gpus ? " on each GPU" : "",
          show_bytes(*available));
}

MoeWork work_of(std::string_view command, const MoeSizes& sizes, const MoeRequest& request,
                const SessionOptions& session) {
  MoeWork work = layer_work(command, sizes, request, session.m, session.dtype, session.ranks);
  work.device = parse_device(session.backend);
  if (work.device == Device::cuda) {
    work.gpus = gpu_facts();
    check_gpu_options(session, work.gpus);
  }
  work.check = !session.no_check;
  work.iterations = session.iterations;
  work.warmup = session.warmup;
  require(work.device == Device::cpu || row_of(work.layer.dtype).on_gpus,
          "--dtype: got {}, expected {}: GPU ranks have no other", name_of(work.layer.dtype),
          names_of_gpu_dtypes());
  check_room(work);
  return work;
}

std::string ranks_text(const MoeWork& work, const SessionOptions& session) {
  if (work.device == Device::cuda)
    return fmt::format("a GPU each, on {}, driver {}; times: CUDA graphs of {} calls",
                       work.gpus.name, work.gpus.driver, kGraphCalls);
  return fmt::format("as {}, on {}", session.processes ? "processes" : "threads", device_name());
}

Table moe_table() {
  return {{{"routing", 8, true},
           {"m", 7},
           {"max/mean", 0, false, 2, "max/mean: rows of the fullest expert over the mean."},
           {"first", 8, false, 1, "first, layer: us of ag_moe and of both halves, slowest rank."},
           {"layer", 8},
           {"check", 0, true}},
          "A whole layer, median of the samples.",
          text_columns()};
}

}  // namespace

int time_layers(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
                const SessionOptions& session) {
  refuse_options(command, kOfOthers, sizes.ops);
  const MoeWork work = work_of(command.get_name(), sizes, request, session);
  const std::size_t rows = work.ops.size() * work.routings.size() * work.sizes.size();
  RecordFile records(session.json);
  const bool shows = !session.quiet && !records.is_stdout();
  const Table table = moe_table();
  Progress progress(static_cast<std::int64_t>(rows), session.quiet);
  std::size_t done = 0, bad = 0;
  if (shows) print_filled(layer_text(work) + ", " + ranks_text(work, session));
  const auto show = [&](const MoeTimes& t) {
    progress.clear();
    records.write(moe_record(work, t));
    if (shows) {
      if (done % (rows / work.ops.size()) == 0) fmt::print("\n{}\n{}\n", t.op, table.header());
      fmt::print("{}\n",
                 table.line({std::string(name_of(t.routing)), fmt::format("{}", t.m),
                             fmt::format("{:.2f}", t.imbalance), show_us(quantile(t.first_us, 0.5)),
                             show_us(quantile(t.us, 0.5)),
                             !work.check           ? "-"
                             : t.complaint.empty() ? "right"
                                                   : "WRONG"}));
    }
    std::fflush(stdout);
    if (!t.complaint.empty()) {
      ++bad;
      fmt::print(stderr, "tilelace: wrong result: {} of {} tokens, {}: {}\n", t.op, t.m,
                 name_of(t.routing), t.complaint);
    }
    progress.set(static_cast<std::int64_t>(++done), t.op);
  };
  run_ranks({work.ranks, session.processes, group_options(session)},
            [&](Communicator& c, const Send& send) { measure_moe(work, c, send); },
            {[&](int /*rank*/, const std::string& text) { show(moe_times_of(text)); },
             [&] { progress.draw(); }});
  progress.clear();
  if (shows)
    fmt::print("\n{}{} of {} rows {}\n", table.legend(), rows - bad, rows,
               work.check ? "verified" : "timed, not checked");
  return bad > 0 ? kWrong : kDone;
}

}  // namespace tilelace::cli
