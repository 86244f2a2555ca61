// SPDX-License-Identifier: Apache-2.0
// A peer that sends what no peer should: typed errors, nothing crashes, no descriptor stays open.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "comm/deadline.h"
#include "comm/socket_mesh.h"
#include "comm_helpers.h"

namespace tilelace::comm::test {
namespace {

void send_raw(int socket, const std::string& bytes) {
  ASSERT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

std::string frame_bytes(FrameHeader header, const std::string& bytes) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes;
}

FrameHeader header_of(FrameType type, std::uint32_t sequence, std::size_t length) {
  FrameHeader header;
  header.type = static_cast<std::uint16_t>(type);
  header.sequence = sequence;
  header.length = static_cast<std::uint32_t>(length);
  return header;
}

void send_fds(int socket, const std::string& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  ASSERT_GT(sendmsg(socket, &message, MSG_NOSIGNAL), 0);
}

/// What rank 0 says to a first frame like this, which must leave no descriptor behind.
Caught greet(const std::function<void(int socket)>& hostile) {
  const std::size_t before = open_fds();
  Caught caught;
  {
    auto [own, other] = make_socket_pair();
    hostile(other.get());
    caught = catch_error([&] { make_socket_group(0, {-1, own.release()}, 0.2); });
  }
  EXPECT_EQ(open_fds(), before);
  return caught;
}

TEST(Hostile, FirstFrame) {
  const std::string hello("\0\0\0\0\2\0\0\0", 8);
  const auto caught = [&](const std::string& bytes) {
    return greet([&](int socket) { send_raw(socket, bytes); });
  };
  EXPECT_TRUE(caught("garbage").says("7 bytes, expected at least 16"));
  EXPECT_TRUE(caught(std::string(4000, 'z')).says("magic 0x7a7a7a7a"));
  FrameHeader header = header_of(FrameType::hello, 0, 8);
  header.version = 9;
  EXPECT_TRUE(caught(frame_bytes(header, hello)).says("version 9, expected 1"));
  header = header_of(static_cast<FrameType>(77), 0, 8);
  EXPECT_TRUE(caught(frame_bytes(header, hello)).says("type 77"));
  header = header_of(FrameType::hello, 0, 0xffffffffU);
  EXPECT_TRUE(caught(frame_bytes(header, hello)).says("length 4294967295, expected at most"));
  header = header_of(FrameType::hello, 0, 9);
  EXPECT_TRUE(caught(frame_bytes(header, hello)).says("8 bytes after the header, expected 9"));
  const std::string huge = frame_bytes(header_of(FrameType::hello, 0, kMaxPayload),
                                       std::string(kMaxPayload + 1000, 'x'));
  EXPECT_EQ(caught(huge).kind, ErrorKind::peer);
  header = header_of(FrameType::hello, 5, 8);
  const Caught step = caught(frame_bytes(header, hello));
  EXPECT_EQ(step.kind, ErrorKind::usage);
  EXPECT_TRUE(step.says("sent message 5, expected message 0")) << step.text;
  EXPECT_EQ(caught(frame_bytes(header_of(FrameType::hello, 0, 3), "abc")).kind, ErrorKind::peer);
  EXPECT_EQ(caught(frame_bytes(header_of(FrameType::allocate, 0, 0), "")).kind, ErrorKind::usage);
  const Caught rank = caught(frame_bytes(header_of(FrameType::hello, 0, 8), hello));
  EXPECT_TRUE(rank.says("socket to rank 1 leads to rank 0")) << rank.text;
  const Caught ranks =
      caught(frame_bytes(header_of(FrameType::hello, 0, 8), std::string("\1\0\0\0\5\0\0\0", 8)));
  EXPECT_TRUE(ranks.says("rank 1 was given 5 ranks, rank 0 was given 2")) << ranks.text;
}

TEST(Hostile, NothingOrAHangUp) {
  EXPECT_EQ(greet([](int) {}).kind, ErrorKind::timeout);
  EXPECT_EQ(greet([](int socket) { shutdown(socket, SHUT_RDWR); }).kind, ErrorKind::peer);
  EXPECT_EQ(greet([](int socket) { send(socket, "", 0, MSG_NOSIGNAL); }).kind, ErrorKind::peer);
}

TEST(Hostile, DescriptorsThatNobodyAskedFor) {
  const std::string hello =
      frame_bytes(header_of(FrameType::hello, 0, 8), std::string("\1\0\0\0\2\0\0\0", 8));
  for (const std::size_t count : {1U, 2U, 8U, 9U, 100U}) {
    const Caught caught =
        greet([&](int socket) { send_fds(socket, hello, std::vector<int>(count, STDERR_FILENO)); });
    EXPECT_EQ(caught.kind, ErrorKind::peer) << caught.text;
    EXPECT_TRUE(caught.says("descriptors")) << caught.text;
  }
}

/// Rank 0 of two is a real group, rank 1 a bare mesh that the test drives.
class DrivenPeer : public testing::Test {
 protected:
  void SetUp() override {
    before_ = open_fds();
    auto [own, other] = make_socket_pair();
    raw_ = UniqueFd(fcntl(other.get(), F_DUPFD_CLOEXEC, 0));
    std::vector<UniqueFd> sockets(2);
    sockets[0] = std::move(other);
    mesh_ = std::make_unique<SocketMesh>(1, std::move(sockets));
    mine_ = std::thread([this, fd = own.release()] {
      made_ = catch_error([&] { group_ = make_socket_group(0, {-1, fd}, 5); });
    });
    mesh_->hello(deadline(), [] {});
  }
  void TearDown() override {
    if (mine_.joinable()) mine_.join();
    group_.reset();
    mesh_.reset();
    raw_.reset();
    EXPECT_EQ(open_fds(), before_);
  }
  static Deadline deadline() { return {"test", 5}; }

  /// Answers the allocation of the control memory with this size and descriptor.
  void offer(std::uint64_t bytes, int fd) {
    const std::uint64_t words[2] = {bytes, 0};
    const Post post{0, fd, true};
    mesh_->exchange(FrameType::allocate, {reinterpret_cast<const char*>(words), sizeof words},
                    {&post, 1}, deadline(), [] {});
  }
  void confirm() {
    const std::uint64_t words[2] = {};
    const Post post{0, -1, false};
    mesh_->exchange(FrameType::confirm, {reinterpret_cast<const char*>(words), sizeof words},
                    {&post, 1}, deadline(), [] {});
  }
  void finish() {
    const UniqueFd fd = make_sealed_memfd(4096);
    offer(kControlBytes, fd.get());
    confirm();
    mine_.join();
    ASSERT_FALSE(made_.kind.has_value()) << made_.text;
  }

  static constexpr std::uint64_t kControlBytes = 128;
  std::size_t before_ = 0;
  UniqueFd raw_;
  std::unique_ptr<SocketMesh> mesh_;
  std::thread mine_;
  Caught made_;
  std::unique_ptr<Group> group_;
};

TEST_F(DrivenPeer, MemoryThatCouldShrinkIsRefused) {
  const UniqueFd loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), 4096), 0);
  offer(kControlBytes, loose.get());
  confirm();
  mine_.join();
  EXPECT_EQ(made_.kind, ErrorKind::peer);
  EXPECT_TRUE(made_.says("memory of rank 1: got seals 0")) << made_.text;
}

TEST_F(DrivenPeer, MemoryOfAnotherSizeIsRefused) {
  const UniqueFd big = make_sealed_memfd(8192);
  offer(kControlBytes, big.get());
  confirm();
  mine_.join();
  EXPECT_TRUE(made_.says("got 8192 bytes, expected 4096")) << made_.text;
}

TEST_F(DrivenPeer, NoMemoryIsRefused) {
  offer(kControlBytes, -1);
  confirm();
  mine_.join();
  EXPECT_EQ(made_.kind, ErrorKind::peer) << made_.text;
}

TEST_F(DrivenPeer, AnythingButMemoryIsRefused) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  offer(kControlBytes, null.get());
  confirm();
  mine_.join();
  EXPECT_EQ(made_.kind, ErrorKind::peer) << made_.text;
}

TEST_F(DrivenPeer, GarbageInACollectiveEndsTheGroup) {
  finish();
  send_raw(raw_.get(), "garbage");
  const Caught caught = catch_error([&] { group_->all_gather("", 5); });
  EXPECT_EQ(caught.kind, ErrorKind::peer);
  EXPECT_TRUE(caught.says("all_gather: bad message from rank 1: got 7 bytes")) << caught.text;
  EXPECT_EQ(catch_error([&] { group_->all_gather("", 5); }).kind, ErrorKind::peer);
}

TEST_F(DrivenPeer, OutOfStepIsAUsageError) {
  finish();
  send_raw(raw_.get(), frame_bytes(header_of(FrameType::all_gather, 9, 0), ""));
  const Caught caught = catch_error([&] { group_->all_gather("", 5); });
  EXPECT_EQ(caught.kind, ErrorKind::usage);
  EXPECT_TRUE(caught.says("rank 1 sent message 9, expected message 3")) << caught.text;
}

TEST_F(DrivenPeer, ShortOfferAndMissingEndAreErrors) {
  finish();
  send_raw(raw_.get(), frame_bytes(header_of(FrameType::allocate, 3, 2), "xx"));
  EXPECT_TRUE(catch_error([&] { group_->allocate(1, 5); }).says("sent 2 bytes about its memory"));
}

TEST_F(DrivenPeer, SubgroupWithoutASocketIsAnError) {
  finish();
  const int list[2] = {1, 0};
  const std::string bytes(reinterpret_cast<const char*>(list), sizeof list);
  send_raw(raw_.get(), frame_bytes(header_of(FrameType::subgroup, 3, 8), bytes));
  const Caught caught = catch_error([&] { group_->subgroup(list, 5); });
  EXPECT_EQ(caught.kind, ErrorKind::peer);
  EXPECT_TRUE(caught.says("sent 0 descriptors, expected 1")) << caught.text;
}

TEST_F(DrivenPeer, SilenceIsATimeout) {
  finish();
  const Stopwatch watch;
  EXPECT_EQ(catch_error([&] { group_->all_gather("", 0.1); }).kind, ErrorKind::timeout);
  EXPECT_LT(watch.seconds(), 2);
}

}  // namespace
}  // namespace tilelace::comm::test
