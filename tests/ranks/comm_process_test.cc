// SPDX-License-Identifier: Apache-2.0
// Groups of processes, over sockets made before the fork and over a directory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "comm/std_atomics.h"
#include "comm/watcher.h"
#include "comm_helpers.h"

namespace tilelace::comm::test {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Waits for the abort word, at most this long.
bool aborted_within(const Group& group, double seconds) {
  const Stopwatch watch;
  while (watch.seconds() < seconds) {
    if (read_abort<StdAtomics>(group.abort_word()).kind != 0) return true;
    sleep_ms(1);
  }
  return false;
}

void use(Group& group) {
  const int ranks = group.ranks();
  const int r = group.rank();
  for (int round = 0; round < 20; ++round) {
    const std::string mine(static_cast<std::size_t>(r * 20000), static_cast<char>('a' + round));
    const auto all = group.all_gather(mine, 10);
    for (int p = 0; p < ranks; ++p)
      CHILD_CHECK(all[static_cast<std::size_t>(p)] ==
                  std::string(static_cast<std::size_t>(p * 20000), static_cast<char>('a' + round)));
  }
  const auto memory = group.allocate(10000, 10);
  CHILD_CHECK(memory->bytes() == 10000 && memory->stride() == 12288);
  for (std::size_t i = 0; i < memory->stride(); ++i)
    CHILD_CHECK(memory->peer(r)[i] == std::byte{0});
  group.all_gather("", 10);  // before anyone writes, all have looked
  std::memset(memory->peer((r + 1) % ranks), r + 1, 10000);
  group.all_gather("", 10);
  CHILD_CHECK(memory->peer(r)[9999] == static_cast<std::byte>((r + ranks - 1) % ranks + 1));
  // Flags signal through it as they will in a backend.
  auto* flags = reinterpret_cast<Flag*>(memory->peer((r + 1) % ranks) + 10000 / 4 * 4);
  signal<StdAtomics>(flags, 7);
  Flag seen = 0;
  const auto* own = reinterpret_cast<const Flag*>(memory->peer(r) + 10000 / 4 * 4);
  CHILD_CHECK(wait<StdAtomics>(own, 7, group.abort_word(), StdAtomics::now_ns() + 10'000'000'000,
                               seen) == WaitStatus::reached);
}

TEST(ProcessGroup, SharesBytesAndMemory) {
  for (const int ranks : {1, 2, 4}) run_group(ranks, use);
}

TEST(ProcessGroup, MeetsInADirectoryThatIsCleanAfterwards) {
  const TemporaryPath place;
  run_processes(3, [&](int r) {
    for (int round = 0; round < 3; ++round) {  // the directory can be used again at once
      sleep_ms(10 * ((r + round) % 3));
      const auto group = make_process_group(r, 3, place.path(), 10);
      CHILD_CHECK(group->rank() == r && group->ranks() == 3);
      use(*group);
    }
  });
  struct stat info {};
  ASSERT_EQ(stat(place.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

TEST(ProcessGroup, SubgroupOverItsOwnSockets) {
  run_group(4, [](Group& group) {
    const int r = group.rank();
    const std::vector<int> members = r == 1 ? std::vector{1} : std::vector{3, 0, 2};
    const auto sub = group.subgroup(members, 10);
    CHILD_CHECK(sub->ranks() == static_cast<int>(members.size()));
    CHILD_CHECK(members[static_cast<std::size_t>(sub->rank())] == r);
    const auto all = sub->all_gather(std::to_string(r), 10);
    for (std::size_t i = 0; i < members.size(); ++i)
      CHILD_CHECK(all[i] == std::to_string(members[i]));
    use(*sub);
    use(group);
    const Caught caught = catch_error([&] { group.subgroup(std::vector{(r + 1) % 4}, 1); });
    CHILD_CHECK(caught.kind == ErrorKind::usage);
  });
}

TEST(ProcessGroup, SubgroupListsThatDifferAreAnError) {
  run_group(2, [](Group& group) {
    const std::vector<int> list = group.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0};
    const Caught caught = catch_error([&] { group.subgroup(list, 10); });
    CHILD_CHECK(caught.kind == ErrorKind::usage && caught.says("lists differ from those"));
    use(group);
  });
}

TEST(ProcessGroup, DisagreementIsAnErrorOnAllRanksAndTheGroupStaysUsable) {
  run_group(3, [](Group& group) {
    const int r = group.rank();
    const Caught sizes = catch_error([&] { group.allocate(r == 2 ? 4096 : 8192, 10); });
    CHILD_CHECK(sizes.kind == ErrorKind::usage);
    CHILD_CHECK(sizes.says("rank 2 passed 4096 bytes, rank 0 passed 8192"));
    const Caught huge = catch_error([&] { group.allocate(std::size_t{1} << 62, 10); });
    CHILD_CHECK(huge.kind == ErrorKind::usage);
    const Caught calls = catch_error([&] {
      if (r == 0)
        group.allocate(1, 10);
      else
        group.all_gather("", 10);
    });
    CHILD_CHECK(r == 0 ? calls.kind == ErrorKind::usage
                       : calls.says("rank 0 at the step allocate"));
    use(group);
  });
}

TEST(ProcessGroup, KilledPeerAbortsTheOthersSoon) {
  auto mesh = make_socket_mesh(3);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  std::vector<pid_t> pids;
  for (int r = 0; r < 3; ++r)
    pids.push_back(fork_child([&] {
      const auto group = make_socket_group(r, take_row(mesh, r), 10);
      group->all_gather("", 10);
      CHILD_CHECK(write(ready[1], "x", 1) == 1);
      while (r == 2) pause();
      if (r == 1) {  // in a collective, with nobody but the watcher to tell
        const Caught caught = catch_error([&] { group->all_gather("", 20); });
        CHILD_CHECK(caught.kind == ErrorKind::peer);
        CHILD_CHECK(caught.says("peer rank 2 is gone"));
        CHILD_CHECK(!group->has_left(2));
        return;
      }
      CHILD_CHECK(aborted_within(*group, 10));
      const AbortReason reason = read_abort<StdAtomics>(group->abort_word());
      CHILD_CHECK(reason.about == 2 && reason.kind == static_cast<int>(ErrorKind::peer));
      const Caught caught = catch_error([&] { group->allocate(1, 20); });
      CHILD_CHECK(caught.kind == ErrorKind::peer && caught.says("allocate: peer rank 2 is gone"));
    }));
  take_row(mesh, -1);
  char byte = 0;
  for (int r = 0; r < 3; ++r) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Stopwatch watch;
  kill(pids[2], SIGKILL);
  EXPECT_EQ(status_of(pids[0]), 0);
  EXPECT_EQ(status_of(pids[1]), 0);
  EXPECT_LT(watch.seconds(), 1);
  EXPECT_EQ(status_of(pids[2]), SIGKILL);
  close(ready[0]);
  close(ready[1]);
}

TEST(ProcessGroup, DeathIsSeenThoughSomebodyElseHoldsTheSockets) {
  if (!open_pidfd(getpid())) GTEST_SKIP() << "no pidfd here";
  auto mesh = make_socket_mesh(2);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  // The parent keeps its copies of all ends open: only the pidfd can tell.
  std::vector<pid_t> pids;
  for (int r = 0; r < 2; ++r)
    pids.push_back(fork_child([&] {
      const auto group = make_socket_group(r, mesh[static_cast<std::size_t>(r)], 10);
      if (r == 1) {
        CHILD_CHECK(write(ready[1], "x", 1) == 1);
        for (;;) pause();
      }
      CHILD_CHECK(aborted_within(*group, 10));
    }));
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(pids[1], SIGKILL);
  EXPECT_EQ(status_of(pids[0]), 0);
  EXPECT_EQ(status_of(pids[1]), SIGKILL);
  take_row(mesh, -1);
  close(ready[0]);
  close(ready[1]);
}

TEST(ProcessGroup, LeavingIsNoDeath) {
  run_processes(1, [](int) {
    auto mesh = make_socket_mesh(2);
    const std::vector<int> row0 = mesh[0];
    const std::vector<int> row1 = mesh[1];
    std::unique_ptr<Group> groups[2];
    std::thread other([&] { groups[1] = make_socket_group(1, row1, 10); });
    groups[0] = make_socket_group(0, row0, 10);
    other.join();
    groups[1].reset();
    CHILD_CHECK(!aborted_within(*groups[0], 0.1));
    CHILD_CHECK(groups[0]->has_left(1));
    const Caught caught = catch_error([&] { groups[0]->all_gather("", 20); });
    CHILD_CHECK(caught.kind == ErrorKind::peer && caught.says("rank 1 is gone"));
    const Stopwatch watch;
    groups[0].reset();
    CHILD_CHECK(watch.seconds() < 1);
  });
}

TEST(ProcessGroup, AbortReachesOtherProcesses) {
  run_group(3, [](Group& group) {
    if (group.rank() == 1) {
      sleep_ms(30);
      group.abort({static_cast<std::uint8_t>(ErrorKind::peer), 1, 1});
    }
    const Caught caught = catch_error([&] {
      if (group.rank() != 1) group.all_gather("", 20);
    });
    CHILD_CHECK(group.rank() == 1 || caught.says("peer rank 1 aborted the group"));
  });
}

TEST(ProcessGroup, LeavingIsSeenWhereAForkKeepsTheSockets) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  run_group(2, [&](Group& group) {
    char byte = 0;
    if (group.rank() == 1) {
      const pid_t worker = fork_child([] { pause(); });
      group.~Group();
      const bool told = read(ends[0], &byte, 1) == 1;
      kill(worker, SIGKILL);
      _exit(told ? 0 : 1);
    }
    const Caught caught = catch_error([&] { group.all_gather("", 3); });
    CHILD_CHECK(write(ends[1], &byte, 1) == 1);
    CHILD_CHECK(caught.kind == ErrorKind::peer);
  });
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcessGroup, MissingRankIsATimeout) {
  const TemporaryPath place;
  run_processes(2, [&](int r) {
    const Stopwatch watch;
    const Caught caught =
        catch_error([&] { make_process_group(r, 3, place.path(), r == 0 ? 0.3 : 0.6); });
    CHILD_CHECK(watch.seconds() < 5);
    CHILD_CHECK(r == 1 ? caught.kind.has_value() : caught.kind == ErrorKind::timeout);
    CHILD_CHECK(r == 1 || caught.says("rank 2 did not join in"));
  });
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

TEST(ProcessGroup, CyclesLeaveNothingBehind) {
  const std::size_t shared = count_entries("/dev/shm");
  const TemporaryPath place;
  run_processes(2, [&](int r) {
    std::size_t before = 0;
    for (int round = 0; round < 51; ++round) {
      const auto group = make_process_group(r, 2, place.path(), 10);
      const auto memory = group->allocate(1 << 16, 10);
      if (round % 10 == 0) group->subgroup(std::vector{1, 0}, 10);
      if (round == 0) before = open_fds();
      CHILD_CHECK(open_fds() == before);
    }
  });
  run_processes(1, [](int) {  // of which nothing stays after the group, either
    const std::size_t before = open_fds();
    for (int round = 0; round < 50; ++round) {
      auto mesh = make_socket_mesh(2);
      std::unique_ptr<Group> other_group;
      std::thread other([&] { other_group = make_socket_group(1, mesh[1], 10); });
      const auto group = make_socket_group(0, mesh[0], 10);
      other.join();
    }
    CHILD_CHECK(open_fds() == before);
  });
  EXPECT_EQ(count_entries("/dev/shm"), shared);
}

TEST(ProcessGroup, MemoryIsSealed) {
  const UniqueFd fd = make_sealed_memfd(8192);
  EXPECT_NE(ftruncate(fd.get(), 4096), 0);
  EXPECT_NE(ftruncate(fd.get(), 16384), 0);
  EXPECT_NE(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  check_sealed_memfd(fd.get(), 8192, 1);
  EXPECT_EQ(catch_error([&] { check_sealed_memfd(fd.get(), 4096, 1); }).kind, ErrorKind::peer);
  struct stat info {};
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const UniqueFd loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), 8192), 0);
  EXPECT_TRUE(catch_error([&] { check_sealed_memfd(loose.get(), 8192, 1); }).says("got seals 0"));
  EXPECT_EQ(catch_error([&] { check_sealed_memfd(-1, 8192, 1); }).kind, ErrorKind::peer);
}

TEST(Directory, IsRefusedUnlessPrivate) {
  const TemporaryPath place;
  std::filesystem::create_directory(place.path());
  ASSERT_EQ(chmod(place.path().c_str(), 0755), 0);
  const Caught open = catch_error([&] { make_process_group(0, 2, place.path(), 1); });
  EXPECT_EQ(open.kind, ErrorKind::usage);
  EXPECT_TRUE(open.says("got mode 755, expected 700")) << open.text;
  const Caught deep = catch_error([&] { make_process_group(0, 2, place.path() + "/a/b", 1); });
  EXPECT_EQ(deep.kind, ErrorKind::usage) << deep.text;
  const std::string file = place.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_EQ(catch_error([&] { make_process_group(0, 2, file, 1); }).kind, ErrorKind::usage);
  ASSERT_EQ(chmod(place.path().c_str(), 0700), 0);
  const std::string link = place.path() + "/link";
  std::filesystem::create_directory_symlink(place.path(), link);
  EXPECT_EQ(catch_error([&] { make_process_group(0, 2, link, 1); }).kind, ErrorKind::usage);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(place.path().c_str(), 12345, 12345), 0);
    const Caught other = catch_error([&] { make_process_group(0, 2, place.path(), 1); });
    EXPECT_TRUE(other.says("got uid 12345, expected 0")) << other.text;
  }
}

TEST(Directory, MayHaveALongName) {
  const TemporaryPath place;
  std::filesystem::create_directory(place.path());
  const std::string longer = place.path() + "/" + std::string(200, 'x');
  run_processes(3, [&](int r) { use(*make_process_group(r, 3, longer, 10)); });
  EXPECT_TRUE(std::filesystem::is_empty(longer));
}

TEST(Directory, RanksThatDisagreeAllHearOfIt) {
  const TemporaryPath place;
  run_processes(2, [&](int r) {
    const Caught caught = catch_error([&] { make_process_group(r, 2 + r, place.path(), 10); });
    CHILD_CHECK(caught.kind == ErrorKind::usage);
    CHILD_CHECK(caught.says("rank 1 was given 3 ranks, rank 0 was given 2") ||
                caught.says("rank 0 was given 2 ranks, rank 1 was given 3"));
  });
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

TEST(Directory, RankThatComesTwiceIsRefusedAndTheFirstStays) {
  const TemporaryPath place;
  const pid_t first = fork_child([&] { use(*make_process_group(0, 2, place.path(), 10)); });
  while (!std::filesystem::exists(place.path() + "/rank-0.sock")) sleep_ms(1);
  sleep_ms(20);
  const Caught twice = catch_error([&] { make_process_group(0, 2, place.path(), 1); });
  EXPECT_EQ(twice.kind, ErrorKind::usage);
  EXPECT_TRUE(twice.says("rank 0 is already in")) << twice.text;
  const pid_t second = fork_child([&] { use(*make_process_group(1, 2, place.path(), 10)); });
  EXPECT_EQ(status_of(first), 0);
  EXPECT_EQ(status_of(second), 0);
}

TEST(Directory, FileOfADeadRankIsReplaced) {
  const TemporaryPath place;
  const pid_t dead = fork_child([&] { make_process_group(0, 2, place.path(), 20); });
  while (!std::filesystem::exists(place.path() + "/rank-0.sock")) sleep_ms(1);
  kill(dead, SIGKILL);
  status_of(dead);
  run_processes(2, [&](int r) { use(*make_process_group(r, 2, place.path(), 10)); });
}

TEST(SocketMesh, WrongSocketsAreRefusedAndClosed) {
  const std::size_t before = open_fds();
  int stream[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
  EXPECT_EQ(catch_error([&] { make_socket_group(0, {-1, stream[0]}, 1); }).kind, ErrorKind::usage);
  close(stream[1]);
  EXPECT_EQ(catch_error([&] { make_socket_group(0, {-1, -1}, 1); }).kind, ErrorKind::usage);
  EXPECT_EQ(catch_error([&] { make_socket_group(2, {-1, -1}, 1); }).kind, ErrorKind::usage);
  EXPECT_EQ(catch_error([&] { make_socket_group(0, {}, 1); }).kind, ErrorKind::usage);
  auto mesh = make_socket_mesh(2);
  const int wrong = mesh[0][1];
  EXPECT_EQ(catch_error([&] { make_socket_group(1, {-1, wrong}, 1); }).kind, ErrorKind::usage);
  close(mesh[1][0]);
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace tilelace::comm::test
