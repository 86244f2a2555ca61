// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness.h"
#include "json_lines.h"

namespace tilelace::gpu_test {

struct LitmusResult;

struct LitmusOptions {
  int ranks = 0;
  std::uint32_t rounds = 20000;
  std::string only;  ///< runs only cases whose names contain this
  std::string json;
  bool append = false;
  int connections = 0;  ///< CUDA_DEVICE_MAX_CONNECTIONS of this process; 0: not changed
  bool child = true;    ///< whether a process with one connection repeats the copy engine's cases
};

/// One line of the printed table.
struct LitmusRow {
  LitmusRow(std::string name_in, std::string mutant_in, bool must_fail_in, double bytes_in)
      : name(std::move(name_in)),
        mutant(std::move(mutant_in)),
        must_fail(must_fail_in),
        bytes(bytes_in) {}

  std::string name;
  std::string mutant;  ///< empty: the unchanged protocol
  bool must_fail;      ///< whether this mutant must fail on every machine
  double bytes;        ///< bytes of a transfer; 0: several sizes
  double rounds = 0;
  double wrong = 0;
  double checked = 0;
  double expected_checked = 0;
  double us = 0;      ///< time of a round
  std::string first;  ///< the first wrong word

  [[nodiscard]] bool good() const {
    if (checked != expected_checked) return false;
    return mutant.empty() ? wrong == 0 : !must_fail || wrong > 0;
  }
  [[nodiscard]] std::string verdict() const;
};

[[nodiscard]] bool selected(const LitmusOptions& options, const std::string& name);

/// Collective. Every rank gets the rows; only rank 0 writes records to `json`.
std::vector<LitmusRow> run_litmus_cases(Rank& rank, const LitmusOptions& options, JsonLines& json);
std::vector<LitmusRow> run_copy_litmus(Rank& rank, const LitmusOptions& options, JsonLines& json);

/// Gathers every rank's result, which is in its device's memory, as numbers: wrong words, checked
/// words, seconds, then the first wrong word (epoch, source, lane, word, got, expected).
/// Collective.
std::vector<std::vector<double>> gather_result(const Rank& rank, const LitmusResult* result,
                                               double seconds);

/// The fields that all litmus records have.
Json litmus_record(const LitmusRow& row, int ranks, int connections);

}  // namespace tilelace::gpu_test
