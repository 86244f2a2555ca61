// SPDX-License-Identifier: Apache-2.0
// A build with CUDA and NCCL's header.
#include <fmt/core.h>

#include <algorithm>

#include "backend/cuda/vendor/nccl.h"
#include "collectives/peers.h"
#include "op/run_plan.h"

namespace tilelace::cli {
namespace {

/// NCCL's start reads a large library, maybe from a cold disk.
constexpr double kNcclStartSeconds = 35;

constexpr std::array kKinds{cuda::NcclBuffer::plain, cuda::NcclBuffer::registered,
                            cuda::NcclBuffer::window};

}  // namespace

std::string nccl_version_text() {
  const int v = cuda::nccl_version();
  return v == 0 ? std::string() : fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

struct CollectivePeers::Impl {
  struct Buffers {
    cuda::NcclBuffer kind{};
    std::unique_ptr<cuda::NcclMemory> in, out;  ///< in place: only the first
  };

  const CollectiveWork& work;
  cudaStream_t stream = nullptr;
  std::unique_ptr<cuda::NcclGroup> nccl;
  std::vector<Buffers> buffers = {};

  void call(const CollectiveShape& s, const void* in, void* out) const {
    const auto count = static_cast<std::size_t>(s.count);
    switch (s.op) {
      case Collective::all_reduce: return nccl->all_reduce(in, out, count, work.dtype, stream);
      case Collective::all_gather: return nccl->all_gather(in, out, count, work.dtype, stream);
      case Collective::reduce_scatter:
        return nccl->reduce_scatter(in, out, count, work.dtype, stream);
      case Collective::all_to_all: return nccl->all_to_all(in, out, count, work.dtype, stream);
    }
  }
};

CollectivePeers::CollectivePeers(Communicator& member, const CollectiveWork& work,
                                 std::size_t bytes, GpuTimes& times)
    : impl_(
          new Impl{work, static_cast<cudaStream_t>(times.stream()),
                   std::make_unique<cuda::NcclGroup>(op::group_of(member), member.rank(),
                                                     cuda::NcclOptions{kNcclStartSeconds, true})}) {
  for (const cuda::NcclBuffer kind : kKinds) {
    if (std::ranges::count(work.baselines, cuda::name_of(kind)) == 0) continue;
    Impl::Buffers b{kind, impl_->nccl->allocate(bytes, kind), {}};
    if (!work.in_place) b.out = impl_->nccl->allocate(bytes, kind);
    const bool there = b.in->kind() == kind && (b.out == nullptr || b.out->kind() == kind);
    if (most_of(member, there ? 0 : 1) == 0) impl_->buffers.push_back(std::move(b));
  }
}

CollectivePeers::~CollectivePeers() = default;

std::vector<CollectivePeer> CollectivePeers::peers(const CollectiveShape& shape) const {
  std::vector<CollectivePeer> all;
  for (const Impl::Buffers& b : impl_->buffers) {
    const auto item = static_cast<std::int64_t>(size_of(impl_->work.dtype));
    std::byte* in = b.in->data();
    std::byte* out = b.out == nullptr ? in : b.out->data();
    if (b.out == nullptr) in += shape.in_at * item, out += shape.out_at * item;
    all.push_back({std::string(cuda::name_of(b.kind)), in, out,
                   [x = impl_.get(), shape, in, out](int) { x->call(shape, in, out); }});
  }
  return all;
}

}  // namespace tilelace::cli
