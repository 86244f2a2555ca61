// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "comm/link_table.h"
#include "commands.h"
#include "core/architecture.h"
#include "core/check.h"
#include "machine.h"
#include "measure.h"
#include "options.h"
#include "progress.h"
#include "record.h"
#include "sizes.h"
#include "table.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

Machine machine_of(const Workload& work, const SessionOptions& options) {
  return machine_for(work.ranks, group_options(options), &work.gpus);
}

/// Takes the ranks' messages, puts rows together, prints them.
class Session {
 public:
  Session(const Workload& work, const SessionOptions& options)
      : work_(work),
        options_(options),
        machine_(machine_of(work, options)),
        records_(options.json, work.tunes),  // as the table goes on
        shows_(!options.quiet && !records_.is_stdout() && !options.on_row),
        table_(row_table(empty_rows(), text_columns())),
        progress_(wanted(), options.quiet) {}

  int run() {
    check_memory(work_, machine_);
    print_head();
    const double begin = seconds_now();
    progress_.set(0, "starting");
    run_ranks({work_.ranks, options_.processes, group_options(options_)},
              [this](Communicator& c, const Send& send) { measure(work_, c, send); },
              {[this](int rank, const std::string& text) { take(rank, text); },
               [this] { progress_.draw(); }});
    progress_.clear();
    print_end(seconds_now() - begin);
    return bad_ > 0 || findings_ > 0 ? kWrong : kDone;
  }

 private:
  [[nodiscard]] int total() const {
    return static_cast<int>(work_.jobs.size() * work_.sizes.size());
  }
  [[nodiscard]] int wanted() const {
    return total() - static_cast<int>(std::ranges::count(work_.skip, true));
  }

  [[nodiscard]] std::vector<Row> empty_rows() const {
    std::vector<Row> rows;
    for (int r = 0; r < total(); ++r) rows.push_back(empty_row(work_, machine_, r));
    return rows;
  }

  void print_head() {
    if (!shows_) return;
    if (work_.device == Device::cuda) return print_gpu_head();
    print_filled(fmt::format("{}{} ranks as {}, {} worker{} each, {}, {}, on {}", model_text(),
                             work_.ranks, options_.processes ? "processes" : "threads",
                             machine_.workers, machine_.workers == 1 ? "" : "s",
                             name_of(work_.dtype), link_text(machine_), device_name()));
    print_weights();
    if (options_.checked) fmt::print("--checked: every access is recorded; times mean nothing\n");
    fmt::print("\n{}\n", table_.header());
    std::fflush(stdout);
  }

  [[nodiscard]] std::string model_text() const {
    return work_.model.empty() ? "" : work_.model + ": ";
  }

  void print_weights() const {
    if (work_.model.empty()) return;
    const auto* file = work_.source.file();
    print_filled(fmt::format("weights: {}", file != nullptr ? file->path().string() : "random"));
  }

  void print_gpu_head() {
    print_filled(fmt::format("{}{} GPUs, a thread each, {}, on {}, driver {}", model_text(),
                             work_.ranks, name_of(work_.dtype), work_.gpus.name,
                             work_.gpus.driver));
    print_weights();
    fmt::print("times: CUDA graphs of {} calls, on operands that L2 does not hold\n\n{}\n",
               kGraphCalls, table_.header());
    std::fflush(stdout);
  }

  void take(int rank, const std::string& text) {
    if (text[0] == kFindings) return take_findings(text.substr(1));
    RankPart part = part_of(text);
    auto& parts = waiting_[part.row];
    if (parts.empty()) parts.resize(static_cast<std::size_t>(work_.ranks));
    parts[static_cast<std::size_t>(rank)] = std::move(part);
    if (++arrived_[parts[static_cast<std::size_t>(rank)].row] == work_.ranks) {
      const int row = parts[static_cast<std::size_t>(rank)].row;
      show(join(work_, machine_, parts));
      waiting_.erase(row);
    }
  }

  void take_findings(const std::string& text) {
    progress_.clear();
    findings_ += std::count(text.begin(), text.end(), '\n') + 1;
    fmt::print(stderr, "{}\n", text);
  }

  void show(const Row& row) {
    progress_.clear();
    records_.write(record_line(work_, row));
    if (options_.on_row) {
      const std::string line = options_.on_row(row);
      if (!options_.quiet && !records_.is_stdout()) fmt::print("{}\n", line);
    }
    if (shows_) fmt::print("{}\n", table_.line(row_cells(row)));
    std::fflush(stdout);
    if (!row.good()) {
      ++bad_;
      fmt::print(stderr, "tilelace: wrong result: {} {} m {}: {}\n", row.label, row.op, row.m,
                 row.complaint);
    }
    if (row.longer_us() && row.time(Way::fused) && *row.time(Way::fused) < 0.95 * *row.longer_us())
      ++shorter_;
    worst_spread_ = std::max(worst_spread_, row.spread.value_or(0));
    if (row.host) hosts_.push_back(*row.host);
    progress_.set(++done_, fmt::format("{} {} m {}", row.label, row.op, row.m));
  }

  [[nodiscard]] std::string host_range(double HostTime::*of) const {
    const auto [least, most] = std::ranges::minmax(hosts_, {}, of);
    return fmt::format("{:.1f} to {:.1f} us", least.*of, most.*of);
  }

  void print_end(double seconds) const {
    if (!shows_) return;
    fmt::print("\n{}Largest spread (p90 / p10) of fused: {:.2f}.\n", table_.legend(),
               worst_spread_);
    if (!hosts_.empty())
      print_filled(fmt::format(
          "Host time of an eager call of fused: {}; once calls were captured in graphs: {}.",
          host_range(&HostTime::us), host_range(&HostTime::beside_graphs_us)));
    if (work_.device == Device::cpu)
      fmt::print("{}", filled(unsteady_text({.ranks = work_.ranks,
                                             .workers = machine_.workers,
                                             .cores = cpu_cores(),
                                             .spread = worst_spread_,
                                             .shorter = shorter_}),
                              text_columns()));
    if (options_.checked) fmt::print("checked: {} findings\n", findings_);
    if (work_.check)
      fmt::print("{} of {} rows verified in {:.1f} s\n", done_ - bad_, wanted(), seconds);
    else
      fmt::print("{} rows in {:.1f} s, not checked\n", done_, seconds);
    print_left_out();
    std::fflush(stdout);
  }

  void print_left_out() const {
    if (done_ == wanted()) return;
    fmt::print("{} rows left out, the time is over:\n", wanted() - done_);
    for (int r = 0; r < total(); ++r) {
      if (arrived_.contains(r) || (!work_.skip.empty() && work_.skip[static_cast<std::size_t>(r)]))
        continue;
      const model::LayerGemm& gemm = job_of(work_, r).gemm;
      fmt::print("  {} {} m {} n {} k {}\n", gemm.layer, name_of(gemm.op), m_of(work_, r),
                 fmt::join(gemm.full_n, "+"), gemm.full_k);
    }
  }

  const Workload& work_;
  const SessionOptions& options_;
  Machine machine_;
  RecordFile records_;
  bool shows_;
  Table table_;
  Progress progress_;
  std::map<int, std::vector<RankPart>> waiting_;
  std::map<int, int> arrived_;
  int done_ = 0, bad_ = 0, shorter_ = 0;
  std::int64_t findings_ = 0;
  double worst_spread_ = 0;
  std::vector<HostTime> hosts_;
};

}  // namespace

Device parse_device(const std::string& text) {
  require(text == "cpu" || text == "cuda", "--backend: got \"{}\", expected cpu or cuda", text);
  return text == "cuda" ? Device::cuda : Device::cpu;
}

int parse_architecture(const std::string& text, Device device) {
  if (text.empty()) return 0;
  require(device == Device::cuda, "--architecture: GPU ranks only, add --backend cuda");
  const auto found = architecture_named(text);
  require(found.has_value(), "--architecture: got {}, expected {}{}", text,
          kArchitectures.size() > 1 ? "one of " : "", names_of_architectures());
  return *found;
}

std::string link_text(const Machine& machine) {
  const bool metered = machine.link_bytes_per_s > 0 || machine.link_latency_s > 0;
  const auto name = comm::link_of({.device = Device::cpu, .metered = metered}).name;
  if (!metered) return std::string(name);
  return fmt::format("{} {:g} GB/s {:g} us", name, machine.link_bytes_per_s * 1e-9,
                     machine.link_latency_s * 1e6);
}

void add_backend_option(CLI::App& command, std::string& backend) {
  command.add_option("--backend", backend, "cpu, or cuda: one GPU per rank, bf16 or fp16")
      ->capture_default_str();
}

void check_gpu_options(const SessionOptions& o, const GpuFacts& gpus) {
  require(!o.processes && !o.checked && o.link.empty() && o.workers == 0,
          "--processes, --checked, --link, --workers: CPU ranks only, leave them out with "
          "--backend cuda");
  require(gpus.count >= o.ranks,
          "--tp: got {} ranks, which need a GPU each, but this machine has {} GPU{}", o.ranks,
          gpus.count, gpus.count == 1 ? "" : "s");
}

void add_session_options(CLI::App& command, SessionOptions& o) {
  command.add_option("--tp", o.ranks, "Ranks")->capture_default_str()->check(whole_between(1, 64));
  command.add_option("--m", o.m, kSizesHelp)->required();
  command.add_option("--dtype", o.dtype,
                     names_of_dtypes() + " (default: the model's; bf16 without one)");
  add_backend_option(command, o.backend);
  command
      .add_option("--workers", o.workers,
                  "Compute workers of each rank; 0: cores / ranks, at least 1")
      ->capture_default_str()
      ->check(whole_between(0, 1024));
  command.add_option("--timeout", o.timeout_s, "Seconds after which a wait for a peer is an error")
      ->capture_default_str()
      ->check(number_between(0.001, 86400));
  command.add_option("--link", o.link,
                     "Emulated wire of each rank, as GB/s[,latency_us] (default: shared memory)");
  command
      .add_option("--iterations", o.iterations,
                  "Samples of each time; 0: 3 to 40, as many as fit 1.2 s per row; on GPUs 10")
      ->capture_default_str()
      ->check(whole_between(0, 100000));
  command.add_option("--warmup", o.warmup, "Rounds before the first sample")
      ->capture_default_str()
      ->check(whole_between(1, 100000));
  add_plan_option(command, o.plans);
  command.add_flag("--multicast", o.multicast,
                   "GPU ranks: also map memory for the NVLink switch, for --plan "
                   "transport=multimem; needs TILELACE_MULTICAST=1 in the environment");
  command.add_flag("--processes", o.processes, "Ranks are processes instead of threads");
  command.add_flag("--checked", o.checked,
                   "Record every access and print races and lost data (threads only)");
  command.add_option(
      "--json", o.json,
      "Write one record per line to this file; - is standard output, without the table");
  add_wide_option(command);
  command.add_flag("--quiet", o.quiet,
                   "No table and no progress bar; wrong results are still printed");
}

void add_extent_options(CLI::App& command, std::vector<std::int64_t>& n, std::int64_t& k,
                        const std::string& of_mlp) {
  command
      .add_option(
          "--n", n,
          "Columns of the unsharded product (ag_gemm: of each weight, as 8192,8192" + of_mlp + ")")
      ->delimiter(',')
      ->check(whole_between(1, kMostSize));
  command.add_option("--k", k, "Length of each dot product, unsharded")
      ->check(whole_between(1, kMostSize));
}

void add_plan_option(CLI::App& command, std::vector<std::string>& plans) {
  command
      .add_option("--plan", plans,
                  "Fix choices of the plan, as KEY=VALUE[,KEY=VALUE], see below; several --plan "
                  "are tried one by one")
      ->allow_extra_args(false);
}

CommunicatorOptions group_options(const SessionOptions& o) {
  const Link link = parse_link(o.link);
  CommunicatorOptions g;
  g.device = parse_device(o.backend);
  g.multicast = o.multicast;
  if (g.device == Device::cuda) {
    g.timeout_s = o.timeout_s;
    return g;
  }
  g.workers = workers_for(o.ranks, o.workers);
  g.timeout_s = o.timeout_s;
  g.link_bytes_per_s = link.bytes_per_s;
  g.link_latency_s = link.latency_s;
  g.checked = o.checked;
  return g;
}

void apply(const SessionOptions& o, Workload& work) {
  require(!(o.checked && o.processes),
          "--checked needs ranks that are threads: leave out --processes");
  work.ranks = o.ranks;
  work.device = parse_device(o.backend);
  work.sizes = parse_sizes("--m", o.m);
  take_plans(o.plans, work);
  work.iterations = o.iterations > 0 ? o.iterations : o.checked ? 1 : 0;
  work.warmup = o.warmup;
  work.check = !o.no_check;
  if (!o.dtype.empty()) work.dtype = parse_dtype(o.dtype);
  parse_link(o.link);
  if (work.device == Device::cpu) return;
  work.gpus = gpu_facts();
  check_gpu_options(o, work.gpus);
}

int run_session(const Workload& work, const SessionOptions& options) {
  check_workload(work, machine_of(work, options));
  return Session(work, options).run();
}

}  // namespace tilelace::cli
