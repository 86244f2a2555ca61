// SPDX-License-Identifier: Apache-2.0
// What the toy type of toy_type.py gives on CPU ranks: its conversions by their definition, results
// of all ops by the values and the bounds of tests/conformance, and a call in C. Built by that
// script, in a tree that has the type.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "conformance/cases.h"
#include "conformance/runner.h"
#include "core/half.h"
#include "tilelace/c.h"
#include "tilelace/op_table.h"

namespace {

using tilelace::DType;
using namespace tilelace::conformance;

constexpr int kCases = 10;  ///< of an op, a number of ranks and a kind of values

int failures = 0;

void fail(const std::string& what) {
  ++failures;
  std::printf("wrong: %s\n", what.c_str());
}

/// The number behind the bits: a sign, five bits of exponent, two of mantissa.
double number_of(int bits) {
  const int exponent = bits >> 2 & 31;
  const int mantissa = bits & 3;
  const double sign = bits < 128 ? 1 : -1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -16) : std::ldexp(4 + mantissa, exponent - 17));
}

/// The bits of the nearest number that is not negative, the even ones of two; what comes after the
/// largest counts as its neighbour, and is infinity.
int nearest(double value) {
  int best = 0;
  const auto error = [&](int bits) {
    return std::fabs(value - (bits == 0x7c ? 0x1p16 : number_of(bits)));
  };
  for (int bits = 1; bits <= 0x7c; ++bits)
    if (error(bits) < error(best) || (error(bits) == error(best) && bits % 2 == 0)) best = bits;
  return best;
}

float read(std::uint8_t bits) { return tilelace::load_element(&bits, DType::toy8, 0); }
int written(float value) {
  std::uint8_t bits = 0;
  tilelace::store_element(&bits, DType::toy8, 0, value);
  return bits;
}

void check_conversions() {
  int reads = 0, writes = 0;
  for (int bits = 0; bits < 256; ++bits) {
    const double number = number_of(bits);
    const float got = read(static_cast<std::uint8_t>(bits));
    reads += std::isnan(number) ? !std::isnan(got) || !std::isnan(read(written(NAN) & 0xff))
                                : got != number || std::signbit(got) != std::signbit(number);
  }
  // Numbers, what lies between them, and their neighbours, up to beyond the largest.
  for (int eighth = 0; eighth <= 8 * 0x7c; ++eighth) {
    const double low = number_of(eighth / 8);
    const double high = eighth / 8 >= 0x7b ? 0x1p16 : number_of(eighth / 8 + 1);
    const auto middle = static_cast<float>(low + (high - low) * (eighth % 8) / 8);
    if (!std::isfinite(middle)) continue;
    for (const float f : {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 1e9F)}) {
      const int expected = nearest(f);
      writes += written(f) != expected;
      writes += written(-f) != expected + 128;
    }
  }
  if (reads > 0) fail("reading: " + std::to_string(reads) + " of 256, expected none");
  if (writes > 0) fail("rounding: " + std::to_string(writes) + ", expected none");
}

/// Of random ones, those of odd m and k. `exact`: results bit by bit, on every route; else by
/// bounds, which know of one rounding on the way, not of those of a ring.
std::vector<Case> odd_cases(tilelace::Op op, int ranks, bool exact) {
  const auto table = make_cases(
      {.op = op, .ranks = ranks, .count = 12 * kCases, .seed = 31, .activations = !exact});
  std::vector<Case> odd;
  for (Case c : table.cases) {
    if (c.problem.m % 2 == 0 || c.problem.k % 2 == 0) continue;
    const bool rounds_often =
        c.options.route != tilelace::RouteKind::mesh && c.problem.op != tilelace::Op::ag_gemm;
    if (!exact && rounds_often) continue;
    c.problem.dtype = DType::toy8;
    odd.push_back(c);
    if (odd.size() == kCases) break;
  }
  if (odd.size() < kCases) fail("cases: got " + std::to_string(odd.size()) + ", expected more");
  return odd;
}

void check_results() {
  for (const tilelace::OpRow& op : tilelace::op_table())
    for (const int ranks : {2, 3})
      for (const auto fill : {tilelace::test::Fill::exact, tilelace::test::Fill::normal}) {
        RunOptions options;
        options.fill = fill;
        const bool exact = fill == tilelace::test::Fill::exact;
        Runner runner(ranks, 2);
        for (const auto& failure : runner.run(odd_cases(op.op, ranks, exact), options))
          fail(std::string(exact ? "exact: " : "bounds: ") + failure);
      }
}

static_assert(static_cast<int>(DType::toy8) == TILELACE_TOY8);

/// A product of ones.
void check_c() {
  constexpr std::int64_t kRows = 3, kSide = 16;
  constexpr std::uint8_t kOne = 0x3c;
  alignas(16) std::array<std::uint8_t, kRows * kSide> x, out;
  alignas(16) std::array<std::uint8_t, kSide * kSide> weight;
  x.fill(kOne), weight.fill(kOne), out.fill(kOne);
  tilelace_problem problem{};
  problem.struct_size = sizeof(problem);
  problem.op = TILELACE_GEMM_AR;
  problem.m = kRows;
  problem.k = kSide;
  problem.dtype = TILELACE_TOY8;
  const tilelace_tensor weights = {weight.data(), TILELACE_TOY8, kSide, kSide, kSide};
  problem.weights = &weights;
  problem.num_weights = 1;
  tilelace_gemm_reduce_args args{};
  args.struct_size = sizeof(args);
  args.m = kRows;
  args.x = {x.data(), TILELACE_TOY8, kRows, kSide, kSide};
  args.weight = weights;
  args.out = {out.data(), TILELACE_TOY8, kRows, kSide, kSide};
  tilelace_communicator* member = nullptr;
  if (tilelace_communicator_threads(1, nullptr, &member) != TILELACE_OK ||
      tilelace_prepare(member, &problem, 1) != TILELACE_OK ||
      tilelace_gemm_ar(member, &args) != TILELACE_OK)
    fail(std::string("C: ") + tilelace_last_error());
  tilelace_communicator_destroy(member);
  for (const auto bits : out)
    if (number_of(bits) != kSide)
      return fail("C: got " + std::to_string(number_of(bits)) + ", expected 16");
}

}  // namespace

int main() {
  check_conversions();
  check_results();
  check_c();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
