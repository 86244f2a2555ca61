// SPDX-License-Identifier: Apache-2.0
// One rank's part of a case: calls with changing inputs, eager and in graphs. All elements of all
// results are compared with a reference that the rank makes itself.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/rank_ops.h"
#include "device_place.h"
#include "harness.h"
#include "ops/cases.h"
#include "ops/reachable_memory.h"
#include "ops/stall.h"

namespace tilelace::gpu_test {

/// What is left out of a call on purpose, to test the test.
enum class Drop : std::uint8_t { nothing, input, reference };

struct Tally {
  int calls = 0;
  int wrong = 0;  ///< calls with a wrong result
  int blind = 0;  ///< calls whose result has no elements on this rank
  bool replayed = true;
  double worst = 0;   ///< largest relative error against fp64, without small or activated results
  std::string first;  ///< the first fault, as text
};

class OpCheck {
 public:
  OpCheck(Rank& rank, double timeout_s);
  OpCheck(const OpCheck&) = delete;
  OpCheck& operator=(const OpCheck&) = delete;
  ~OpCheck();

  /// Makes the case's calls and checks their results. Collective. Throws what the op throws.
  Tally run(cuda::RankOps& ops, const Case& c, Drop drop);

 private:
  /// The operands of one of a pair of calls, and copies of the call's results.
  struct Side {
    std::optional<DeviceArena> memory;  ///< memory of the case's operands
    std::byte* results;
    std::byte *kept, *seen;  ///< `kept`: results of an eager call; `seen`: copies made by look()
    std::uint64_t seed = 0;
    std::optional<DevicePlace> place;
    std::optional<test::Operands> operands;
    cuda::CallTensors tensors;
  };
  /// Calls on sides_[0] to sides_[sides - 1]. `again`: with the inputs that gave Side::kept.
  struct Round {
    int sides = 1;
    std::string how;
    bool again = false;
  };

  std::byte* make(std::size_t bytes);
  /// Sets up weights, shape and memory of the case.
  void begin(const Case& c);
  void lay(const Case& c, Side& side);
  /// Fills the side's inputs with values for the next call, and the side's results with poison.
  void prepare(Side& side, Drop drop);
  /// Makes a round of calls and compares the results.
  void round(cuda::RankOps& ops, const Case& c, Drop drop, const Round& r,
             const std::function<void()>& launch);
  void inspect(const Side& side, const std::string& how, bool again);
  void check_seen(const Side& side, std::string& trouble);
  /// gemm_ar: checks that all ranks have the same bits. Collective.
  void check_equal(const Side& side, std::string& trouble);
  void call(cuda::RankOps& ops, const Case& c, const Side& side);
  /// Copies the results to `seen` in stream order, as a user's next kernel would read them.
  void look(const Side& side);
  /// Poisons weights and operand, and enqueues a late copy (stress_kernels.h) that restores them.
  void write_late(const Side& side);

  Rank& rank_;
  double timeout_s_;
  bool shared_ = false;  ///< whether ranks share devices
  StallWatch stall_;
  std::vector<void*> all_;
  std::unique_ptr<ReachableMemory> outs_;
  std::array<Side, 2> sides_{};
  std::byte* aside_ = nullptr;  ///< copies of weights and operand, from which write_late() restores
  int victim_ = 0;
  std::uint64_t next_seed_ = 0;
  Tally tally_;
};

}  // namespace tilelace::gpu_test
