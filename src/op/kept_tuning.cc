// SPDX-License-Identifier: Apache-2.0
#include "op/kept_tuning.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/prepared_calls.h"
#include "core/read_text.h"
#include "core/say.h"
#include "core/write_text.h"
#include "plan/tuning/find_tuning.h"
#include "tilelace/error.h"

namespace tilelace::op {
namespace {

/// Of a file that is no cache yet: empty. What is wrong with one that is there comes as `why`.
std::string bytes_of(const std::string& file, std::string& why) {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return "";
  try {
    return read_text("tuning", file, plan::kMostTuningBytes);
  } catch (const Error& e) {
    why = e.what();
    return "";
  }
}

plan::TuningDraft draft_of(const std::string& file, const plan::TunedDevice& device,
                           const std::string& bytes, std::string& why) {
  try {
    plan::TuningDraft draft(file, device, bytes);
    if (!draft.note().empty()) why = draft.note();
    return draft;
  } catch (const Error& e) {
    why = e.what();
    return {file, device};
  }
}

constexpr std::size_t kDigits = 16;

}  // namespace

KeptTuning::KeptTuning(comm::Group& group, const CommunicatorOptions& o, const Machine& machine,
                       const std::string& device_name, bool together, const KeptTuning* has_read)
    : given_(o.tuning), device_(plan::device_of(machine, device_name)) {
  const bool first = group.rank() == 0;
  if (!o.cache.empty())
    file_ = (std::filesystem::path(o.cache) / plan::cache_name(machine, group.ranks())).string();
  writes_ = first && !file_.empty();
  if (given_ == nullptr && o.tuning_file != plan::kNoTuning)
    shipped_ = plan::shipped_tuning(machine, group.ranks());
  std::string why;
  std::string bytes;
  if (has_read != nullptr)
    bytes = has_read->text();
  else if (first || !together)
    bytes = bytes_of(file_, why);
  if (together) {
    const std::uint64_t digest = shipped_ == nullptr ? 0 : shipped_->digest_of_all();
    const auto all = gather_texts(group, fmt::format("{:016x}{}", digest, bytes), o.timeout_s);
    for (const std::string& theirs : all)
      if (theirs.substr(0, kDigits) != all[0].substr(0, kDigits)) shipped_ = nullptr;
    bytes = all[0].substr(kDigits);
  }
  rows_ = draft_of(file_.empty() ? "what was tuned here" : file_, device_, bytes, why);
  if (first && !why.empty()) say(fmt::format("cache: {}: left out", why));
  chain();
}

void KeptTuning::chain() {
  table_ = shipped_;
  if (rows_->rows() > 0)
    table_ = plan::with_behind(
        *plan::tuning_of(file_.empty() ? "what was tuned here" : file_, rows_->text()), table_);
  if (given_ != nullptr) table_ = plan::with_behind(*given_, table_);
}

void KeptTuning::put(const Problem& p, const Plan& plan, const plan::TunedTimes& times) {
  rows_->put(p, plan, times);
  kept();
}

void KeptTuning::put(const plan::GroupedProduct& p, const plan::GroupedShape& shape,
                     const plan::TunedTimes& times) {
  rows_->put(p, shape, times);
  kept();
}

void KeptTuning::kept() {
  chain();
  if (writes_) write();
}

void KeptTuning::write() {
  try {
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path());
    std::string why;
    const std::string there = bytes_of(file_, why);
    plan::TuningDraft all(file_, device_, rows_->text());
    try {
      if (!there.empty()) all.merge(file_, there);
    } catch (const Error&) {  // no table, or another build's: written anew
    }
    write_text("cache", file_, all.text());
  } catch (const std::exception& e) {
    say(fmt::format("cache: {}: nothing is kept there", e.what()));
    writes_ = false;
  }
}

}  // namespace tilelace::op
