// SPDX-License-Identifier: Apache-2.0
// Frames over connected SOCK_SEQPACKET unix sockets. No function here blocks. Received data is
// checked before it is used.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/unique_fd.h"

namespace tilelace::comm {

constexpr std::uint32_t kFrameMagic = 0x43414c54;  // "TLAC"
constexpr std::uint16_t kFrameVersion = 1;

enum class FrameType : std::uint16_t {
  join = 1,        ///< carries the sender's rank, between two ranks that meet in a directory
  hello = 2,       ///< carries the sender's rank, to every rank
  all_gather = 3,  ///< carries bytes
  allocate = 4,    ///< carries a size and a memfd
  confirm = 5,     ///< says whether mapping worked
  subgroup = 6,    ///< carries a list of members and one end of a socket pair
  descriptor = 7,  ///< carries a user's descriptor
};
std::string_view name_of(FrameType type);

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint16_t version = kFrameVersion;
  std::uint16_t type = 0;
  std::uint32_t sequence = 0;
  std::uint32_t length = 0;  ///< length of the bytes that follow
};

struct Frame {
  FrameType type{};
  std::uint32_t sequence = 0;
  std::string bytes;
  std::vector<UniqueFd> fds;
  pid_t pid = 0;  ///< the sender's pid in this process's namespace; 0: unknown
};

enum class IoStatus : std::uint8_t { done, again, closed, bad };

struct Outgoing {
  FrameType type{};
  std::uint32_t sequence = 0;
  std::string_view bytes;
  int fd = -1;               ///< sent with the bytes; stays the caller's
  bool credentials = false;  ///< whether to send this process's pid, for receivers with SO_PASSCRED
};

/// Sends one whole frame or nothing. `problem` says what went wrong.
IoStatus send_frame(int socket, const Outgoing& out, std::string& problem);

/// Receives one frame. The frame owns all descriptors that came with it.
IoStatus receive_frame(int socket, Frame& frame, std::string& problem);

/// Makes a pair of connected sockets. Error: system.
std::pair<UniqueFd, UniqueFd> make_socket_pair();

/// Checks that `fd` is a SOCK_SEQPACKET unix socket and sets its options. Errors: usage.
void prepare_socket(int fd);

/// Sets whether the kernel adds the sender's pid to received frames that have credentials.
void want_credentials(int fd, bool wanted);

}  // namespace tilelace::comm
