// SPDX-License-Identifier: Apache-2.0
#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tilelace::gpu_test {
namespace {

/// One way, all ranks: the mean of their calls, and each rank's own.
struct Way {
  std::string name;
  CallAccount mean;
  std::vector<CallAccount> ranks;
};

Way way_of(std::string name, const std::vector<RankRow>& ranks, Recording RankRow::*which) {
  Way w{std::move(name), {}, {}};
  std::vector<CallAccount> all;
  for (const RankRow& r : ranks) {
    const auto accounts = (r.*which).accounts(r.multiprocessors);
    w.ranks.push_back(mean_of(accounts));
    all.insert(all.end(), accounts.begin(), accounts.end());
  }
  w.mean = mean_of(all);
  return w;
}

std::string head(const std::string& title, const std::vector<RankRow>& ranks) {
  const RankRow& r = ranks.front();
  std::string text = fmt::format("== {}\n", title);
  const auto line = [&](const char* name, const Recording& x) {
    text += fmt::format("{:<22}{:9.1f} us a call, {:.1f} while it writes its trace: {}\n", name,
                        x.us, x.traced_us, x.plan);
  };
  line("fused", r.fused);
  line("product, same tile", r.same);
  line("product, best own", r.best);
  text += fmt::format("{:<22}{:9.1f} us a call\n", "product, cuBLAS", r.blas_us);
  double within = 0;
  for (const RankRow& x : ranks) within = std::max(within, x.clock.within_ns);
  text += fmt::format("clocks: steps of {:.0f} ns; ranks' zeros known within {:.0f} ns\n",
                      r.fused.resolution_ns, within);
  return text;
}

/// The table whose columns add up to the time of a call.
std::string shares(const std::vector<Way>& ways) {
  const Way& fused = ways.front();
  std::string text =
      "\nEvery moment of every SM from the end of the call before to the call's own end, under one "
      "heading;\nus, mean over SMs, calls and ranks (multiply first: what runs beside products is "
      "free)\n";
  text += fmt::format("{:<20}", "");
  for (const Way& w : ways) text += fmt::format("{:>12}", w.name);
  for (std::size_t i = 1; i < ways.size(); ++i) text += fmt::format("{:>12}", "fused - it");
  text += "   fused, by rank\n";
  const auto line = [&](std::string_view name, const auto& of) {
    double most = 0;
    for (const Way& w : ways) most = std::max(most, std::abs(of(w.mean)));
    if (most < 0.05) return;
    text += fmt::format("{:<20}", name);
    for (const Way& w : ways) text += fmt::format("{:12.1f}", of(w.mean));
    for (std::size_t i = 1; i < ways.size(); ++i)
      text += fmt::format("{:+12.1f}", of(fused.mean) - of(ways[i].mean));
    text += "  ";
    for (const CallAccount& r : fused.ranks) text += fmt::format("{:8.1f}", of(r));
    text += "\n";
  };
  for (int i = 0; i < kHeadings; ++i)
    line(heading(i), [i](const CallAccount& a) { return a.share.at(static_cast<std::size_t>(i)); });
  line("all: the call", [](const CallAccount& a) { return a.us; });
  return text;
}

std::string products(const std::vector<Way>& ways) {
  const auto us_of = [](const Way& w) {
    return w.mean.share[static_cast<std::size_t>(Doing::multiply)];
  };
  const double fused_us = us_of(ways.front());
  const double fused_mhz = ways.front().mean.mhz;
  std::string text = "\nProducts, without the time that they stood still, an SM\n";
  for (const Way& w : ways) {
    const double us = us_of(w);
    text += fmt::format(
        "{:<12}{:8.1f} us at {:6.0f} MHz = {:8.1f} thousand cycles, {:5.1f} turns of a group",
        w.name, us, w.mean.mhz, us * w.mean.mhz / 1000, w.mean.tiles);
    if (&w != &ways.front() && fused_mhz > 0 && w.mean.mhz > 0) {
      const double clock_us = us * (w.mean.mhz / fused_mhz - 1);
      text += fmt::format("; fused - it: {:+.1f} by clock, {:+.1f} by cycles", clock_us,
                          fused_us - us - clock_us);
    }
    text += "\n";
  }
  return text;
}

std::string spread(const Spread& s) {
  return fmt::format("{:7.1f}{:7.1f}{:7.1f}", s.least, s.median, s.most);
}

std::string edges(const std::vector<Way>& ways) {
  std::string text =
      "\nIts ends: us, first, median and last SM\n            | after the call before ended:       "
      "  "
      "                                   | before the end:\n";
  text += fmt::format("{:<12}|{:^21}|{:^21}|{:^21}|{:^21}|{:^21}\n", "", "CTA is there",
                      "kernel before done", "first product", "last product ends", "CTA is gone");
  for (const Way& w : ways)
    text +=
        fmt::format("{:<12}|{}|{}|{}|{}|{}\n", w.name, spread(w.mean.entered), spread(w.mean.ready),
                    spread(w.mean.first_product), spread(w.mean.last_product), spread(w.mean.done));
  return text;
}

std::string quarters(const std::vector<Way>& ways) {
  std::string text =
      "\nTiles by the quarter of the call in which their products began: us, median and worst; "
      "waits of the\nloading warp, exposed or not: us an SM\n";
  text +=
      fmt::format("{:<12}{:>3}{:>7}{:>10} |{:^16}|{:^16}|{:^16}|{:>11}{:>11}\n", "", "q", "tiles",
                  "products", "products", "starved", "after products", "wait rows", "wait terms");
  for (const Way& w : ways)
    for (std::size_t q = 0; q < 4; ++q) {
      const Quarter& x = w.mean.quarters.at(q);
      text += fmt::format(
          "{:<12}{:>3}{:>7}{:>10.1f} "
          "|{:8.1f}{:8.1f}|{:8.1f}{:8.1f}|{:8.1f}{:8.1f}|{:>11.1f}{:>11.1f}\n",
          q == 0 ? w.name : "", q + 1, x.tiles, x.work_us, x.products.median, x.products.most,
          x.starved.median, x.starved.most, x.after.median, x.after.most, x.wait_rows_us,
          x.wait_terms_us);
    }
  return text;
}

std::string waits(const std::vector<Way>& ways) {
  std::string text =
      "\nWhat lanes do beside products, exposed or not (a call: how often; us an SM, all lanes; "
      "the "
      "longest)\n";
  for (int d = 1; d < kDoings; ++d) {
    std::string line;
    double most = 0;
    for (const Way& w : ways) {
      const WaitSum& x = w.mean.waits.at(static_cast<std::size_t>(d));
      line += fmt::format(" |{:>7}{:9.1f}{:9.1f}", x.count, x.total_us, x.worst_us);
      most = std::max(most, x.total_us);
    }
    if (most >= 0.05) text += fmt::format("{:<20}{}\n", name_of(static_cast<Doing>(d)), line);
  }
  return text;
}

struct Seen {
  double landed_us = -1;  ///< below 0: nobody looked for it all the time
  double first_us = std::numeric_limits<double>::max();
  double last_us = 0;
  int ctas = 0, waited = 0;
};

std::map<int, Seen> landings(const RankRow& rank, Op op) {
  const Recording& r = rank.fused;
  const CallLine& call = r.calls.back();
  const double begin = r.calls.at(r.calls.size() - 2).end_us;
  std::map<int, Seen> seen;
  for (const LaunchLine& launch : call.launches) {
    const bool terms = launch.kernel == "product" && op != Op::ag_gemm;
    if (launch.kernel == "collect") continue;
    for (const CtaLine& cta : launch.ctas) {
      for (const Landing& l : cta.watched) seen[l.flag].landed_us = l.us - begin;
      for (const Landing& l : cta.landings) {
        Seen& s = seen[terms ? l.flag % 16 : l.flag];
        s.first_us = std::min(s.first_us, l.us - begin);
        s.last_us = std::max(s.last_us, l.us - begin);
        ++s.ctas;
        s.waited += l.waited ? 1 : 0;
      }
    }
  }
  return seen;
}

std::string chunks(const std::vector<RankRow>& ranks, Op op) {
  std::string text =
      "\nThe last call's flags, us after the call before ended: landed, as a warp saw it that "
      "looks "
      "all the time;\nfirst and last seen by the loading warps that need it; how many of them, and "
      "how many had to wait\n";
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const auto& [flag, s] : landings(ranks[r], op)) {
      const int each = ranks[r].chunks;
      const std::string what = each > 0 ? fmt::format("rank {} chunk {}", flag / each, flag % each)
                                        : fmt::format("terms of rank {}", flag);
      if (each > 64 && flag % each % (each / 16) != 0) continue;
      text += fmt::format("at rank {}: {:<18}", r, what);
      if (s.landed_us >= 0) text += fmt::format(" landed {:8.1f},", s.landed_us);
      if (s.ctas > 0) text += fmt::format(" first {:8.1f}, last {:8.1f};", s.first_us, s.last_us);
      text += fmt::format(" {:>5} looked, {:>5} waited\n", s.ctas, s.waited);
    }
  return text;
}

/// Of the CTAs that sum behind the product: when each thing they did was over, first, median and
/// last, us after the product's last event; of all calls that were kept.
std::string sums(const std::vector<RankRow>& ranks) {
  std::map<std::pair<int, std::string>, std::vector<double>> ends;  // in the order of doing
  for (const RankRow& rank : ranks)
    for (const CallLine& call : rank.fused.calls) {
      if (call.launches.size() < 2 || call.launches.back().kernel != "sum") continue;
      const double product_us = call.launches.front().end_us;
      for (const CtaLine& cta : call.launches.back().ctas) {
        ends[{-1, "its CTA began"}].push_back(cta.begin_us - product_us);
        int i = 0;
        for (const Span& s : cta.spans)
          if (s.lane == 0)
            ends[{i++, std::string(name_of(s.doing))}].push_back(s.end_us - product_us);
        for (const Span& s : cta.spans)
          if (s.doing == Doing::admission) ends[{99, "admission"}].push_back(s.end_us - product_us);
      }
    }
  if (ends.empty()) return {};
  std::string text =
      "\nThe sum: over, us after the product's last event: first, median and last CTA\n";
  for (auto& [what, us] : ends) {
    const auto count = us.size();
    text += fmt::format("{:<28}{}   {} of them\n", what.second, spread(spread_of(std::move(us))),
                        count);
  }
  return text;
}

}  // namespace

std::string summary(const std::string& title, Op op, const std::vector<RankRow>& ranks) {
  const std::vector<Way> ways{way_of("fused", ranks, &RankRow::fused),
                              way_of("same tile", ranks, &RankRow::same),
                              way_of("best own", ranks, &RankRow::best)};
  return head(title, ranks) + shares(ways) + products(ways) + edges(ways) + quarters(ways) +
         waits(ways) + sums(ranks) + chunks(ranks, op) + "\n";
}

}  // namespace tilelace::gpu_test
