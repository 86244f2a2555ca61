// SPDX-License-Identifier: Apache-2.0
#include "simulate/figure.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "core/check.h"
#include "sim/fabric.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

using sim::SpanKind;

constexpr double kLeft = 150, kWide = 1000, kRight = 44;
constexpr double kPixelGap = 0.3;  ///< spans of one colour that are closer become one
constexpr int kMostWires = 40;

constexpr const char* kOwn = "#2b6cb0";
constexpr const char* kWait = "#f6c1bb";
constexpr const char* kReduce = "#805ad5";
constexpr const char* kCopy = "#dd6b20";
constexpr const char* kNetwork = "#b7791f";
constexpr const char* kMethod = "#a0aec0";
constexpr const char* kBeyond = "#4a5568";
constexpr const char* kText = "#2d3748";

/// Shards of other ranks: greens from near to far.
std::string shard_colour(int owner, int rank, int ranks) {
  if (owner == rank) return kOwn;
  const int away = (owner - rank + ranks) % ranks;
  const double far = ranks > 2 ? static_cast<double>(away - 1) / (ranks - 2) : 0;
  const auto mix = [far](double near_by, double far_off) {
    return static_cast<int>(near_by + (far_off - near_by) * far);
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(39, 154), mix(103, 222), mix(73, 130));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += '?';  // XML has none, escaped or not
    else
      out += c;
  }
  return out;
}

class Figure {
 public:
  Figure(const sim::MachineModel& machine, const SimulatedRow& row, int rank)
      : machine_(machine), row_(row), p_(row.prediction), rank_(rank) {
    end_us_ = std::max({p_.fused_us, p_.unfused_us, p_.medium_us, p_.gemm_us});
    scale_ = kWide / end_us_;
  }

  std::string draw() {
    title();
    methods();
    workers();
    wires();
    axis();
    legend();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" "
        "fill=\"{2}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        kLeft + kWide + kRight, y_ + 12, kText, body_);
  }

 private:
  [[nodiscard]] double x(double us) const { return kLeft + us * scale_; }

  void text(double at, double y, const std::string& what, const char* more = "") {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", at, y, more, escaped(what));
  }
  void label(double y, const std::string& what) { text(kLeft - 8, y, what, "text-anchor=\"end\""); }
  void box(double begin, double end, double y, double high, const std::string& colour) {
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
        x(begin), y, std::max(0.2, (end - begin) * scale_), high, colour);
  }

  void title() {
    const Problem& p = row_.call.problem;
    text(kLeft, 20,
         fmt::format("{} {}m {} n {} k {}, {} ranks of {}", name_of(p.op),
                     row_.model.empty() ? "" : row_.model + " " + row_.layer + " ", p.m, row_.n,
                     row_.k, p.ranks, machine_.name),
         "font-size=\"15\" font-weight=\"bold\"");
    text(kLeft, 37,
         fmt::format("{}   bound by {}, E {}, known error {:g} % (median)", fmt::streamed(p_.plan),
                     p_.bound(), show_efficiency(p_.efficiency()), machine_.error.median_percent));
    y_ = 52;
  }

  void methods() {
    const std::array<std::pair<const char*, double>, 4> bars = {{{"GEMM alone", p_.gemm_us},
                                                                 {"fused", p_.fused_us},
                                                                 {"medium-grained", p_.medium_us},
                                                                 {"unfused", p_.unfused_us}}};
    for (const auto& [name, us] : bars) {
      label(y_ + 10, name);
      box(0, us, y_, 12, kMethod);
      // A gather comes before the product, sums after it.
      const bool unfused = std::strcmp(name, "unfused") == 0;
      const double collective = std::min(us, p_.collective_us);
      const double from = tilelace::row_of(row_.call.problem.op).gathers ? 0 : us - collective;
      if (unfused) box(from, from + collective, y_, 12, kCopy);
      if (!unfused && us > p_.gemm_us) box(p_.gemm_us, us, y_, 12, kBeyond);
      const bool inside = x(us) + 60 > kLeft + kWide, dark = from > 0 || !unfused;
      text(inside ? x(us) - 5 : x(us) + 5, y_ + 10, fmt::format("{:.0f} us", us),
           inside ? dark ? "text-anchor=\"end\" fill=\"#ffffff\"" : "text-anchor=\"end\"" : "");
      y_ += 15;
    }
    y_ += 18;
  }

  /// Draws spans as rows, joining those that touch.
  void row_of(std::vector<const sim::Span*>& spans, double high, bool wire) {
    std::sort(spans.begin(), spans.end(),
              [](const sim::Span* a, const sim::Span* b) { return a->begin_us < b->begin_us; });
    double begin = 0, end = -1;
    std::string colour;
    for (const sim::Span* s : spans) {
      const std::string own = wire ? wire_colour_ : colour_of(*s);
      if (end >= 0 && own == colour && (s->begin_us - end) * scale_ < kPixelGap) {
        end = std::max(end, s->end_us);
        continue;
      }
      if (end >= 0) box(begin, end, y_, high, colour);
      begin = s->begin_us, end = s->end_us, colour = own;
    }
    if (end >= 0) box(begin, end, y_, high, colour);
  }

  [[nodiscard]] std::string colour_of(const sim::Span& s) const {
    switch (s.kind) {
      case SpanKind::compute: return shard_colour(s.peer, rank_, row_.call.problem.ranks);
      case SpanKind::reduce: return kReduce;
      case SpanKind::wait: return kWait;
      case SpanKind::copy:
      case SpanKind::wire: break;
    }
    return kCopy;
  }

  /// What the workers of the rank do until the last rank ends.
  [[nodiscard]] std::string shares(double until_us) const {
    std::map<SpanKind, double> us;
    for (const sim::Span& s : p_.fused.spans)
      if (s.rank == rank_ && s.lane >= 0) us[s.kind] += s.end_us - s.begin_us;
    const double percent = 100 / (until_us * p_.plan.workers);
    const double products = percent * us[SpanKind::compute], sums = percent * us[SpanKind::reduce];
    const double waits = percent * us[SpanKind::wait];
    return fmt::format(
        "its workers: products {:.0f} %, sums {:.0f} %, waits for flags {:.0f} %, "
        "nothing to do {:.0f} %",
        products, sums, waits, std::max(0.0, 100 - products - sums - waits));
  }

  void workers() {
    std::map<int, std::vector<const sim::Span*>> lanes;
    for (const sim::Span& s : p_.fused.spans) {
      if (s.kind != SpanKind::wire && s.rank == rank_) lanes[s.lane].push_back(&s);
    }
    const double high = std::clamp(420.0 / std::max(1, p_.plan.workers), 1.5, 14.0);
    const auto& ends = p_.fused.rank_end_us;
    const auto last = std::max_element(ends.begin(), ends.end());
    const double own_end = ends.at(static_cast<std::size_t>(rank_));
    text(kLeft, y_,
         fmt::format("fused, rank {}: the copy role and {} workers; it ends at "
                     "{:.0f} us, the last rank ({}) at {:.0f} us",
                     rank_, p_.plan.workers, own_end, last - ends.begin(), *last),
         "font-weight=\"bold\"");
    text(kLeft, y_ += 15, shares(*last));
    y_ += 6;
    for (int lane = -1; lane < p_.plan.workers; ++lane) {
      const double own = lane < 0 ? 14 : high;
      if (lane < 0) label(y_ + 11, "copy");
      if (lane == 0) label(y_ + 10, "worker 0");
      if (lane > 0 && lane == p_.plan.workers - 1) {
        label(y_ + own, fmt::format("worker {}", lane));
      }
      row_of(lanes[lane], own > 6 ? own - 1 : own, false);
      y_ += own + (lane < 0 ? 4 : 0);
    }
    y_ += 22;
  }

  void wires() {
    const sim::Fabric fabric(machine_, row_.call.problem.ranks, row_.call.local);
    const int node = rank_ / row_.call.local;
    std::map<int, std::vector<const sim::Span*>> lanes;
    for (const sim::Span& s : p_.fused.spans) {
      if (s.kind == SpanKind::wire && fabric.node_of(s.rank) == node) lanes[s.rank].push_back(&s);
    }
    text(kLeft, y_,
         row_.call.local < row_.call.problem.ranks
             ? fmt::format("wires of node {}, and their busy share of the call", node)
             : "wires, and their busy share of the call",
         "font-weight=\"bold\"");
    y_ += 6;
    int shown = 0;
    for (auto& [wire, spans] : lanes) {
      if (++shown > kMostWires) {
        label(y_ + 10, fmt::format("{} more", lanes.size() - kMostWires));
        y_ += 14;
        break;
      }
      const auto& w = fabric.wires().at(static_cast<std::size_t>(wire));
      label(y_ + 9, w.name);
      wire_colour_ = w.network ? kNetwork : kCopy;
      row_of(spans, 10, true);
      double busy = 0;
      for (const sim::Span* s : spans) busy += s->end_us - s->begin_us;
      text(x(p_.fused_us) + 5, y_ + 9, fmt::format("{:.0f} %", 100 * busy / p_.fused_us));
      y_ += 12;
    }
    y_ += 4;
  }

  /// The grid of times, and a line where the fused call ends.
  void axis() {
    body_ += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"52\" y2=\"{1:.1f}\" stroke=\"{2}\"/>\n",
        x(p_.fused_us), y_, kText);
    const double rough = end_us_ / 8;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power >= 5 ? 5 : rough / power >= 2 ? 2 : 1);
    for (double at = 0; at <= end_us_ * 1.0001; at += step) {
      body_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"48\" y2=\"{1:.1f}\" stroke=\"#718096\" "
          "stroke-width=\"0.4\" stroke-dasharray=\"2 4\"/>\n",
          x(at), y_);
      text(x(at), y_ + 13, fmt::format("{:g} us", at), "text-anchor=\"middle\"");
    }
    y_ += 30;
  }

  [[nodiscard]] bool shows(SpanKind kind) const {
    return std::any_of(p_.fused.spans.begin(), p_.fused.spans.end(), [&](const sim::Span& s) {
      return s.kind == kind && (kind == SpanKind::wire || s.rank == rank_);
    });
  }

  void legend() {
    const int ranks = row_.call.problem.ranks;
    std::vector<std::pair<std::string, std::string>> all = {{kOwn, "tiles of the own shard"}};
    if (ranks > 1)
      all.emplace_back(shard_colour((rank_ + 1) % ranks, rank_, ranks),
                       ranks > 2 ? "of the next rank's, lighter up to" : "of the other's");
    if (ranks > 2)
      all.emplace_back(shard_colour((rank_ + ranks - 1) % ranks, rank_, ranks),
                       "the previous rank's");
    if (shows(SpanKind::wait)) all.emplace_back(kWait, "waits for a flag");
    if (shows(SpanKind::reduce)) all.emplace_back(kReduce, "adds partials");
    all.emplace_back(kBeyond, "beyond the GEMM");
    if (ranks > 1) all.emplace_back(kCopy, "copies, bytes on a wire, collective");
    if (row_.call.local < ranks) all.emplace_back(kNetwork, "bytes on a NIC");
    double at = kLeft;
    for (const auto& [colour, what] : all) {
      const double wide = 28 + 6.1 * static_cast<double>(what.size());
      if (at + wide > kLeft + kWide + kRight) at = kLeft, y_ += 16;
      body_ +=
          fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                      at, y_ - 9, colour);
      text(at + 14, y_, what);
      at += wide;
    }
    y_ += 6;
  }

  const sim::MachineModel& machine_;
  const SimulatedRow& row_;
  const sim::Prediction& p_;
  int rank_;
  double end_us_ = 0, scale_ = 1, y_ = 0;
  std::string body_, wire_colour_;
};

}  // namespace

std::string figure_svg(const sim::MachineModel& machine, const SimulatedRow& row, int rank) {
  return Figure(machine, row, rank).draw();
}

}  // namespace tilelace::cli
