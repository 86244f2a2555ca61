// SPDX-License-Identifier: Apache-2.0
#include "collectives/api.h"

#include <cuda_runtime_api.h>

#include <functional>
#include <mutex>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "collectives/norm.h"
#include "collectives/reference.h"
#include "tilelace/tilelace.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;
using Text = std::string;

/// One rank as a user has it.
struct User {
  explicit User(Communicator& c) : comm(c) {}

  Communicator& comm;
  cudaStream_t stream = nullptr;

  [[nodiscard]] Text call(const CollectiveCase& c, bool reachable = false) {
    const Bytes input = input_of(c, comm.rank()), want = expected_of(c, comm.rank());
    DeviceBuffer in(comm, input.size() + 16);
    DeviceBuffer own(comm, want.size() + 16);
    std::optional<SymmetricBuffer> all;
    std::int64_t most = 0;  // on every rank the same
    for (int r = 0; r < c.ranks; ++r)
      most = std::max({most, c.out_count(r) * c.bytes(), c.in_count(r) * c.bytes()});
    const auto half = (static_cast<std::size_t>(most) + 255) / 256 * 256;
    if (reachable) all.emplace(comm, 2 * half + 16);
    void* const out = reachable ? all->local() : own.data();
    void* const from = reachable ? static_cast<std::byte*>(all->local()) + half : in.data();
    if (!input.empty())
      check(cudaMemcpy(from, input.data(), input.size(), cudaMemcpyHostToDevice), "input");
    collect(comm, c.collective, args(c, from, out), c.options);
    comm.synchronize(stream, 100);
    Bytes got(want.size());
    check(cudaMemcpy(got.data(), out, got.size(), cudaMemcpyDeviceToHost), "results");
    comm.barrier();  // peers may still store into this rank's
    return got == want ? "" : fmt::format("rank {}: wrong: {}", comm.rank(), c.text());
  }
  [[nodiscard]] CollectiveArgs args(const CollectiveCase& c, const void* in, void* out) {
    sends_.clear(), takes_.clear();
    if (c.collective == Collective::all_to_all && !c.matrix.empty())
      for (int q = 0; q < c.ranks; ++q) {
        sends_.push_back(c.sent(comm.rank(), q));
        takes_.push_back(c.sent(q, comm.rank()));
      }
    else
      sends_ = c.counts, takes_ = c.collective == Collective::all_to_all ? c.counts : takes_;
    return {in, out, c.item, c.reduction, sends_, takes_, stream};
  }

 private:
  std::vector<std::int64_t> sends_, takes_;
};

/// A finding unless the call threw this kind with this text in it.
Text expect_error(const Text& what, ErrorKind kind, const Text& text,
                  const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    if (e.kind() == kind && Text(e.what()).find(text) != Text::npos) return "";
    return fmt::format("{}: got [{}: {}], expected {} with [{}]", what, name_of(e.kind()), e.what(),
                       name_of(kind), text);
  }
  return fmt::format("{}: got no error, expected {} with [{}]", what, name_of(kind), text);
}

CollectiveCase simple(int ranks, Collective collective, std::int64_t count) {
  CollectiveCase c;
  c.collective = collective, c.item = Item::bf16, c.ranks = ranks, c.counts = {count}, c.seed = 7;
  return c;
}

Text results(User& u, std::uint64_t seed) {
  RandomCases cases(seed, u.comm.size(), 3000);
  for (int i = 0; i < 40; ++i) {
    CollectiveCase c = cases.next();
    c.in_place = false, c.in_off = c.out_off = 0;
    if (Text f = u.call(c, i % 3 == 0); !f.empty()) return f;
  }
  return "";
}

Text norms(User& u, std::uint64_t seed) {
  const NormCaller caller{u.comm.rank(),
                          u.comm.size(),
                          u.stream,
                          [&] { u.comm.barrier(); },
                          [&](const AllReduceNormArgs& args, const CollectiveOptions& options) {
                            all_reduce_norm(u.comm, args, options);
                          },
                          [&] { u.comm.synchronize(u.stream, 100); }};
  const std::vector<Text> wrong = check_norms(caller, 20, seed);
  return wrong.empty() ? "" : wrong.front();
}

/// The first collective of a communicator must not be captured.
Text captured_first(User& u) {
  DeviceBuffer in(u.comm, 4096), out(u.comm, 4096);
  check(cudaStreamBeginCapture(u.stream, cudaStreamCaptureModeThreadLocal), "a capture");
  const CollectiveCase c = simple(u.comm.size(), Collective::all_reduce, 1000);
  Text f = expect_error("a first call that is captured", ErrorKind::usage, "prepare_collectives",
                        [&] { all_reduce(u.comm, u.args(c, in.data(), out.data())); });
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(u.stream, &graph);
  cudaGetLastError();
  if (graph != nullptr) cudaGraphDestroy(graph);
  prepare_collectives(u.comm);
  return f;
}

/// Every rank gets a usage error, and all go on once they have prepared again.
Text disagreement(User& u) {
  const int ranks = u.comm.size();
  DeviceBuffer in(u.comm, 8192), out(u.comm, 8192);
  const std::int64_t count = u.comm.rank() == 0 ? 1000 : 1001;
  const CollectiveCase c = simple(ranks, Collective::all_reduce, count);
  Text f = expect_error("ranks that disagree", ErrorKind::usage, "all_reduce", [&] {
    all_reduce(u.comm, u.args(c, in.data(), out.data()));
    u.comm.synchronize(u.stream, 100);
  });
  if (f.empty())
    f = expect_error("a call after it", ErrorKind::usage, "prepare",
                     [&] { all_reduce(u.comm, u.args(c, in.data(), out.data())); });
  prepare_collectives(u.comm);
  if (f.empty()) f = u.call(simple(ranks, Collective::reduce_scatter, 555));
  return f;
}

/// One rank is refused its call: the others are told.
Text refusal(User& u) {
  const int ranks = u.comm.size();
  DeviceBuffer in(u.comm, 8192), out(u.comm, 8192);
  const CollectiveCase c = simple(ranks, Collective::all_gather, 100);
  CollectiveArgs args = u.args(c, in.data(), out.data());
  const bool wrong = u.comm.rank() == ranks - 1;
  if (wrong) args.in = nullptr;
  Text f = expect_error("a refused call", ErrorKind::usage, wrong ? "null data" : "", [&] {
    all_gather(u.comm, args);
    u.comm.synchronize(u.stream, 100);
  });
  // Who was refused learns of the peers' trouble with the next.
  try {
    u.comm.synchronize(u.stream, 100);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) f = e.what();
  }
  prepare_collectives(u.comm);
  return f.empty() ? u.call(simple(ranks, Collective::all_to_all, 64)) : f;
}

Text in_graphs(User& u) {
  const int ranks = u.comm.size();
  const CollectiveCase c = simple(ranks, Collective::all_reduce, 5000);
  const Bytes input = input_of(c, u.comm.rank()), want = expected_of(c, u.comm.rank());
  DeviceBuffer in(u.comm, input.size()), out(u.comm, want.size());
  in.upload(input.data(), input.size());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check(cudaStreamBeginCapture(u.stream, cudaStreamCaptureModeThreadLocal), "a capture");
  for (int i = 0; i < 3; ++i) all_reduce(u.comm, u.args(c, in.data(), out.data()));
  check(cudaStreamEndCapture(u.stream, &graph), "a capture");
  check(cudaGraphInstantiate(&made, graph, 0), "a graph");
  cudaGraphDestroy(graph);
  Text f;
  for (int i = 0; i < 3 && f.empty(); ++i) {
    check(cudaMemset(out.data(), 0xff, want.size()), "poison");
    check(cudaDeviceSynchronize(), "poison");
    check(cudaGraphLaunch(made, u.stream), "a replay");
    if (i == 1) all_reduce(u.comm, u.args(c, in.data(), out.data()));
    u.comm.synchronize(u.stream, 100);
    Bytes got(want.size());
    out.download(got.data(), got.size());
    if (got != want) f = fmt::format("rank {}: replay {} is wrong", u.comm.rank(), i);
  }
  cudaGraphExecDestroy(made);
  return f;
}

}  // namespace

std::vector<std::string> check_api(int ranks, double timeout_s, std::uint64_t seed) {
  CommunicatorOptions options;
  options.device = Device::cuda;
  options.timeout_s = timeout_s;
  options.tuning_file = "off";
  auto members = Communicator::threads(ranks, options);
  std::mutex mutex;
  std::vector<std::string> findings;
  std::vector<std::thread> threads;
  for (Communicator& member : members)
    threads.emplace_back([&, comm = &member] {
      Text f;
      try {
        check(cudaSetDevice(comm->rank()), "a device");
        User u(*comm);
        check(cudaStreamCreateWithFlags(&u.stream, cudaStreamNonBlocking), "a stream");
        for (const auto& part : std::vector<std::function<Text()>>{
                 [&] { return captured_first(u); }, [&] { return results(u, seed); },
                 [&] { return in_graphs(u); }, [&] { return disagreement(u); },
                 [&] { return refusal(u); }, [&] { return results(u, seed + 1); },
                 [&] { return norms(u, seed); }})
          if (f.empty()) f = part();
        cudaStreamDestroy(u.stream);
      } catch (const Error& e) {
        f = fmt::format("rank {}: {} error: {}", comm->rank(), name_of(e.kind()), e.what());
      }
      if (f.empty()) return;
      comm->abort();
      const std::scoped_lock lock(mutex);
      findings.push_back(f);
    });
  for (std::thread& t : threads) t.join();
  return findings;
}

}  // namespace tilelace::gpu_test
