// SPDX-License-Identifier: Apache-2.0
// The collectives, as ops to register with torch.
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
// `after` is never read. In torch's graphs it orders calls that write to their arguments.
constexpr const char* kAfter = ", Tensor? after=None) -> ()";

/// Whether this is the name of a collective (kCollectives).
bool is_collective(std::string_view name);

std::vector<OpEntry> collective_ops();

/// Names of the collectives' ops, and of the ops of mixtures of experts, which contain
/// collectives.
std::vector<std::string> collective_names();

}  // namespace tilelace::torch_binding
