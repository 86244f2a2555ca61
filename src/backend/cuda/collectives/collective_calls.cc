// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/collectives/collective_calls.h"

#include <algorithm>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/collectives/exchange_call.h"
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/rank/no_calls.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

using schedule::kMaxGpuRanks;

SlotNeeds slot_of_collectives(int ranks) {
  require(ranks <= kMaxGpuRanks, "collectives: ranks on GPUs: got {}, expected at most {}", ranks,
          kMaxGpuRanks);
  SlotNeeds needs;
  needs.bytes = static_cast<std::size_t>(plan::staged_bytes(ranks));
  needs.lines = static_cast<std::size_t>(plan::word_bytes(ranks) + plan::kLineBytes);
  return needs;
}

void load_collectives(int /*architecture*/) {
  check(load_lines(), "loading kernels");
  check(load_chunks(), "loading kernels");
  check(load_direct(), "loading kernels");
  check(load_norm_lines(), "loading kernels");
  check(load_norm_chunks(), "loading kernels");
}

using Enqueue = cudaError_t (*)(const ExchangeParams&, Start, cudaStream_t);

/// Everything that the call says, but its slot.
ExchangeParams params_of(const plan::CollectiveCall& call, const plan::CollectivePlan& plan,
                         const CollectiveTensors& tensors, plan::Index piece) {
  const PlacedParcels placed = plan::place_exchange<kMaxGpuRanks>(call, plan, piece);
  ExchangeParams p = exchange_params(call, placed, tensors.in, tensors.out);
  p.word = tensors.word;
  p.wrong = tensors.wrong;
  p.refusal = kWrongIdsHash;
  const std::uint32_t hash =
      plan::collective_hash(call, plan, plan.direct ? tensors.reachable.where() : 0,
                            plan.direct ? tensors.inputs.where() : 0);
  // Where what this rank stores and reads at peers lies in `out` and in `in`.
  const auto taken = p.takes[call.rank].data - static_cast<const std::byte*>(tensors.out);
  const auto added = p.sends[call.rank].data - static_cast<const std::byte*>(tensors.in);
  for (int q = 0; q < call.ranks; ++q) {
    p.told[q] = plan::hash_between(call, hash, call.rank, q);
    p.expected[q] = plan::hash_between(call, hash, q, call.rank);
    if (tensors.reachable.base != nullptr) p.results[q] = tensors.reachable.at(q) + taken;
    if (tensors.inputs.base != nullptr) p.inputs[q] = tensors.inputs.at(q) + added;
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
  set_hash(p.exchange, plan::collective_hash(call.sum, plan));
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
}

void CollectiveCalls::run(const plan::CollectiveCall& call, const plan::CollectivePlan& plan,
                          const CollectiveTensors& tensors) {
  for (plan::Index piece = 0; piece < plan.pieces; ++piece)
    enqueue_piece(call, plan, tensors, piece);
}

void CollectiveCalls::enqueue_piece(const plan::CollectiveCall& call,
                                    const plan::CollectivePlan& plan,
                                    const CollectiveTensors& tensors, plan::Index piece) {
  const CallName name =
      tensors.word != nullptr ? CallName::of_experts(call.collective) : CallName(call.collective);
  ExchangeParams p = params_of(call, plan, tensors, piece);
  const Start start = enter(p, plan, name, exchange_ctas(plan), tensors.stream);
  const auto enqueue = plan.lines    ? static_cast<Enqueue>(enqueue_lines)
                       : plan.direct ? enqueue_direct
                                     : static_cast<Enqueue>(enqueue_chunks);
  check(enqueue(p, start, tensors.stream), name.text.data());
}

Start CollectiveCalls::enter(ExchangeParams& p, const plan::CollectivePlan& plan,
                             const CallName& name, int ctas, cudaStream_t stream) {
  calls.require_room(name.text, slot_needs_of(p.schedule, plan.lines));
  const unsigned slot = calls.begin_call(name, stream);
  place_in_slot(p, calls, slot, plan.lines, calls.data_at(slot), name);
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
