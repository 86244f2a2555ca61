// SPDX-License-Identifier: Apache-2.0
// What the toy op of toy_op.py gives on CPU ranks, in C++ and in C, and whether the checker draws
// it. Built by that script, in a tree that has the op.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "check/sweep.h"
#include "tilelace/c.h"
#include "tilelace/op_table.h"
#include "tilelace/tilelace.h"

namespace {

using tilelace::DType;
using Rows = std::vector<std::int64_t>;

constexpr std::int64_t kCols = 40;  // no multiple of a tile's
constexpr float kUntouched = -77;

int failures = 0;  // of the main thread

void fail(const std::string& what) {
  ++failures;
  std::printf("wrong: %s\n", what.c_str());
}

float value(std::int64_t row, std::int64_t col) {
  return static_cast<float>((row * 7 + col * 3) % 23 - 11);
}

/// A dense matrix of fp32 or, as upper halves, of bf16.
struct Matrix {
  Matrix(DType type, std::int64_t n)
      : dtype(type), rows(n), data(static_cast<std::size_t>(std::max<std::int64_t>(n, 1) * kCols)) {
    for (std::int64_t i = 0; i < n * kCols; ++i) set(i, kUntouched);
  }
  void set(std::int64_t i, float v) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    const auto upper = static_cast<std::uint16_t>(bits >> 16U);
    if (dtype == DType::fp32)
      data[static_cast<std::size_t>(i)] = bits;
    else
      std::memcpy(reinterpret_cast<std::byte*>(data.data()) + 2 * i, &upper, 2);
  }
  [[nodiscard]] float get(std::int64_t i) const {
    if (dtype == DType::fp32) return std::bit_cast<float>(data[static_cast<std::size_t>(i)]);
    std::uint16_t upper = 0;
    std::memcpy(&upper, reinterpret_cast<const std::byte*>(data.data()) + 2 * i, 2);
    return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16U);
  }
  tilelace::TensorView view() { return tilelace::dense(data.data(), dtype, rows, kCols); }
  tilelace_tensor c() {
    return {data.data(), static_cast<std::int32_t>(dtype), rows, kCols, kCols};
  }

  DType dtype;
  std::int64_t rows;
  std::vector<std::uint32_t> data;
};

std::int64_t sum(const Rows& rows, std::size_t count) {
  std::int64_t m = 0;
  for (std::size_t r = 0; r < count; ++r) m += rows[r];
  return m;
}

Matrix shard(DType dtype, const Rows& rows, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  Matrix a(dtype, rows[r]);
  for (std::int64_t i = 0; i < a.rows * kCols; ++i)
    a.set(i, value(sum(rows, r) + i / kCols, i % kCols));
  return a;
}

std::string compare(const Matrix& got, float scale) {
  for (std::int64_t i = 0; i < got.rows * kCols; ++i) {
    const float expected = scale * value(i / kCols, i % kCols);
    if (got.get(i) != expected)
      return "row " + std::to_string(i / kCols) + " column " + std::to_string(i % kCols) +
             ": got " + std::to_string(got.get(i)) + ", expected " + std::to_string(expected);
  }
  return {};
}

/// Runs f(rank) on a thread each; what they say is wrong is said here.
template <class F>
void on_ranks(const std::string& name, int ranks, F f) {
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        wrong[static_cast<std::size_t>(r)] = f(r);
      } catch (const std::exception& e) {
        wrong[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  for (const auto& text : wrong)
    if (!text.empty()) fail(name + ": " + text);
}

tilelace::Problem problem_of(DType dtype, const Rows& rows, bool gathered) {
  tilelace::Problem p;
  p.op = tilelace::Op::toy_scale;
  p.ranks = static_cast<int>(rows.size());
  p.m = sum(rows, rows.size());
  p.n = {kCols};
  p.k = kCols;
  p.dtype = dtype;
  p.return_gathered = gathered;
  p.rows = rows;
  return p;
}

void check_cpp(DType dtype, const Rows& rows, const tilelace::PlanOptions& options) {
  const bool gathered = dtype == DType::fp32;
  const tilelace::Problem p = problem_of(dtype, rows, gathered);
  tilelace::CommunicatorOptions group;
  group.workers = 2;
  auto members = tilelace::Communicator::threads(p.ranks, group);
  on_ranks("C++", p.ranks, [&](int rank) -> std::string {
    auto& member = members[static_cast<std::size_t>(rank)];
    const std::vector<tilelace::Preparation> prepared{{p, {}, options}};
    member.prepare(prepared);
    Matrix a = shard(dtype, rows, rank);
    for (int call = 0; call < 3; ++call) {
      Matrix out(dtype, p.m), all(dtype, gathered ? p.m : 0);
      const tilelace::TensorView to = out.view();
      tilelace::CallArgs args{p, {a.view()}};
      args.operands.out = {&to, 1};
      if (gathered) args.operands.gathered = all.view();
      tilelace::call(member, args, options);
      if (auto text = compare(out, 2); !text.empty()) return "out, " + text;
      if (auto text = compare(all, 1); !text.empty()) return "gathered, " + text;
    }
    return {};
  });
}

void check_c(const Rows& rows) {
  const auto ranks = static_cast<std::int32_t>(rows.size());
  const std::int64_t m = sum(rows, rows.size());
  std::vector<tilelace_communicator*> members(rows.size());
  if (tilelace_communicator_threads(ranks, nullptr, members.data()) != TILELACE_OK)
    return fail(std::string("C: ") + tilelace_last_error());
  on_ranks("C", ranks, [&](int rank) -> std::string {
    auto* member = members[static_cast<std::size_t>(rank)];
    tilelace_problem p{};
    p.struct_size = sizeof(p);
    p.op = static_cast<std::int32_t>(*tilelace::op_of("toy_scale"));
    p.m = m;
    p.k = kCols;
    p.rows = rows.data();
    p.num_rows = rows.size();
    if (tilelace_prepare(member, &p, 1) != TILELACE_OK) return tilelace_last_error();
    Matrix a = shard(DType::bf16, rows, rank), out(DType::bf16, m);
    const tilelace_operand operands[] = {{"a", a.c()}, {"out", out.c()}};
    tilelace_call_args args{};
    args.struct_size = sizeof(args);
    args.op = "toy_scale";
    args.m = m;
    args.operands = operands;
    args.num_operands = 2;
    args.rows = rows.data();
    args.num_rows = rows.size();
    if (tilelace_call(member, &args) != TILELACE_OK) return tilelace_last_error();
    return compare(out, 2);
  });
  for (auto* member : members) tilelace_communicator_destroy(member);
}

/// Random sequences of the checker have the op, and it finds nothing in them.
void check_sweep() {
  int drawn = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    const auto config = tilelace::check::random_config(1, i);
    if (std::none_of(config.calls.begin(), config.calls.end(),
                     [](const auto& call) { return call.op == tilelace::Op::toy_scale; }))
      continue;
    ++drawn;
    for (const auto& finding : tilelace::check::check(config).findings) fail(finding.text);
  }
  if (drawn == 0) fail("sweep: drew no toy_scale");
  std::printf("sweep: toy_scale in %d of 60\n", drawn);
}

void check_gpus_are_refused() {
  try {
    tilelace::make_plan(problem_of(DType::bf16, {8, 8}, false), tilelace::cuda_machine());
    fail("plan on GPUs: got one, expected an error");
  } catch (const tilelace::Error& e) {
    const std::string text = e.what();
    if (!text.starts_with("toy_scale: device: got cuda, expected cpu")) fail(text);
  }
}

}  // namespace

int main() {
  using tilelace::Path;
  using tilelace::Transport;
  for (const Rows& rows : {Rows{37, 5}, Rows{37, 0, 5}}) {
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (const Path path : {Path::fused, Path::medium, Path::unfused})
        for (const Transport transport : {Transport::push, Transport::pull, Transport::store}) {
          tilelace::PlanOptions options;
          options.path = path;
          options.transport = transport;
          options.tile_m = 16;
          options.tile_n = 16;
          options.straddle = path == Path::fused && transport == Transport::push;
          check_cpp(dtype, rows, options);
        }
    check_c(rows);
  }
  check_sweep();
  check_gpus_are_refused();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
