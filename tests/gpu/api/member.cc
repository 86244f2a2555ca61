// SPDX-License-Identifier: Apache-2.0
#include "api/member.h"

#include <fmt/format.h>

#include <thread>

#include "backend/cuda/cuda_check.h"
#include "gemm/data.h"
#include "plan/ag_gemm.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr std::size_t kGuard = 4096;
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols) * 2;
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t results_bytes(const Problem& p) {
  std::size_t bytes = kGuard;
  for (std::size_t i = 0; i < p.outputs(); ++i) bytes += padded(bytes_of(p.m, p.n[i])) + kGuard;
  return bytes + (p.return_gathered ? padded(bytes_of(p.m, p.k)) + kGuard : 0);
}

}  // namespace

Finding with_member(Communicator& comm, int device, double timeout_s, const Body& body) {
  Member member{&comm, device, nullptr, timeout_s};
  try {
    check(cudaSetDevice(device), "the rank's device");
    check(cudaStreamCreateWithFlags(&member.stream, cudaStreamNonBlocking), "the rank's stream");
    const Finding found = body(member);
    cudaStreamDestroy(member.stream);
    return found.empty() ? found : fmt::format("rank {}: {}", member.rank(), found);
  } catch (const Error& e) {
    comm.abort();
    return fmt::format("rank {}: {} error: {}", comm.rank(), name_of(e.kind()), e.what());
  }
}

Finding on_threads(int ranks, double timeout_s, const Body& body, int max_workers) {
  CommunicatorOptions options;
  options.device = Device::cuda;
  options.timeout_s = timeout_s;
  options.max_workers = max_workers;
  std::vector<Communicator> comms = Communicator::threads(ranks, options);
  std::vector<Finding> found(comms.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < comms.size(); ++r)
    threads.emplace_back(
        [&, r] { found[r] = with_member(comms[r], static_cast<int>(r), timeout_s, body); });
  for (auto& t : threads) t.join();
  // What a rank found itself says more than that another one gave up.
  for (const bool echo : {false, true})
    for (const Finding& f : found)
      if (!f.empty() && (f.find("peer error") != Finding::npos) == echo) return f;
  return {};
}

std::optional<Error> thrown(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& e) {
    return e;
  }
}

Finding expect_error(const std::string& what, ErrorKind kind, const std::string& text,
                     const std::function<void()>& call) {
  const auto e = thrown(call);
  if (!e) return fmt::format("{}: got no error, expected one of kind {}", what, name_of(kind));
  if (e->kind() == kind && std::string(e->what()).find(text) != std::string::npos) return {};
  return fmt::format("{}: got a {} error \"{}\", expected a {} error with \"{}\"", what,
                     name_of(e->kind()), e->what(), name_of(kind), text);
}

Tensors::Tensors(Member& member, const Problem& problem, bool exact)
    : member_(member),
      problem_(problem),
      exact_(exact),
      shape_(problem, member.rank()),
      a_(*member.comm, bytes_of(shape_.inputs, problem.k)),
      reference_(*member.comm, bytes_of(problem.m, problem.k)),
      results_(*member.comm, results_bytes(problem)) {
  auto* at = static_cast<std::byte*>(results_.data());
  const auto place = [&](std::int64_t cols) {
    at += kGuard;
    const TensorView view = dense(at, problem_.dtype, problem_.m, cols);
    at += padded(bytes_of(problem_.m, cols));
    return view;
  };
  for (std::size_t i = 0; i < problem_.n.size(); ++i) {
    const std::int64_t n = problem_.n[i];
    const DeviceBuffer& w = weights_.emplace_back(*member.comm, bytes_of(n, problem_.k));
    weight_views_.push_back(dense(w.data(), problem_.dtype, n, problem_.k));
    if (i < problem_.outputs()) out_views_.push_back(place(n));
    if (!problem_.bias) continue;
    const DeviceBuffer& b = biases_.emplace_back(*member.comm, bytes_of(1, n));
    bias_views_.push_back(dense(b.data(), problem_.dtype, 1, n));
    test::fill_normal(b.data(), static_cast<std::size_t>(n), problem_.dtype, ~kStep * (i + 1),
                      member.stream);
  }
  fill_weights(1);
  if (problem_.return_gathered) gathered_ = place(problem_.k);
}

void Tensors::fill_rows(void* to, std::int64_t row, std::int64_t rows, std::uint64_t seed) const {
  if (rows == 0) return;
  if (exact_)
    test::fill_sparse(to, rows, problem_.k, 32, problem_.dtype, seed, member_.stream, row);
  else
    test::fill_normal(to, static_cast<std::size_t>(rows * problem_.k), problem_.dtype, seed,
                      member_.stream, static_cast<std::size_t>(row * problem_.k));
}

void Tensors::fill(std::uint64_t seed) {
  fill_rows(reference_.data(), 0, problem_.m, seed * kStep);
  fill_rows(a_.data(), shape_.input_row, shape_.inputs, seed * kStep);
  test::poison(results_.data(), results_.bytes(), member_.stream);
}

void Tensors::fill_weights(std::uint64_t seed) {
  for (std::size_t i = 0; i < weight_views_.size(); ++i) {
    const TensorView& w = weight_views_[i];
    const std::uint64_t own =
        kStep * (64 * seed + 2 * i + 3) + static_cast<std::uint64_t>(member_.rank());
    if (exact_)
      test::fill_sparse(w.data, w.rows, w.cols, static_cast<int>(w.cols), problem_.dtype, own,
                        member_.stream);
    else
      test::fill_normal(w.data, static_cast<std::size_t>(w.rows * w.cols), problem_.dtype, own,
                        member_.stream);
  }
}

AgGemmArgs Tensors::args() const {
  AgGemmArgs args;
  args.m = problem_.m;
  args.a = dense(a_.data(), problem_.dtype, shape_.inputs, problem_.k);
  args.weights = weight_views_;
  args.bias = bias_views_;
  args.activation = problem_.activation;
  args.out = out_views_;
  args.gathered = gathered_;
  args.rows = problem_.rows;
  args.stream = member_.stream;
  return args;
}

AgGemmArgs Tensors::product_args() const {
  AgGemmArgs args = this->args();
  args.a = dense(reference_.data(), problem_.dtype, problem_.m, problem_.k);
  args.gathered = {};
  return args;
}

Preparation Tensors::preparation(const PlanOptions& options) const {
  return {problem_, weight_views_, options};
}

Finding Tensors::check_out(std::size_t i) const {
  const auto bias = [&](std::size_t of) { return problem_.bias ? bias_views_[of].data : nullptr; };
  test::Judged judged{reference_.data(),
                      weight_views_[i].data,
                      bias(i),
                      out_views_[i].data,
                      plan::product_of(problem_, i, problem_.m),
                      problem_.activation};
  if (judged.problem.gated) {
    judged.up = weight_views_[1].data;
    judged.up_bias = bias(1);
  }
  const auto j = test::judge(judged, 0, exact_, 0, member_.stream);
  if (j.wrong == 0) return {};
  return fmt::format(
      "out {}: {} of {} elements wrong, rows {} to {}: row {} column {}: got {}, "
      "expected {}",
      i, j.wrong, j.checked, j.first_row, j.last_row, j.row, j.col, j.got, j.expected);
}

Finding Tensors::check(bool outs, bool gathered) const {
  if (problem_.m == 0) return check_untouched();
  for (std::size_t i = 0; outs && i < problem_.outputs(); ++i)
    if (const Finding f = check_out(i); !f.empty()) return f;
  if (gathered && problem_.return_gathered) {
    const auto d = test::compare(gathered_.data, reference_.data(),
                                 static_cast<std::size_t>(problem_.m * problem_.k), member_.stream);
    if (d.words != 0)
      return fmt::format("gathered: {} words differ, rows {} to {}", d.words, d.first / problem_.k,
                         d.last / problem_.k);
  }
  const auto* from = static_cast<const std::byte*>(results_.data());
  const std::byte* const end = from + results_.bytes();
  std::vector<TensorView> all = out_views_;
  if (problem_.return_gathered) all.push_back(gathered_);
  for (std::size_t i = 0; i <= all.size(); ++i) {
    const auto* to = i < all.size() ? static_cast<const std::byte*>(all[i].data) : end;
    const auto stray =
        test::count_unpoisoned(from, static_cast<std::size_t>(to - from), member_.stream);
    if (stray != 0) return fmt::format("{} bytes written before result {}", stray, i);
    if (i < all.size()) from = to + bytes_of(all[i].rows, all[i].cols);
  }
  return {};
}

Finding Tensors::check_untouched() const {
  const auto bytes = test::count_unpoisoned(results_.data(), results_.bytes(), member_.stream);
  return bytes == 0 ? Finding() : fmt::format("{} bytes of results written, expected none", bytes);
}

Finding check_calls(Member& member, Tensors& t, std::uint64_t calls, const PlanOptions& options) {
  for (std::uint64_t call = 1; call <= calls; ++call) {
    t.fill(call);
    ag_gemm(*member.comm, t.args(), options);
    member.comm->synchronize(member.stream);
    if (const Finding f = t.check(); !f.empty()) return fmt::format("call {}: {}", call, f);
  }
  return {};
}

Problem problem_of(int ranks, std::int64_t m, std::vector<std::int64_t> n, std::int64_t k) {
  Problem p;
  p.ranks = ranks;
  p.m = m;
  p.n = std::move(n);
  p.k = k;
  return p;
}

}  // namespace tilelace::gpu_test
