// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace tilelace::cli {

/// Trace events (JSON) for Perfetto and chrome://tracing: named processes with named threads, and
/// spans on the threads, in microseconds.
class TraceEvents {
 public:
  void process(int process, const std::string& name);
  /// Names a thread. Threads of a process are shown in the order of their numbers.
  void thread(int process, int thread, const std::string& name);
  /// `more`: details that are shown when the span is selected; an object or null.
  void span(int process, int thread, const std::string& name, double begin_us, double us,
            nlohmann::ordered_json more = nullptr);
  /// All events as the text of a file.
  [[nodiscard]] std::string text() const;

 private:
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();
};

}  // namespace tilelace::cli
