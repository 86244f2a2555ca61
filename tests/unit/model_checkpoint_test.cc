// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

std::string one_tensor(const std::string& name, char value) {
  return safetensors_bytes(
      "{\"" + name + R"(":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}})",
      std::string(4, value));
}

TEST(ModelCheckpoint, one_file) {
  const TempFolder dir;
  EXPECT_FALSE(find_checkpoint(dir.path()).has_value());
  const auto file = dir.write("model.safetensors", one_tensor("a", 'a'));
  dir.write("model.safetensors.index.json", "broken, but the one file comes first");
  EXPECT_EQ(find_checkpoint(dir.path()), file);
  for (const auto& path : {dir.path(), file}) {
    const Checkpoint c(path);
    EXPECT_EQ(c.path(), file);
    EXPECT_EQ(c.names(), std::vector<std::string>{"a"});
    EXPECT_EQ(*static_cast<const char*>(c.tensor("a").data), 'a');
  }
}

TEST(ModelCheckpoint, sharded) {
  const TempFolder dir;
  dir.write("s-1.safetensors", one_tensor("a", 'a'));
  dir.write("s-2.safetensors", one_tensor("b", 'b'));
  dir.write("model.safetensors.index.json",
            R"({"metadata":{"total_size":8},"weight_map":{"b":"s-2.safetensors",)"
            R"("a":"s-1.safetensors"}})");
  const Checkpoint c(dir.path());
  EXPECT_EQ(c.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(c.contains("b"));
  EXPECT_FALSE(c.contains("c"));
  EXPECT_EQ(*static_cast<const char*>(c.tensor("a").data), 'a');
  EXPECT_EQ(*static_cast<const char*>(c.tensor("b").data), 'b');
  EXPECT_EQ(dir.error_of([&] { (void)c.tensor("c"); }),
            "safetensors: DIR/model.safetensors.index.json: there is no tensor c");
}

TEST(ModelCheckpoint, bad_index) {
  const TempFolder dir;
  dir.write("s.safetensors", one_tensor("a", 'a'));
  const std::string start = "safetensors: DIR/i.json: ";
  const std::string plain = ", expected the plain name of a file beside the index";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", start + "weight_map, got nothing, expected an object from tensor names to file names"},
      {R"({"weight_map":[]})",
       start + "weight_map, got a list, expected an object from tensor names to file names"},
      {R"({"weight_map":{"a":3}})", start + "tensor a, got file 3" + plain},
      {R"({"weight_map":{"a":""}})", start + "tensor a, got file \"\"" + plain},
      {R"({"weight_map":{"a":".."}})", start + "tensor a, got file \"..\"" + plain},
      {R"({"weight_map":{"a":"/etc/passwd"}})",
       start + "tensor a, got file \"/etc/passwd\"" + plain},
      {R"({"weight_map":{"a":"x/../s.safetensors"}})",
       start + "tensor a, got file \"x/../s.safetensors\"" + plain},
      {R"({"weight_map":{"a":"s.safetensors\u0000"}})",
       start + "tensor a, got file \"s.safetensors\\u0000\"" + plain},
      {R"({"weight_map":{"b":"s.safetensors"}})",
       start + "tensor b is not in s.safetensors, the file that the index names for it"},
      {R"({"weight_map":{"a":"t.safetensors"}})",
       "safetensors: cannot read DIR/t.safetensors: No such file or directory"},
      {"{\"weight_map\":",
       "safetensors: DIR/i.json, got a JSON syntax error at byte 15, expected a "
       "JSON object"},
  };
  for (const auto& [text, error] : cases) {
    const auto file = dir.write("i.json", text);
    EXPECT_EQ(dir.error_of([&] { Checkpoint c(file); }), error) << text;
  }
  std::filesystem::create_directory(dir.path() / "sub");
  EXPECT_EQ(dir.error_of([&] { Checkpoint c(dir.path() / "sub"); }),
            "safetensors: the folder DIR/sub has neither model.safetensors nor "
            "model.safetensors.index.json");
}

}  // namespace
}  // namespace tilelace::model
