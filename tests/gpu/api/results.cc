// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cstring>

#include "api/checks.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kCalls = 4;  // of each case

/// Every path, transport, route and way to cut that there is.
std::vector<PlanOptions> all_ways() {
  std::vector<PlanOptions> all;
  const auto add = [&](Transport transport, RouteKind route, bool straddle, Path path) {
    PlanOptions o = path_of(path);
    o.transport = transport;
    o.route = route;
    o.straddle = straddle;
    all.push_back(o);
  };
  for (const Path path : {Path::fused, Path::unfused}) {
    add(Transport::push, RouteKind::mesh, false, path);
    add(Transport::push, RouteKind::ring, false, path);
    add(Transport::pull, RouteKind::mesh, false, path);
    add(Transport::store, RouteKind::mesh, false, path);
    add(Transport::store, RouteKind::mesh, true, path);
  }
  add(Transport::push, RouteKind::mesh, false, Path::medium);
  return all;
}

Finding check_options(Member& member) {
  Problem p = gpu_test::problem_of(member.ranks(), 777, {520, 264}, 1024);
  p.return_gathered = true;
  for (PlanOptions o : all_ways()) {
    p.rows = p.rows.empty() ? uneven_rows(p.m, p.ranks) : std::vector<std::int64_t>{};
    for (const std::int64_t chunk : {1, 64, 1000}) {
      o.chunk_rows = chunk;
      Tensors t(member, p, true);
      t.prepare({o});
      for (std::uint64_t call = 7; call < 9; ++call) {
        t.fill(call);
        t.call(o);
      }
      member.comm->synchronize(member.stream);
      if (const Finding f = t.check(); !f.empty())
        return fmt::format("{} {} {} straddle {} chunk {}: {}", name_of(*o.path), name_of(*o.route),
                           name_of(*o.transport), *o.straddle, chunk, f);
    }
  }
  return {};
}

/// Whatever a problem may ask for, as the planner has it.
Finding check_problems(Member& member) {
  for (const Path path : {Path::fused, Path::medium, Path::unfused})
    for (const Activation activation : {Activation::none, Activation::gelu, Activation::swiglu})
      for (const std::int64_t m : {0, 1, 1500}) {
        Problem p = gpu_test::problem_of(member.ranks(), m, {264, 264}, 328);
        p.activation = activation;
        p.bias = activation != Activation::none;
        p.dtype = m == 1 ? DType::fp16 : DType::bf16;
        Tensors t(member, p, !p.bias);
        t.prepare({path_of(path)});
        if (const Finding f = t.calls(kCalls, path_of(path)); !f.empty())
          return fmt::format("{}, {}", name_of(path), f);
      }
  return {};
}

Finding check_parts(Member& member) {
  for (const std::int64_t m : {16, 17, 500, 2048, 2049}) {
    const bool gated = m % 2 == 1;
    Problem p = gpu_test::problem_of(member.ranks(), m, {512, gated ? 512 : 264}, 1024);
    p.return_gathered = true;
    if (gated) p.activation = Activation::swiglu;
    Tensors t(member, p, !gated);
    t.prepare({{}, path_of(Path::unfused)});
    for (int call = 0; call < kCalls; ++call) {
      t.fill(static_cast<std::uint64_t>(call + 1));
      gemm_only(*member.comm, t.product_args());
      collective_only(*member.comm, t.args());
      member.comm->synchronize(member.stream);
      if (const Finding f = t.check(); !f.empty())
        return fmt::format("m {}, parts, call {}: {}", m, call, f);
    }
  }
  return {};
}

/// Calls of several sizes and paths in a row, on one staging, nobody waiting in between.
Finding check_mixed(Member& member) {
  std::vector<std::unique_ptr<Tensors>> all;
  std::vector<Preparation> list;
  for (const std::int64_t m : {33, 1024, 2500}) {
    Problem p = gpu_test::problem_of(member.ranks(), m, {640}, 1024);
    p.return_gathered = m != 1024;
    all.push_back(std::make_unique<Tensors>(member, p, true));
    list.push_back(all.back()->preparation());
    list.push_back(all.back()->preparation(path_of(Path::unfused)));
  }
  member.comm->prepare(list);
  for (std::uint64_t round = 1; round <= 40; ++round) {
    for (auto& t : all) {
      t->fill(round);
      ag_gemm(*member.comm, t->args(), path_of(round % 3 == 0 ? Path::unfused : Path::fused));
    }
    if (round % 10 != 0) continue;
    member.comm->synchronize(member.stream);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (const Finding f = all[i]->check(); !f.empty())
        return fmt::format("round {}, size {}: {}", round, i, f);
  }
  return {};
}

/// Weights that were not prepared and are written right before each call.
Finding check_new_weights(Member& member) {
  for (const std::int64_t m : {16, 1024}) {
    const Problem p = gpu_test::problem_of(member.ranks(), m, {4096}, 2048);
    const Tensors prepared(member, p, true);
    Tensors t(member, p, true);
    prepared.prepare();
    for (std::uint64_t call = 1; call <= 20; ++call) {
      t.fill(call);
      t.fill_weights(call);
      if (call % 4 == 0)
        gemm_only(*member.comm, t.product_args());
      else
        ag_gemm(*member.comm, t.args());
      member.comm->synchronize(member.stream);
      if (const Finding f = t.check(); !f.empty()) return fmt::format("call {}: {}", call, f);
    }
  }
  return {};
}

Finding check_default_stream(Member& member) {
  const Problem p = gpu_test::problem_of(member.ranks(), 300, {256}, 512);
  Tensors t(member, p, true);
  t.prepare();
  for (std::uint64_t call = 1; call <= 3; ++call) {
    t.fill(call);
    cudaStreamSynchronize(member.stream);
    AgGemmArgs args = t.args();
    args.stream = nullptr;
    ag_gemm(*member.comm, args);
    member.comm->synchronize();
    if (const Finding f = t.check(); !f.empty()) return f;
  }
  return {};
}

Finding check_buffers(Member& member) {
  constexpr std::size_t kWords = 1000;
  SymmetricBuffer shared(*member.comm, kWords * sizeof(int));
  DeviceBuffer own(*member.comm, kWords * sizeof(int));
  std::vector<int> words(kWords, member.rank() + 100), back(kWords);
  own.upload(words.data(), words.size() * sizeof(int));
  cudaMemcpy(shared.local(), own.data(), own.bytes(), cudaMemcpyDefault);
  cudaDeviceSynchronize();
  member.comm->barrier();
  for (int r = 0; r < member.ranks(); ++r) {
    cudaMemcpy(own.data(), shared.peer(r), own.bytes(), cudaMemcpyDefault);
    own.download(back.data(), back.size() * sizeof(int));
    for (const int w : back)
      if (w != r + 100) return fmt::format("part of rank {}: got {}, expected {}", r, w, r + 100);
  }
  // Of one rank alone, and no reason to refuse its calls.
  if (member.rank() == 0)
    if (const Finding f = expect_error("too large a buffer", ErrorKind::system, "",
                                       [&] { DeviceBuffer(*member.comm, std::size_t{1} << 50U); });
        !f.empty())
      return f;
  member.comm->barrier();
  return expect_error("download beyond the buffer", ErrorKind::usage, "device buffer",
                      [&] { own.download(back.data(), 8, own.bytes() - 4); });
}

}  // namespace

std::vector<Check> result_checks() {
  return {{"problems, every path", 30, false, check_problems, true},
          {"transports and chunks", 40, false, check_options, true},
          {"product alone, gather alone", 20, false, check_parts, true},
          {"sizes and paths mixed", 20, false, check_mixed, true},
          {"weights written before the call", 20, false, check_new_weights, true},
          {"default stream", 20, false, check_default_stream, true},
          {"buffers", 20, false, check_buffers, true}};
}

}  // namespace tilelace::gpu_test
