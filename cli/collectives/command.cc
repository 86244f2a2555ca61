// SPDX-License-Identifier: Apache-2.0
#include "collectives/command.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "collectives/measure.h"
#include "collectives/peers.h"
#include "core/check.h"
#include "job.h"
#include "machine.h"
#include "progress.h"
#include "record.h"
#include "text_width.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

/// Of products alone.
constexpr const char* kOfProducts[] = {"--m",       "--n",         "--k",       "--model",
                                       "--layer",   "--rows",      "--kinds",   "--candidates",
                                       "--minutes", "--multicast", "--checked", "--brief"};

CollectiveWork work_of(const std::string& ops, const std::string& baselines,
                       const CollectiveRequest& request, const SessionOptions& session) {
  CollectiveWork work;
  work.ops = parse_collectives(ops);
  require(!request.sizes.empty(), "bench: {} needs --size", ops);
  work.sizes = parse_byte_sizes("--size", request.sizes);
  work.ranks = session.ranks;
  work.device = parse_device(session.backend);
  if (!session.dtype.empty()) work.dtype = parse_dtype(session.dtype);
  item_of(work.dtype);
  require(session.plans.size() <= 1, "--plan: got {} plans, expected one for collectives",
          session.plans.size());
  if (!session.plans.empty()) work.options = parse_collective_options(session.plans[0]);
  work.in_place = request.in_place;
  work.symmetric = request.symmetric;
  require(!work.in_place || std::ranges::count(work.ops, Collective::all_to_all) == 0,
          "--in-place: all_to_all cannot run in place: time it without --in-place");
  work.check = !session.no_check;
  work.iterations = session.iterations;
  work.warmup = session.warmup;
  for (const std::int64_t bytes : work.sizes)
    for (const Collective op : work.ops) shape_of(op, bytes, work.dtype, work.ranks, 0);
  if (!baselines.empty()) {
    work.baselines = parse_buffers(baselines);
    require(work.device == Device::cuda, "--baselines: GPU ranks only, add --backend cuda");
  }
  if (work.device == Device::cuda) {
    work.gpus = gpu_facts();
    check_gpu_options(session, work.gpus);
  }
  return work;
}

/// A rank has in and out of each kind, on the host the two copies that are compared.
void check_room(const CollectiveWork& work) {
  const std::int64_t most = *std::ranges::max_element(work.sizes);
  const std::int64_t tensors = work.in_place ? 1 : 2;
  if (work.device == Device::cuda) {
    const std::int64_t needed =
        most * tensors * (1 + static_cast<std::int64_t>(work.baselines.size()));
    require(static_cast<double>(needed) <= 0.9 * static_cast<double>(work.gpus.memory_bytes),
            "memory: these sizes need {} on each GPU, which has {}: take a smaller --size",
            show_bytes(needed), show_bytes(work.gpus.memory_bytes));
  }
  const auto available = available_memory();
  if (!available) return;
  const std::int64_t here =
      (work.device == Device::cpu ? tensors : 0) + (work.check ? 2 : 0);  // of each rank
  require(static_cast<double>(most) * static_cast<double>(here * work.ranks) <=
              0.9 * static_cast<double>(*available),
          "memory: these sizes need {}, and {} is available: take a smaller --size",
          show_bytes(most * here * work.ranks), show_bytes(*available));
}

/// Takes rows as they come, prints and keeps them.
class CollectiveSession {
 public:
  CollectiveSession(const CollectiveWork& work, const SessionOptions& options)
      : work_(work),
        options_(options),
        records_(options.json),
        shows_(!options.quiet && !records_.is_stdout()),
        table_(collective_table(work.baselines, text_columns())),
        nccl_(work.baselines.empty() ? std::string() : nccl_version_text()),
        progress_(static_cast<std::int64_t>(work.ops.size() * work.sizes.size()), options.quiet) {}

  int run() {
    check_room(work_);
    print_head();
    const double begin = seconds_now();
    progress_.set(0, "starting");
    run_ranks({work_.ranks, options_.processes, group_options(options_)},
              [this](Communicator& c, const Send& send) { measure_collectives(work_, c, send); },
              {[this](int /*rank*/, const std::string& text) { show(collective_times_of(text)); },
               [this] { progress_.draw(); }});
    progress_.clear();
    print_end(seconds_now() - begin);
    return bad_ > 0 ? kWrong : kDone;
  }

 private:
  void print_head() const {
    if (!shows_) return;
    const std::string where = work_.in_place ? ", in place" : "";
    const std::string memory = work_.symmetric ? ", symmetric memory" : "";
    const std::string head =
        work_.device == Device::cuda
            ? fmt::format("{} GPUs, a thread each, {}{}{}, on {}, driver {}{}", work_.ranks,
                          name_of(work_.dtype), where, memory, work_.gpus.name, work_.gpus.driver,
                          nccl_.empty() ? "" : ", NCCL " + nccl_)
            : fmt::format("{} ranks as {}, {}{}{}, on {}", work_.ranks,
                          options_.processes ? "processes" : "threads", name_of(work_.dtype), where,
                          memory, device_name());
    print_filled(head);
    if (work_.device == Device::cuda)
      fmt::print("times: CUDA graphs of {} calls, each on the same tensors\n", kCallsOfGraph);
    std::fflush(stdout);
  }

  void show(const CollectiveTimes& row) {
    progress_.clear();
    records_.write(collective_record(work_, row, nccl_));
    const std::string name(row_of(row.op).name);
    if (shows_) {
      if (rows_.empty() || rows_.back().op != row.op)
        fmt::print("\n{}\n{}\n", name, table_.header());
      fmt::print("{}\n", table_.line(collective_cells(row, work_.baselines)));
    }
    std::fflush(stdout);
    rows_.push_back(row);
    if (!row.complaint.empty()) {
      ++bad_;
      fmt::print(stderr, "tilelace: wrong result: {} of {} bytes: {}\n", name, row.bytes,
                 row.complaint);
    }
    progress_.set(static_cast<std::int64_t>(rows_.size()),
                  fmt::format("{} {}", name, show_size(row.bytes)));
  }

  void print_end(double seconds) const {
    if (!shows_) return;
    const std::size_t rows = rows_.size();
    fmt::print("\n{}", table_.legend());
    if (work_.check)
      fmt::print("{} of {} rows verified in {:.1f} s\n", rows - bad_, rows, seconds);
    else
      fmt::print("{} rows in {:.1f} s, not checked\n", rows, seconds);
    if (!work_.baselines.empty()) print_filled(collective_means(rows_, work_.baselines));
    std::fflush(stdout);
  }

  const CollectiveWork& work_;
  const SessionOptions& options_;
  RecordFile records_;
  bool shows_;
  Table table_;
  std::string nccl_;
  Progress progress_;
  std::vector<CollectiveTimes> rows_;
  std::size_t bad_ = 0;
};

}  // namespace

void add_collective_options(CLI::App& command, CollectiveRequest& request) {
  command.add_option("--size", request.sizes,
                     "Collectives: bytes as nccl-tests counts them, a list 8K,1M or a range "
                     "8K:64M:2, end included");
  command.add_flag("--in-place", request.in_place, "Collectives: in and out are one tensor");
  command.add_flag("--symmetric", request.symmetric,
                   "Collectives: in and out are in symmetric memory");
}

bool are_collectives(std::string_view ops) {
  const auto parts = split_list("bench: op", ops);
  const std::size_t count = count_collectives(ops);
  for (const std::string& part : parts)
    require(count_collectives(part) == 1 || part.starts_with("mlp_") ||
                std::ranges::count(op_table(), part, &OpRow::name) == 1,
            "bench: op: got \"{}\", expected a product ({}), an MLP ({}) or collectives ({})", part,
            names_of_ops(), fmt::join(kMlpNames, ", "), names_of_collectives());
  require(count == 0 || count == parts.size(),
          "bench: {} has products and collectives: time them in two calls", ops);
  return count > 0;
}

int bench_collectives(const CLI::App& command, const std::string& ops, const std::string& baselines,
                      const CollectiveRequest& request, const SessionOptions& session) {
  for (const char* name : kOfProducts)
    require(command.count(name) == 0, "bench: {} is for products, not for {}", name, ops);
  const CollectiveWork work = work_of(ops, baselines, request, session);
  return CollectiveSession(work, session).run();
}

}  // namespace tilelace::cli
