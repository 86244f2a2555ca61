// SPDX-License-Identifier: Apache-2.0
// Collectives as rows of torch's table of calls.
#pragma once
#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::torch_binding {

using Kernel = void (*)(StableIValue*, std::uint64_t, std::uint64_t);

struct OpEntry {
  std::string name;
  std::string schema;
  Kernel kernel;
};

constexpr const char* kSizes = "SymInt[]? sizes=None";
// `after`: what orders a call that writes arguments behind others in a graph; never read.
constexpr const char* kAfter = ", Tensor? after=None) -> ()";

/// Whether a call of that name is one of them: the collective of some ops.
bool is_collective(std::string_view name);

std::vector<OpEntry> collective_ops();

/// Names of all calls, those that write results among them.
std::vector<std::string> collective_names();

}  // namespace tilelace::torch_binding
