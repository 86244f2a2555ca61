// SPDX-License-Identifier: Apache-2.0
// The input of a wait on the device, and the report that a failed wait leaves for the host.
// Plain data: read by nvcc and by the host compiler.
#pragma once
#include <cstdint>

#include "comm/signal.h"

namespace tilelace::cuda {

/// What a worker or a warp does.
enum class Role : std::uint8_t { load, math, store, copy, reduce };

/// The flag index in a record that means: the header word of the peer.
inline constexpr std::uint32_t kHeaderFlag = 0xffffffffU;
/// A status that comm::WaitStatus lacks: a peer makes another call; `have` and `want` are then the
/// hashes of the two calls.
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
  std::uint32_t call = 0;  ///< the epoch that was waited for; with kDisagrees a hash, as `want`
  std::uint32_t status = 0;
  WaitPlace place;
  std::uint32_t have = 0;
  std::uint32_t want = 0;
};

/// Host memory that the device can read and write; one page a rank.
struct WaitPage {
  alignas(64) comm::AbortWord stop = 0;
  alignas(64) WaitRecord record;
};

/// What every wait of a rank needs; passed by value within a kernel's parameters.
///
/// Up to three abort words, because one read of host memory takes more than a microsecond. `stop`
/// lies in device memory; every round of a wait reads it. The words in host memory are read every
/// few ms; a thread that finds one set copies it to `stop`, where all other waits see it.
/// `group_stop` is the word of the group (Group::abort_word): through it an abort by a peer, or the
/// watch for dead processes, ends kernels without a host thread. Null where it cannot be mapped.
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
