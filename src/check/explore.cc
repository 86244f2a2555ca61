// SPDX-License-Identifier: Apache-2.0
#include "check/explore.h"

#include <memory>

#include "check/explorer.h"
#include "check/prepared_calls.h"
#include "core/check.h"

namespace tilelace::check {

/// Flags are read as they should be and calls follow each other: orders do not count.
CheckReport Checker::check(const CheckConfig& config) {
  const auto reason = legal(config);
  require(!reason, "check: {} (got {})", reason.value_or(""), to_string(config));
  CheckConfig of = config;
  of.resident = 0;
  of.seed = 0;
  if (prepared_ == nullptr || !(prepared_->of == of))
    prepared_ = std::make_shared<PreparedCalls>(prepare(of));
  const bool played = prepared_->clean && config.mutant == Mutant::none;
  CheckReport report = Explorer(config, *prepared_, !played).run();
  prepared_->clean |= report.findings.empty();
  return report;
}

CheckReport check(const CheckConfig& config) { return Checker().check(config); }

}  // namespace tilelace::check
