// SPDX-License-Identifier: Apache-2.0
// The medium-grained way: a product a shard. ag_gemm: each launched as the shard's copy-engine push
// lands, the own shard first. gemm_rs: each followed by a copy-engine push of its partial sums to
// their owner, the own shard last, then a kernel that adds up. Slots, epochs and flags are those of
// the library, so that there is no barrier and all of it can be captured.
#pragma once
#include <memory>

#include "backend/cuda/copy_engine.h"
#include "backend/cuda/wait_control.h"
#include "comm/cuda/device_memory.h"
#include "gemms.h"

namespace tilelace::gpu_test {

class Medium {
 public:
  /// Collective: staging for the largest of these rows. Errors: the group's, system.
  Medium(Rank& rank, const std::vector<Row>& rows);
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
  ~Medium();

  static bool knows(const Row& row) { return row.op != Op::gemm_ar; }

  /// Enqueues a call on the rank's stream: products alternately by `gemms`, each with a workspace
  /// of its own, on a stream of its own. `own`: ag_gemm's rows.
  void run(const Row& row, const Call& call, const std::byte* own,
           std::initializer_list<const BestBlas*> gemms);
  /// Waits for them; errors: timeout, peer, system.
  void finish();

 private:
  /// One call.
  struct Turn {
    const Row& row;
    const Call& call;
    std::initializer_list<const BestBlas*> gemms;
    std::size_t slot = 0;
    std::size_t staged = 0;  ///< offset of the slot's rows
  };

  void gather(const Turn& t, const std::byte* own);
  void scatter(const Turn& t);
  /// The i-th product's stream.
  [[nodiscard]] cudaStream_t stream_of(const Turn& t, int i) const;
  void product(const Turn& t, int i, const std::byte* a, std::byte* out) const;
  /// What comes next in the stream comes after this source's push.
  void await(const Turn& t, int source, cudaStream_t stream) const;
  void send(const Turn& t, int to, const std::byte* from, std::int64_t cols);
  void fork_side(const Turn& t);
  void join_side(const Turn& t);
  [[nodiscard]] comm::Flag* epoch() const;

  Rank& rank_;
  cuda::WaitControl control_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  std::unique_ptr<cuda::CopyEngine> engine_;
  cudaStream_t side_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::size_t calls_ = 0;
};

}  // namespace tilelace::gpu_test
