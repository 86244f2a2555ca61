// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/collectives/collective_calls.h"

#include <algorithm>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/collectives/norm.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

using schedule::kMaxGpuRanks;

SlotNeeds slot_of_collectives(int ranks) {
  require(ranks <= kMaxGpuRanks, "collectives: ranks on GPUs, got {}, expected at most {}", ranks,
          kMaxGpuRanks);
  constexpr std::size_t kKinds = 2;  // parcels, and sums that are shared
  SlotNeeds needs;
  needs.flags = kKinds * static_cast<std::size_t>(ranks * schedule::kRing * plan::kMostWorkers) *
                (sizeof(comm::Header) / sizeof(comm::Flag));
  needs.bytes = static_cast<std::size_t>(plan::kStagedBytes + plan::kLineBytes);
  return needs;
}

void load_collectives(int /*architecture*/) {
  check(load_lines(), "loading kernels");
  check(load_chunks(), "loading kernels");
  check(load_norm_lines(), "loading kernels");
  check(load_norm_chunks(), "loading kernels");
}

ParcelAt at(const void* data, const plan::Parcel& p) {
  const auto* const begin = static_cast<const std::byte*>(data);
  return {const_cast<std::byte*>(begin) + p.at, p.bytes};  // what is sent is only read
}

/// Everything that the call says, but its slot.
ExchangeParams params_of(const plan::CollectiveCall& call, const plan::CollectivePlan& plan,
                         const CollectiveTensors& tensors, plan::Index piece) {
  const auto placed = plan::place_exchange<kMaxGpuRanks>(call, plan, piece);
  ExchangeParams p{};
  p.schedule = schedule::RingExchange(placed.schedule);
  p.divisor = call.reduction == Reduction::avg ? static_cast<float>(call.ranks) : 1.0F;
  p.item = call.item;
  p.reduction = call.reduction;
  p.same = !placed.schedule.sums || (row_of(call.collective).shares && !placed.schedule.shares);
  p.same = p.same && call.collective != Collective::all_to_all;
  const std::uint32_t hash =
      plan::collective_hash(call, plan, plan.direct ? tensors.reachable.where() : 0);
  for (int q = 0; q < call.ranks; ++q) {
    p.sends[q] = at(tensors.in, placed.sends[q]);
    p.takes[q] = at(tensors.out, placed.takes[q]);
    p.told[q] = plan::hash_between(call, hash, call.rank, q);
    p.expected[q] = plan::hash_between(call, hash, q, call.rank);
    if (plan.direct)
      p.direct[q] = tensors.reachable.base +
                    static_cast<std::size_t>(q) * tensors.reachable.stride +
                    tensors.reachable.offset + placed.takes[call.rank].at;
  }
  return p;
}

/// The same of a piece of all_reduce_norm.
NormParams norm_params_of(const plan::NormCall& call, const plan::CollectivePlan& plan,
                          const AllReduceNormArgs& args, plan::Index piece) {
  NormParams p{};
  p.exchange.schedule = schedule::RingExchange(plan::place_norm(call, plan, piece));
  p.exchange.divisor = 1;
  p.exchange.item = args.item;
  p.exchange.same = true;
  const std::uint32_t hash = plan::collective_hash(call.sum, plan);
  std::fill(std::begin(p.exchange.told), std::end(p.exchange.told), hash);
  std::fill(std::begin(p.exchange.expected), std::end(p.exchange.expected), hash);
  p.parts = plan::row_parts(call, plan);
  p.part_places = static_cast<int>(plan::part_places(call, plan));
  p.row_units = static_cast<int>(call.cols * 2 / schedule::kUnitBytes);
  p.share = 1.0F / static_cast<float>(call.cols);
  p.chunk_rows = static_cast<int>(plan.chunk / p.part_places);
  const plan::Index row_places = plan::Index{p.part_places} * p.parts;
  p.rows = p.exchange.schedule.takes[call.sum.rank] / row_places;
  const plan::Index row = piece * (plan.piece / row_places), unit = row * p.row_units;
  const auto from = [unit](const void* data) {
    return data == nullptr ? nullptr : static_cast<const uint4*>(data) + unit;
  };
  const auto to = [&from](void* data) { return const_cast<uint4*>(from(data)); };
  p.x = from(args.x);
  p.residual = from(args.residual);
  p.weight = static_cast<const uint4*>(args.weight);
  p.out = to(args.out);
  p.normed = to(args.normed);
  p.quant = args.quant;
  p.eps = args.eps;
  if (args.quant == NormQuant::none) return p;
  p.quantised = static_cast<uint2*>(args.quantised) + unit;
  p.scales = args.scales;
  if (args.quant == NormQuant::token) p.scales += row;
  if (args.quant == NormQuant::block) p.scales += row * (call.cols / plan::kNormBlock);
  return p;
}

}  // namespace

CollectiveCalls::CollectiveCalls(comm::Group& group, int device, double timeout_s,
                                 const RankShare& share)
    : calls(group, device, slot_of_collectives(group.ranks()), timeout_s, share, load_collectives) {
  // Units and words are of a call whose number they carry. Calls of slot 0 have even ones: what was
  // never written must not be of call 0, when the count gets there again.
  constexpr int kOdd = 1;
  check(cudaMemset(calls.memory().local() + calls.flags_at(0), kOdd,
                   calls.flags_at(1) - calls.flags_at(0)),
        "staging of collectives");
  check(cudaStreamSynchronize(nullptr), "staging of collectives");
  group.all_gather("collectives are prepared", timeout_s);  // nothing may arrive before
}

void CollectiveCalls::run(const plan::CollectiveCall& call, const plan::CollectivePlan& plan,
                          const CollectiveTensors& tensors) {
  for (plan::Index piece = 0; piece < plan.pieces; ++piece)
    enqueue_piece(call, plan, tensors, piece);
}

void CollectiveCalls::enqueue_piece(const plan::CollectiveCall& call,
                                    const plan::CollectivePlan& plan,
                                    const CollectiveTensors& tensors, plan::Index piece) {
  const CallName name(call.collective);
  ExchangeParams p = params_of(call, plan, tensors, piece);
  const int ctas = plan.lines ? plan.workers : plan.workers / static_cast<int>(plan::kChunkWorkers);
  const Start start = enter(p, plan, name, ctas, tensors.stream);
  check(plan.lines ? enqueue_lines(p, start, tensors.stream)
                   : enqueue_chunks(p, start, tensors.stream),
        name.text.data());
}

Start CollectiveCalls::enter(ExchangeParams& p, const plan::CollectivePlan& plan,
                             const CallName& name, int ctas, cudaStream_t stream) {
  const plan::Index bytes =
      p.schedule.num_units() * (plan.lines ? plan::kBytesOfLines : schedule::kUnitBytes);
  require(bytes <= (plan.lines ? plan::kLineBytes : plan::kStagedBytes),
          "{}: chunk, got {} bytes of staging, expected at most {}", name.text, bytes,
          plan.lines ? plan::kLineBytes : plan::kStagedBytes);
  const unsigned slot = calls.begin_call(name, stream);
  p.call = calls.params(slot, p.told[p.schedule.rank], name);
  p.lets_next_begin = !calls.shares_device();
  p.places = calls.data_at(slot) +
             (plan.lines ? static_cast<std::size_t>(plan::kStagedBytes) : std::size_t{0});
  return calls.start(ctas, true);
}

void CollectiveCalls::run(const plan::NormCall& call, const plan::CollectivePlan& plan,
                          const AllReduceNormArgs& args) {
  const CallName name = CallName::all_reduce_norm();
  const auto stream = static_cast<cudaStream_t>(args.stream);
  for (plan::Index piece = 0; piece < plan.pieces; ++piece) {
    NormParams p = norm_params_of(call, plan, args, piece);
    const Start start = enter(p.exchange, plan, name, plan.workers, stream);
    check(plan.lines ? enqueue_norm_lines(p, start, stream) : enqueue_norm_chunks(p, start, stream),
          name.text.data());
  }
}

}  // namespace tilelace::cuda
