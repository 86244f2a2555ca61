// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/link/copy_engine.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/rank/await_flag.h"
#include "core/check.h"
#include "tilelace/transport_table.h"

namespace tilelace::cuda {
CopyEngine::CopyEngine(int device, const comm::Flag* epoch) : epoch_(epoch), carried_(epoch) {
  check(cudaSetDevice(device), "copy engine: selecting the device");
  check(load_await_flag(), "copy engine: loading its kernel");
  int least = 0;
  int greatest = 0;
  cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  // A kernel whose CTAs have not all found a place holds up whatever comes behind it, unless that
  // has a higher priority.
  if (status == cudaSuccess)
    status = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
  if (status == cudaSuccess) status = cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming);
  if (status == cudaSuccess) status = cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming);
  if (status == cudaSuccess) return;
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (forked_ != nullptr) cudaEventDestroy(forked_);
  check(status, "copy engine: its stream");
}

CopyEngine::~CopyEngine() {
  cudaEventDestroy(joined_);
  cudaEventDestroy(forked_);
  cudaStreamDestroy(stream_);
}

void CopyEngine::fork(cudaStream_t stream) {
  check(cudaEventRecord(forked_, stream), "copy engine: fork");
  check(cudaStreamWaitEvent(stream_, forked_), "copy engine: fork");
}

void CopyEngine::join(cudaStream_t stream) {
  check(cudaEventRecord(joined_, stream_), "copy engine: join");
  check(cudaStreamWaitEvent(stream, joined_), "copy engine: join");
}

void CopyEngine::copy_rows(std::byte* to, std::int64_t to_pitch, const std::byte* from,
                           std::int64_t from_pitch, std::int64_t width, std::int64_t rows) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  if (rows <= 0 || width <= 0) return;
  // Only a plain copy of large blocks reaches the link's rate.
  const bool dense = rows == 1 || (to_pitch == width && from_pitch == width);
  const cudaError_t status =
      dense ? cudaMemcpyAsync(to, from, size(width * rows), cudaMemcpyDeviceToDevice, stream_)
            : cudaMemcpy2DAsync(to, size(to_pitch), from, size(from_pitch), size(width), size(rows),
                                cudaMemcpyDeviceToDevice, stream_);
  check(status, "copy engine: a copy");
}

void CopyEngine::wait(const comm::Flag* flag, const WaitPlace& place, const CopyWaits& waits) {
  check(enqueue_await_flag({flag, epoch_, waits.granted, place, waits.context}, stream_),
        "copy engine: a wait");
  carried_ = waits.granted;
}

void CopyEngine::signal(comm::Flag* flag) {
  check(cudaMemcpyAsync(flag, carried_, sizeof *flag, cudaMemcpyDeviceToDevice, stream_),
        "copy engine: a flag");
}

void require_copies(const schedule::AgGemm& s, bool may_wait) {
  require(!row_of(s.transport).by_workers(),
          "copy engine: transport: got store, expected push or pull");
  require(may_wait || row_of(s.transport).pushes(),
          "copy engine: transport: got {}, which waits for flags, expected push",
          name_of(s.transport));
  require(may_wait || s.route.kind == RouteKind::mesh,
          "copy engine: route: got {}, whose relays wait for flags, expected mesh",
          name_of(s.route.kind));
  require(!s.deliver,
          "copy engine: copies cannot write the gathered operand: copy it after the call's kernel");
}

void GatherCopyVerbs::copy_own(std::byte* to, const schedule::GatherTransfer& t) {
  const std::int64_t own_row = t.rows.begin - s_.split.begin(s_.rank);
  engine_.copy_rows(to, place_.row_pitch, place_.input + own_row * place_.input_pitch,
                    place_.input_pitch, place_.row_bytes, t.rows.size());
}

void GatherCopyVerbs::push(const schedule::GatherTransfer& t) {
  std::byte* const to = row_at(t.peer, t.rows.begin);
  if (t.source == s_.rank) return copy_own(to, t);
  engine_.copy_rows(to, place_.row_pitch, row_at(s_.rank, t.rows.begin), place_.row_pitch,
                    place_.row_bytes, t.rows.size());
}

void GatherCopyVerbs::stage(const schedule::GatherTransfer& t) {
  copy_own(row_at(s_.rank, t.rows.begin), t);
}

void GatherCopyVerbs::pull(const schedule::GatherTransfer& t) {
  engine_.copy_rows(row_at(s_.rank, t.rows.begin), place_.row_pitch, row_at(t.peer, t.rows.begin),
                    place_.row_pitch, place_.row_bytes, t.rows.size());
}

void GatherCopyVerbs::signal(int peer, schedule::Index flag) {
  engine_.signal(flag_at(peer, flag));
}

void GatherCopyVerbs::wait(schedule::Index flag) {
  // Both kinds of flags count shards, then chunks.
  const int source = static_cast<int>(flag / s_.max_chunks() % s_.ranks());
  const WaitPlace place{Role::copy, static_cast<std::int32_t>(flag % s_.max_chunks()), -1,
                        s_.route.parent(source, s_.rank), static_cast<std::uint32_t>(flag)};
  engine_.wait(flag_at(s_.rank, flag), place, *place_.waits);
}

void GatherCopyVerbs::deliver(const schedule::GatherTransfer& t) {
  raise(ErrorKind::usage, "copy engine: cannot copy chunk {} into the gathered operand", t.chunk);
}

}  // namespace tilelace::cuda
