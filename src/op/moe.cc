// SPDX-License-Identifier: Apache-2.0
// The public halves of a mixture of experts: collectives, and passes of this rank between them.
#include "tilelace/moe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/points.h"
#include "op/compare.h"
#include "op/impl.h"
#include "op/moe_checks.h"
#include "plan/collectives/collective.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace {
namespace {

using op::MoeBytes;
using op::MoeCall;
using schedule::MoeMap;

constexpr std::string_view kGather = "ag_moe", kPrepare = "prepare_moe";

/// Throws what `check` throws, once the peers know that this rank makes no call.
template <class Impl, class Check>
void or_refuse(Impl& impl, void* stream, const Check& check) {
  try {
    check();
  } catch (const Error& e) {
    op::refuse_collective(impl, e.what(), stream);
    throw;
  }
}

/// One that ends in a collective: checked, or refused, before anything is sent. `check` returns
/// what ranks must agree on.
template <class Impl, class Check>
void check_together(Impl& impl, std::string_view name, void* stream, const Check& check) {
  if (!impl.compares) return or_refuse(impl, stream, [&] { check(); });
  std::optional<Error> wrong;
  op::compare(impl, name, [&] {
    try {
      return check();
    } catch (const Error& e) {
      wrong = e;
      throw;
    }
  });
  if (wrong) throw Error(*wrong);  // only the peers have heard of it
}

template <class Impl>
bool on_host(const Impl& impl) {
  return impl.options.device == Device::cpu;
}

template <class Impl>
void require_room(Impl& impl, std::string_view name, const MoeLayer& l, std::int64_t m,
                  void* stream) {
  require(impl.moe.holds(MoeBytes::of(l, m)) && std::max(l.hidden, l.inner) <= impl.moe.k,
          "{}: a layer with m {}, hidden {}, inner {}, top_k {} is not prepared: call prepare_moe "
          "with this layer",
          name, m, l.hidden, l.inner, l.top_k);
  impl.moe.captured = impl.moe.captured || impl.backend->is_captured(stream);
}

/// Tests look for reads of what a call left.
template <class Impl>
void leave(Impl& impl) {
  if (points::poison_slots && on_host(impl))
    std::memset(impl.moe.memory->data(), points::kPoison, impl.moe.bytes.all());
}

/// `each` elements of every rank's tokens.
template <class Impl>
void gather(Impl& impl, const AgMoeArgs& a, const MoeCall& call, const void* in, void* out,
            Item item, std::int64_t each) {
  std::vector<std::int64_t> counts = call.rows;
  for (auto& count : counts) count *= each;
  CollectiveArgs args{in, out, item};
  args.counts = counts;
  args.stream = a.stream;
  impl.backend->collect_within({kGather, op::words_of(a.layer, a.m)}, Collective::all_gather, args);
}

/// Writes the map; gives all ranks' tokens.
template <class Impl>
TensorView route(Impl& impl, const AgMoeArgs& a, const MoeCall& call) {
  auto& passes = impl.backend->moe_passes();
  const MoeLayer& l = a.layer;
  const void* ids = a.routing.ids;
  TensorView tokens = a.x;
  if (l.replicated) {
    passes.keep_weights(call.map, a.routing.weights, a.map, a.stream);
  } else {
    tokens = a.gathered ? a.gathered : dense(impl.moe.tokens(), l.dtype, a.m, l.hidden);
    gather(impl, a, call, a.x.data, tokens.data, plan::item_of(l.dtype), l.hidden);
    gather(impl, a, call, ids, impl.moe.ids(), a.routing.type, l.top_k);
    gather(impl, a, call, a.routing.weights, a.map + call.map.weights(),
           plan::item_of(kAccumulator), l.top_k);
    ids = impl.moe.ids();
  }
  passes.make_map({call.map, ids, a.routing.type, a.map, a.stream});
  return tokens;
}

template <class Impl>
void run_first_half(Impl& impl, const AgMoeArgs& a, const MoeCall& call) {
  const MoeLayer& l = a.layer;
  const TensorView tokens = route(impl, a, call);
  // All ranks have seen all ids, but for replicated ones.
  const auto check_ids = [&] { op::check_ids(kGather, call.map, a.map); };
  if (on_host(impl)) l.replicated ? or_refuse(impl, a.stream, check_ids) : check_ids();
  auto& passes = impl.backend->moe_passes();
  const TensorView rows = dense(impl.moe.rows(), l.dtype, call.map.pairs(), l.hidden);
  passes.permute({call.map, a.map, tokens, rows, l.weight_on_input, a.stream});
  GroupedGemmArgs product{rows, a.map + MoeMap::begins(), call.map.here, a.weight, a.bias};
  product.activation = l.activation;
  product.out = a.out;
  product.device = impl.options.device;
  product.stream = a.stream;
  passes.grouped_gemm(product);
  leave(impl);
}

/// This rank's term of all tokens' sums.
template <class Impl>
TensorView sum_slots(Impl& impl, const MoeReduceArgs& a, const MoeCall& call) {
  auto& passes = impl.backend->moe_passes();
  const MoeLayer& l = a.layer;
  const TensorView rows = dense(impl.moe.rows(), l.dtype, call.map.pairs(), l.hidden);
  GroupedGemmArgs product{a.x, a.map + MoeMap::begins(), call.map.here, a.weight, a.bias};
  if (!l.weight_on_input) {
    product.scales = reinterpret_cast<const float*>(a.map + call.map.weights());
    product.sources = a.map + call.map.source_of();
  }
  product.out = rows;
  product.device = impl.options.device;
  product.stream = a.stream;
  passes.grouped_gemm(product);
  const TensorView sums = dense(impl.moe.tokens(), l.dtype, a.m, l.hidden);
  const std::int64_t first = a.add.rows == a.m ? 0 : call.begin;
  passes.sum_slots({call.map, a.map, rows, a.add, first, sums, a.stream});
  return sums;
}

void reduce(Communicator& c, Collective collective, std::string_view name, const MoeReduceArgs& a) {
  auto& impl = c.impl();
  const bool scatters = collective == Collective::reduce_scatter;
  impl.call(name, [&] {
    MoeCall call;
    check_together(impl, name, a.stream, [&] {
      call = op::check_call(name, a, scatters, impl.group->rank(), impl.group->ranks());
      require_room(impl, name, a.layer, a.m, a.stream);
      if (on_host(impl)) {
        op::check_map(name, call.map, a.map);
        op::check_ids(name, call.map, a.map);
      }
      return op::words_of(a.layer, a.m);
    });
    const TensorView sums = sum_slots(impl, a, call);
    std::vector<std::int64_t> counts{a.m};
    if (scatters) counts = call.rows;
    for (auto& count : counts) count *= a.layer.hidden;
    CollectiveArgs args{sums.data, a.out.data, plan::item_of(a.layer.dtype)};
    args.counts = counts;
    args.stream = a.stream;
    impl.backend->collect_within(
        {name, op::words_of(a.layer, a.m), a.map + call.map.hash(), a.map + call.map.wrong()},
        collective, args);
    leave(impl);
  });
}

}  // namespace

std::int64_t moe_map_words(const MoeLayer& layer, std::int64_t m) {
  op::check_layer("moe_map_words", layer);
  return op::map_of("moe_map_words", layer, m).words();
}

void grouped_gemm(const GroupedGemmArgs& a) {
  op::check_grouped(a);
  const auto passes = a.device == Device::cpu ? make_cpu_moe_passes() : make_gpu_moe_passes();
  passes->prepare(a.x.cols);
  passes->grouped_gemm(a);
}

void prepare_moe(Communicator& c, const MoeLayer& layer) {
  auto& impl = c.impl();
  impl.call(kPrepare, [&] {
    auto& passes = impl.backend->moe_passes();
    std::string refusal;
    try {
      op::check_layer(kPrepare, layer);
      if (!on_host(impl)) plan::grouped_plans_of(kPrepare, impl.backend->machine().architecture);
    } catch (const Error& e) {
      refusal = e.what();
    }
    impl.backend->prepare_collectives(refusal);
    if (!refusal.empty()) throw Error(ErrorKind::usage, refusal);
    impl.moe.k = std::max({impl.moe.k, layer.hidden, layer.inner});
    passes.prepare(impl.moe.k);
    impl.moe.grow(MoeBytes::of(layer, layer.m), *impl.backend);
  });
}

void refuse_prepare_moe(Communicator& c, const std::string& reason) {
  c.impl().call(kPrepare, [&] { c.impl().backend->prepare_collectives(op::told(reason)); });
}

void ag_moe(Communicator& c, const AgMoeArgs& a) {
  auto& impl = c.impl();
  impl.call(kGather, [&] {
    MoeCall call;
    const auto check = [&] {
      call = op::check_call(a, impl.group->rank(), impl.group->ranks());
      require_room(impl, kGather, a.layer, a.m, a.stream);
      return op::words_of(a.layer, a.m);
    };
    if (a.layer.replicated)
      or_refuse(impl, a.stream, check);
    else
      check_together(impl, kGather, a.stream, check);
    run_first_half(impl, a, call);
  });
}

void moe_rs(Communicator& c, const MoeReduceArgs& args) {
  reduce(c, Collective::reduce_scatter, "moe_rs", args);
}

void moe_ar(Communicator& c, const MoeReduceArgs& args) {
  reduce(c, Collective::all_reduce, "moe_ar", args);
}

}  // namespace tilelace
