// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "model/safetensors.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

const std::string kEntry = R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";

std::string good_file() {
  return safetensors_bytes(R"({"__metadata__":{"format":"pt"},)" + kEntry +
                               R"(,"b":{"shape":[4],"data_offsets":[24,32],"dtype":"BF16"})"
                               R"(,"empty":{"dtype":"F16","shape":[0,7],"data_offsets":[32,32]})"
                               R"(,"ids":{"dtype":"I64","shape":[],"data_offsets":[32,40]}} )",
                           std::string(40, '\1'));
}

TEST(ModelSafetensors, reads) {
  const TempFolder dir;
  const Safetensors file(dir.write("a.safetensors", good_file()));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "empty", "ids"}));
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("__metadata__"));
  const TensorView a = file.tensor("a");
  EXPECT_EQ(a, dense(a.data, DType::fp32, 2, 3));
  EXPECT_EQ(std::memcmp(a.data, "\1\1\1\1", 4), 0);
  const TensorView b = file.tensor("b");
  EXPECT_EQ(b, dense(static_cast<char*>(a.data) + 24, DType::bf16, 1, 4));
  EXPECT_EQ(file.tensor("empty").rows, 0);
  EXPECT_EQ(file.info("ids").dtype, "I64");
  EXPECT_EQ(file.info("ids").begin, 32U);
  EXPECT_EQ(dir.error_of([&] { (void)file.tensor("ids"); }),
            "safetensors: DIR/a.safetensors: tensor ids, got I64, expected BF16, F16 or F32");
  EXPECT_EQ(dir.error_of([&] { (void)file.tensor("c"); }),
            "safetensors: DIR/a.safetensors: there is no tensor c");
}

TEST(ModelSafetensors, the_mapping_outlives_the_first_owner) {
  const TempFolder dir;
  auto first = std::make_unique<Safetensors>(dir.write("a.safetensors", good_file()));
  const Safetensors second = *first;
  first.reset();
  EXPECT_EQ(static_cast<const char*>(second.tensor("a").data)[23], '\1');
}

TEST(ModelSafetensors, no_tensors) {
  const TempFolder dir;
  EXPECT_TRUE(Safetensors(dir.write("a", safetensors_bytes("{}", ""))).names().empty());
}

TEST(ModelSafetensors, every_prefix_is_refused) {
  const TempFolder dir;
  const std::string bytes = good_file();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto file = dir.write("cut", bytes.substr(0, n));
    const auto text = dir.error_of([&] { Safetensors s(file); });
    EXPECT_EQ(text.substr(0, 20), "safetensors: DIR/cut") << n << ": " << text;
  }
}

TEST(ModelSafetensors, any_changed_header_byte_is_read_or_refused) {
  const TempFolder dir;
  const std::string bytes = good_file();
  for (std::size_t at = 0; at + 40 < bytes.size(); ++at)
    for (const char c : {'\0', '\xff', '{', '"', '9', '-'}) {
      std::string changed = bytes;
      changed[at] = c;
      const auto file = dir.write("changed", changed);
      const auto text = dir.error_of([&] { Safetensors s(file); });
      EXPECT_TRUE(text == "no error" || text.starts_with("safetensors: DIR/changed")) << text;
    }
}

struct BadHeader {
  std::string header;
  std::size_t data;
  std::string error;
};

std::string entry(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }
std::string offsets(const std::string& list) {
  return entry(R"("dtype":"F32","shape":[2,3],"data_offsets":)" + list);
}
std::string shape(const std::string& list) {
  return entry(R"("dtype":"F32","data_offsets":[0,24],"shape":)" + list);
}
std::string dtype(const std::string& name) {
  return entry(R"("shape":[2,3],"data_offsets":[0,24],"dtype":)" + name);
}

std::vector<BadHeader> bad_grammar() {
  const std::string head = "header, got ";
  const std::string a = "tensor a, got ";
  const std::string numbers = ", expected shape of whole numbers from 0 to 2^63 - 1";
  const std::string object = ", expected an object of dtype, shape and data_offsets";
  const std::string missing = a + "a field missing, expected dtype, shape and data_offsets";
  const std::string once = ", expected dtype, shape and data_offsets, each once";
  return {
      {"", 0, head + "a first byte other than '{', expected a JSON object"},
      {" {}", 0, head + "a first byte other than '{', expected a JSON object"},
      {"[]", 0, head + "a first byte other than '{', expected a JSON object"},
      {"{}x", 0, head + "a JSON syntax error at byte 3, expected a JSON object"},
      {"{", 0, head + "a JSON syntax error at byte 2, expected a JSON object"},
      {"{\"\xff\":1}", 0, head + "a JSON syntax error at byte 3, expected a JSON object"},
      {R"({"a":[]})", 0, a + "a list" + object},
      {R"({"a":3})", 0, a + "3" + object},
      {R"({"a":null})", 0, a + "null" + object},
      {R"({"a":{}})", 0, missing},
      {entry(R"("dtype":"F32","shape":[2,3])"), 24, missing},
      {entry(R"("dtype":"F32","data_offsets":[0,24])"), 24, missing},
      {entry(R"("shape":[2,3],"data_offsets":[0,24])"), 24, missing},
      {entry(R"("dtype":"F32","strides":[1])"), 0, a + "field \"strides\"" + once},
      {entry(R"("shape":[],"shape":[])"), 0, a + "field \"shape\"" + once},
      {"{" + kEntry + "," + kEntry + "}", 24, a + "this name twice, expected each name once"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0,
       "tensor __metadata__, got this name twice, expected each name once"},
      {R"({"__metadata__":{"x":"","x":""}})", 0,
       "tensor __metadata__, got \"x\" twice, expected no key twice"},
      {R"({"__metadata__":{"x":1}})", 0, "tensor __metadata__, got 1, expected a string"},
      {R"({"__metadata__":{"x":{}}})", 0, "tensor __metadata__, got an object, expected a string"},
      {R"({"__metadata__":"x"})", 0, "tensor __metadata__, got \"x\"" + object},
      {dtype("7"), 24, a + "7, expected a dtype's name"},
      {dtype("\"F33\""), 24, a + "dtype \"F33\", expected one that the format knows"},
      {dtype("\"F4\""), 24, a + "24 bytes of data, expected 3 for its shape"},
      {shape("6"), 24, a + "6, expected shape as a list"},
      {shape("[-2,-3]"), 24, a + "-2" + numbers},
      {shape("[2.0,3]"), 24, a + "2.0" + numbers},
      {shape("[true]"), 24, a + "a boolean" + numbers},
      {shape("[[2,3]]"), 24, a + "a list" + numbers},
      {shape("[9223372036854775808]"), 24, a + "9223372036854775808" + numbers},
      {shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), 24,
       a + "more dimensions, expected at most 16"},
      {offsets("[0]"), 24, a + "fewer than two, expected data_offsets of two whole numbers"},
      {offsets("[]"), 24, a + "fewer than two, expected data_offsets of two whole numbers"},
      {offsets("[0,24,48]"), 24, a + "48, expected data_offsets of two whole numbers"},
      {offsets("[-1,23]"), 24, a + "-1, expected data_offsets of two whole numbers"},
      {offsets("{}"), 24, a + "an object, expected data_offsets as a list"},
      {R"({"\u0007\n)" + std::string(99, 'n') + R"(":1})", 0,
       "tensor ??" + std::string(58, 'n') + "..., got 1" + object},
  };
}

std::vector<BadHeader> bad_layout() {
  const std::string a = "tensor a, got ";
  const std::string b = R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":)";
  return {
      {offsets("[24,0]"), 24, a + "data_offsets [24, 0], expected ascending offsets of at most 24"},
      {offsets("[0,24]"), 23, a + "data_offsets [0, 24], expected ascending offsets of at most 23"},
      {offsets("[0,18446744073709551615]"), 24,
       a + "data_offsets [0, 18446744073709551615], expected ascending offsets of at most 24"},
      {offsets("[0,20]"), 24, a + "20 bytes of data, expected 24 for its shape"},
      {offsets("[1,25]"), 25,
       a + "data that begins at byte 1, expected byte 0: no hole, no overlap"},
      {offsets("[0,24]"), 25, "data, got 25 bytes, expected 24, the size of all its tensors"},
      {"{}", 1, "data, got 1 bytes, expected 0, the size of all its tensors"},
      {shape("[4294967296,4294967296]"), 24,
       a + "a shape of over 2^64 bits, expected a tensor that fits the file"},
      {shape("[0,9223372036854775807,9223372036854775807]"), 24,
       a + "24 bytes of data, expected 0 for its shape"},
      {entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2,
       a + "12 bits, expected whole bytes"},
      {"{" + kEntry + b + "[28,32]}}", 32,
       "tensor b, got data that begins at byte 28, expected byte 24: no hole, no overlap"},
      {"{" + kEntry + b + "[20,24]}}", 24,
       "tensor b, got data that begins at byte 20, expected byte 24: no hole, no overlap"},
  };
}

TEST(ModelSafetensors, bad_input_has_golden_texts) {
  const TempFolder dir;
  auto cases = bad_grammar();
  for (auto& c : bad_layout()) cases.push_back(c);
  for (const auto& [header, data, error] : cases) {
    const auto file = dir.write("bad", safetensors_bytes(header, std::string(data, '\0')));
    EXPECT_EQ(dir.error_of([&] { Safetensors s(file); }), "safetensors: DIR/bad: " + error)
        << header.substr(0, 200);
  }
}

TEST(ModelSafetensors, deep_nesting_is_refused_at_once) {
  const TempFolder dir;
  std::string header = "{\"a\":{\"shape\":" + std::string(10'000'000, '[');
  const auto file = dir.write("bad", safetensors_bytes(header, ""));
  EXPECT_EQ(dir.error_of([&] { Safetensors s(file); }),
            "safetensors: DIR/bad: tensor a, got a list, expected shape of whole numbers from 0 to "
            "2^63 - 1");
}

TEST(ModelSafetensors, bad_files) {
  const TempFolder dir;
  const auto error = [&](const std::filesystem::path& file) {
    return dir.error_of([&] { Safetensors s(file); });
  };
  EXPECT_EQ(error(dir.path() / "none"),
            "safetensors: cannot read DIR/none: No such file or directory");
  EXPECT_EQ(error(dir.path()), "safetensors: DIR, got a folder, expected a regular file");
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error(dir.path() / "pipe"),
            "safetensors: DIR/pipe, got a special file, expected a regular file");
  EXPECT_EQ(error(dir.write("bad", "")), "safetensors: DIR/bad is empty");
  EXPECT_EQ(error(dir.write("bad", "1234567")),
            "safetensors: DIR/bad, got 7 bytes, expected at least 8");
  EXPECT_EQ(error(dir.write("bad", std::string(8, '\xff') + "{}")),
            "safetensors: DIR/bad: header, got a length of 18446744073709551615, expected at most "
            "2");
  const auto sparse = dir.write("bad", std::string("\x01\x00\x40\x06\x00\x00\x00\x00", 8));
  std::filesystem::resize_file(sparse, 200'000'000);
  EXPECT_EQ(error(sparse),
            "safetensors: DIR/bad: header, got a length of 104857601, expected at most 104857600");
}

}  // namespace
}  // namespace tilelace::model
