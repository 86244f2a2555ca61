// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/collectives.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "bindings/torch/places.h"

namespace tilelace::torch_binding {
namespace {

using torch::stable::contiguous;
using torch::stable::copy_;
using torch::stable::transpose;

using Counts = std::vector<int64_t>;

constexpr Collective kGather = Collective::all_gather, kScatter = Collective::reduce_scatter;

int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

Reduction reduction_of(std::string_view op, const std::string& name) {
  for (const auto r : {Reduction::sum, Reduction::avg, Reduction::max})
    if (name_of(r) == name) return r;
  wrong(op, "op", '"' + name + '"', "sum, avg or max");
}

/// As C++'s collectives take a call: elements one after the other, the split dimension outermost.
class CollectiveLayout {
 public:
  CollectiveLayout(const CollectiveCall& call, const Place& place)
      : call_(call), name_(row_of(call.collective).name), place_(place) {
    require_place(name_, "x", call.x, place.device);
    args_.item = item_of(name_, "x", call.x, row_of(call.collective).sums);
    args_.reduction = reduction_of(name_, call.reduction);
    args_.stream = place.stream;
    find_dimension();
    count();
    in_ = contiguous(rows_first(call.x));
    set_out();
    args_.in = in_->const_data_ptr();
    args_.out = dense_out_->mutable_data_ptr();
    args_.counts = counts_;
    args_.takes = takes_;
  }
  CollectiveLayout(const CollectiveLayout&) = delete;
  CollectiveLayout& operator=(const CollectiveLayout&) = delete;
  ~CollectiveLayout() = default;

  [[nodiscard]] const CollectiveArgs& args() const { return args_; }
  /// After the call.
  Tensor finish() {
    if (staged_) {
      Tensor to = rows_first(*out_);
      copy_(to, *dense_out_);
    }
    return *out_;
  }

 private:
  [[nodiscard]] bool splits() const { return call_.collective != Collective::all_reduce; }
  [[nodiscard]] Tensor rows_first(const Tensor& t) const {
    return dim_ == 0 ? t : transpose(t, 0, dim_);
  }

  void find_dimension() {
    if (!splits()) return;
    const int64_t dims = call_.x.dim();
    if (dims < 1) wrong(name_, "x", "[]", "at least one dimension");
    dim_ = call_.dim < 0 ? call_.dim + dims : call_.dim;
    if (dim_ < 0 || dim_ >= dims)
      wrong(name_, "dim", std::to_string(call_.dim), "0 to " + std::to_string(dims - 1));
  }

  /// How many units of the split dimension of a list this rank has, or all.
  void require_units(const char* what, const Counts& units, int64_t got) const {
    if (sum_of(units) == got) return;
    wrong(name_, what, "a sum of " + std::to_string(sum_of(units)),
          std::to_string(got) + ", the size of x in dimension " + std::to_string(dim_));
  }

  void count() {
    const int64_t inner = splits() ? inner_of() : 1;
    switch (call_.collective) {
      case Collective::all_reduce: counts_ = {call_.x.numel()}; break;
      case Collective::all_gather:
      case Collective::reduce_scatter: count_shards(); break;
      case Collective::all_to_all: count_parcels(); break;
    }
    if (!splits()) return;
    for (auto& c : counts_) c *= inner;
    for (auto& t : takes_) t *= inner;
  }

  [[nodiscard]] int64_t inner_of() const {
    int64_t inner = 1;
    for (int64_t d = 0; d < call_.x.dim(); ++d)
      if (d != dim_) inner *= call_.x.size(d);
    return inner;
  }

  void count_shards() {
    const int64_t own = call_.x.size(dim_);
    const auto ranks = static_cast<std::size_t>(place_.ranks);
    const auto rank = static_cast<std::size_t>(place_.rank);
    if (call_.sizes) {
      check_sizes(name_, "sizes", *call_.sizes, place_.ranks);
      counts_ = *call_.sizes;
    } else if (call_.collective == kScatter || call_.like) {
      counts_ = remainder_first(call_.like ? call_.like->size(dim_) : own, place_.ranks);
    } else {
      counts_.assign(ranks, own);
    }
    if (call_.collective == kScatter) {
      require_units("sizes", counts_, own);
      units_ = counts_[rank];
      return;
    }
    units_ = sum_of(counts_);
    if (counts_[rank] == own) return;
    wrong(name_, "x", std::to_string(own) + " in dimension " + std::to_string(dim_),
          std::to_string(counts_[rank]) + ", this rank's entry in sizes");
  }

  void count_parcels() {
    const int64_t own = call_.x.size(0);
    if (call_.sends.has_value() != call_.takes.has_value()) {
      wrong(name_, call_.sends ? "takes" : "sends", "none",
            call_.sends ? "a list, as sends is given" : "a list, as takes is given");
    }
    if (call_.sends) {
      check_sizes(name_, "sends", *call_.sends, place_.ranks);
      check_sizes(name_, "takes", *call_.takes, place_.ranks);
      require_units("sends", *call_.sends, own);
      counts_ = *call_.sends;
      takes_ = *call_.takes;
      units_ = sum_of(takes_);
      return;
    }
    if (own % place_.ranks != 0) {
      wrong(name_, "x", std::to_string(own) + " in dimension 0",
            "a multiple of the number of ranks, " + std::to_string(place_.ranks) +
                " (else pass sends and takes)");
    }
    counts_ = takes_ = {own / place_.ranks};
    units_ = own;
  }

  void set_out() {
    const Tensor x = rows_first(call_.x);
    Counts size(x.sizes().begin(), x.sizes().end());
    if (splits()) size[0] = units_;
    const Counts strides = dense_strides(size);
    if (!call_.out) {
      // Made as what is returned: autograd lets nobody write to views that an op returns.
      const auto dim = static_cast<std::size_t>(dim_);
      Counts own_size = size, own_strides = strides;
      if (dim > 0) {
        std::swap(own_size[0], own_size[dim]);
        std::swap(own_strides[0], own_strides[dim]);
      }
      out_ = empty_beside(call_.x, own_size, own_strides);
      dense_out_ = rows_first(*out_);
      return;
    }
    out_ = call_.out;
    check_out(size);
    dense_out_ = rows_first(*out_);
    staged_ = !dense_out_->is_contiguous() || !apart_or_in_place();
    if (staged_) dense_out_ = empty_beside(call_.x, size, strides);
  }

  void check_out(Counts size) const {
    require_place(name_, "out", *out_, place_.device);
    if (dim_ > 0) std::swap(size[0], size[static_cast<std::size_t>(dim_)]);
    require_result(name_, "out", *out_, size, call_.x.scalar_type());
  }

  /// What C++ takes as in place, or memory that does not overlap; else the result is staged.
  [[nodiscard]] bool apart_or_in_place() const {
    const auto at = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.const_data_ptr()); };
    const auto bytes = [](const Tensor& t) {
      return static_cast<std::size_t>(t.numel()) * t.element_size();
    };
    const uintptr_t in = at(*in_), out = at(*dense_out_);
    if (in + bytes(*in_) <= out || out + bytes(*dense_out_) <= in) return true;
    if (!splits()) return in == out;
    const auto before = static_cast<std::size_t>(
        std::accumulate(counts_.begin(), counts_.begin() + place_.rank, int64_t{0}));
    const std::size_t own = before * in_->element_size();
    if (call_.collective == kGather) return in == out + own;
    return call_.collective == kScatter && out == in + own;
  }

  const CollectiveCall& call_;
  std::string_view name_;
  const Place& place_;
  int64_t dim_ = 0;
  int64_t units_ = 0;  ///< of the result, in the split dimension
  Counts counts_, takes_;
  std::optional<Tensor> in_, out_, dense_out_;
  bool staged_ = false;
  CollectiveArgs args_;
};

}  // namespace

Tensor collect(const CollectiveCall& call) {
  const Place place = place_of(row_of(call.collective).name, call.x, call.group, true);
  place.member->note_collectives();
  std::optional<CollectiveLayout> layout;
  checked_here(place, [&] {
    layout.emplace(call, place);
    return 0;
  });
  tilelace::collect(place.communicator(), call.collective, layout->args());
  return layout->finish();
}

}  // namespace tilelace::torch_binding
