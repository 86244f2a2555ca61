// SPDX-License-Identifier: Apache-2.0
#include "account.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tilelace::gpu_test {
namespace {

int index(Doing d) { return static_cast<int>(d); }
int index(Idle i) { return kDoings + static_cast<int>(i); }

/// Whether a lane's span says what its SM is doing: loading goes on beside products, and the warp
/// that admits waits on behalf of others.
bool counts(const Span& s) {
  if (s.lane < cuda::kLoadLane || s.lane == cuda::kCopyLane) return true;
  return s.lane == cuda::kLoadLane &&
         (s.doing == Doing::wait_rows || s.doing == Doing::wait_terms ||
          s.doing == Doing::wait_shared || s.doing == Doing::before);
}

/// All that ran on one SM.
struct Sm {
  std::vector<const CtaLine*> ctas;
  double begin_us = 0, end_us = 0;
};

std::map<int, Sm> sms_of(const CallLine& call) {
  std::map<int, Sm> sms;
  for (const LaunchLine& launch : call.launches)
    for (const CtaLine& cta : launch.ctas) {
      Sm& sm = sms[cta.multiprocessor];
      sm.begin_us = sm.ctas.empty() ? cta.begin_us : std::min(sm.begin_us, cta.begin_us);
      sm.end_us = sm.ctas.empty() ? cta.end_us : std::max(sm.end_us, cta.end_us);
      sm.ctas.push_back(&cta);
    }
  return sms;
}

double overlap(const Span& x, const Span& y) {
  return std::max(0.0, std::min(x.end_us, y.end_us) - std::max(x.begin_us, y.begin_us));
}

/// Products stand still for some of their time. Groups that multiply side by side do so together:
/// their sum is scaled to the time in which any of them multiplied.
void take_starved(const Sm& sm, Account& a) {
  double sum = 0, starved = 0, rows = 0;
  for (const CtaLine* cta : sm.ctas)
    for (const Span& s : cta->spans) {
      if (s.doing != Doing::multiply) continue;
      double waiting = 0;
      for (const Span& w : cta->spans)
        if (w.doing == Doing::wait_rows) waiting += overlap(s, w);
      sum += s.end_us - s.begin_us;
      starved += s.starved_us;
      rows += std::min(s.starved_us, waiting);
    }
  if (sum <= 0) return;
  double& products = a[static_cast<std::size_t>(index(Doing::multiply))];
  const double scale = std::min(1.0, products / sum);
  products -= starved * scale;
  a[static_cast<std::size_t>(index(Idle::starved_rows))] += rows * scale;
  a[static_cast<std::size_t>(index(Idle::starved_operands))] += (starved - rows) * scale;
}

/// Every moment of [begin, end) under the first heading that some lane is under.
Account account_of(const Sm& sm, double begin_us, double end_us) {
  struct Edge {
    double us;
    int heading, step;
  };
  std::vector<Edge> edges;
  const auto add = [&](double from, double to, int heading) {
    from = std::clamp(from, begin_us, end_us);
    to = std::clamp(to, begin_us, end_us);
    if (to > from) edges.push_back({from, heading, 1}), edges.push_back({to, heading, -1});
  };
  for (const CtaLine* cta : sm.ctas)
    for (const Span& s : cta->spans)
      if (counts(s)) add(s.begin_us, s.end_us, index(s.doing));
  add(begin_us, sm.begin_us, index(Idle::launch));
  add(sm.end_us, end_us, index(Idle::tail));
  add(begin_us, end_us, index(Idle::between));
  std::sort(edges.begin(), edges.end(), [](const Edge& x, const Edge& y) { return x.us < y.us; });
  Account a{};
  std::array<int, kHeadings> open{};
  double last = begin_us;
  for (const Edge& e : edges) {
    const auto first = std::find_if(open.begin(), open.end(), [](int n) { return n > 0; });
    if (first != open.end()) a[static_cast<std::size_t>(first - open.begin())] += e.us - last;
    last = e.us;
    open[static_cast<std::size_t>(e.heading)] += e.step;
  }
  take_starved(sm, a);
  return a;
}

/// Until when a group was busy with a tile whose products ended at `from`.
double after_us(const CtaLine& cta, const Span& products) {
  double end = products.end_us;
  for (const Span& s : cta.spans)
    if (s.lane == products.lane && s.tile == products.tile && s.doing != Doing::finish)
      end = std::max(end, s.end_us);
  return end - products.end_us;
}

struct QuarterValues {
  std::vector<double> products, starved, after;
};

void add_quarters(const std::map<int, Sm>& sms, CallAccount& c) {
  std::array<QuarterValues, 4> values;
  const auto quarter = [&](double us) {
    return std::clamp(static_cast<int>((us - c.begin_us) / c.us * 4), 0, 3);
  };
  const auto count = static_cast<double>(sms.size());
  for (const auto& [number, sm] : sms)
    for (const CtaLine* cta : sm.ctas)
      for (const Span& s : cta->spans) {
        const auto q = static_cast<std::size_t>(quarter(s.begin_us));
        const double us = s.end_us - s.begin_us;
        if (s.doing == Doing::wait_rows) c.quarters[q].wait_rows_us += us / count;
        if (s.doing == Doing::wait_terms) c.quarters[q].wait_terms_us += us / count;
        if (s.doing != Doing::multiply) continue;
        values[q].products.push_back(us);
        values[q].starved.push_back(s.starved_us);
        values[q].after.push_back(after_us(*cta, s));
        c.quarters[q].work_us += (us - s.starved_us) / count;
        ++c.quarters[q].tiles;
        c.tiles += 1 / count;
      }
  for (std::size_t q = 0; q < 4; ++q) {
    c.quarters[q].products = spread_of(values[q].products);
    c.quarters[q].starved = spread_of(values[q].starved);
    c.quarters[q].after = spread_of(values[q].after);
  }
}

void add_waits(const std::map<int, Sm>& sms, CallAccount& c) {
  for (const auto& [number, sm] : sms)
    for (const CtaLine* cta : sm.ctas)
      for (const Span& s : cta->spans) {
        WaitSum& w = c.waits.at(static_cast<std::size_t>(index(s.doing)));
        w.total_us += (s.end_us - s.begin_us) / static_cast<double>(sms.size());
        w.worst_us = std::max(w.worst_us, s.end_us - s.begin_us);
        ++w.count;
      }
}

void add_edges(const CallLine& call, const std::map<int, Sm>& sms, CallAccount& c) {
  std::vector<double> entered, ready, first, last, done, mhz;
  for (const auto& [number, sm] : sms) {
    double begin = call.end_us, end = c.begin_us;
    for (const CtaLine* cta : sm.ctas) {
      ready.push_back(cta->ready_us - c.begin_us);
      if (cta->mhz > 0) mhz.push_back(cta->mhz);
      for (const Span& s : cta->spans) {
        if (s.doing != Doing::multiply) continue;
        begin = std::min(begin, s.begin_us);
        end = std::max(end, s.end_us);
      }
    }
    entered.push_back(sm.begin_us - c.begin_us);
    done.push_back(call.end_us - sm.end_us);
    if (begin >= end) continue;
    first.push_back(begin - c.begin_us);
    last.push_back(call.end_us - end);
  }
  c.entered = spread_of(entered);
  c.ready = spread_of(ready);
  c.first_product = spread_of(first);
  c.last_product = spread_of(last);
  c.done = spread_of(done);
  c.mhz = spread_of(mhz).median;
}

Spread mean_spread(const std::vector<CallAccount>& calls, Spread CallAccount::*field) {
  Spread s;
  const auto n = static_cast<double>(calls.size());
  for (const CallAccount& c : calls) {
    s.least += (c.*field).least / n;
    s.median += (c.*field).median / n;
    s.most += (c.*field).most / n;
  }
  return s;
}

Quarter mean_quarter(const std::vector<CallAccount>& calls, std::size_t q) {
  Quarter sum;
  const auto n = static_cast<double>(calls.size());
  const auto add = [&](Spread& to, const Spread& s) {
    to.least += s.least / n, to.median += s.median / n, to.most = std::max(to.most, s.most);
  };
  for (const CallAccount& c : calls) {
    const Quarter& x = c.quarters.at(q);
    sum.tiles += x.tiles;
    sum.work_us += x.work_us / n;
    sum.wait_rows_us += x.wait_rows_us / n;
    sum.wait_terms_us += x.wait_terms_us / n;
    add(sum.products, x.products);
    add(sum.starved, x.starved);
    add(sum.after, x.after);
  }
  sum.tiles /= static_cast<int>(calls.size());
  return sum;
}

}  // namespace

std::string_view heading(int i) {
  constexpr std::array<std::string_view, kIdles> kNames{"starved: rows", "starved: operands",
                                                        "launch gap", "tail", "between kernels"};
  return i < kDoings ? name_of(static_cast<Doing>(i))
                     : kNames.at(static_cast<std::size_t>(i - kDoings));
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

CallAccount account_of(const CallLine& call, double begin_us, int multiprocessors) {
  CallAccount c;
  c.begin_us = begin_us;
  c.us = call.end_us - begin_us;
  const auto sms = sms_of(call);
  const auto all = static_cast<double>(std::max(multiprocessors, static_cast<int>(sms.size())));
  for (const auto& [number, sm] : sms) {
    const Account a = account_of(sm, begin_us, call.end_us);
    for (std::size_t i = 0; i < a.size(); ++i) c.share[i] += a[i] / all;
  }
  c.share[static_cast<std::size_t>(index(Idle::tail))] +=
      (all - static_cast<double>(sms.size())) / all * c.us;
  add_edges(call, sms, c);
  add_quarters(sms, c);
  add_waits(sms, c);
  return c;
}

CallAccount mean_of(const std::vector<CallAccount>& calls) {
  CallAccount sum;
  const auto n = static_cast<double>(calls.size());
  for (const CallAccount& c : calls) {
    sum.us += c.us / n;
    sum.tiles += c.tiles / n;
    sum.mhz += c.mhz / n;
    for (std::size_t i = 0; i < c.share.size(); ++i) sum.share[i] += c.share[i] / n;
    for (std::size_t i = 0; i < c.waits.size(); ++i) {
      sum.waits[i].total_us += c.waits[i].total_us / n;
      sum.waits[i].worst_us = std::max(sum.waits[i].worst_us, c.waits[i].worst_us);
      sum.waits[i].count += c.waits[i].count;
    }
  }
  for (Spread CallAccount::*field :
       {&CallAccount::entered, &CallAccount::ready, &CallAccount::first_product,
        &CallAccount::last_product, &CallAccount::done})
    sum.*field = mean_spread(calls, field);
  for (WaitSum& w : sum.waits) w.count /= static_cast<int>(calls.size());
  for (std::size_t q = 0; q < 4; ++q) sum.quarters[q] = mean_quarter(calls, q);
  return sum;
}

}  // namespace tilelace::gpu_test
