// SPDX-License-Identifier: Apache-2.0
// When each flag of a call is raised, and which actors wait for it. Calls of a thousand ranks have
// billions of flags but raise few of them, so a hash table holds only flags that are used.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/rows.h"

namespace tilelace::sim {

class Flags {
 public:
  struct Flag {
    std::uint64_t key = 0;     ///< 0: a free entry
    double time_us = -1;       ///< -1: not raised yet
    std::int32_t waiter = -1;  ///< first of a list of waiting actors (Actor::next_waiter); -1: none
  };

  explicit Flags(std::size_t expected) {
    while ((std::size_t{1} << bits_) < 2 * expected) ++bits_;
    places_.resize(std::size_t{1} << bits_);
  }

  Flag& at(int rank, schedule::Index flag) {
    if (2 * (used_ + 1) > places_.size()) grow();
    const std::uint64_t key =
        (static_cast<std::uint64_t>(rank) << 44) + 1 + static_cast<std::uint64_t>(flag);
    Flag& place = find(key);
    if (place.key == 0) place.key = key, ++used_;
    return place;
  }

 private:
  Flag& find(std::uint64_t key) {
    std::size_t i = key * 0x9E3779B97F4A7C15ULL >> (64 - bits_);
    while (places_[i].key != 0 && places_[i].key != key) i = (i + 1) & (places_.size() - 1);
    return places_[i];
  }
  void grow() {
    std::vector<Flag> old(places_.size() * 2);
    old.swap(places_);
    ++bits_;
    for (const Flag& f : old) {
      if (f.key != 0) find(f.key) = f;
    }
  }

  std::vector<Flag> places_;
  std::size_t used_ = 0;
  int bits_ = 6;  ///< the table has 2^bits_ entries
};

}  // namespace tilelace::sim
