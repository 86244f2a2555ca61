// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/checked.h"

#include <fmt/core.h>

#include "backend/backend.h"
#include "core/env.h"

namespace tilelace {
namespace {

check::Monitor::Setup setup_of(int ranks, int workers) {
  check::Monitor::Setup setup;
  setup.ranks = ranks;
  setup.workers = workers;
  setup.first_epoch = env::first_epoch() + 1;
  return setup;
}

}  // namespace

CheckedGroup::CheckedGroup(int ranks, int workers)
    : ranks_(ranks), workers_(workers), monitor_(setup_of(ranks, workers)) {}

std::vector<std::string> CheckedGroup::findings() const {
  std::vector<std::string> all;
  for (const auto& f : monitor_.findings()) all.push_back(f.text);
  const std::scoped_lock lock(mutex_);
  if (!stopped_.empty()) all.push_back(fmt::format("checking stopped: {}", stopped_));
  return all;
}

void CheckedGroup::stop(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (stopped_.empty()) stopped_ = reason;
}

bool CheckedGroup::stopped() const {
  const std::scoped_lock lock(mutex_);
  return !stopped_.empty();
}

std::shared_ptr<const check::CallPlan> CheckedGroup::plan_of(const check::CallSpec& spec,
                                                             int workers) {
  const std::scoped_lock lock(mutex_);
  for (const auto& p : plans_) {
    if (p->spec() == spec && p->workers() == workers) return p;
  }
  plans_.push_back(std::make_shared<const check::CallPlan>(spec, ranks_, workers));
  return plans_.back();
}

std::shared_ptr<CheckedGroup> make_checked_group(int ranks, int workers) {
  return std::make_shared<CheckedGroup>(ranks, workers);
}

}  // namespace tilelace
