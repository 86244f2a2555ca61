// SPDX-License-Identifier: Apache-2.0
// Operands and results of one rank's calls of a problem, on any backend. Results lie between guard
// bytes. The rank makes the operands of all ranks itself and so has a reference.
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
  exact,   ///< {-1, 0, 1}, few non-zeros per row: sums are exact in every type
  normal,  ///< about N(0, 1), with many different bit patterns
};

/// The values of a dense operand; equal for all who make it.
struct Source {
  Fill fill = Fill::exact;
  std::uint64_t seed = 0;
  std::int64_t per_row = 0;  ///< non-zeros per row (exact)
};

/// Memory for operands, and operations on values there: host memory, or device memory in stream
/// order.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  /// Allocates memory, aligned to 64 bytes, that lives as long as the operands.
  virtual std::byte* make(std::size_t bytes) = 0;
  virtual std::byte* make_results(std::size_t bytes) { return make(bytes); }
  /// Fills with a source's rows from `first_row` on.
  virtual void fill(const TensorView& to, const Source& source, std::int64_t first_row) = 0;
  virtual void set(void* data, std::uint8_t value, std::size_t bytes) = 0;
  virtual Judgement judge(const Judged& judged, bool exact) = 0;
  /// Compares elements bit by bit.
  virtual Difference compare(const void* got, const void* expected, DType type,
                             std::size_t count) = 0;
  /// The number of these bytes that are not poison.
  virtual std::uint64_t count_unpoisoned(const void* data, std::size_t bytes) = 0;
};

/// The layout of operands.
struct Layout {
  std::int64_t pad = 0;         ///< padding of rows, in units of 16 bytes
  std::int64_t offset = 0;      ///< distance of data from a cache line, in units of 16 bytes
  std::size_t guard = 1 << 16;  ///< bytes; a wrong stride cannot reach beyond a guard
  bool inputs = false;          ///< inputs have guards, too
};

class Operands {
 public:
  Operands(Place& place, const Problem& problem, int rank, Fill fill, const Layout& layout = {});

  /// Sets how often a rank's part of a sum is rounded on its way. Default: once.
  void expect_roundings(int roundings) { roundings_ = roundings; }
  /// For calls with other rows and the same weights. Inputs and results get new memory.
  void reshape(Place& place, const Problem& problem);

  /// Fills weights and biases. A seed gives the same values on every rank.
  void fill_weights(std::uint64_t seed);
  /// Fills the inputs, and the results with poison.
  void fill(std::uint64_t seed);
  /// To test the test: leaves out this rank's input, or a rank's part of the reference.
  void drop_input();
  void drop_reference(int rank);

  /// The tensors in the form that a call takes. `gathered` and `residual` are empty if the problem
  /// has none.
  struct Views {
    TensorView input, gathered, residual;
    std::vector<TensorView> weights, biases, outs;
    TensorView all_rows;  ///< ag_gemm: the input of all ranks, made by this rank
  };
  [[nodiscard]] const Views& views() const { return views_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const OpShape& shape() const { return shape_; }
  [[nodiscard]] bool exact() const { return fill_ == Fill::exact; }
  /// The memory of all results with their guards. If they are dense, one span each: outs, then
  /// gathered.
  [[nodiscard]] std::span<std::byte> results() const { return results_.region; }
  [[nodiscard]] std::vector<std::span<std::byte>> pieces() const;

  /// What result i must be. Valid as long as the operands.
  [[nodiscard]] Judged judged(std::size_t i) const;
  /// Checks all results and their guards; returns what is wrong, or empty text. All work must have
  /// finished. `worst` is raised to the largest relative error against fp64, for larger results
  /// without activation.
  [[nodiscard]] std::string check(double* worst = nullptr) const;
  /// Returns what was written, if any result was; else empty text.
  [[nodiscard]] std::string check_untouched() const;

 private:
  using Troubles = std::vector<std::string>;
  /// A tensor in poisoned memory.
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
  std::vector<TensorView> reference_weights_;  ///< parts of all ranks, one after the other
  TensorView reference_;                       ///< the input, likewise
  Views views_;
  std::vector<Guarded> inputs_;
  Guarded results_;
};

}  // namespace tilelace::test
