// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "text_width.h"

namespace tilelace::cli {
namespace {

std::string show(std::optional<double> value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string show_flag(std::optional<bool> value) { return !value ? "-" : *value ? "yes" : "NO"; }

std::string show_error(std::optional<double> error) {
  if (!error) return "-";
  if (!std::isfinite(*error)) return "NaN";
  if (*error == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(*error)));
  return fmt::format("{:.1f}e{}", *error / std::pow(10.0, exponent), exponent);
}

}  // namespace

Table::Table(std::vector<Column> columns, std::string about, int characters)
    : columns_(std::move(columns)),
      shown_(columns_.size(), true),
      about_(std::move(about)),
      characters_(characters) {
  for (Column& c : columns_) c.width = std::max(c.width, static_cast<int>(c.title.size()));
  while (characters_ > 0 && width() > characters_) {
    std::size_t most = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool may_go = shown_[i] && columns_[i].spare > 0;
      if (may_go && (most == columns_.size() || columns_[i].spare > columns_[most].spare)) most = i;
    }
    if (most == columns_.size()) return;
    shown_[most] = false;
  }
}

int Table::width() const {
  int all = -1;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (shown_[i]) all += columns_[i].width + 1;
  return all;
}

std::string Table::header() const {
  std::vector<std::string> titles;
  for (const Column& c : columns_) titles.push_back(c.title);
  return line(titles);
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string text;
  std::size_t last = 0;
  bool words = false;
  for (std::size_t i = 0; i < cells.size() && i < columns_.size(); ++i) {
    if (!shown_[i]) continue;
    if (!text.empty()) text += ' ';
    last = text.size();
    words = columns_[i].left;
    text += words ? fmt::format("{:<{}}", cells[i], columns_[i].width)
                  : fmt::format("{:>{}}", cells[i], columns_[i].width);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return words ? filled(text, characters_, static_cast<int>(last)) : text;
}

std::string Table::legend() const {
  std::string text = about_;
  bool all = true;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    all = all && shown_[i];
    if (shown_[i] && !columns_[i].legend.empty()) text += ' ' + columns_[i].legend;
  }
  if (!all) text += " More: --wide.";
  // Whoever asked for all columns has room for a legend of three lines.
  constexpr int kWideLegend = 140;
  return filled(text, characters_ > 0 ? characters_ : std::max(kWideLegend, width())) + '\n';
}

int widest(const std::vector<std::string>& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  return static_cast<int>(width);
}

std::string show_us(std::optional<double> us) {
  if (!us || !std::isfinite(*us)) return "-";
  const double size = std::fabs(*us);
  if (size >= 999999.5) return fmt::format("{:.{}f}s", *us * 1e-6, size >= 99.5e6 ? 0 : 2);
  return fmt::format("{:.{}f}", *us, size >= 999.5 ? 0 : size >= 9.995 ? 1 : 2);
}

std::string show_gain(double us, double standard_us) {
  return standard_us > 0 ? fmt::format("{:+.1f} %", 100 * (standard_us / us - 1)) : "-";
}

std::string show_efficiency(std::optional<double> e) {
  if (!e || !std::isfinite(*e)) return "-";
  if (*e <= -100) return "<-99";
  const std::string text = fmt::format("{:.{}f}", *e, *e <= -10 ? 1 : 2);
  return text == "-0.00" ? "0.00" : text;
}

namespace {

template <class F>
int widest_of(const std::vector<Row>& rows, F text) {
  std::vector<std::string> all;
  for (const Row& row : rows) all.push_back(text(row));
  return widest(all);
}

int widest_number(const std::vector<Row>& rows, std::int64_t Row::*field) {
  return widest_of(rows, [field](const Row& r) { return fmt::format("{}", r.*field); });
}

}  // namespace

Table row_table(const std::vector<Row>& rows, int characters) {
  return Table({{"layer", widest_of(rows, [](const Row& r) { return r.label; }), true},
                {"op", 7, true},
                {"m", widest_number(rows, &Row::m)},
                {"n", widest_number(rows, &Row::n)},
                {"k", widest_number(rows, &Row::k), false, 0, "m, n, k: unsharded."},
                {"path", 7, true, 6, "path: of fused."},
                {"GEMM", 6},
                {"coll.", 6, false, 1},
                {"unfus.", 6, false, 0, "unfus.: one after the other."},
                {"medium", 6, false, 2, "medium: a GEMM per shard."},
                {"fused", 6},
                {"ECT", 6, false, 8, "ECT: fused - GEMM."},
                {"E", 5, false, 4, "E: 1 - (fused - GEMM) / (unfus. - GEMM)."},
                {"speed", 5, false, 0, "speed: unfus. / fused."},
                {"longer", 6, false, 5, "longer: max(GEMM, coll.) / fused."},
                {"error", 6, false, 3, "error: against fp64."},
                {"exact", 5, false, 7, "exact: integers, bit for bit."},
                {"ok", 3, false, 0, "ok: within bounds, integers exact."}},
               "Median times in us (s: seconds).", characters);
}

std::vector<std::string> row_cells(const Row& row) {
  std::optional<double> longer;
  if (row.longer_us() && row.time(Way::fused))
    longer = 100 * *row.longer_us() / *row.time(Way::fused);
  return {row.label.empty() ? "-" : row.label,
          row.op,
          fmt::format("{}", row.m),
          fmt::format("{}", row.n),
          fmt::format("{}", row.k),
          std::string(name_of(row.plan.path)),
          show_us(row.time(Way::gemm)),
          show_us(row.time(Way::collective)),
          show_us(row.time(Way::unfused)),
          show_us(row.time(Way::medium)),
          show_us(row.time(Way::fused)),
          show_us(row.ect()),
          show_efficiency(row.efficiency()),
          show(row.speedup(), 2),
          longer ? show(longer, 0) + "%" : "-",
          show_error(row.error),
          show_flag(row.exact),
          show_flag(row.verified ? std::optional(row.good()) : std::nullopt)};
}

Table tune_table(const std::vector<Row>& rows, int characters) {
  return Table({{"layer", widest_of(rows, [](const Row& r) { return r.label; }), true},
                {"op", 7, true},
                {"m", widest_number(rows, &Row::m)},
                {"n", widest_number(rows, &Row::n), false, 2},
                {"k", widest_number(rows, &Row::k), false, 2, "m, n, k: unsharded."},
                {"us", 6},
                {"gain", 8, false, 0, "gain: how much longer the planner's own choice takes."},
                {"kind", 0, true, 0, "kind: of the fastest plan."}},
               "Times in us (s: seconds).", characters);
}

std::vector<std::string> tune_cells(const Row& row) {
  const Candidate& best = row.candidates.front();
  const double standard = row.planned_us.value_or(0);
  return {row.label.empty() ? "-" : row.label,
          row.op,
          fmt::format("{}", row.m),
          fmt::format("{}", row.n),
          fmt::format("{}", row.k),
          show_us(best.us),
          show_gain(best.us, standard),
          best.way.kind};
}

}  // namespace tilelace::cli
