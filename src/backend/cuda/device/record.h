// SPDX-License-Identifier: Apache-2.0
// The input of a wait on the device, and the report that a failed wait leaves for the host.
// Plain data that nvcc and the host compiler both read.
#pragma once
#include <cstdint>

#include "comm/signal.h"

namespace tilelace::cuda {

/// What a worker or a warp does.
enum class Role : std::uint8_t { load, math, store, copy, reduce };

/// The value of WaitPlace::flag that stands for the peer's header word.
inline constexpr std::uint32_t kHeaderFlag = 0xffffffffU;
/// A status that comm::WaitStatus lacks: a peer makes another call. `have` and `want` are then the
/// hashes of the two calls.
inline constexpr std::uint32_t kDisagrees = 16;

/// Who waits, and for what. Only the report of a failed wait uses this.
struct WaitPlace {
  Role role = Role::load;
  std::int32_t step = 0;
  std::int32_t tile = -1;
  std::int32_t peer = 0;   ///< the rank that should raise the flag
  std::uint32_t flag = 0;  ///< the flag's index, or kHeaderFlag
};

/// The report of a rank's first failed wait.
struct WaitRecord {
  comm::Flag ready = 0;  ///< set to 1, by a release, after all other fields are written
  std::uint32_t op = 0;
  std::uint32_t call = 0;  ///< awaited epoch or, with kDisagrees, a hash; always equal to `want`
  std::uint32_t status = 0;
  WaitPlace place;
  std::uint32_t have = 0;
  std::uint32_t want = 0;
};

/// Host memory that the device can read and write. Each rank has one page.
struct WaitPage {
  alignas(64) comm::AbortWord stop = 0;
  alignas(64) WaitRecord record;
};

/// What every wait of a rank needs; passed by value in a kernel's parameters. A nonzero abort word
/// ends waits. There are up to three abort words, since a read of host memory takes over a
/// microsecond. Every round of a wait reads `stop`, which is in device memory. Every few ms a wait
/// reads `host_stop` and `group_stop`, which are in host memory. A thread that finds one of them
/// nonzero copies its value to `stop`, where all other waits see it.
/// `group_stop` is the group's word (Group::abort_word), or null if it cannot be mapped. Through it
/// an abort by a peer, or the watch for dead processes, ends kernels without a host thread.
struct WaitContext {
  comm::AbortWord* stop = nullptr;
  const comm::AbortWord* host_stop = nullptr;
  const comm::AbortWord* group_stop = nullptr;
  WaitRecord* record = nullptr;
  std::int64_t span_ns = 0;  ///< longest time of a wait, by %globaltimer
  std::uint32_t op = 0;      ///< number of the op, copied into the record
  std::int32_t rank = 0;
};

}  // namespace tilelace::cuda
