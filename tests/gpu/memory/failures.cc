// SPDX-License-Identifier: Apache-2.0
// Calls that cannot work: every rank hears the same, nothing is left behind, the next call works.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "checks.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kBytes = std::size_t{3} << 20;

/// What each rank passes, and what all of them are to hear.
struct Case {
  const char* name;
  int device;
  std::size_t bytes;
  ErrorKind kind;
  std::string part;
};

/// Collective, whatever was caught.
std::string judge(const Member& m, const Case& c, const Caught& caught) {
  const auto texts = m.group.all_gather(caught.text, kTimeout_s);
  if (caught.kind != c.kind)
    return fmt::format("kind {} with text \"{}\", expected {}",
                       caught.kind ? name_of(*caught.kind) : "none", caught.text, name_of(c.kind));
  if (caught.text.find(c.part) == std::string::npos)
    return fmt::format("text \"{}\", expected it to hold \"{}\"", caught.text, c.part);
  for (const std::string& other : texts)
    if (other != caught.text)
      return fmt::format("text \"{}\" here and \"{}\" elsewhere, expected the same", caught.text,
                         other);
  return {};
}

std::string allocate_well(Member& m, std::uint32_t seed) {
  const auto memory = allocate_device(m.group, m.gpu.device(), kBytes, kTimeout_s);
  return pass_around(
      m.group, m.gpu, *memory, [&m] { m.barrier(); }, seed);
}

void run_case(Member& m, const Case& c) {
  std::string wrong = allocate_well(m, 1);
  const Held before = look(m);
  for (int i = 0; i < 5; ++i) {
    const Caught caught =
        catch_error([&] { allocate_device(m.group, c.device, c.bytes, kTimeout_s); });
    const std::string found = judge(m, c, caught);
    if (wrong.empty()) wrong = found;
  }
  const Held after = look(m);
  if (wrong.empty()) wrong = grown(before, after);
  const std::string next = allocate_well(m, 2);
  m.say(c.name, wrong.empty() && !next.empty() ? "next call: " + next : wrong);
}

/// Ends the group, so it comes last.
void run_late_rank(Member& m) {
  const bool late = m.rank() == m.ranks() - 1;
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const Caught caught =
      catch_error([&] { allocate_device(m.group, m.gpu.device(), kBytes, late ? 10 : 0.5); });
  std::string wrong;
  if (caught.kind != ErrorKind::timeout)
    wrong = fmt::format("kind {} with text \"{}\", expected timeout",
                        caught.kind ? name_of(*caught.kind) : "none", caught.text);
  m.say("rank that comes too late", wrong);
}

}  // namespace

Caught catch_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {};
}

void check_failures(Member& m) {
  const int last = m.ranks() - 1;
  const bool is_last = m.rank() == last;
  const int device = m.gpu.device();
  if (last > 0)
    run_case(m, {"sizes that differ", device, is_last ? kBytes + 1 : kBytes, ErrorKind::usage,
                 fmt::format("rank {} passed {} bytes", last, kBytes + 1)});
  run_case(m, {"device that is not there", is_last ? 9999 : device, kBytes, ErrorKind::usage,
               fmt::format("(on rank {})", last)});
  run_case(m, {"more memory than there is", device, std::size_t{1} << 42, ErrorKind::system,
               "CUDA_ERROR_OUT_OF_MEMORY"});
  run_case(m, {"more addresses than there are", device, std::size_t{1} << 60, ErrorKind::usage,
               "expected at most"});
  if (last > 0) run_late_rank(m);
}

}  // namespace tilelace::comm::test
