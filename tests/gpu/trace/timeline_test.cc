// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "account.h"

namespace tilelace::gpu_test {
namespace {

using cuda::TracedLaunch;
using cuda::TraceEvent;
using cuda::TraceKind;

constexpr std::uint64_t kOrigin = 1'760'000'000'000'000'000;
constexpr int kMhz = 1600;

/// An event of a CTA that began at `begin_us`, `us` after kOrigin.
TraceEvent event(TraceKind kind, int lane, int argument, double us, double step_ns = 32) {
  const auto steps = static_cast<std::uint64_t>(us * 1000 / step_ns);
  return {cuda::trace_what(kind, lane, static_cast<std::uint32_t>(argument)),
          static_cast<std::uint32_t>(us * kMhz) + 4'294'900'000U,
          kOrigin + static_cast<std::uint64_t>(static_cast<double>(steps) * step_ns)};
}

/// One tile: 10 us of products, of which 2 stood still while the loading warp waited for rows.
std::vector<TraceEvent> one_tile(int multiprocessor, double at_us, double step_ns = 32) {
  const auto e = [&](TraceKind kind, int lane, int argument, double us) {
    return event(kind, lane, argument, at_us + us, step_ns);
  };
  return {e(TraceKind::enter, cuda::kLoadLane, multiprocessor, 1),
          e(TraceKind::ready, cuda::kLoadLane, 0, 3),
          e(TraceKind::segment, cuda::kLoadLane, 7, 3.2),
          e(TraceKind::turn, 0, 7, 3.3),
          e(TraceKind::wait_rows, cuda::kLoadLane, 0, 3.4),
          e(TraceKind::flag, cuda::kLoadLane, 5, 6),
          e(TraceKind::rows_here, cuda::kLoadLane, 0, 6.5),
          e(TraceKind::first, 0, 7, 7.5),
          e(TraceKind::wait_rows, cuda::kLoadLane, 0, 8),
          e(TraceKind::flag, cuda::kLoadLane, 6, 12),
          e(TraceKind::rows_here, cuda::kLoadLane, 0, 12),
          e(TraceKind::multiplied, 0, 2 * kMhz, 17.5),
          e(TraceKind::stored, 0, 0, 19.5),
          e(TraceKind::exit, 0, 0, 20)};
}

const Span* find(const CtaLine& cta, Doing doing) {
  for (const Span& s : cta.spans)
    if (s.doing == doing) return &s;
  return nullptr;
}

double share(const CallAccount& a, Doing d) { return a.share[static_cast<std::size_t>(d)]; }
double share(const CallAccount& a, Idle i) {
  return a.share[static_cast<std::size_t>(kDoings + static_cast<int>(i))];
}

TEST(Timeline, ASpanLastsFromTheLanesEventBeforeToTheOneThatEndsIt) {
  const std::vector<TracedLaunch> launches{{"product", {one_tile(3, 100)}}};

  const auto calls = call_lines(launches, 1, kOrigin);

  const CtaLine& cta = calls.at(0).launches.at(0).ctas.at(0);
  EXPECT_EQ(cta.multiprocessor, 3);
  EXPECT_NEAR(cta.mhz, kMhz, 10);
  EXPECT_NEAR(calls[0].end_us, 120, 0.05);
  const Span* products = find(cta, Doing::multiply);
  ASSERT_NE(products, nullptr);
  EXPECT_EQ(products->tile, 7);
  EXPECT_NEAR(products->begin_us, 107.5, 0.05);
  EXPECT_NEAR(products->end_us, 117.5, 0.05);
  EXPECT_NEAR(products->starved_us, 2, 0.05);
  const Span* rows = find(cta, Doing::wait_rows);
  ASSERT_NE(rows, nullptr);
  EXPECT_NEAR(rows->end_us - rows->begin_us, 3.1, 0.1);
  ASSERT_EQ(cta.landings.size(), 2U);
  EXPECT_EQ(cta.landings[0].flag, 5);
  EXPECT_TRUE(cta.landings[0].waited);
}

TEST(Timeline, ACoarseClockIsRefinedByTheSmsOwn) {
  const std::vector<TracedLaunch> launches{{"product", {one_tile(3, 100, 1024)}}};

  const auto calls = call_lines(launches, 1, kOrigin);

  ASSERT_GT(resolution_ns(launches), 1000);
  const Span* products = find(calls.at(0).launches.at(0).ctas.at(0), Doing::multiply);
  ASSERT_NE(products, nullptr);
  EXPECT_NEAR(products->end_us - products->begin_us, 10, 0.4);
}

TEST(Timeline, LaunchesAreDealtToTheirCalls) {
  const std::vector<TracedLaunch> launches{{"product", {one_tile(0, 0)}},
                                           {"product", {one_tile(0, 30)}}};

  const auto calls = call_lines(launches, 2, kOrigin);

  EXPECT_NEAR(calls.at(0).end_us, 20, 0.05);
  EXPECT_NEAR(calls.at(1).end_us, 50, 0.05);
}

TEST(Account, HeadingsAddUpToTheTimeOfTheCall) {
  // Two of four SMs have work; one of them ends 5 us before the other.
  const std::vector<TracedLaunch> launches{{"product", {one_tile(0, 0), one_tile(1, 5)}}};
  const auto calls = call_lines(launches, 1, kOrigin);

  const CallAccount a = account_of(calls.at(0), 0, 4);

  EXPECT_NEAR(a.us, 25, 0.05);
  EXPECT_NEAR(std::accumulate(a.share.begin(), a.share.end(), 0.0), a.us, 1e-6);
  EXPECT_NEAR(share(a, Doing::multiply), 8.0 * 2 / 4, 0.05);
  EXPECT_NEAR(share(a, Idle::starved_rows), 2.0 * 2 / 4, 0.05);
  EXPECT_NEAR(share(a, Doing::wait_rows), 3.1 * 2 / 4, 0.05);
  EXPECT_NEAR(share(a, Doing::store), 2.0 * 2 / 4, 0.05);
  EXPECT_NEAR(share(a, Idle::launch), (1 + 6) / 4.0, 0.05);
  EXPECT_NEAR(share(a, Idle::tail), (5 + 2 * 25) / 4.0, 0.05);
}

TEST(Account, GroupsThatMultiplyTogetherStandStillTogether) {
  // Both groups are on one tile: 10 us of products, of which each stood still for 2.
  auto events = one_tile(0, 0);
  for (const TraceEvent& e : one_tile(0, 0))
    if (e.lane() == 0) {
      events.push_back(e);
      events.back().what = cuda::trace_what(e.kind(), 1, static_cast<std::uint32_t>(e.argument()));
    }
  const auto calls = call_lines({{"product", {events}}}, 1, kOrigin);

  const CallAccount a = account_of(calls.at(0), 0, 1);

  EXPECT_NEAR(share(a, Doing::multiply), 8, 0.05);
  EXPECT_NEAR(share(a, Idle::starved_rows), 2, 0.05);
  EXPECT_NEAR(a.tiles, 2, 1e-9);
}

}  // namespace
}  // namespace tilelace::gpu_test
