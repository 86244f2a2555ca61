// SPDX-License-Identifier: Apache-2.0
#include "tuning_file.h"

#include <utility>

#include "core/architecture.h"
#include "core/read_text.h"
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
    : file_(std::move(file)),
      table_(file_.string(), device_of(gpus),
             std::filesystem::exists(file_) ? bytes_of(file_) : std::string()) {}

void TuningFile::put(const Problem& p, const Plan& plan, TunedTimes times) {
  times.commit = TILELACE_COMMIT;
  table_.put(p, plan, times);
}

std::size_t TuningFile::merge(const std::filesystem::path& other) {
  return table_.merge(other.string(), bytes_of(other));
}

void TuningFile::write() const { write_text("--out", file_.string(), table_.text()); }

}  // namespace tilelace::cli
