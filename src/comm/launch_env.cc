// SPDX-License-Identifier: Apache-2.0
#include "comm/launch_env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "comm/group.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

/// The names that a launcher gives to what we ask for.
struct Names {
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;
};
constexpr Names kTorch{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};

std::string quoted(const std::optional<std::string>& value) {
  return value ? fmt::format("\"{}\"", *value) : "nothing";
}

int number(const char* name, const std::optional<std::string>& value, int low, int high,
           std::string_view expected) {
  int parsed = 0;
  bool good = false;
  if (value) {
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, parsed);
    good = error == std::errc() && stop == end && parsed >= low && parsed <= high;
  }
  require(good, "launch: {}: got {}, expected {}", name, quoted(value), expected);
  return parsed;
}

/// FNV-1a: the job's name may be long and hold any character.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::string job_name(const Lookup& lookup) {
  const auto port = lookup("MASTER_PORT");
  const auto space = lookup("PMIX_NAMESPACE");
  if (!port && space) return "pmix:" + *space;
  number("MASTER_PORT", port, 1, 65535, "1..65535");
  return fmt::format("{}:{}", lookup("MASTER_ADDR").value_or("localhost"), *port);
}

std::string directory_of(const Lookup& lookup) {
  constexpr std::size_t kLongest = 48;  // a socket's path has 107 bytes, of which we need 50
  const std::string runtime = lookup("XDG_RUNTIME_DIR").value_or("");
  const bool fit = runtime.starts_with('/') && runtime.size() <= kLongest &&
                   access(runtime.c_str(), W_OK | X_OK) == 0;
  return fmt::format("{}/tilelace-{}-{:016x}", fit ? runtime : "/tmp", geteuid(),
                     hash_of(job_name(lookup)));
}

}  // namespace

std::optional<Launch> read_launch(const Lookup& lookup) {
  const bool torch = lookup(kTorch.rank).has_value() || lookup(kTorch.ranks).has_value();
  const Names& names = torch ? kTorch : kOpenMpi;
  if (!lookup(names.rank) && !lookup(names.ranks)) return std::nullopt;
  Launch launch;
  launch.ranks =
      number(names.ranks, lookup(names.ranks), 1, kMaxRanks, fmt::format("1..{}", kMaxRanks));
  const std::string below = fmt::format("0..{}-1", names.ranks);
  launch.rank = number(names.rank, lookup(names.rank), 0, launch.ranks - 1, below);
  const auto local = lookup(names.local_rank);
  launch.local_rank =
      local ? number(names.local_rank, local, 0, launch.ranks - 1, below) : launch.rank;
  if (const auto here = lookup(names.local_ranks))
    number(
        names.local_ranks, here, launch.ranks, launch.ranks,
        fmt::format("{} ({} {}): all ranks on one host", launch.ranks, names.ranks, launch.ranks));
  launch.directory = directory_of(lookup);
  return launch;
}

}  // namespace tilelace::comm
