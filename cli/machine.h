// SPDX-License-Identifier: Apache-2.0
// What this machine is, for records, reports and refusals.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

std::string cpu_model();
int cpu_cores();
/// Of the first core, as /proc/cpuinfo names them.
std::vector<std::string> cpu_flags();
/// "AMD EPYC, 2 cores"
std::string device_name();
/// Bytes that a new program can have: what the kernel says is available, and no more than the
/// control group leaves. Absent when neither can be read.
std::optional<std::int64_t> available_memory();
std::optional<std::int64_t> total_memory();
/// "1.5 GiB"
std::string show_bytes(std::int64_t bytes);
/// The text after `key:` in a file of lines like /proc/cpuinfo; the first one wins.
std::optional<std::string> find_line(const char* file, std::string_view key);
/// ISO 8601, UTC, seconds.
std::string utc_now();
double seconds_now();

}  // namespace tilelace::cli
