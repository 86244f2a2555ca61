// SPDX-License-Identifier: Apache-2.0
// What the doctor's parts share.
#pragma once
#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "simulate/machine_file.h"
#include "text_width.h"

namespace tilelace::cli {

class Report {
 public:
  static void line(const std::string& what, const std::string& value) {
    fmt::print("{}\n", filled(fmt::format("{:<18} {}", what, value), text_columns(), 19));
  }
  void missing(const std::string& what, const std::string& disables) {
    line(what, "missing");
    disabled_.push_back(fmt::format("{}: {}", what, disables));
  }
  void check(const std::string& what, bool there, const std::string& disables) {
    if (there) return line(what, "yes");
    missing(what, disables);
  }
  void summary() const {
    fmt::print("\n{}\n", disabled_.empty() ? "nothing is missing"
                                           : "what is missing, and what that "
                                             "disables:");
    for (const auto& d : disabled_)
      fmt::print("{}\n", filled(fmt::format("  {}", d), text_columns(), 4));
  }

 private:
  std::vector<std::string> disabled_;
};

/// A library that is asked by name only, so that this build needs none of it.
class Library {
 public:
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (handle_ == nullptr) handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  template <class F>
  F* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

/// The GPUs and the libraries of CUDA: doctor_gpus.cc in builds without CUDA, else
/// doctor_gpus_cuda.cc.
void report_devices(Report& report);

/// A machine, where its numbers come from, and options that simulate it.
struct MeasuredMachine {
  sim::MachineModel machine;
  Sources sources;
  std::string ranks;
};

/// Times cores, copies and flags of this machine, about two seconds.
MeasuredMachine measure_cpu_ranks();
/// Times products, copies and links of all its GPUs, about half a minute; ends the process after
/// one. What is not measured stays as in `known`. Errors: usage (a build without CUDA, no GPU that
/// it is built for), system.
MeasuredMachine measure_gpu_ranks(const sim::MachineModel& known);

struct MeasureRequest {
  std::string path;
  std::string backend;  ///< cpu, cuda, or empty: GPUs where there are any
  std::string compare;  ///< a machine to compare with; may be empty
};

/// Measures and writes a machine file. Errors: usage, also when the file cannot be written; system.
void measure_machine(const MeasureRequest&);

}  // namespace tilelace::cli
