// SPDX-License-Identifier: Apache-2.0
// What the source files of `tilelace doctor` share.
#pragma once
#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "private_text.h"
#include "simulate/machine_file.h"
#include "text_width.h"

namespace tilelace::cli {

class Report {
 public:
  /// A report for the user: lines are broken to fit the terminal, and private names are shown.
  Report() = default;
  /// A report for strangers: lines are not broken, and the given names are replaced.
  explicit Report(PrivateNames names) : names_(std::move(names)) {}
  [[nodiscard]] bool for_strangers() const { return names_.has_value(); }

  void line(const std::string& what, const std::string& value) const {
    print(fmt::format("{:<18} {}", what, value), 19);
  }
  void variable(const std::string& name, const std::string& value) const {
    print(fmt::format("{}={}", name, names_ ? shown_value(name, value, *names_) : value), 2);
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
    print("", 0);
    print(disabled_.empty() ? "nothing is missing" : "what is missing, and what that disables:", 0);
    for (const auto& d : disabled_) print(fmt::format("  {}", d), 4);
  }
  /// Prints a text whose lines are already broken.
  void text(const std::string& text) const {
    fmt::print("{}", names_ ? without_homes(text, *names_) : text);
  }

 private:
  void print(const std::string& line, int indent) const {
    if (names_)
      fmt::print("{}\n", without_homes(line, *names_));
    else
      fmt::print("{}\n", filled(line, text_columns(), indent));
  }

  std::optional<PrivateNames> names_;
  std::vector<std::string> disabled_;
};

/// A library that is loaded at run time by its name, so that the build does not need it.
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

/// report_build reports on the version and the build, report_host on the system, and
/// report_environment on environment variables that change what this program does.
void report_build(Report& report);
void report_host(Report& report);
void report_environment(Report& report);
/// Reports on GPUs and the links between them. Reports nothing without NVML.
void report_links(Report& report);
/// Reports on GPUs and CUDA's libraries. Defined in doctor_gpus_cuda.cc, or in doctor_gpus.cc for
/// builds without CUDA.
void report_devices(Report& report);

/// The numbers of a machine file, and their sources. `ranks`: the --tp option for `simulate`.
struct MeasuredMachine {
  sim::MachineModel machine;
  Sources sources;
  std::string ranks;
};

/// Times GEMMs, copies and flags on this machine's cores; takes about two seconds.
MeasuredMachine measure_cpu_ranks();
/// Times GEMMs, copies and links of all GPUs of this machine. Takes about half a minute; after one
/// minute the process exits. Numbers that are not measured are taken from `known`. Errors: usage (a
/// build without CUDA, or no GPU that the build has kernels for), system.
MeasuredMachine measure_gpu_ranks(const sim::MachineModel& known);

struct MeasureRequest {
  std::string path;
  std::string backend;  ///< cpu or cuda; empty: cuda if there are GPUs
  std::string compare;  ///< the machine to compare with; empty: none
};

/// Measures this machine and writes a machine file. Errors: usage (also if writing fails), system.
void measure_machine(const MeasureRequest&);

}  // namespace tilelace::cli
