// SPDX-License-Identifier: Apache-2.0
#include "collectives/values.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/half.h"

namespace tilelace::cli {
namespace {

/// A prime: no chunk and no part is a multiple of it.
constexpr std::int64_t kPeriod = 65537;

}  // namespace

CollectiveValues::CollectiveValues(DType dtype, int ranks)
    : dtype_(dtype), ranks_(ranks), sums_(static_cast<std::size_t>(kPeriod) * size_of(dtype)) {
  std::vector<float> sums(kPeriod);
  for (int r = 0; r < ranks; ++r) {
    auto& own = own_.emplace_back(sums_.size());
    std::mt19937_64 random(static_cast<std::uint64_t>(r) + 1);
    for (std::int64_t i = 0; i < kPeriod; ++i) {
      const double value = static_cast<double>(random() >> 11U) * 0x1p-52 - 1;
      store_element(own.data(), dtype, i, static_cast<float>(value));
      float& sum = sums[static_cast<std::size_t>(i)];
      const float term = load_element(own.data(), dtype, i);
      sum = r == 0 ? term : sum + term;
    }
  }
  for (std::int64_t i = 0; i < kPeriod; ++i)
    store_element(sums_.data(), dtype, i, sums[static_cast<std::size_t>(i)]);
}

std::vector<std::byte> CollectiveValues::input(const CollectiveShape& s, int rank) const {
  const auto& table = own_[static_cast<std::size_t>(rank)];
  std::vector<std::byte> bytes(static_cast<std::size_t>(s.in) * size_of(dtype_));
  for (std::size_t at = 0; at < bytes.size(); at += table.size())
    std::memcpy(bytes.data() + at, table.data(), std::min(table.size(), bytes.size() - at));
  return bytes;
}

std::vector<CollectiveValues::Section> CollectiveValues::expected(const CollectiveShape& s,
                                                                  int rank) const {
  switch (s.op) {
    case Collective::all_reduce: return {{&sums_, 0, s.count}};
    case Collective::reduce_scatter: return {{&sums_, rank * s.count, s.count}};
    case Collective::all_gather:
    case Collective::all_to_all: break;
  }
  std::vector<Section> sections;
  const std::int64_t first = s.op == Collective::all_to_all ? rank * s.count : 0;
  for (const auto& table : own_) sections.push_back({&table, first, s.count});
  return sections;
}

std::int64_t CollectiveValues::first_wrong(const Section& want, const std::byte* got,
                                           double tolerance) const {
  const auto item = static_cast<std::int64_t>(size_of(dtype_));
  for (std::int64_t done = 0; done < want.count;) {
    const std::int64_t from = (want.first + done) % kPeriod;
    const std::int64_t some = std::min(kPeriod - from, want.count - done);
    const std::byte* const table = want.table->data() + from * item;
    const std::byte* const here = got + done * item;
    const bool same = std::memcmp(table, here, static_cast<std::size_t>(some * item)) == 0;
    for (std::int64_t i = 0; !same && i < some; ++i) {
      if (std::memcmp(table + i * item, here + i * item, static_cast<std::size_t>(item)) == 0)
        continue;
      const double error = std::fabs(static_cast<double>(load_element(here, dtype_, i)) -
                                     load_element(table, dtype_, i));
      if (!(error <= tolerance) || tolerance == 0) return done + i;
    }
    done += some;
  }
  return -1;
}

std::string CollectiveValues::compare(const CollectiveShape& s, int rank,
                                      const std::vector<std::byte>& got, double tolerance) const {
  std::int64_t before = 0;
  for (const Section& want : expected(s, rank)) {
    const std::byte* const here = got.data() + before * static_cast<std::int64_t>(size_of(dtype_));
    const std::int64_t at = first_wrong(want, here, tolerance);
    if (at >= 0)
      return fmt::format("rank {}: element {} of {}, got {}, expected {}", rank, before + at, s.out,
                         load_element(here, dtype_, at),
                         load_element(want.table->data(), dtype_, (want.first + at) % kPeriod));
    before += want.count;
  }
  return {};
}

std::string CollectiveValues::wrong(const CollectiveShape& s, int rank,
                                    const std::vector<std::byte>& got) const {
  return compare(s, rank, got, 0);
}

std::string CollectiveValues::far_off(const CollectiveShape& s, int rank,
                                      const std::vector<std::byte>& got) const {
  // Each of the roundings errs by at most u times a partial sum, which is at most the ranks; so
  // may our own one.
  const double tolerance = unit_roundoff(dtype_) * ranks_ * ranks_;
  return compare(s, rank, got, row_of(s.op).sums ? tolerance : 0);
}

}  // namespace tilelace::cli
