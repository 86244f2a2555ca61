// SPDX-License-Identifier: Apache-2.0
// Facts about this machine, for records, reports and error texts.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

std::string cpu_model();
int cpu_cores();
/// CPU features (avx2, ...) of the first core, as /proc/cpuinfo names them.
std::vector<std::string> cpu_flags();
/// The machine in words: "AMD EPYC, 2 cores".
std::string device_name();
/// Bytes that a new program can allocate: the smaller of what the kernel reports as available and
/// what the control group's limit leaves. Absent if neither of the two can be read.
std::optional<std::int64_t> available_memory();
std::optional<std::int64_t> total_memory();
/// A number of bytes as text: "1.5 GiB".
std::string show_bytes(std::int64_t bytes);
/// The text after the first `key:` in a file whose lines are "key: text", as in /proc/cpuinfo.
std::optional<std::string> find_line(const char* file, std::string_view key);
/// The time now: ISO 8601, UTC, to the second.
std::string utc_now();
double seconds_now();

}  // namespace tilelace::cli
