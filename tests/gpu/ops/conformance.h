// SPDX-License-Identifier: Apache-2.0
// One rank's side of a case: calls with changing inputs, eager and replayed, every element of every
// result compared with what the rank makes itself.
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

/// What is left out of a call on purpose: the test of the test.
enum class Drop : std::uint8_t { nothing, input, reference };

struct Tally {
  int calls = 0;
  int wrong = 0;  ///< calls with a wrong result
  int blind = 0;  ///< calls without an element that could be wrong
  bool replayed = true;
  double worst = 0;   ///< relative error against fp64, of the larger results without activation
  std::string first;  ///< what was wrong first
};

class OpCheck {
 public:
  OpCheck(Rank& rank, double timeout_s);
  OpCheck(const OpCheck&) = delete;
  OpCheck& operator=(const OpCheck&) = delete;
  ~OpCheck();

  /// Collective; an even number of calls. Throws what the op does.
  Tally run(cuda::RankOps& ops, const Case& c, Drop drop);

 private:
  /// A call's own operands, and what was there of its results.
  struct Side {
    std::optional<DeviceArena> memory;  ///< of the case's operands
    std::byte* results;
    std::byte *kept, *seen;  ///< of the eager pair, to be met again; by what came behind the calls
    std::uint64_t seed = 0;
    std::optional<DevicePlace> place;
    std::optional<test::Operands> operands;
    cuda::CallTensors tensors;
  };
  /// Calls of the first `sides` sides; with `again` on the data of the eager pair.
  struct Round {
    int sides = 1;
    std::string how;
    bool again = false;
  };

  std::byte* make(std::size_t bytes);
  /// Weights, shape, places of the case.
  void begin(const Case& c);
  void lay(const Case& c, Side& side);
  /// Inputs of the side's next call, poison in its results.
  void prepare(Side& side, Drop drop);
  /// Calls enqueued by `launch`, then compared.
  void round(cuda::RankOps& ops, const Case& c, Drop drop, const Round& r,
             const std::function<void()>& launch);
  void inspect(const Case& c, const Side& side, const std::string& how, bool again);
  void check_seen(const Side& side, std::string& trouble);
  /// gemm_ar: the same bits on every rank. Collective.
  void check_equal(const Side& side, std::string& trouble);
  void call(cuda::RankOps& ops, const Case& c, const Side& side);
  /// Copies what a user's next kernel would read, before the host waits for anything.
  void look(const Side& side);
  /// Poisons weights and operand; the kernel before the call writes them again, late.
  void write_late(const Side& side);

  Rank& rank_;
  double timeout_s_;
  bool shared_ = false;  ///< ranks share devices
  StallWatch stall_;
  std::vector<void*> all_;
  std::unique_ptr<ReachableMemory> outs_;
  std::array<Side, 2> sides_{};
  std::byte* aside_ = nullptr;  ///< what is written late: weights and the operand
  int victim_ = 0;
  std::uint64_t next_seed_ = 0;
  Tally tally_;
};

}  // namespace tilelace::gpu_test
