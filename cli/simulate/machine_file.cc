// SPDX-License-Identifier: Apache-2.0
#include "simulate/machine_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/check.h"
#include "core/read_text.h"
#include "model/data_files.h"
#include "model/json_file.h"
#include "sim/machine_fields.h"

namespace tilelace::cli {
namespace {

namespace fs = std::filesystem;
using sim::dotted;
constexpr std::size_t kMostBytes = 1 << 20;
constexpr const char* kMachineSchema = "tilelace.machine/1";
constexpr const char* kMethodSchema = "tilelace.method/1";

/// One file, whose keys are ticked off as they are read.
class MachineReader {
 public:
  MachineReader(fs::path file, const char* schema)
      : file_(std::move(file)),
        whole_(model::parse_object("machine", file_, read_text("machine", file_, kMostBytes))) {
    const std::string found = text("", "schema");
    require(found == schema, "machine: {}: schema, got \"{}\", expected \"{}\"", file_.string(),
            model::printable(found), schema);
  }

  std::string text(const std::string& section, const std::string& key) {
    const nlohmann::json* value = find(section, key);
    std::string found = value != nullptr && value->is_string() ? value->get<std::string>() : "";
    // Control characters would reach terminals and pictures.
    const bool plain = std::none_of(found.begin(), found.end(),
                                    [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    require(!found.empty() && plain, "machine: {}: {}, got {}, expected a text of one line",
            file_.string(), dotted(section, key), model::shown(value));
    return found;
  }

  [[nodiscard]] bool has(const std::string& key) const { return whole_.contains(key); }

  double number(const std::string& section, const std::string& key, Sources* sources) {
    const nlohmann::json* value = find(section, key);
    const bool good = value != nullptr && value->is_array() && value->size() == 2 &&
                      (*value)[0].is_number() && (*value)[1].is_string() &&
                      !(*value)[1].get<std::string>().empty();
    require(good,
            "machine: {}: {}, got {}, expected a list of a number and a text that says where the "
            "number is from",
            file_.string(), dotted(section, key), model::shown_whole(value));
    if (sources != nullptr) (*sources)[dotted(section, key)] = (*value)[1].get<std::string>();
    return (*value)[0].get<double>();
  }

  /// Nothing may be left unread: a misspelt key would silently keep its default.
  void close() const {
    for (const auto& [name, value] : whole_.items()) {
      require(seen_.count(name) > 0, "machine: {}: got the unknown key {}", file_.string(),
              model::printable(name));
      if (!value.is_object()) continue;
      for (const auto& [key, ignored] : value.items()) {
        require(seen_.count(dotted(name, key)) > 0, "machine: {}: got the unknown key {}.{}",
                file_.string(), model::printable(name), model::printable(key));
      }
    }
  }

  template <class Check>
  void checked(Check check) const {
    try {
      check();
    } catch (const Error& e) {
      raise(ErrorKind::usage, "{}: {}", file_.string(), e.what());
    }
  }

 private:
  const nlohmann::json* find(const std::string& section, const std::string& key) {
    seen_.insert(dotted(section, key));
    const nlohmann::json* at = &whole_;
    if (!section.empty()) {
      seen_.insert(section);
      const auto found = whole_.find(section);
      if (found == whole_.end() || !found->is_object()) return nullptr;
      at = &*found;
    }
    const auto found = at->find(key);
    return found == at->end() ? nullptr : &*found;
  }

  fs::path file_;
  nlohmann::json whole_;
  std::set<std::string> seen_;
};

fs::path find_file(const std::string& folder, const char* what, const std::string& name) {
  std::error_code error;
  if (const auto known = model::known_file(folder, name)) return *known;
  require(!name.empty() && fs::exists(name, error), "{}: got \"{}\", expected a file or {}", what,
          model::printable(name), model::known_names(folder));
  return name;
}

sim::Method method_of(MachineReader& reader, Sources* sources) {
  sim::Method method;
  method.name = reader.text("method", "name");
  each_method_field(method,
                    [&](const char* section, const char* key, double& value, const sim::Bounds&) {
                      value = reader.number(section, key, sources);
                    });
  return method;
}

}  // namespace

std::vector<std::string> machine_names() { return model::known_files("machines"); }
std::vector<std::string> method_names() { return model::known_files("machines/methods"); }

sim::MachineModel read_machine(const std::string& name_or_path, Sources* sources,
                               const char* option) {
  MachineReader reader(find_file("machines", option, name_or_path), kMachineSchema);
  sim::MachineModel m;
  m.name = reader.text("", "name");
  m.device = reader.text("", "device");
  if (reader.has("plans")) m.plans = reader.text("", "plans");
  const std::string topology = reader.text("links", "topology");
  reader.checked([&] {
    require(topology == "all_to_all" || topology == "tree",
            "machine: links.topology, got \"{}\", expected all_to_all or tree",
            model::printable(topology));
  });
  m.links.topology = topology == "tree" ? sim::Topology::tree : sim::Topology::all_to_all;
  each_field(m, [&](const char* section, const char* key, double& value, const sim::Bounds&) {
    value = reader.number(section, key, sources);
  });
  m.experts.text = reader.text("experts", "text");
  m.method.name = reader.text("method", "name");
  m.error.text = reader.text("error", "text");
  reader.close();
  reader.checked([&] { check_machine(m); });
  return m;
}

void read_method(const std::string& name_or_path, sim::MachineModel& machine) {
  MachineReader reader(find_file("machines/methods", "--method", name_or_path), kMethodSchema);
  machine.method = method_of(reader, nullptr);
  reader.close();
  reader.checked([&] { check_machine(machine); });
}

void each_source_of(const sim::MachineModel& machine,
                    const std::function<void(const std::string&)>& f) {
  each_field(machine, [&](const char* section, const char* key, double, const sim::Bounds&) {
    f(dotted(section, key));
  });
}

std::string machine_text(const sim::MachineModel& m, const Sources& sources) {
  // By hand: a number and its source stand on one line, in the order of the fields.
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string text = fmt::format(R"({{
 "schema": {},
 "name": {},
 "device": {})",
                                 quoted(kMachineSchema), quoted(m.name), quoted(m.device));
  if (!m.plans.empty()) text += fmt::format(",\n \"plans\": {}", quoted(m.plans));
  std::string open;
  each_field(m, [&](const std::string& section, const char* key, double value, const sim::Bounds&) {
    if (section != open && !open.empty()) text += "\n }";
    if (section != open) text += fmt::format(",\n {}: {{\n", quoted(section));
    if (section != open && section == "links") {
      text += fmt::format("  \"topology\": \"{}\",\n",
                          m.links.topology == sim::Topology::tree ? "tree" : "all_to_all");
    }
    if (section != open && section == "method") {
      text += fmt::format("  \"name\": {},\n", quoted(m.method.name));
    }
    if (section != open && section == "experts") {
      text += fmt::format("  \"text\": {},\n", quoted(m.experts.text));
    }
    if (section == open) text += ",\n";
    open = section;
    const std::string& source = sources.at(dotted(section, key));
    text += fmt::format("{}{}: [{}, {}]", section.empty() ? " " : "  ", quoted(key),
                        nlohmann::json(value).dump(), quoted(source));
  });
  return text + fmt::format(",\n  \"text\": {}\n }}\n}}\n", quoted(m.error.text));
}

}  // namespace tilelace::cli
