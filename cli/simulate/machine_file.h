// SPDX-License-Identifier: Apache-2.0
// Files that describe machines for `simulate`. Each number has a source: [number, "source"].
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/machine.h"

namespace tilelace::cli {

/// Sources by key, such as "compute.peak_tflops".
using Sources = std::map<std::string, std::string>;

/// Reads and checks a machine: a name of machine_names() or a file. Errors begin with `option`.
/// Errors: usage, naming the file and the key, if the file cannot be read, lacks a number or its
/// source, or has a number that is unknown or out of range.
sim::MachineModel read_machine(const std::string& name_or_path, Sources* sources = nullptr,
                               const char* option = "--machine");

/// Sets machine.method from a method file, given by its name in machines/methods or by its path.
void read_method(const std::string& name_or_path, sim::MachineModel& machine);

/// The text of a machine file. Every number must have a source.
std::string machine_text(const sim::MachineModel& machine, const Sources& sources);

/// Calls f("section.key") for every number that the machine's file has.
void each_source_of(const sim::MachineModel& machine,
                    const std::function<void(const std::string&)>& f);

std::vector<std::string> machine_names();
std::vector<std::string> method_names();

}  // namespace tilelace::cli
