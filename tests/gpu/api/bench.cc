// SPDX-License-Identifier: Apache-2.0
#include "api/bench.h"

#include <chrono>
#include <thread>

namespace tilelace::gpu_test {

Finding disagrees(Member& member, const CallOperands& t, const std::function<void()>& call) {
  const auto e = thrown([&] {
    call();
    member.comm->synchronize(member.stream);
  });
  if (!e || e->kind() != ErrorKind::usage)
    return fmt::format("got {}, expected a usage error", e ? e->what() : "no error");
  member.comm->barrier();
  const auto drained = thrown([&] { member.comm->synchronize(member.stream); });
  if (drained && drained->kind() != ErrorKind::usage)
    return fmt::format("draining: got \"{}\", expected no other kind than usage", drained->what());
  if (const Finding f = t.check_untouched(); !f.empty()) return f;
  return expect_error("a call after it", ErrorKind::usage, name_of(t.problem().op).data(),
                      [&] { t.call(); });
}

Finding misses_a_rank(Member& member, CallOperands& t, double bound_s, const PlanOptions& options) {
  t.prepare({options});
  t.fill(1);
  if (member.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * bound_s));
    return {};
  }
  t.call(options);
  const auto begin = std::chrono::steady_clock::now();
  const auto e = thrown([&] { member.comm->synchronize(member.stream); });
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!e || (e->kind() != ErrorKind::timeout && e->kind() != ErrorKind::peer))
    return fmt::format("got {}, expected a timeout", e ? e->what() : "no error");
  if (took > 2 * bound_s) return fmt::format("got it after {:.1f} s, expected {:g}", took, bound_s);
  if (const Finding f = t.check_untouched(); !f.empty()) return f;
  const auto again = thrown([&] { t.call(options); });
  if (!again || std::string(again->what()).find("takes no more calls") == std::string::npos)
    return fmt::format("a call after it: got {}, expected to be refused",
                       again ? again->what() : "no error");
  return {};
}

}  // namespace tilelace::gpu_test
