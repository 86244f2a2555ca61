// SPDX-License-Identifier: Apache-2.0
// One rank's side of a case: calls with changing inputs, eager and replayed, every element of every
// result compared with what the rank makes itself.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/ag_gemm.h"
#include "harness.h"
#include "ops/cases.h"

namespace tilelace::gpu_test {

/// What is left out of a call on purpose: the test of the test.
enum class Drop : std::uint8_t { nothing, input, reference };

struct Tally {
  int calls = 0;
  int wrong = 0;      ///< calls with a wrong result
  double worst = 0;   ///< relative error against fp64, of the larger results without activation
  std::string first;  ///< what was wrong first
};

class OpCheck {
 public:
  OpCheck(Rank& rank, double timeout_s);
  OpCheck(const OpCheck&) = delete;
  OpCheck& operator=(const OpCheck&) = delete;
  ~OpCheck();

  /// Collective; an even number of calls. Throws what AgGemm does.
  Tally run(cuda::AgGemm& op, const Case& c, Drop drop);

 private:
  /// A call's own tensors. Pieces of `results`: outs, then gathered, with poison around each.
  struct Side {
    std::byte *a, *reference, *results;
    std::uint64_t seed = 0;
    cuda::AgGemmTensors tensors;
    std::vector<std::byte*> pieces;
  };

  void* make(std::int64_t elements);
  /// Weights, borders, places of the case.
  void begin(const Case& c);
  void lay(const Case& c, Side& side) const;
  void fill(const Case& c, void* to, std::int64_t row, std::int64_t rows, std::uint64_t seed);
  /// Inputs of the side's next call, poison in its results.
  void prepare(const Case& c, Side& side, Drop drop);
  /// Calls of the first `sides` sides, enqueued by `launch`, then compared.
  void round(cuda::AgGemm& op, const Case& c, Drop drop, int sides, const std::string& how,
             const std::function<void()>& launch);
  void inspect(const Case& c, const Side& side, const std::string& how);
  void check_out(const Case& c, const Side& side, std::size_t out, std::string& trouble);
  void check_gathered(const Case& c, const Side& side, std::string& trouble);
  void check_guards(const Case& c, const Side& side, std::string& trouble);
  void call(cuda::AgGemm& op, const Case& c, const Side& side);

  Rank& rank_;
  double timeout_s_;
  bool shared_ = false;  ///< ranks share devices
  std::vector<void*> all_;
  std::array<Side, 2> sides_;
  std::vector<void*> weights_, biases_;
  std::size_t results_bytes_ = 0;
  std::vector<std::int64_t> borders_;
  int victim_ = 0;
  std::uint64_t next_seed_ = 0;
  Tally tally_;
};

}  // namespace tilelace::gpu_test
