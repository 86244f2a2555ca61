// SPDX-License-Identifier: Apache-2.0
#include "moe/command.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "machine.h"
#include "model/experts.h"
#include "moe/measure.h"
#include "options.h"
#include "progress.h"
#include "record.h"
#include "sizes.h"
#include "table.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

/// Of other ops alone.
constexpr const char* kOfOthers[] = {
    "--layer", "--rows", "--kinds", "--candidates", "--minutes",   "--multicast", "--checked",
    "--brief", "--plan", "--size",  "--in-place",   "--symmetric", "--baselines"};

ExpertActivation parse_activation(const std::string& text) {
  for (const ExpertActivationRow& row : kExpertActivations)
    if (row.name == text) return row.activation;
  std::vector<std::string_view> names;
  for (const ExpertActivationRow& row : kExpertActivations) names.push_back(row.name);
  raise(ErrorKind::usage, "--activation: got \"{}\", expected one of {}", text,
        fmt::join(names, ", "));
}

void set_layer(const MoeSizes& sizes, const MoeRequest& request, MoeWork& work) {
  MoeLayer& l = work.layer;
  std::int64_t inner = 0;
  if (!sizes.model.empty()) {
    require(sizes.n.empty() && sizes.k == 0 && request.experts == 0 && request.top_k == 0,
            "bench: --model has the sizes: leave out --n, --k, --experts and --top-k");
    const auto c = model::read_experts(model::find_mixture(sizes.model));
    work.model = c.name, work.biased = c.biased;
    l.hidden = c.hidden, l.experts = c.experts, l.top_k = c.top_k;
    l.activation = c.activation, l.dtype = c.dtype;
    inner = c.inner;
  } else {
    require(sizes.n.size() == 1 && sizes.k > 0 && request.experts > 0 && request.top_k > 0,
            "bench: {} needs --model, or --n (inner width), --k (hidden width), --experts and "
            "--top-k",
            sizes.ops);
    l.hidden = sizes.k, l.experts = request.experts, l.top_k = request.top_k;
    l.activation = parse_activation(request.activation);
    l.dtype = kDTypes[0].type;
    inner = sizes.n[0];
  }
  require(l.top_k <= l.experts, "--top-k: got {}, expected at most the {} experts", l.top_k,
          l.experts);
  require(inner % (8 * work.ranks) == 0,
          "bench: inner width: got {}, expected a multiple of 8 for each of {} ranks", inner,
          work.ranks);
  l.inner = inner / work.ranks;
}

void check_room(const MoeWork& work) {
  const MoeLayer& l = work.layer;
  const std::int64_t width = l.inner * (row_of(l.activation).gated ? 2 : 1);
  const std::int64_t elements = l.experts * l.hidden * (width + l.inner) +
                                l.m * l.top_k * (l.inner + l.hidden) + 3 * l.m * l.hidden;
  const double needed =
      static_cast<double>(elements) * static_cast<double>(size_of(l.dtype)) * work.ranks;
  const auto available = available_memory();
  if (!available) return;
  require(needed <= 0.9 * static_cast<double>(*available),
          "memory: this layer needs {}, and {} is available: take a smaller one",
          show_bytes(static_cast<std::int64_t>(needed)), show_bytes(*available));
}

MoeWork work_of(const MoeSizes& sizes, const MoeRequest& request, const SessionOptions& session) {
  MoeWork work;
  work.ops = split_list("bench: op", sizes.ops);
  work.routings = parse_routings(request.routings);
  require(!session.m.empty(), "bench: {} needs --m", sizes.ops);
  work.sizes = parse_sizes("--m", session.m);
  work.ranks = session.ranks;
  require(parse_device(session.backend) == Device::cpu,
          "bench: {}: CPU ranks only in this version: leave out --backend", sizes.ops);
  set_layer(sizes, request, work);
  if (!session.dtype.empty()) work.layer.dtype = parse_dtype(session.dtype);
  work.layer.m = *std::ranges::max_element(work.sizes);
  work.check = !session.no_check;
  work.iterations = session.iterations;
  work.warmup = session.warmup;
  moe_map_words(work.layer, work.layer.m);  // throws where the library would
  check_room(work);
  return work;
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

void add_moe_options(CLI::App& command, MoeRequest& request) {
  command.add_option("--experts", request.experts, "Mixtures of experts: how many")
      ->check(whole_between(1, 1 << 20));
  command.add_option("--top-k", request.top_k, "Mixtures of experts: choices of a token")
      ->check(whole_between(1, 1 << 20));
  command
      .add_option("--routing", request.routings,
                  "Mixtures of experts: a list of uniform, zipf, hot")
      ->capture_default_str();
  command
      .add_option("--activation", request.activation,
                  "Mixtures of experts: of the first product, without a model")
      ->capture_default_str();
}

std::vector<const char*> moe_options() {
  return {"--experts", "--top-k", "--routing", "--activation"};
}

int bench_moe(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
              const SessionOptions& session) {
  for (const char* name : kOfOthers)
    require(command.count(name) == 0, "bench: {} is for other ops, not for {}", name, sizes.ops);
  const MoeWork work = work_of(sizes, request, session);
  const std::size_t rows = work.ops.size() * work.routings.size() * work.sizes.size();
  RecordFile records(session.json);
  const bool shows = !session.quiet && !records.is_stdout();
  const Table table = moe_table();
  Progress progress(static_cast<std::int64_t>(rows), session.quiet);
  std::size_t done = 0, bad = 0;
  const MoeLayer& l = work.layer;
  if (shows)
    print_filled(fmt::format(
        "{} ranks as {}, {}{}, hidden {}, inner {}, {} experts, top {}, {}, on {}", work.ranks,
        session.processes ? "processes" : "threads", work.model.empty() ? "" : work.model + ", ",
        name_of(l.dtype), l.hidden, l.inner * work.ranks, l.experts, l.top_k,
        row_of(l.activation).name, device_name()));
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
