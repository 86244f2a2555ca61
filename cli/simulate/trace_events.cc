// SPDX-License-Identifier: Apache-2.0
#include "simulate/trace_events.h"

#include <utility>

namespace tilelace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json named(const char* kind, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void TraceEvents::process(int process, const std::string& name) {
  events_.push_back(named("process_name", process, 0, name));
}

void TraceEvents::thread(int process, int thread, const std::string& name) {
  events_.push_back(named("thread_name", process, thread, name));
}

void TraceEvents::span(int process, int thread, const std::string& name, double begin_us, double us,
                       Json more) {
  Json event{{"ph", "X"},     {"name", name},   {"pid", process},
             {"tid", thread}, {"ts", begin_us}, {"dur", us}};
  if (!more.is_null()) event["args"] = std::move(more);
  events_.push_back(std::move(event));
}

std::string TraceEvents::text() const {
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", events_}}.dump() + "\n";
}

}  // namespace tilelace::cli
