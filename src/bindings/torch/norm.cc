// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/norm.h"

#include <torch/csrc/stable/ops.h>

#include <utility>
#include <vector>

#include "bindings/torch/places.h"
#include "bindings/torch/tensors.h"
#include "tilelace/all_reduce_norm.h"

namespace tilelace::torch_binding {
namespace {

using torch::headeronly::ScalarType;
using MaybeTensor = std::optional<Tensor>;

constexpr std::string_view kName = "all_reduce_norm";
constexpr int64_t kBlock = 128;
constexpr ScalarType kScaleType = torch::headeronly::CppTypeToScalarType<float>::value;

NormQuant quant_of(const std::string& name) {
  if (name == "none") return NormQuant::none;
  if (name == "token") return NormQuant::token;
  if (name == "block") return NormQuant::block;
  if (name == "given") return NormQuant::given;
  wrong(kName, "quant", '"' + name + '"', "none, token, block or given");
}

uintptr_t at(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.const_data_ptr()); }

bool in_place(const Tensor& t) { return t.is_contiguous() && at(t) % kAlignment == 0; }

/// Whether two tensors without gaps share memory.
bool meet(const Tensor& a, const Tensor& b) {
  const auto bytes = [](const Tensor& t) {
    return static_cast<std::size_t>(t.numel()) * t.element_size();
  };
  return at(a) < at(b) + bytes(b) && at(b) < at(a) + bytes(a);
}

/// A result, and where kernels write it.
struct Written {
  Tensor tensor, dense;
  bool staged = false;
};

/// A call's tensors as C++ takes them.
class NormLayout {
 public:
  NormLayout(const NormCall& call, const Place& place) : call_(call), place_(place) {
    const Tensor& x = call.x;
    require_place(kName, "x", x, place.device);
    args_.item = item_of(kName, "x", x, true);
    if (!row_of(args_.item).floats || row_of(args_.item).bytes != 2)
      wrong(kName, "x", torch::headeronly::toString(x.scalar_type()), "BFloat16 or Half");
    if (x.dim() < 1) wrong(kName, "x", "[]", "at least one dimension");
    size_.assign(x.sizes().begin(), x.sizes().end());
    args_.n = size_.back();
    args_.m = 1;
    for (std::size_t d = 0; d + 1 < size_.size(); ++d) args_.m *= size_[d];
    args_.eps = static_cast<float>(call.eps);
    args_.quant = quant_of(call.quant);
    args_.stream = place.stream;
    read();
    write();
  }

  [[nodiscard]] const AllReduceNormArgs& args() const { return args_; }
  /// After the call.
  NormTensors finish() {
    const auto done = [](std::optional<Written>& w) -> MaybeTensor {
      if (!w) return {};
      if (w->staged) torch::stable::copy_(w->tensor, w->dense);
      return std::move(w->tensor);
    };
    return {done(normed_), done(out_), done(quantised_), done(scales_)};
  }

 private:
  /// An operand, copied where kernels cannot read it in place.
  const void* taken(const char* what, const Tensor& t, std::span<const int64_t> size,
                    ScalarType type) {
    require_place(kName, what, t, place_.device);
    require_shaped(kName, what, t, size, type);
    read_.push_back(t);
    Tensor& own = read_.back();
    if (!in_place(t)) {
      own = empty_dense(t, size, type);
      torch::stable::copy_(own, t);
    }
    return own.const_data_ptr();
  }

  void read() {
    const ScalarType type = call_.x.scalar_type();
    args_.x = taken("x", call_.x, size_, type);
    if (call_.residual) args_.residual = taken("residual", *call_.residual, size_, type);
    may_be_written_ = read_.size();
    args_.weight = taken("weight", call_.weight, {{args_.n}}, type);
    const bool given = args_.quant == NormQuant::given;
    if (given != call_.scale.has_value())
      wrong(kName, "scale", given ? "none" : "a tensor",
            given ? "a tensor for quant \"given\"" : "none if quant is " + call_.quant);
    if (given) scale_ = scale();
  }

  float* scale() {
    const Tensor& t = *call_.scale;
    require_place(kName, "scale", t, place_.device);
    const std::vector<int64_t> size(t.sizes().begin(), t.sizes().end());
    if (t.numel() != 1) wrong(kName, "scale", shape_of(t), "one element");
    require_shaped(kName, "scale", t, size, kScaleType);
    read_.push_back(t);
    return static_cast<float*>(t.mutable_data_ptr());
  }

  void write() {
    const ScalarType type = call_.x.scalar_type();
    const bool quantises = args_.quant != NormQuant::none;
    const NormTensors given = call_.given.value_or(NormTensors{});
    const bool fresh = !call_.given;
    if (fresh || given.out) out_ = written("out", given.out, size_, type);
    if (!quantises || given.normed || (fresh && call_.return_normed))
      normed_ = written("normed", given.normed, size_, type);
    if (wanted("quantised", given.quantised, quantises))
      quantised_ = written("quantised", given.quantised, size_, ScalarType::Float8_e4m3fn);
    if (wanted("scales", given.scales, quantises && args_.quant != NormQuant::given))
      scales_ = written("scales", given.scales, scales_size(), kScaleType);
    check_apart();
    const auto data = [](const std::optional<Written>& w) {
      return w ? w->dense.mutable_data_ptr() : nullptr;
    };
    args_.out = data(out_);
    args_.normed = data(normed_);
    args_.quantised = data(quantised_);
    args_.scales = scales_ ? static_cast<float*>(data(scales_)) : scale_;
  }

  [[nodiscard]] bool wanted(const char* what, const MaybeTensor& given, bool there_is) const {
    if (given && !there_is) wrong(kName, what, "a tensor", "none if quant is " + call_.quant);
    return there_is;
  }

  [[nodiscard]] std::vector<int64_t> scales_size() const {
    auto size = size_;
    size.back() = args_.quant == NormQuant::block ? args_.n / kBlock : 1;
    return size;
  }

  Written written(const char* what, const MaybeTensor& given, std::span<const int64_t> size,
                  ScalarType type) {
    if (!given && call_.given) wrong(kName, what, "none", "a tensor if quant is " + call_.quant);
    if (!given) {
      Tensor fresh = empty_dense(call_.x, size, type);
      return {fresh, fresh};
    }
    require_place(kName, what, *given, place_.device);
    require_result(kName, what, *given, size, type);
    const bool direct = in_place(*given) && !in_the_way(*given, type);
    return {*given, direct ? *given : empty_dense(*given, size, type), !direct};
  }

  /// Whether it overlaps an operand otherwise than x or the residual in their own places.
  [[nodiscard]] bool in_the_way(const Tensor& t, ScalarType type) const {
    for (std::size_t i = 0; i < read_.size(); ++i) {
      const bool same = i < may_be_written_ && at(t) == at(read_[i]);
      if (meet(t, read_[i]) && !(same && type == call_.x.scalar_type())) return true;
    }
    return false;
  }

  void check_apart() const {
    const std::pair<const char*, const std::optional<Written>&> all[] = {
        {"out", out_}, {"normed", normed_}, {"quantised", quantised_}, {"scales", scales_}};
    for (const auto& [name, a] : all)
      for (const auto& [other, b] : all) {
        if (&a == &b) break;
        if (a && b && a->tensor.numel() > 0 && b->tensor.numel() > 0 &&
            at(a->tensor) == at(b->tensor))
          wrong(kName, std::string(name) + " overlaps " + other + ": each needs memory of its own");
      }
  }

  const NormCall& call_;
  const Place& place_;
  std::vector<int64_t> size_;
  std::vector<Tensor> read_;
  std::size_t may_be_written_ = 0;  ///< of read_: the first ones
  float* scale_ = nullptr;
  std::optional<Written> out_, normed_, quantised_, scales_;
  AllReduceNormArgs args_;
};

}  // namespace

NormTensors all_reduce_norm(const NormCall& call) {
  const Place place = place_of(kName, call.x, call.group, true);
  place.member->note_collectives();
  std::optional<NormLayout> layout;
  checked_here(place, [&] {
    layout.emplace(call, place);
    return 0;
  });
  tilelace::all_reduce_norm(place.communicator(), layout->args());
  return layout->finish();
}

}  // namespace tilelace::torch_binding
