// SPDX-License-Identifier: Apache-2.0
#include "api/member.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <thread>

#include "backend/cuda/base/cuda_check.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

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

Buffers::Buffers(Member& member, bool reachable)
    : memory_(
          member.stream,
          [this, &comm = *member.comm](std::size_t bytes) {
            return own_.emplace_back(comm, bytes).data();
          },
          [this, &comm = *member.comm, reachable](std::size_t bytes) {
            return reachable ? reachable_.emplace_back(comm, bytes).local()
                             : own_.emplace_back(comm, bytes).data();
          }) {}

CallOperands::CallOperands(Member& member, const Problem& problem, bool exact, bool reachable)
    : Buffers(member, reachable),
      Operands(memory_, problem, member.rank(), exact ? test::Fill::exact : test::Fill::normal),
      member_(member) {
  fill_weights(1);
}

void CallOperands::prepare(const std::vector<PlanOptions>& options) const {
  std::vector<Preparation> list;
  for (const PlanOptions& o : options) list.push_back(preparation(o));
  member_.comm->prepare(list);
}

Finding CallOperands::one_call(std::uint64_t seed, const PlanOptions& options) {
  fill(seed);
  call(options);
  member_.comm->synchronize(member_.stream);
  return check();
}

Finding CallOperands::calls(std::uint64_t count, const PlanOptions& options) {
  for (std::uint64_t i = 1; i <= count; ++i)
    if (const Finding f = one_call(i, options); !f.empty())
      return fmt::format("{}, call {}: {}", fmt::streamed(problem()), i, f);
  return {};
}

AgGemmArgs Tensors::args() const {
  AgGemmArgs args;
  args.m = problem().m;
  args.a = views().input;
  args.weights = views().weights;
  args.bias = views().biases;
  args.activation = problem().activation;
  args.out = views().outs;
  args.gathered = views().gathered;
  args.rows = problem().rows;
  args.stream = member_.stream;
  return args;
}

AgGemmArgs Tensors::product_args() const {
  AgGemmArgs args = this->args();
  args.a = views().all_rows;
  args.gathered = {};
  return args;
}

Problem problem_of(int ranks, std::int64_t m, std::vector<std::int64_t> n, std::int64_t k) {
  Problem p;
  p.ranks = ranks;
  p.m = m;
  p.n = std::move(n);
  p.k = k;
  return p;
}

PlanOptions path_of(Path path) {
  PlanOptions o;
  o.path = path;
  return o;
}

std::vector<std::int64_t> uneven_rows(std::int64_t m, int ranks) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks), 0);
  rows[0] = m;
  for (std::size_t r = 1; r + 1 < rows.size(); ++r) {
    rows[r] = m / ranks / static_cast<std::int64_t>(r);
    rows[0] -= rows[r];
  }
  return rows;
}

}  // namespace tilelace::gpu_test
