// SPDX-License-Identifier: Apache-2.0
// What a wait on the device is told, and what it leaves behind for the host when it ends badly.
// Plain data: read by nvcc and by the host compiler.
#pragma once
#include <cstdint>

#include "comm/signal.h"

namespace tilelace::cuda {

/// What a worker or a warp does.
enum class Role : std::uint8_t { load, math, store, copy, reduce };

/// Stands for the header word of a peer where a record names a flag.
inline constexpr std::uint32_t kHeaderFlag = 0xffffffffU;
/// Status of a record beside those of comm::WaitStatus: a peer makes another call; have and want
/// are the hashes.
inline constexpr std::uint32_t kDisagrees = 16;

/// Who waits and for what: words for the report, no part of the wait itself.
struct WaitPlace {
  Role role = Role::load;
  std::int32_t step = 0;
  std::int32_t tile = -1;
  std::int32_t peer = 0;   ///< who should raise the flag
  std::uint32_t flag = 0;  ///< its index, or kHeaderFlag
};

/// The report of the first wait of a rank that failed.
struct WaitRecord {
  comm::Flag ready = 0;  ///< 1 once all the rest is there (release)
  std::uint32_t op = 0;
  std::uint32_t call = 0;  ///< the epoch that was waited for
  std::uint32_t status = 0;
  WaitPlace place;
  std::uint32_t have = 0;
  std::uint32_t want = 0;
};

/// In host memory that the device can reach; one a rank.
struct WaitPage {
  alignas(64) comm::AbortWord stop = 0;
  alignas(64) WaitRecord record;
};

/// What every wait of a rank needs; passed by value within a kernel's parameters.
///
/// There are up to three abort words, because polling host memory costs more than a microsecond:
/// `stop` lies in device memory and is read in every round; the host words are read every few ms,
/// and who finds one set copies it to `stop`, for all other waits.
/// `group_stop` is the group's own word (Group::abort_word), so a peer's abort and the death watch
/// end kernels without help from a host thread; null where it cannot be mapped.
struct WaitContext {
  comm::AbortWord* stop = nullptr;
  const comm::AbortWord* host_stop = nullptr;
  const comm::AbortWord* group_stop = nullptr;
  WaitRecord* record = nullptr;
  std::int64_t span_ns = 0;  ///< how long one wait may last, by %globaltimer
  std::uint32_t op = 0;      ///< comes back in the record
  std::int32_t rank = 0;
};

}  // namespace tilelace::cuda
