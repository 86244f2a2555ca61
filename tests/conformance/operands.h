// SPDX-License-Identifier: Apache-2.0
// Operands and results of one rank's calls of a problem, on any backend. Results lie between guard
// bytes. Each rank also makes the operands of all other ranks, to compute a reference from them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/shape.h"
#include "conformance/values.h"
#include "tilelace/tensor.h"

namespace tilelace::test {

/// The values of an operand.
enum class Fill : std::uint8_t {
  exact,   ///< values of {-1, 0, 1}, with few non-zeros in inputs, so that sums are exact
  normal,  ///< about N(0, 1), with many different bit patterns
};

/// Defines the values of a dense operand. Equal sources give equal values on every rank.
struct Source {
  Fill fill = Fill::exact;
  std::uint64_t seed = 0;
  std::int64_t per_row = 0;  ///< Fill::exact: the largest number of non-zeros per row
};

/// Allocates, fills and checks memory for operands. The memory is on the host, or on a device,
/// where the work is in stream order.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  /// Allocates memory, aligned to 64 bytes, that must live as long as the operands in it.
  virtual std::byte* make(std::size_t bytes) = 0;
  virtual std::byte* make_results(std::size_t bytes) { return make(bytes); }
  /// Fills `to` with the source's rows from `first_row` on.
  virtual void fill(const TensorView& to, const Source& source, std::int64_t first_row) = 0;
  virtual void set(void* data, std::uint8_t value, std::size_t bytes) = 0;
  virtual Judgement judge(const Judged& judged, bool exact) = 0;
  /// Compares elements bit by bit.
  virtual Difference compare(const void* got, const void* expected, DType type,
                             std::size_t count) = 0;
  /// Counts the bytes of `data` that are not kPoison.
  virtual std::uint64_t count_unpoisoned(const void* data, std::size_t bytes) = 0;
};

/// The layout of operands.
struct Layout {
  std::int64_t pad = 0;         ///< padding of each row, in units of 16 bytes
  std::int64_t offset = 0;      ///< offset of data in a cache line, in units of 16 bytes
  std::size_t guard = 1 << 16;  ///< bytes of a guard, enough to catch writes with a wrong stride
  bool inputs = false;          ///< whether inputs have guards, too
};

class Operands {
 public:
  Operands(Place& place, const Problem& problem, int rank, Fill fill, const Layout& layout = {});

  /// Sets Parts::roundings of results that are sums over ranks. Default: 1.
  void expect_roundings(int roundings) { roundings_ = roundings; }
  /// Switches to a problem with other rows but the same weights, and makes new inputs and results.
  void reshape(Place& place, const Problem& problem);

  /// Fills weights and biases. Every rank must pass the same seed.
  void fill_weights(std::uint64_t seed);
  /// Fills the inputs with values and the results with poison.
  void fill(std::uint64_t seed);
  /// Zeroes this rank's input, so that check() must fail.
  void drop_input();
  void drop_reference(int rank);  ///< zeroes the part of `rank` in the reference

  /// The tensors in the form that a call takes. `gathered` and `residual` are empty if the problem
  /// has no such tensor.
  struct Views {
    TensorView input, gathered, residual;
    std::vector<TensorView> weights, biases, outs;
    TensorView all_rows;  ///< ag_gemm: the input of all ranks, made by this rank
  };
  [[nodiscard]] const Views& views() const { return views_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const OpShape& shape() const { return shape_; }
  [[nodiscard]] bool exact() const { return fill_ == Fill::exact; }
  /// results() is one span over all results and guards. pieces() is for dense results only. It has
  /// a span per result: first the outs, then gathered.
  [[nodiscard]] std::span<std::byte> results() const { return results_.region; }
  [[nodiscard]] std::vector<std::span<std::byte>> pieces() const;

  /// Result i and the operands that determine it. Valid as long as this object.
  [[nodiscard]] Judged judged(std::size_t i) const;
  /// Checks all results and guards, and returns what is wrong, or empty text. All work must have
  /// finished. Raises `worst` to the largest relative error of a result against fp64. Results that
  /// are exact, have an activation or have few elements do not count for `worst`.
  [[nodiscard]] std::string check(double* worst = nullptr) const;
  /// Returns a text that says how many bytes of results were written, or empty text if none were.
  [[nodiscard]] std::string check_untouched() const;

 private:
  using Troubles = std::vector<std::string>;
  /// Tensors, and the memory that holds them and their guards.
  struct Guarded {
    std::span<std::byte> region;
    std::vector<TensorView> views;
  };
  struct Extent {
    std::int64_t rows, cols;
  };
  void lay();
  [[nodiscard]] std::int64_t stride_of(std::int64_t cols) const;
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows, std::int64_t cols) const;
  /// Makes a dense matrix, for references.
  TensorView make_dense(std::int64_t rows, std::int64_t cols);
  TensorView make_input(std::int64_t rows, std::int64_t cols);
  Guarded make_guarded(const std::vector<Extent>& extents, std::size_t guard, bool results);
  [[nodiscard]] Source source(std::uint64_t seed, std::uint64_t which, std::int64_t per_row) const;
  void check_out(std::size_t i, Troubles& troubles, double* worst) const;
  void check_gathered(Troubles& troubles) const;
  void check_guards(const Guarded& guarded, const char* what, Troubles& troubles) const;

  Place* place_;
  Problem problem_;
  int rank_;
  Fill fill_;
  Layout layout_;
  OpShape shape_;
  std::vector<std::int64_t> borders_;
  int roundings_ = 1;
  std::uint64_t weight_seed_ = 0;
  std::vector<TensorView> reference_weights_;  ///< weights of all parts (OpShape), in order
  TensorView reference_;                       ///< inputs of all parts, in order
  Views views_;
  std::vector<Guarded> inputs_;
  Guarded results_;
};

}  // namespace tilelace::test
