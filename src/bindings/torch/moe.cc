// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/moe.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "bindings/torch/members.h"
#include "bindings/torch/places.h"
#include "bindings/torch/tensors.h"
#include "tilelace/moe.h"

namespace tilelace::torch_binding {
namespace {

using torch::headeronly::ScalarType;
using MaybeTensor = std::optional<Tensor>;

ExpertActivation activation_named(std::string_view op, const std::string& name) {
  for (const ExpertActivationRow& row : kExpertActivations)
    if (row.name == name) return row.activation;
  wrong(op, "activation", '"' + name + '"',
        "none, gelu, gelu_tanh, silu, swiglu or swiglu_clamped");
}

/// Operands without gaps, and what keeps them alive.
class Dense {
 public:
  Dense(std::string_view op, Device device) : op_(op), device_(device) {}

  /// The last dimension is that of columns.
  TensorView matrix(const char* what, const Tensor& t, int64_t dims) {
    check(what, t, dims);
    const DType dtype = dtype_of(op_, what, t);
    const Tensor& own = kept(t);
    const int64_t cols = own.size(dims - 1);
    int64_t rows = 1;
    for (int64_t d = 0; d + 1 < dims; ++d) rows *= own.size(d);
    return dense(data(own), dtype, rows, cols);
  }
  TensorView matrix(const char* what, const MaybeTensor& t, int64_t dims) {
    return t ? matrix(what, *t, dims) : TensorView{};
  }
  /// Words of this type.
  template <class T>
  T* words(const char* what, const Tensor& t, int64_t dims) {
    check(what, t, dims);
    constexpr ScalarType type = torch::headeronly::CppTypeToScalarType<T>::value;
    if (t.scalar_type() != type)
      wrong(op_, what, torch::headeronly::toString(t.scalar_type()),
            torch::headeronly::toString(type));
    return static_cast<T*>(data(kept(t)));
  }
  const void* ids(const Tensor& t, Item& type) {
    check("ids", t, 2);
    if (t.scalar_type() == ScalarType::Int)
      type = Item::i32;
    else if (t.scalar_type() == ScalarType::Long)
      type = Item::i64;
    else
      wrong(op_, "ids", torch::headeronly::toString(t.scalar_type()), "Int or Long");
    return data(kept(t));
  }

 private:
  static void* data(const Tensor& t) { return t.mutable_data_ptr(); }
  void check(const char* what, const Tensor& t, int64_t dims) {
    require_place(op_, what, t, device_);
    if (t.dim() != dims) wrong(op_, what, shape_of(t), std::to_string(dims) + " dimensions");
  }
  const Tensor& kept(const Tensor& t) {
    Tensor own = torch::stable::contiguous(t);
    if (reinterpret_cast<uintptr_t>(own.const_data_ptr()) % kAlignment != 0) {
      const std::vector<int64_t> size(t.sizes().begin(), t.sizes().end());
      own = empty_dense(t, size, t.scalar_type());
      torch::stable::copy_(own, t);
    }
    return kept_.emplace_back(std::move(own));
  }

  std::string_view op_;
  Device device_;
  std::vector<Tensor> kept_;
};

/// Tokens of every rank.
std::vector<int64_t> tokens_of(std::string_view op, const Sizes& sizes, int64_t own, int64_t all,
                               const Place& place) {
  if (sizes) {
    check_sizes(op, "sizes", *sizes, place.ranks);
    return *sizes;
  }
  if (all >= 0) return remainder_first(all, place.ranks);
  return std::vector<int64_t>(static_cast<std::size_t>(place.ranks), own);
}

/// Checks on this rank, then room on all: ranks in the same call make it together. `check` sets m.
template <class Check>
void prepare(std::string_view op, const Place& place, MoeLayer& layer, int64_t most,
             const Check& check) {
  checked_here(place, [&] {
    layer.m = std::max(check(), most);
    try {
      return moe_map_words(layer, layer.m);
    } catch (const Error& e) {
      const std::string text = e.what();
      wrong(op, text.substr(text.find(": ") + 2));
    }
  });
  place.member->make_room(layer);
}

struct FirstHalf {
  Tensor x, ids, weights, w13;
  MaybeTensor bias;
  std::string group;
  int64_t experts = 0, first = 0;
  std::string activation;
  bool replicated = false, weight_on_input = false;
  int64_t max_tokens = 0;
  Sizes sizes;
};

std::tuple<Tensor, Tensor> ag_moe(const FirstHalf& call) {
  constexpr std::string_view kName = "ag_moe";
  const Place place = place_of(kName, call.x, call.group, true);
  place.member->note_collectives();
  Dense dense(kName, place.device);
  AgMoeArgs args;
  MoeLayer& layer = args.layer;
  std::vector<int64_t> rows;
  prepare(kName, place, layer, call.max_tokens, [&] {
    args.x = dense.matrix("x", call.x, 2);
    args.routing.ids = dense.ids(call.ids, args.routing.type);
    args.routing.weights = dense.words<float>("weights", call.weights, 2);
    args.weight = dense.matrix("w13", call.w13, 3);
    args.bias = dense.matrix("bias", call.bias, 2);
    layer.dtype = args.x.dtype;
    layer.hidden = args.x.cols;
    layer.activation = activation_named(kName, call.activation);
    layer.inner = call.w13.size(1) / (row_of(layer.activation).gated ? 2 : 1);
    layer.experts = call.experts, layer.first = call.first, layer.here = call.w13.size(0);
    layer.top_k = call.ids.size(1);
    layer.replicated = call.replicated, layer.weight_on_input = call.weight_on_input;
    for (const auto* t : {&call.ids, &call.weights})
      if (t->size(0) != args.x.rows || t->size(1) != layer.top_k)
        wrong(kName, t == &call.ids ? "ids" : "weights", shape_of(*t),
              "[" + std::to_string(args.x.rows) + ", " + std::to_string(layer.top_k) + "]");
    if (layer.here < 1) wrong(kName, "w13", shape_of(call.w13), "weights of at least one expert");
    rows = tokens_of(kName, call.sizes, args.x.rows, call.replicated ? args.x.rows : -1, place);
    args.m = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    return args.m;
  });
  args.rows = rows;
  args.stream = place.stream;
  const int64_t pairs = args.m * layer.top_k;
  const std::vector<int64_t> size{pairs, layer.inner}, words{moe_map_words(layer, args.m)};
  auto [out, map] = checked_here(place, [&] {
    return std::pair{empty_dense(call.x, size, call.x.scalar_type()),
                     empty_dense(call.x, words, ScalarType::Int)};
  });
  args.out = tilelace::dense(out.mutable_data_ptr(), layer.dtype, pairs, layer.inner);
  args.map = static_cast<int32_t*>(map.mutable_data_ptr());
  tilelace::ag_moe(place.communicator(), args);
  return {std::move(out), std::move(map)};
}

struct SecondHalf {
  Tensor act, map, w2;
  MaybeTensor bias, add;
  std::string group;
  int64_t experts = 0, first = 0, top_k = 0;
  bool weight_on_input = false;
  Sizes sizes;
};

Tensor second_half(std::string_view name, const SecondHalf& call, bool scatters) {
  const Place place = place_of(name, call.act, call.group, true);
  place.member->note_collectives();
  Dense dense(name, place.device);
  MoeReduceArgs args;
  MoeLayer& layer = args.layer;
  std::vector<int64_t> rows;
  prepare(name, place, layer, 0, [&] {
    if (call.top_k < 1) wrong(name, "top_k", std::to_string(call.top_k), "at least 1");
    args.x = dense.matrix("act", call.act, 2);
    args.map = dense.words<int32_t>("map", call.map, 1);
    args.weight = dense.matrix("w2", call.w2, 3);
    args.bias = dense.matrix("bias", call.bias, 2);
    args.add = dense.matrix("add", call.add, 2);
    layer.dtype = args.x.dtype;
    layer.hidden = call.w2.size(1), layer.inner = args.x.cols;
    layer.experts = call.experts, layer.first = call.first, layer.here = call.w2.size(0);
    layer.top_k = call.top_k, layer.weight_on_input = call.weight_on_input;
    if (layer.here < 1) wrong(name, "w2", shape_of(call.w2), "at least one expert");
    args.m = args.x.rows / layer.top_k;
    layer.m = args.m;
    if (call.map.size(0) != moe_map_words(layer, args.m))
      wrong(name, "map", shape_of(call.map),
            "[" + std::to_string(moe_map_words(layer, args.m)) + "], as ag_moe gives it");
    rows = tokens_of(name, call.sizes, 0, args.m, place);
    return args.m;
  });
  if (scatters) args.rows = rows;
  args.stream = place.stream;
  const int64_t own = scatters ? rows[static_cast<std::size_t>(place.rank)] : args.m;
  const std::vector<int64_t> size{own, layer.hidden};
  Tensor out =
      checked_here(place, [&] { return empty_dense(call.act, size, call.act.scalar_type()); });
  args.out = tilelace::dense(out.mutable_data_ptr(), layer.dtype, own, layer.hidden);
  scatters ? tilelace::moe_rs(place.communicator(), args)
           : tilelace::moe_ar(place.communicator(), args);
  return out;
}

/// Factors that lie within `scales`, where this process can look.
void check_scales(std::string_view op, const GroupedGemmArgs& a, int64_t scales) {
  if (a.scales == nullptr) return;
  if (a.sources == nullptr) {
    if (scales != a.x.rows)
      wrong(op, "scales", "[" + std::to_string(scales) + "]",
            "[" + std::to_string(a.x.rows) + "], one per row (else pass sources)");
    return;
  }
  const int64_t rows =
      a.device == Device::cpu ? std::min<int64_t>(a.begins[a.experts], a.x.rows) : 0;
  for (int64_t r = 0; r < rows; ++r)
    if (a.sources[r] >= scales)
      wrong(op, "sources", std::to_string(a.sources[r]),
            "less than " + std::to_string(scales) + ", the number of scales");
}

// NOLINTBEGIN(performance-unnecessary-value-param): torch's boxing gives values.
Tensor grouped_gemm_op(Tensor x, Tensor weight, Tensor begins, MaybeTensor bias, MaybeTensor scales,
                       MaybeTensor sources, std::string activation) {
  return remembered([&] {
    constexpr std::string_view kName = "grouped_gemm";
    GroupedGemmArgs args;
    args.device = x.is_cuda() ? Device::cuda : Device::cpu;
    args.stream = stream_on(x.is_cuda() ? x.get_device_index() : -1);
    Dense dense(kName, args.device);
    args.x = dense.matrix("x", x, 2);
    args.weight = dense.matrix("weight", weight, 3);
    args.bias = dense.matrix("bias", bias, 2);
    args.experts = weight.size(0);
    args.activation = activation_named(kName, activation);
    args.begins = dense.words<int32_t>("begins", begins, 1);
    if (begins.size(0) != args.experts + 1)
      wrong(kName, "begins", shape_of(begins), "[" + std::to_string(args.experts + 1) + "]");
    if (scales) args.scales = dense.words<float>("scales", *scales, 1);
    if (sources) args.sources = dense.words<int32_t>("sources", *sources, 1);
    if (sources && sources->size(0) < args.x.rows)
      wrong(kName, "sources", shape_of(*sources), "[" + std::to_string(args.x.rows) + "]");
    check_scales(kName, args, scales ? scales->size(0) : 0);
    const int64_t n = weight.size(1) / (row_of(args.activation).gated ? 2 : 1);
    const std::vector<int64_t> size{args.x.rows, n};
    Tensor out = empty_dense(x, size, x.scalar_type());
    args.out = tilelace::dense(out.mutable_data_ptr(), args.x.dtype, args.x.rows, n);
    tilelace::grouped_gemm(args);
    return out;
  });
}
std::tuple<Tensor, Tensor> ag_moe_op(Tensor x, Tensor ids, Tensor weights, Tensor w13,
                                     MaybeTensor bias, std::string group, int64_t experts,
                                     int64_t first, std::string activation, bool replicated,
                                     bool weight_on_input, int64_t max_tokens, Sizes sizes) {
  return remembered([&] {
    return ag_moe({x, ids, weights, w13, bias, group, experts, first, activation, replicated,
                   weight_on_input, max_tokens, sizes});
  });
}
Tensor moe_rs_op(Tensor act, Tensor map, Tensor w2, MaybeTensor bias, MaybeTensor add,
                 std::string group, int64_t experts, int64_t top_k, int64_t first,
                 bool weight_on_input, Sizes sizes) {
  return remembered([&] {
    return second_half(
        "moe_rs", {act, map, w2, bias, add, group, experts, first, top_k, weight_on_input, sizes},
        true);
  });
}
Tensor moe_ar_op(Tensor act, Tensor map, Tensor w2, MaybeTensor bias, MaybeTensor add,
                 std::string group, int64_t experts, int64_t top_k, int64_t first,
                 bool weight_on_input) {
  return remembered([&] {
    return second_half("moe_ar",
                       {act, map, w2, bias, add, group, experts, first, top_k, weight_on_input, {}},
                       false);
  });
}
// NOLINTEND(performance-unnecessary-value-param)

constexpr const char* kReduceHead =
    "(Tensor act, Tensor map, Tensor w2, Tensor? bias, Tensor? add, str group_name, *, int "
    "experts, "
    "int top_k, int first=0, bool weight_on_input=False";

}  // namespace

std::vector<OpEntry> moe_ops() {
  const std::string head = kReduceHead;
  return {{"ag_moe",
           "(Tensor x, Tensor ids, Tensor weights, Tensor w13, Tensor? bias, str group_name, *, "
           "int experts, int first=0, str activation=\"swiglu\", bool replicated=False, "
           "bool weight_on_input=False, int max_tokens=0, " +
               std::string(kSizes) + ") -> (Tensor, Tensor)",
           TORCH_BOX(&ag_moe_op)},
          {"moe_rs", head + ", " + kSizes + ") -> Tensor", TORCH_BOX(&moe_rs_op)},
          {"moe_ar", head + ") -> Tensor", TORCH_BOX(&moe_ar_op)}};
}

std::vector<OpEntry> local_ops() {
  return {{"grouped_gemm",
           "(Tensor x, Tensor weight, Tensor begins, Tensor? bias=None, Tensor? scales=None, "
           "Tensor? sources=None, *, str activation=\"none\") -> Tensor",
           TORCH_BOX(&grouped_gemm_op)}};
}

}  // namespace tilelace::torch_binding
