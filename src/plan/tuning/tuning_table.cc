// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/tuning_table.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/architecture.h"
#include "core/check.h"
#include "core/read_text.h"
#include "plan/base/hardware.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/tuning/grouped_rows.h"
#include "plan/tuning/table_fields.h"
#include "plan/words/plan_words.h"
#include "tilelace/op_table.h"

namespace tilelace::plan {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "tilelace.tuning/1";
/// Raised where kernels of the same tiles take so much more or less that earlier times say nothing.
constexpr int kGeneration = 1;
constexpr int kGroupedGeneration = 4;  ///< of products grouped by expert

/// FNV-1a.
std::uint64_t digest_of(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

constexpr int kMostDepth = 16;

json parsed(const std::string& file, const std::string& bytes) {
  const std::string refused = file + ": not a table of `tilelace tune`:";
  try {
    return json::parse(bytes, nested_at_most(kMostDepth, refused));
  } catch (const json::exception& e) {
    raise(ErrorKind::usage, "{} {}", refused, e.what());
  }
}

Problem problem_of(const TableFields& row, Op op, DType dtype) {
  Problem p;
  p.op = op;
  p.dtype = dtype;
  const std::int64_t ranks = row.whole("ranks");
  require(ranks <= kMaxRanks, "{}: ranks: got {}, expected 1 to {}", row.where(), ranks, kMaxRanks);
  p.ranks = static_cast<int>(ranks);
  p.m = row.whole("m");
  p.n = row.list("n");
  p.k = row.whole("k");
  if (row.flag("swiglu")) p.activation = Activation::swiglu;
  return p;
}

/// What a table says of the kernels that it was timed with, beside this build's.
class KernelsOfTable {
 public:
  KernelsOfTable(const json& kernels, const std::string& where, int architecture)
      : fields_(kernels, where), ours_(kernel_set(architecture)) {
    for (const auto& tile : kernels.items()) static_cast<void>(fields_.text(tile.key().c_str()));
  }
  /// Whether a plan's tile is still the one that was timed; if not, the row is counted.
  bool has(const TableFields& row, const std::string& plan) {
    const std::string tile(tile_in_words(plan));
    if (tile.empty()) return true;  // reading the plan says what it lacks
    require(fields_.has(tile.c_str()), "{}: plan: tile {} is not among the file's kernels",
            row.where(), tile);
    const auto ours = ours_.find(tile);
    if (ours != ours_.end() && ours->second == fields_.text(tile.c_str())) return true;
    changed_.insert(tile);
    ++left_out_;
    return false;
  }
  [[nodiscard]] std::string note(const std::string& file) const {
    if (left_out_ == 0) return "";
    return fmt::format(
        "{}: {} rows left out: kernels have changed since ({}); `tilelace tune` times them again",
        file, left_out_, fmt::join(changed_, ", "));
  }

 private:
  TableFields fields_;
  std::map<std::string, std::string> ours_;
  std::set<std::string> changed_;
  int left_out_ = 0;
};

/// None: of an op or a type that this build does not know, or of kernels that have changed.
std::optional<TunedRow> row_of_fields(const TableFields& row, KernelsOfTable& kernels,
                                      TuningTable& table) {
  const std::string op = row.text("op"), type = row.text("dtype");
  const auto known = op_of(op);
  const auto dtype = dtype_named(type);
  if (!known || !dtype) {
    table.notes.push_back(
        fmt::format("{}: left out: this build does not know {} of {}", row.where(), op, type));
    return std::nullopt;
  }
  const std::string plan = row.text("plan");
  if (!kernels.has(row, plan)) return std::nullopt;
  TunedRow tuned;
  tuned.us = row.time("us");
  try {
    tuned.problem = problem_of(row, *known, *dtype);
    check_problem(tuned.problem);
    tuned.plan = plan_of_words(tuned.problem, plan);
  } catch (const Error& e) {
    raise(ErrorKind::usage, "{}: {}", row.where(), e.what());
  }
  require(tuned.plan.kernel != nullptr,
          "{}: plan: no tile is named: give the whole plan as `tilelace plan` prints it",
          row.where());
  tuned.kind = kind_of(tuned.plan);
  return tuned;
}

void read_rows(const json& rows, KernelsOfTable kernels, TuningTable& table) {
  const auto hash = [](const Problem& p) { return hash_value(p); };
  std::unordered_set<Problem, decltype(hash)> seen;
  std::size_t number = 0;
  int grouped_left_out = 0;
  for (const json& object : rows) {
    const TableFields row(object, fmt::format("{}: row {}", table.file, number++));
    if (is_grouped(row)) {
      grouped_left_out += take_grouped(row, table) ? 0 : 1;
      continue;
    }
    auto tuned = row_of_fields(row, kernels, table);
    if (!tuned) continue;
    require(seen.insert(tuned->problem).second,
            "{}: got a second row for {}, expected one row per problem", row.where(),
            fmt::streamed(tuned->problem));
    table.rows.push_back(std::move(*tuned));
  }
  if (const std::string note = kernels.note(table.file); !note.empty()) table.notes.push_back(note);
  if (grouped_left_out > 0)
    table.notes.push_back(
        fmt::format("{}: {} rows of {} left out: kernels have changed since; `tilelace tune` times "
                    "them again",
                    table.file, grouped_left_out, kGroupedOp));
}

TunedDevice device_in(const TableFields& f) {
  TunedDevice d{f.text("name"), f.text("architecture"), 0, f.rate_or_none("memory_gbps")};
  const std::int64_t multiprocessors = f.whole("multiprocessors");
  require(multiprocessors <= 4096, "{}: multiprocessors: got {}, expected at most 4096", f.where(),
          multiprocessors);
  d.multiprocessors = static_cast<int>(multiprocessors);
  return d;
}

}  // namespace

bool TunedDevice::fits(const Machine& machine) const {
  const double theirs = machine.memory_bytes_per_s * 1e-9;
  return machine.device == Device::cuda && !machine.shared_device &&
         machine.multiprocessors == multiprocessors &&
         name_of_architecture(machine.architecture) == architecture &&
         same_memory(memory_gbps, theirs);
}

bool same_memory(double gbps, double other_gbps) {
  return gbps == 0 || other_gbps == 0 ||
         std::abs(gbps - other_gbps) <= kSameMemory * std::max(gbps, other_gbps);
}

std::string said_of(const TunedDevice& d) {
  const std::string memory =
      d.memory_gbps == 0 ? "" : fmt::format(" and {:.0f} GB/s of memory", d.memory_gbps);
  return fmt::format("{} with {} multiprocessors{}", d.architecture, d.multiprocessors, memory);
}

TunedDevice device_of(const Machine& machine, const std::string& name) {
  return {name, std::string(name_of_architecture(machine.architecture)), machine.multiprocessors,
          machine.memory_bytes_per_s * 1e-9};
}

std::uint64_t TuningTable::digest_of_all() const {
  return behind == nullptr ? digest
                           : digest_of(fmt::format("{:016x}", behind->digest_of_all()), digest);
}

std::map<std::string, std::string> kernel_set(int architecture) {
  std::map<std::string, std::string> digests;
  for (const GemmTile& t : plans_of(architecture).tiles)
    digests[std::string(t.name)] = fmt::format(
        "{:016x}",
        digest_of(fmt::format("{} {} {} {} {} {} {} {} {} {} {}", kGeneration, t.groups, t.blocks,
                              t.width, t.stages, t.cluster_rows, t.cluster_cols, t.staging,
                              t.pingpong, t.swapped, t.per_sm)));
  return digests;
}

std::string grouped_kernels(const GroupedShape& s) {
  return fmt::format("{:016x}",
                     digest_of(fmt::format("{} {} {} {} {} {}", kGroupedGeneration, s.most,
                                           s.weight_rows, s.cluster, s.stages, s.chunk_rows)));
}

std::shared_ptr<const TuningTable> tuning_of(const std::string& file, const std::string& bytes,
                                             const Machine* machine) {
  require(bytes.size() <= kMostTuningBytes, "{}: got {} bytes, expected at most {}", file,
          bytes.size(), kMostTuningBytes);
  const json all = parsed(file, bytes);
  const TableFields top(all, file);
  const std::string schema = top.text("schema");
  require(schema == kSchema, "{}: schema: got \"{}\", expected \"{}\"", file, schema, kSchema);
  auto table = std::make_shared<TuningTable>();
  table->file = file;
  table->digest = digest_of(bytes);
  table->device = device_in(TableFields(top.at("device"), file + ": device"));
  const json& rows = top.at("rows");
  require(rows.is_array(), "{}: rows: got {}, expected a list", file, rows.type_name());
  const json& kernels = top.at("kernels");
  if (kernels.is_string())
    table->notes.push_back(fmt::format(
        "{}: not used: its kernels are {}, of an earlier release; `tilelace tune` makes a new one",
        file, top.text("kernels")));
  else if (const auto architecture = architecture_named(table->device.architecture); !architecture)
    table->notes.push_back(
        fmt::format("{}: not used: it is for {}, which this build has no kernels for", file,
                    table->device.architecture));
  else if (machine == nullptr || table->fits(*machine))
    read_rows(rows, KernelsOfTable(kernels, file + ": kernels", *architecture), *table);
  return table;
}

}  // namespace tilelace::plan

namespace tilelace {

std::shared_ptr<const plan::TuningTable> read_tuning(const std::string& file) {
  return plan::tuning_of(file, read_text("tuning", file, plan::kMostTuningBytes));
}

}  // namespace tilelace
