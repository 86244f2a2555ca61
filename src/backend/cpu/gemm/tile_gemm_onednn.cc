// SPDX-License-Identifier: Apache-2.0
// TileGemm on oneDNN's matmul. Its fast kernels want dense operands and a fixed row count, hence a
// ladder of primitives: a call is cut into pieces of the ladder's sizes.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/tile_gemm.h"
#include "core/check.h"

namespace tilelace::cpu {
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

// The packed layout was the same for all row counts (checked for 1..256 rows): any one will do.
constexpr std::int64_t kLayoutRows = 128;
constexpr std::int64_t kFineRows = 8;  // every row count up to here has its own primitive

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Keeps oneDNN's OpenMP on the calling thread, and leaves the thread's setting as it was.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

bool has(dnnl::cpu_isa wanted) {
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto bits = static_cast<unsigned>(wanted);
  return (all & bits) == bits;
}

// The type that products are computed from: bf16 where the CPU has dot products of it, else fp32
// (oneDNN emulates bf16 on older CPUs, and has no fp16).
DType product_type(DType dtype) {
  static const bool fast_bf16 = has(dnnl::cpu_isa::avx512_core_bf16);
  return dtype == DType::bf16 && fast_bf16 ? DType::bf16 : kAccumulator;
}

// With AVX-512 products of packed panels have the bits of torch's, which training is compared with.
bool reads_in_place(Panels how) {
  static const bool packs = has(dnnl::cpu_isa::avx512_core);
  return how == Panels::in_place && !packs;
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::matmul::primitive_desc matmul_desc(std::int64_t rows, std::int64_t cols, std::int64_t k,
                                         DType type, const Desc& weight) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const Desc a({rows, k}, dnnl_type(type), Dims{k, 1});
  const Desc c({rows, cols}, dnnl::memory::data_type::f32, Dims{cols, 1});
  return {dnnl::matmul::desc(a, weight, c), attributes, cpu_engine()};
}

template <class Body>
void guarded(const char* what, const Body& body) {
  try {
    const OneThread one_thread;
    body();
  } catch (const dnnl::error& e) {
    raise(ErrorKind::system, "{}: oneDNN failed with status {} ({})", what,
          static_cast<int>(e.status), e.what());
  }
}

struct Piece {
  std::int64_t rows;
  dnnl::matmul primitive;
  dnnl::memory a, c, scratchpad;
};

struct PanelLayout {
  std::int64_t k, cols;
  DType type;
  std::int64_t stride;  // of columns in elements; 0: packed
  bool operator==(const PanelLayout&) const = default;
};

// The primitives of one layout of panels, most rows first.
struct Ladder {
  PanelLayout layout;
  std::vector<Piece> pieces;
};

std::vector<std::int64_t> ladder_rows(std::int64_t max_rows) {
  std::vector<std::int64_t> sizes{max_rows};
  for (std::int64_t r = kFineRows; r < max_rows; r *= 2) sizes.push_back(r);
  for (std::int64_t r = std::min(kFineRows, max_rows) - 1; r >= 1; --r) sizes.push_back(r);
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes;
}

}  // namespace

struct PackedWeight::Impl {
  DType type = kAccumulator;
  std::int64_t stride = 0;  // of PanelLayout
  // Made here, once: making a memory object over blocked data writes its padding, which workers
  // must not do to shared panels.
  std::vector<dnnl::memory> panels;
  std::vector<std::vector<float>> converted;  // what panels in place point to, of another type
  std::size_t bytes = 0;

  [[nodiscard]] PanelLayout layout(std::int64_t k, std::int64_t cols) const {
    return {k, cols, type, stride};
  }
  dnnl::memory plain(const TensorView& weight, std::int64_t first, std::int64_t cols);
  void pack(const TensorView& weight, std::int64_t first, std::int64_t cols, dnnl::stream& stream);
};

// The panel where it lies in the weight or, of another type, in the newest `converted`.
dnnl::memory PackedWeight::Impl::plain(const TensorView& weight, std::int64_t first,
                                       std::int64_t cols) {
  const std::int64_t k = weight.cols;
  void* source = element(weight.data, weight.dtype, first * weight.stride);
  std::int64_t columns = weight.stride;
  if (type != weight.dtype) {
    float* const to = converted.emplace_back(static_cast<std::size_t>(cols * k)).data();
    for (std::int64_t c = 0; c < cols; ++c)
      to_float(element(source, weight.dtype, c * columns), weight.dtype, k, to + c * k);
    source = to;
    columns = k;
  }
  return {Desc({k, cols}, dnnl_type(type), Dims{1, columns}), cpu_engine(), source};
}

void PackedWeight::Impl::pack(const TensorView& weight, std::int64_t first, std::int64_t cols,
                              dnnl::stream& stream) {
  const std::int64_t k = weight.cols;
  const Desc any({k, cols}, dnnl_type(type), dnnl::memory::format_tag::any);
  const Desc packed = matmul_desc(kLayoutRows, cols, k, type, any).weights_desc();
  dnnl::memory plain = this->plain(weight, first, cols);
  dnnl::memory panel(packed, cpu_engine());
  dnnl::reorder(plain, panel).execute(stream, plain, panel);
  stream.wait();
  converted.clear();
  bytes += packed.get_size();
  panels.push_back(std::move(panel));
}

PackedWeight::PackedWeight(const TensorView& weight, int tile_n, Panels how)
    : n_(weight.rows),
      k_(weight.cols),
      tile_n_(tile_n),
      dtype_(weight.dtype),
      impl_(std::make_unique<Impl>()) {
  require(n_ >= 1 && k_ >= 0 && tile_n >= 1,
          "packed weight: got n {}, k {}, tile_n {}, expected n >= 1, k >= 0, tile_n >= 1", n_, k_,
          tile_n);
  require(
      k_ == 0 || (weight.data != nullptr && weight.stride >= k_),
      "packed weight: got data {} and stride {}, expected data that is not null and a stride >= {}",
      weight.data, weight.stride, k_);
  impl_->type = product_type(dtype_);
  if (k_ == 0) return;
  const bool in_place = reads_in_place(how);
  if (in_place) impl_->stride = impl_->type == dtype_ ? weight.stride : k_;
  guarded("packed weight", [&] {
    dnnl::stream stream(cpu_engine());
    for (std::int64_t p = 0; p < panels(); ++p) {
      if (in_place)
        impl_->panels.push_back(impl_->plain(weight, p * tile_n, panel_cols(p)));
      else
        impl_->pack(weight, p * tile_n, panel_cols(p), stream);
    }
  });
}

PackedWeight::PackedWeight(PackedWeight&&) noexcept = default;
PackedWeight& PackedWeight::operator=(PackedWeight&&) noexcept = default;
PackedWeight::~PackedWeight() = default;

std::size_t PackedWeight::bytes() const { return impl_->bytes; }

struct TileGemm::Impl {
  std::int64_t max_rows = 0;
  dnnl::stream stream{cpu_engine()};
  std::vector<Ladder> ladders;
  std::vector<char> scratchpad;
  std::vector<float> a_tile, c_tile;  // dense copies; a_tile holds elements of the product's type

  Ladder* find(const PanelLayout& layout);
  void add_ladder(const PanelLayout& layout, const Desc& panel);
  void prepare(const PanelLayout& layout, const Desc& panel);
  const void* dense_a(const void* a, std::int64_t lda, std::int64_t rows, std::int64_t k,
                      DType from, DType type);
  void multiply(Ladder& ladder, const dnnl::memory& weight, const void* a, std::int64_t rows,
                float* c);
};

Ladder* TileGemm::Impl::find(const PanelLayout& layout) {
  for (Ladder& l : ladders)
    if (l.layout == layout) return &l;
  return nullptr;
}

void TileGemm::Impl::add_ladder(const PanelLayout& layout, const Desc& panel) {
  Ladder ladder{layout, {}};
  for (const std::int64_t rows : ladder_rows(max_rows)) {
    const auto desc = matmul_desc(rows, layout.cols, layout.k, layout.type, panel);
    scratchpad.resize(std::max(scratchpad.size(), desc.scratchpad_desc().get_size()));
    ladder.pieces.push_back({rows, dnnl::matmul(desc),
                             dnnl::memory(desc.src_desc(), cpu_engine(), nullptr),
                             dnnl::memory(desc.dst_desc(), cpu_engine(), nullptr),
                             dnnl::memory(desc.scratchpad_desc(), cpu_engine(), nullptr)});
  }
  // The oldest goes: it is made again when it is asked for.
  constexpr std::size_t kMostLadders = 1024;
  if (ladders.size() >= kMostLadders) ladders.erase(ladders.begin());
  ladders.push_back(std::move(ladder));
}

void TileGemm::Impl::prepare(const PanelLayout& layout, const Desc& panel) {
  if (find(layout) != nullptr) return;
  const char* const before = scratchpad.data();
  add_ladder(layout, panel);
  const auto rows = static_cast<std::size_t>(max_rows);
  a_tile.resize(std::max(a_tile.size(), rows * static_cast<std::size_t>(layout.k)));
  c_tile.resize(std::max(c_tile.size(), rows * static_cast<std::size_t>(layout.cols)));
  // Of all where it moved; of the new one anyway.
  const bool moved = scratchpad.data() != before;
  for (auto l = moved ? ladders.begin() : ladders.end() - 1; l != ladders.end(); ++l)
    for (Piece& p : l->pieces) p.scratchpad.set_data_handle(scratchpad.data());
}

const void* TileGemm::Impl::dense_a(const void* a, std::int64_t lda, std::int64_t rows,
                                    std::int64_t k, DType from, DType type) {
  if (from == type && (lda == k || rows == 1)) return a;
  for (std::int64_t r = 0; r < rows; ++r) {
    const void* row = element(a, from, r * lda);
    if (from == type)
      std::memcpy(element(static_cast<void*>(a_tile.data()), type, r * k), row,
                  static_cast<std::size_t>(k) * size_of(type));
    else
      to_float(row, from, k, a_tile.data() + r * k);
  }
  return a_tile.data();
}

void TileGemm::Impl::multiply(Ladder& ladder, const dnnl::memory& weight, const void* a,
                              std::int64_t rows, float* c) {
  auto piece = ladder.pieces.begin();
  while (rows > 0) {
    while (piece->rows > rows) ++piece;
    // oneDNN's handles are not const, but a source is only read.
    piece->a.set_data_handle(const_cast<void*>(a));
    piece->c.set_data_handle(c);
    // The C call: the C++ one builds a hash map of arguments each time.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, piece->a.get()},
                                         {DNNL_ARG_WEIGHTS, weight.get()},
                                         {DNNL_ARG_DST, piece->c.get()},
                                         {DNNL_ARG_SCRATCHPAD, piece->scratchpad.get()}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(piece->primitive.get(), stream.get(), 4, arguments),
        "could not run a matmul");
    a = element(a, ladder.layout.type, piece->rows * ladder.layout.k);
    c += piece->rows * ladder.layout.cols;
    rows -= piece->rows;
  }
}

TileGemm::TileGemm(int max_rows) {
  require(max_rows >= 1, "tile gemm: max_rows: got {}, expected at least 1", max_rows);
  guarded("tile gemm", [&] { impl_ = std::make_unique<Impl>(); });
  impl_->max_rows = max_rows;
}

TileGemm::TileGemm(TileGemm&&) noexcept = default;
TileGemm& TileGemm::operator=(TileGemm&&) noexcept = default;
TileGemm::~TileGemm() = default;

void TileGemm::prepare(const PackedWeight& weight) {
  if (weight.k() == 0) return;
  const auto& panels = weight.impl_->panels;
  guarded("tile gemm", [&] {
    for (const std::int64_t panel : {std::int64_t{0}, weight.panels() - 1})
      impl_->prepare(weight.impl_->layout(weight.k(), weight.panel_cols(panel)),
                     panels[static_cast<std::size_t>(panel)].get_desc());
  });
}

void TileGemm::run(const PackedWeight& weight, std::int64_t panel, const void* a, std::int64_t lda,
                   std::int64_t rows, float* c, std::int64_t ldc) {
  require(rows <= impl_->max_rows, "tile gemm: rows: got {}, expected at most {}", rows,
          impl_->max_rows);
  if (rows <= 0) return;
  const std::int64_t k = weight.k(), cols = weight.panel_cols(panel);
  if (k == 0) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(c + r * ldc, cols, 0.0F);
    return;
  }
  const PanelLayout layout = weight.impl_->layout(k, cols);
  if (impl_->find(layout) == nullptr) prepare(weight);
  const bool dense_c = ldc == cols || rows == 1;
  float* target = dense_c ? c : impl_->c_tile.data();
  guarded("tile gemm", [&] {
    const void* dense = impl_->dense_a(a, lda, rows, k, weight.dtype(), layout.type);
    impl_->multiply(*impl_->find(layout), weight.impl_->panels[static_cast<std::size_t>(panel)],
                    dense, rows, target);
  });
  if (dense_c) return;
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(target + r * cols, cols, c + r * ldc);
}

const char* gemm_engine_name(DType dtype) {
  return product_type(dtype) == DType::bf16 ? "onednn bf16" : "onednn fp32";
}

}  // namespace tilelace::cpu
