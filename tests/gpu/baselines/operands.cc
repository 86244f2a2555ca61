// SPDX-License-Identifier: Apache-2.0
#include "operands.h"

#include <algorithm>

#include "backend/cuda/cuda_check.h"
#include "gemm/data.h"

namespace tilelace::gpu_test {
namespace {

using cuda::NcclBuffer;

constexpr std::size_t kBeyondL2 = 160U << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostCopies = 32;

Copies copies_of(std::size_t bytes) {
  const std::size_t pitch = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
  const std::size_t count =
      std::clamp<std::size_t>((kBeyondL2 + pitch - 1) / pitch, 1, kMostCopies);
  return {nullptr, pitch, static_cast<int>(count)};
}

std::size_t span_of(const Copies& c) { return c.pitch * static_cast<std::size_t>(c.count); }

Copies lay(std::byte*& at, std::size_t bytes) {
  Copies c = copies_of(bytes);
  c.data = at;
  at += span_of(c);
  return c;
}

struct Sizes {
  std::size_t moved = 0, weight = 0, kept = 0, reference = 0;
};

Sizes largest(const std::vector<Row>& rows) {
  Sizes s;
  for (const Row& r : rows) {
    s.moved = std::max(s.moved,
                       span_of(copies_of(r.moved_bytes())) + span_of(copies_of(r.result_bytes())));
    s.weight = std::max(s.weight, span_of(copies_of(r.weight_bytes())));
    s.kept = std::max(s.kept, span_of(copies_of(r.kept_bytes())));
    s.reference = std::max(s.reference, r.moved_bytes());
  }
  return s;
}

std::size_t index_of(NcclBuffer kind) { return static_cast<std::size_t>(kind); }

}  // namespace

Operands::Operands(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
                   const std::vector<NcclBuffer>& wanted)
    : rank_(rank), nccl_(nccl) {
  const Sizes s = largest(rows);
  const std::size_t needed = wanted.size() * s.moved + s.weight + s.kept + s.reference;
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "free memory");
  const double least = -rank.max(-static_cast<double>(free));
  require(static_cast<double>(needed) < 0.9 * least,
          "--m: got rows of {} MiB, expected at most {} MiB", needed >> 20,
          static_cast<std::size_t>(0.9 * least) >> 20);
  for (const NcclBuffer kind : wanted) {
    auto memory = nccl.allocate(s.moved, kind);
    if (rank.max(memory->kind() == kind ? 0 : 1) > 0) continue;
    moved_[index_of(kind)] = std::move(memory);
    kinds_.push_back(kind);
  }
  weight_ = nccl.allocate(s.weight, NcclBuffer::plain);
  kept_ = nccl.allocate(s.kept, NcclBuffer::plain);
  reference_ = nccl.allocate(s.reference, NcclBuffer::plain);
}

void Operands::use(const Row& row) {
  gathers_ = row.op == Op::ag_gemm;
  auto seed = static_cast<std::uint64_t>(rank_.rank) * 100;
  const auto fill = [&](const Copies& c) {
    test::fill_normal(c.data, span_of(c) / size_of(row.gemm.dtype), row.gemm.dtype, ++seed,
                      rank_.stream);
  };
  for (const NcclBuffer kind : kinds_) {
    std::byte* at = moved_[index_of(kind)]->data();
    Tensors& t = tensors_[index_of(kind)];
    t.moved = lay(at, row.moved_bytes());
    t.result = lay(at, row.result_bytes());
    fill(t.moved);
  }
  std::byte* weight = weight_->data();
  std::byte* kept = kept_->data();
  weights_ = lay(weight, row.weight_bytes());
  kepts_ = lay(kept, row.kept_bytes());
  fill(weights_);
  fill(kepts_);
  nccl_.finish(rank_.stream, "filling the tensors", kMeetSeconds / 2);
}

Call Operands::call(NcclBuffer kind, int i) const {
  const Tensors& t = tensors_[index_of(kind)];
  Call c;
  c.moved = t.moved.at(i);
  c.result = t.result.at(i);
  c.gemm.a = gathers_ ? c.moved : kepts_.at(i);
  c.gemm.weight = weights_.at(i);
  c.gemm.out = gathers_ ? kepts_.at(i) : c.moved;
  return c;
}

}  // namespace tilelace::gpu_test
