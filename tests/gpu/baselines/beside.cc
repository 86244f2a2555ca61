// SPDX-License-Identifier: Apache-2.0
#include "beside.h"

#include <algorithm>

namespace tilelace::gpu_test {

Beside::Beside(Rank& rank, const std::vector<Row>& rows) : rank_(rank) {
  for (const Row& row : rows) pitch_ = std::max(pitch_, (row.shard_bytes() + 4095) / 4096 * 4096);
  memory_ = comm::allocate_device(*rank.group, rank.device,
                                  pitch_ * static_cast<std::size_t>(rank.ranks), kMeetSeconds);
  engine_ = std::make_unique<cuda::CopyEngine>(
      rank.device, reinterpret_cast<const comm::Flag*>(memory_->local()));
}

void Beside::run(const Row& row, const std::byte* own, const std::function<void()>& product) {
  const auto bytes = static_cast<std::int64_t>(row.shard_bytes());
  engine_->fork(rank_.stream);
  // gemm_ar: partial sums, then sums.
  for (int phase = 0; phase < (row.op == Op::gemm_ar ? 2 : 1); ++phase)
    for (int i = 1; i < rank_.ranks; ++i) {
      const int to = (rank_.rank + i) % rank_.ranks;
      engine_->copy_rows(memory_->peer(to) + pitch_ * static_cast<std::size_t>(rank_.rank), bytes,
                         own, bytes, bytes, 1);
    }
  product();
  engine_->join(rank_.stream);
}

}  // namespace tilelace::gpu_test
