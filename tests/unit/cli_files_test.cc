// SPDX-License-Identifier: Apache-2.0
// Where the command's data files are looked for, files it writes, and its limit on time.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "folder.h"
#include "model/data_files.h"
#include "text_file.h"
#include "tilelace/error.h"
#include "time_limit.h"

namespace tilelace::cli {
namespace {

namespace fs = std::filesystem;
using test::Folder;

std::string read_whole(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::size_t place_of(const std::vector<fs::path>& places, const fs::path& place) {
  return static_cast<std::size_t>(std::find(places.begin(), places.end(), place) - places.begin());
}

TEST(DataFiles, AreLookedForBesideACarriedCommand) {
  const auto places = model::data_places("machines", "/a/b/c/d/e/tilelace", "/data");
  ASSERT_FALSE(places.empty());
  EXPECT_EQ(places[0], "/data/machines");
  // Nearer folders first, an installed one's share before the folder itself, four folders up.
  std::size_t last = 0;
  for (const char* place :
       {"/a/b/c/d/e/share/tilelace/machines", "/a/b/c/d/e/machines", "/a/b/c/d/machines",
        "/a/b/c/share/tilelace/machines", "/a/b/c/machines", "/a/b/machines"}) {
    const std::size_t at = place_of(places, place);
    EXPECT_LT(at, places.size()) << place;
    EXPECT_GT(at, last) << place;
    last = at;
  }
  EXPECT_EQ(place_of(places, "/a/machines"), places.size());
}

TEST(DataFiles, NoneAnywhereNamesThePlaces) {
  const std::string text = model::known_names("no-such-folder");
  EXPECT_NE(text.find("no such folder at /"), std::string::npos) << text;
  EXPECT_NE(text.find("/bin/no-such-folder, "), std::string::npos) << text;
  EXPECT_NE(text.find("TILELACE_DATA"), std::string::npos) << text;
  EXPECT_EQ(model::known_names("machines").rfind("one of a100-nvlink-x8, ", 0), 0U);
}

TEST(DataFiles, TheFolderOfTheEnvironmentComesFirst) {
  const Folder folder;
  fs::create_directory(folder / "machines");
  fs::copy_file(*model::known_file("machines", "h200x4"), folder / "machines" / "h100x8.json");
  setenv("TILELACE_DATA", (folder / "").c_str(), 1);
  const auto found = model::known_file("machines", "h100x8");
  const auto other = model::known_file("machines", "h200x2");
  unsetenv("TILELACE_DATA");
  EXPECT_EQ(*found, folder / "machines" / "h100x8.json");
  EXPECT_TRUE(other.has_value());  // what it does not have is still found elsewhere
  EXPECT_NE(*model::known_file("machines", "h100x8"), *found);
}

TEST(TextFile, AskingWhetherItCanBeWrittenLeavesNothing) {
  const Folder folder;
  require_writable("--measure", folder / "new.json");
  EXPECT_EQ(folder.files(), 0U);
  EXPECT_THROW(require_writable("--measure", folder / "no" / "new.json"), Error);
}

TEST(TextFile, AFullDiskLeavesWhatWasThere) {
  const Folder folder;
  const std::string path = folder / "mine.json";
  write_text("--measure", path, "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_text("--measure", path, std::string(1000, 'x')), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_whole(path), "old");
  EXPECT_EQ(folder.files(), 1U);
  write_text("--measure", path, "new");
  EXPECT_EQ(read_whole(path), "new");
}

TEST(TextFile, ALinkStaysALink) {
  const Folder folder;
  write_text("--svg", folder / "there.svg", "old");
  fs::create_symlink(folder / "there.svg", folder / "link.svg");
  write_text("--svg", folder / "link.svg", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link.svg"));
  EXPECT_EQ(read_whole(folder / "there.svg"), "new");
}

TEST(TimeLimitDeathTest, EndsWhatDoesNotEnd) {
  EXPECT_EXIT(
      {
        TimeLimit limit("doctor --measure", 0.05, 3);
        limit.step("flags");
        for (;;) pause();
      },
      testing::ExitedWithCode(3), "tilelace: doctor --measure: flags has not ended after 0.05 s");
}

TEST(TimeLimit, DoesNotWaitWhereAllEnds) { const TimeLimit limit("nothing", 3600, 3); }

}  // namespace
}  // namespace tilelace::cli
