// SPDX-License-Identifier: Apache-2.0
#include "tuning_file.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "commit.h"
#include "core/architecture.h"
#include "core/read_text.h"
#include "plan/tuning/find_tuning.h"
#include "plan/tuning/tuning_table.h"
#include "text_file.h"

namespace tilelace::cli {
namespace {

plan::TunedDevice device_of(const GpuFacts& gpus) {
  return {gpus.name, std::string(name_of_architecture(gpus.architecture)), gpus.multiprocessors,
          gpus.memory_bytes_per_s * 1e-9};
}

std::string bytes_of(const std::filesystem::path& file) {
  return read_text("tuning", file, plan::kMostTuningBytes);
}

}  // namespace

TuningFile::TuningFile(std::filesystem::path file, const GpuFacts& gpus)
    : TuningFile(std::move(file), device_of(gpus)) {}

TuningFile::TuningFile(std::filesystem::path file, const plan::TunedDevice& device)
    : file_(std::move(file)),
      table_(file_.string(), device,
             std::filesystem::exists(file_) ? bytes_of(file_) : std::string()) {}

void TuningFile::put(const Problem& p, const Plan& plan, TunedTimes times) {
  times.commit = built_commit();
  table_.put(p, plan, times);
}

void TuningFile::put(const plan::GroupedProduct& p, const plan::GroupedShape& tiles,
                     TunedTimes times) {
  times.commit = built_commit();
  table_.put(p, tiles, times);
}

std::size_t TuningFile::merge(const std::filesystem::path& other) {
  return table_.merge(other.string(), bytes_of(other));
}

void TuningFile::write() const { write_text("--out", file_.string(), table_.text()); }

namespace {

void take_merged(const TuneRequest& request, TuningFile& file) {
  if (!file.note().empty()) fmt::print("note: {}\n", file.note());
  for (const std::string& other : request.merge)
    fmt::print("{}: {} rows added\n", other, file.merge(other));
}

}  // namespace

TuningFile open_table(const TuneRequest& request, const GpuFacts& gpus) {
  TuningFile file(request.out, gpus);
  take_merged(request, file);
  return file;
}

void merge_tables(const TuneRequest& request) {
  const std::string& first = request.merge.front();
  TuningFile file(request.out, plan::tuning_of(first, bytes_of(first))->device);
  take_merged(request, file);
  file.write();
  fmt::print("table: {}, {} rows\n", request.out, file.rows());
}

void TuneTally::add(double us, double standard_us) {
  ++done_;
  if (standard_us > 0) gains_ += std::log(standard_us / us);
}

void TuneTally::print(std::ptrdiff_t wanted, const TuningFile& file, const std::string& out) const {
  if (done_ > 0)
    fmt::print(
        "\n{} problems tuned. The planner's own choices take {:.1f} % longer (geometric mean)\n",
        done_, 100 * (std::exp(gains_ / done_) - 1));
  if (done_ < wanted)
    fmt::print("{} are left, because --minutes is over or a result was wrong: run the same again\n",
               wanted - done_);
  fmt::print("table: {}, {} rows; use it with TILELACE_TUNING={}\n", out, file.rows(), out);
}

void take_tables(const std::string& file, int ranks, Machine& machine) {
  if (file.empty())
    machine.tuning = plan::tuning_for(machine, ranks);
  else
    machine.tuning = file == plan::kNoTuning ? nullptr : read_tuning(file);
  for (const auto* table = machine.tuning.get(); table != nullptr; table = table->behind.get()) {
    for (const std::string& note : table->notes) fmt::print("note: {}\n", note);
    if (table->notes.empty() && !table->fits(machine))
      fmt::print("note: {}: of {}: not used\n", table->file, said_of(table->device));
  }
}

}  // namespace tilelace::cli
