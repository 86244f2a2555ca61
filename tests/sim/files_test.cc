// SPDX-License-Identifier: Apache-2.0
// Machine and method files: all of ours read, whatever else gives a text and never a crash.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "places.h"
#include "simulate/machine_file.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

using nlohmann::json;

/// A file that goes away with the test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text)
      : path_(testing::TempDir() + "tilelace-machine-" + std::to_string(getpid()) + ".json") {
    std::ofstream(path_) << text;
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The error's text; empty if there was none.
std::string complaint(const std::string& text) {
  const ScratchFile file(text);
  try {
    read_machine(file.path());
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

json h200() {
  std::ifstream in(in_source_tree("machines/h200x4.json"));
  return json::parse(in);
}

TEST(MachineFile, AllOfOursAreReadAndSourced) {
  EXPECT_GE(machine_names().size(), 9U);
  for (const std::string& name : machine_names()) {
    Sources sources;
    const sim::MachineModel m = read_machine(name, &sources);
    EXPECT_EQ(m.name, name);
    EXPECT_FALSE(m.error.text.empty());
    EXPECT_GE(sources.size(), 40U);
    for (const auto& [key, source] : sources) EXPECT_GE(source.size(), 3U) << name << " " << key;
    for (const std::string& method : method_names()) {
      sim::MachineModel other = m;
      read_method(method, other);
      EXPECT_EQ(other.method.name, method);
    }
  }
}

TEST(MachineFile, WrittenAndReadAgainIsTheSame) {
  for (const std::string& name : machine_names()) {
    Sources sources, again;
    const sim::MachineModel m = read_machine(name, &sources);
    const std::string text = machine_text(m, sources);
    const ScratchFile file(text);
    EXPECT_EQ(machine_text(read_machine(file.path(), &again), again), text);
    EXPECT_EQ(again, sources);
  }
}

/// Every number in turn: gone, without source, of another type, out of range.
TEST(MachineFile, EveryBadNumberIsNamed) {
  const json good = h200();
  std::vector<std::pair<std::string, std::string>> numbers;
  for (const auto& [key, value] : good.items()) {
    if (value.is_array()) numbers.emplace_back("", key);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) {
      if (number.is_array()) numbers.emplace_back(key, inner);
    }
  }
  EXPECT_GE(numbers.size(), 40U);
  for (const auto& [section, key] : numbers) {
    const auto with = [&](const json& value) {
      json bad = good;
      json& place = section.empty() ? bad : bad[section];
      value.is_null() ? void(place.erase(key)) : void(place[key] = value);
      return complaint(bad.dump());
    };
    for (const json& value :
         {json(nullptr), json(5), json::array({5}), json::array({5, ""}), json::array({"5", "me"}),
          json::array({-1, "me"}), json::array({1e300, "me"}), json::object()}) {
      EXPECT_NE(with(value).find(key), std::string::npos)
          << section << "." << key << " " << value << ": " << with(value);
    }
  }
}

TEST(MachineFile, WhatIsNoMachineIsRefused) {
  EXPECT_NE(complaint("").find("empty"), std::string::npos);
  EXPECT_NE(complaint("{").find("syntax error"), std::string::npos);
  EXPECT_NE(complaint("[1]").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(complaint("{}").find("schema"), std::string::npos);
  EXPECT_NE(complaint(std::string(100000, '[')).find("machine"), std::string::npos);
  json bad = h200();
  bad["links"]["topology"] = "ring";
  EXPECT_NE(complaint(bad.dump()).find("expected all_to_all or tree"), std::string::npos);
  bad = h200();
  bad["compute"]["peak_tflop"] = json::array({1, "me"});
  EXPECT_NE(complaint(bad.dump()).find("got the unknown key compute.peak_tflop"),
            std::string::npos);
  bad = h200();
  bad["more"] = 1;
  EXPECT_NE(complaint(bad.dump()).find("got the unknown key more"), std::string::npos);
  EXPECT_THROW(read_machine("no-such-machine"), Error);
  EXPECT_THROW(read_machine("/"), Error);
  EXPECT_THROW(read_machine("/dev/zero"), Error);
}

}  // namespace
}  // namespace tilelace::cli
