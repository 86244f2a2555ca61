// SPDX-License-Identifier: Apache-2.0
// Transport nccl, which is refused so far: in prepare, on every rank, and the ranks go on.
#include "api/checks.h"
#include "api/member.h"

namespace tilelace::gpu_test {
namespace {

Finding check_refused(Member& member) {
  Tensors t(member, problem_of(member.ranks(), 512, {512}, 1024), true);
  PlanOptions o;
  o.transport = Transport::nccl;
  const std::array asked{t.preparation(o)};
  const Finding f = expect_error("transport nccl", ErrorKind::usage, "got nccl",
                                 [&] { member.comm->prepare(asked); });
  if (!f.empty()) return f;
  const std::array list{t.preparation({})};
  member.comm->prepare(list);
  t.fill(1);
  ag_gemm(*member.comm, t.args());
  member.comm->synchronize(member.stream);
  return t.check();
}

}  // namespace

std::vector<Check> nccl_checks() { return {{"nccl is refused", 20, true, check_refused}}; }

}  // namespace tilelace::gpu_test
