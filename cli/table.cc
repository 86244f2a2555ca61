// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tilelace::cli {
namespace {

std::string show(std::optional<double> value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string show_efficiency(std::optional<double> e) {
  if (!e || !std::isfinite(*e)) return "-";
  if (*e <= -100) return "<-99";
  return fmt::format("{:.{}f}", *e, *e <= -10 ? 1 : 2);
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

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& c : columns_) c.width = std::max(c.width, static_cast<int>(c.title.size()));
}

std::string Table::header() const {
  std::vector<std::string> titles;
  for (const Column& c : columns_) titles.push_back(c.title);
  return line(titles);
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string text;
  for (std::size_t i = 0; i < cells.size() && i < columns_.size(); ++i) {
    if (i > 0) text += ' ';
    text += columns_[i].left ? fmt::format("{:<{}}", cells[i], columns_[i].width)
                             : fmt::format("{:>{}}", cells[i], columns_[i].width);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string show_us(std::optional<double> us) {
  if (!us || !std::isfinite(*us)) return "-";
  const double size = std::fabs(*us);
  if (size >= 999999.5) return fmt::format("{:.{}f}s", *us * 1e-6, size >= 99.5e6 ? 0 : 2);
  return fmt::format("{:.{}f}", *us, size >= 999.5 ? 0 : size >= 9.995 ? 1 : 2);
}

Table row_table(const std::vector<Row>& rows) {
  const auto widest = [&](auto text) {
    std::size_t width = 0;
    for (const Row& r : rows) width = std::max(width, std::string(text(r)).size());
    return static_cast<int>(width);
  };
  const auto number = [&](std::int64_t Row::*field) {
    return widest([field](const Row& r) { return fmt::format("{}", r.*field); });
  };
  return Table({{"layer", widest([](const Row& r) { return r.label; }), true},
                {"op", 7, true},
                {"m", number(&Row::m)},
                {"n", number(&Row::n)},
                {"k", number(&Row::k)},
                {"path", 7, true},
                {"GEMM", 6},
                {"coll.", 6},
                {"unfus.", 6},
                {"medium", 6},
                {"fused", 6},
                {"ECT", 6},
                {"E", 5},
                {"speed", 5},
                {"roof", 4},
                {"error", 6},
                {"exact", 5},
                {"ok", 3}});
}

std::vector<std::string> row_cells(const Row& row) {
  std::optional<double> roof;
  if (row.roof() && row.time(Way::fused)) roof = 100 * *row.roof() / *row.time(Way::fused);
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
          roof ? show(roof, 0) + "%" : "-",
          show_error(row.error),
          show_flag(row.exact),
          show_flag(row.verified)};
}

std::string row_legend() {
  return "Times in us (s where marked): median over the samples, each from the first rank's start "
         "to the last one's end.\n"
         "m, n, k: of the unsharded product. path: what the plan chose for `fused`. GEMM, coll.: "
         "either alone.\n"
         "ECT = fused - GEMM. E = 1 - ECT / (unfused - GEMM). speed = unfused / fused. "
         "roof: max(GEMM, coll.) / fused.\n"
         "error: relative, against fp64 (an MLP's: against its products and collectives one after "
         "the other).\n"
         "exact: small integers, bit for bit. ok: within the bounds of every element.\n";
}

}  // namespace tilelace::cli
