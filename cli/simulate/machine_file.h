// SPDX-License-Identifier: Apache-2.0
// Machine files: every number stands with where it comes from, as [number, "source"].
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/machine.h"

namespace tilelace::cli {

/// "compute.peak_tflops" -> its source.
using Sources = std::map<std::string, std::string>;

/// Reads and checks a machine: a name of machine_names() or a file, which `option` asked for.
/// Errors: usage, naming the file and the key, when it cannot be read, misses a number or its
/// source, has one too many, or one out of range.
sim::MachineModel read_machine(const std::string& name_or_path, Sources* sources = nullptr,
                               const char* option = "--machine");

/// Replaces machine.method by the one in a method file (machines/methods, or a file).
void read_method(const std::string& name_or_path, sim::MachineModel& machine);

/// The file's text. Every number must have a source.
std::string machine_text(sim::MachineModel machine, const Sources& sources);

/// Calls f("section.key") for every number of such a machine's file.
void each_source_of(const sim::MachineModel& machine,
                    const std::function<void(const std::string&)>& f);

std::vector<std::string> machine_names();
std::vector<std::string> method_names();

}  // namespace tilelace::cli
