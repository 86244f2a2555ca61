// SPDX-License-Identifier: Apache-2.0
// Files with bytes changed, cut and put in, always the same ones: each is read or refused with a
// usage error that says what it got; nothing else may come out of a reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/layers.h"
#include "model/safetensors.h"
#include "model_fixture.h"
#include "night.h"

namespace tilelace::model {
namespace {

constexpr int kMutants = 1500;

constexpr std::array kWords = {"0",    "-1",   "1e308",      "1e999",       "0.5",
                               "null", "true", "2147483648", "\"\"",        "[]",
                               "{}",   "NaN",  "\"\xff\"",   "\"\\u0000\"", "9223372036854775808"};

class Mutator {
 public:
  std::string operator()(std::string text) {
    for (std::size_t n = 1 + below(3); n > 0 && !text.empty(); --n) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void change(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(7)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text.resize(at); break;
      case 2: text.erase(at, 1 + below(30)); break;
      case 3: text.insert(at, text.substr(below(text.size()), 1 + below(60))); break;
      case 4: text.insert(at, 1 + below(100), "[{\":,"[below(5)]); break;
      default: replace_number(text, at);
    }
  }

  void replace_number(std::string& text, std::size_t from) {
    constexpr const char* kDigits = "0123456789";
    const std::size_t begin = text.find_first_of(kDigits, from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, kWords[below(kWords.size())]);
  }

  std::mt19937_64 random_{1 + night_seed()};  // its numbers are the same everywhere
};

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void expect_clear(const std::string& error, const std::string& mutant) {
  // Names the file, or what its sizes do not allow.
  const bool clear = error.find("DIR/") != std::string::npos || error.starts_with("--tp ");
  const bool plain = std::all_of(error.begin(), error.end(),
                                 [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  EXPECT_TRUE(clear && plain) << error << "\nof " << mutant;
}

/// Both must happen: a reader that refuses all, or takes all, tests nothing.
void read_mutants(const std::vector<std::string>& seeds, const std::string& name,
                  const std::function<void(const std::filesystem::path&)>& read) {
  const TempFolder dir;
  Mutator mutate;
  int good = 0, refused = 0;
  const int count = kMutants * night_times();
  for (int i = 0; i < count; ++i) {
    const std::string mutant = mutate(seeds[static_cast<std::size_t>(i) % seeds.size()]);
    const auto file = dir.write(name, mutant);
    const std::string error = dir.error_of([&] { read(file); });
    if (error == "no error") {
      ++good;
    } else {
      expect_clear(error, mutant);
      ++refused;
    }
  }
  EXPECT_GT(good, count / 100);
  EXPECT_GT(refused, count / 10);
}

TEST(Mutants, OfConfigs) {
  std::vector<std::string> seeds;
  for (const auto& family : kFamilies) seeds.push_back(text_of(tiny_config(family)));
  read_mutants(seeds, "c.json", [](const auto& file) {
    const ModelConfig config = read_config(file);
    for (const int tp : {1, 2, config.heads}) {
      for (const LayerGemm& g : layer_gemms(config, tp)) {
        EXPECT_GE(g.k, 1);
        for (std::size_t i = 0; i < g.n.size(); ++i)
          EXPECT_LE(row_slice(g, i, tp - 1).end, g.full_n[i]);
      }
    }
  });
}

const std::string kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
    R"("c":{"dtype":"I64","shape":[],"data_offsets":[32,40]}})";

TEST(Mutants, OfTensors) {
  const std::string good = safetensors_bytes(kHeader, std::string(40, 'x'));
  read_mutants({good}, "m.safetensors", [](const auto& file) {
    const Safetensors tensors(file);
    for (const auto& name : tensors.names()) {
      if (!tensors.info(name).type) continue;
      const TensorView view = tensors.tensor(name);
      if (view.rows < 1 || view.cols < 1) continue;
      const auto bytes = tensors.info(name).end - tensors.info(name).begin;
      const auto* data = static_cast<const char*>(view.data);
      EXPECT_NE(data, nullptr);
      EXPECT_LE(std::count(data, data + bytes, 'x'), 40);  // every byte is mapped
    }
  });
}

TEST(Mutants, OfIndexes) {
  const TempFolder dir;
  const auto beside = dir.write("a.safetensors", safetensors_bytes(kHeader, std::string(40, 'x')));
  const std::string seed = R"({"metadata":{"total_size":40},"weight_map":{"a":")" +
                           beside.filename().string() +
                           R"(","b":"a.safetensors","c":"a.safetensors"}})";
  read_mutants({seed}, "index.json", [&](const auto& file) {
    const auto copy = file.parent_path() / beside.filename();
    if (!std::filesystem::exists(copy)) std::filesystem::copy_file(beside, copy);
    for (const auto& name : Checkpoint(file).names()) EXPECT_FALSE(name.size() > 1) << name;
  });
}

}  // namespace
}  // namespace tilelace::model
