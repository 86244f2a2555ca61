// SPDX-License-Identifier: Apache-2.0
// What one rank's calls of a problem take and must come to, on any backend: operands, results amid
// guard bytes, and a reference of operands that the rank makes itself.
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

/// What fills an operand.
enum class Fill : std::uint8_t {
  exact,   ///< {-1, 0, 1}, few non-zeros a row: sums are exact in every type
  normal,  ///< about N(0, 1): every bit pattern of a number is likely
};

/// The values of a dense operand; the same whoever asks.
struct Source {
  Fill fill = Fill::exact;
  std::uint64_t seed = 0;
  std::int64_t per_row = 0;  ///< non-zeros (exact)
};

/// Where operands lie, and what is done to values there: a host's memory, or a device's in the
/// order of a stream.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  /// Aligned to 64 bytes, for as long as the operands.
  virtual std::byte* make(std::size_t bytes) = 0;
  virtual std::byte* make_results(std::size_t bytes) { return make(bytes); }
  /// With a source's rows from `first_row` on.
  virtual void fill(const TensorView& to, const Source& source, std::int64_t first_row) = 0;
  virtual void set(void* data, std::uint8_t value, std::size_t bytes) = 0;
  virtual Judgement judge(const Judged& judged, bool exact) = 0;
  /// So many elements, bit by bit.
  virtual Difference compare(const void* got, const void* expected, DType type,
                             std::size_t count) = 0;
  /// Bytes among these that are not the poison.
  virtual std::uint64_t count_unpoisoned(const void* data, std::size_t bytes) = 0;
};

/// How operands lie.
struct Layout {
  std::int64_t pad = 0;         ///< 16-byte units by which strides exceed the row
  std::int64_t offset = 0;      ///< 16-byte units by which data is off a cache line
  std::size_t guard = 1 << 16;  ///< bytes; more than a wrong stride reaches beyond a result
  bool inputs = false;          ///< these have guards, too
};

class Operands {
 public:
  Operands(Place& place, const Problem& problem, int rank, Fill fill, const Layout& layout = {});

  /// How often a rank's part of a sum is rounded on its way; else once.
  void expect_roundings(int roundings) { roundings_ = roundings; }
  /// For calls of other rows with the same weights; inputs and results lie elsewhere then.
  void reshape(Place& place, const Problem& problem);

  /// Weights and biases; a seed says the same on every rank.
  void fill_weights(std::uint64_t seed);
  /// Inputs; poison in the results.
  void fill(std::uint64_t seed);
  /// The test of the test: without this rank's input, or without a rank's part in the reference.
  void drop_input();
  void drop_reference(int rank);

  /// As a call takes them; `gathered` and `residual` are empty where the problem has none.
  struct Views {
    TensorView input, gathered, residual;
    std::vector<TensorView> weights, biases, outs;
    TensorView all_rows;  ///< ag_gemm: the input of all ranks, made by this one
  };
  [[nodiscard]] const Views& views() const { return views_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const OpShape& shape() const { return shape_; }
  [[nodiscard]] bool exact() const { return fill_ == Fill::exact; }
  /// All of the results with what lies around them; each alone, if dense: outs, then gathered.
  [[nodiscard]] std::span<std::byte> results() const { return results_.region; }
  [[nodiscard]] std::vector<std::span<std::byte>> pieces() const;

  /// What result i must come to. Is good as long as the operands are.
  [[nodiscard]] Judged judged(std::size_t i) const;
  /// What is wrong with any result, or around it; empty: nothing. All work must be done. `worst`:
  /// is raised to the relative error against fp64, of larger results without activation.
  [[nodiscard]] std::string check(double* worst = nullptr) const;
  /// Unless no result has been written.
  [[nodiscard]] std::string check_untouched() const;

 private:
  using Troubles = std::vector<std::string>;
  /// Tensors in poisoned memory.
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
  /// Rows one after the other, for references.
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
  std::vector<TensorView> reference_weights_;  ///< the parts one behind the other
  TensorView reference_;                       ///< likewise
  Views views_;
  std::vector<Guarded> inputs_;
  Guarded results_;
};

}  // namespace tilelace::test
