// SPDX-License-Identifier: Apache-2.0
// Who may make multicast memory, and that nothing but a permit leads there.
#include "comm/multicast_permit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "places.h"
#include "tilelace/error.h"

namespace tilelace::comm {
namespace {

/// The text of the refusal; none: granted.
std::optional<std::string> refusal(bool option, const char* environment) {
  environment == nullptr ? unsetenv("TILELACE_MULTICAST")
                         : setenv("TILELACE_MULTICAST", environment, 1);
  try {
    MulticastPermit::ask(option, "op");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return std::nullopt;
}

TEST(MulticastPermit, TakesTheOptionAndTheEnvironment) {
  EXPECT_EQ(refusal(true, "1"), std::nullopt);
  for (const char* environment : {static_cast<const char*>(nullptr), "", "0", "1", "yes"})
    EXPECT_EQ(refusal(false, environment),
              "op: multicast needs a communicator that was made with the option multicast");
  for (const char* environment : {static_cast<const char*>(nullptr), ""})
    EXPECT_EQ(refusal(true, environment),
              "op: multicast needs TILELACE_MULTICAST=1 in the environment, got none");
  for (const std::string environment : {"0", "yes", "true", "01", "1 ", "2"})
    EXPECT_EQ(refusal(true, environment.c_str()),
              "op: multicast needs TILELACE_MULTICAST=1 in the environment, got " + environment);
}

TEST(MulticastPermit, IsMadeByAskingAlone) {
  EXPECT_FALSE(std::is_default_constructible_v<MulticastPermit>);
  EXPECT_FALSE((std::is_constructible_v<MulticastPermit, bool>));
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// One file of the library names the driver's functions, and it finds none without a permit.
TEST(MulticastPermit, StandsBeforeEveryMulticastFunctionOfTheDriver) {
  std::vector<std::string> files;
  for (const char* folder : {"include", "src", "cli"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(in_source_tree(folder)))
      if (entry.is_regular_file() && text_of(entry.path()).find("cuMulticast") != std::string::npos)
        files.push_back(entry.path().lexically_relative(kSourceTree).generic_string());
  std::erase(files, "src/comm/multicast_permit.h");  // its comment
  EXPECT_EQ(files, (std::vector<std::string>{"src/comm/cuda/multicast.cc"}));

  const std::string text = text_of(in_source_tree(files.at(0)));
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  // Looked up in one place, which takes a permit; every use of a function is by that.
  EXPECT_EQ(count("cudaGetDriverEntryPointByVersion"), 1);
  EXPECT_EQ(count("Function find(const MulticastPermit&"), 1);
  EXPECT_EQ(count("PFN_cuMulticast"), count("find<PFN_cuMulticast"));
}

}  // namespace
}  // namespace tilelace::comm
