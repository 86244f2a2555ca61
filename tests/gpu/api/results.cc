// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <array>
#include <cstring>

#include "api/checks.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kCalls = 4;  // of each case

struct Shape {
  std::int64_t m;
  std::vector<std::int64_t> n;
  std::int64_t k;
  bool bias, gathered;
  Activation activation;
  bool uneven;  ///< the last rank has no rows, the first all of its
  DType dtype = DType::bf16;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {1, {256}, 512, false, true, Activation::none, false},
      {7, {128, 384}, 1024, false, true, Activation::none, false, DType::fp16},
      {64, {512}, 2048, true, false, Activation::gelu, false},
      {200, {264}, 328, false, true, Activation::none, true},
      {1000, {1032, 1032}, 512, false, false, Activation::none, false},
      {1024, {2048}, 1024, true, true, Activation::silu, false, DType::fp16},
      {3001, {1536}, 1024, false, true, Activation::none, true},
      {4096, {1024}, 2048, false, false, Activation::none, false},
      {48, {264, 264}, 512, true, true, Activation::swiglu, false, DType::fp16},
      {1500, {1280, 1280}, 1024, false, false, Activation::swiglu, true},
      {0, {256}, 512, false, false, Activation::none, false}};
  return all;
}

Problem problem_of(const Shape& s, int ranks) {
  Problem p = gpu_test::problem_of(ranks, s.m, s.n, s.k);
  p.bias = s.bias;
  p.activation = s.activation;
  p.return_gathered = s.gathered;
  p.dtype = s.dtype;
  if (!s.uneven) return p;
  p.rows.assign(static_cast<std::size_t>(ranks), 0);
  p.rows[0] = s.m;
  for (int r = 1; r + 1 < ranks; ++r) {
    p.rows[static_cast<std::size_t>(r)] = s.m / ranks / r;
    p.rows[0] -= s.m / ranks / r;
  }
  return p;
}

PlanOptions path_of(Path path) {
  PlanOptions o;
  o.path = path;
  return o;
}

Finding run_case(Member& member, const Problem& p, Path path) {
  const bool exact = !p.bias && p.activation == Activation::none;
  Tensors t(member, p, exact);
  const std::array list{t.preparation(path_of(path))};
  member.comm->prepare(list);
  for (int call = 0; call < kCalls; ++call) {
    t.fill(static_cast<std::uint64_t>(call + 1));
    ag_gemm(*member.comm, t.args(), path_of(path));
    member.comm->synchronize(member.stream);
    if (const Finding f = t.check(); !f.empty())
      return fmt::format("{}, {} call {}: {}", fmt::streamed(p), name_of(path), call, f);
  }
  return {};
}

Finding check_shapes(Member& member) {
  for (const Path path : {Path::fused, Path::medium, Path::unfused}) {
    for (const Shape& s : shapes()) {
      const Problem p = problem_of(s, member.ranks());
      if (const Finding f = run_case(member, p, path); !f.empty()) return f;
    }
  }
  return {};
}

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
  const Problem p = gpu_test::problem_of(member.ranks(), 777, {520, 264}, 1024);
  for (PlanOptions o : all_ways()) {
    for (const std::int64_t chunk : {1, 64, 1000}) {
      o.chunk_rows = chunk;
      Tensors t(member, p, true);
      const std::array list{t.preparation(o)};
      member.comm->prepare(list);
      for (int call = 0; call < 2; ++call) {
        t.fill(static_cast<std::uint64_t>(call + 7));
        ag_gemm(*member.comm, t.args(), o);
      }
      member.comm->synchronize(member.stream);
      if (const Finding f = t.check(); !f.empty())
        return fmt::format("{} {} {} straddle {} chunk {}: {}", name_of(*o.path), name_of(*o.route),
                           name_of(*o.transport), *o.straddle, chunk, f);
    }
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
    const std::array list{t.preparation(), t.preparation(path_of(Path::unfused))};
    member.comm->prepare(list);
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
    const std::array list{prepared.preparation()};
    member.comm->prepare(list);
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
  const std::array list{t.preparation()};
  member.comm->prepare(list);
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
  return {{"shapes, every path", 30, false, check_shapes, true},
          {"transports and chunks", 40, false, check_options, true},
          {"product alone, gather alone", 20, false, check_parts, true},
          {"sizes and paths mixed", 20, false, check_mixed, true},
          {"weights written before the call", 20, false, check_new_weights, true},
          {"default stream", 20, false, check_default_stream, true},
          {"buffers", 20, false, check_buffers, true}};
}

}  // namespace tilelace::gpu_test
