// SPDX-License-Identifier: Apache-2.0
#include "check/clock.h"

#include <algorithm>
#include <functional>

namespace tilelace::check {

namespace {

/// Parts of a clock: what an actor writes down before it makes a copy, or leaves it at that; what
/// others read of it rather than a copy.
constexpr std::size_t kCopied = 8, kLost = 4, kNews = 16, kScanned = 4;

}  // namespace

void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

int first_beyond(const Clock& other, const Clock& known) {
  std::uint32_t beyond = 0;
  for (std::size_t b = 0; b < known.size(); ++b) beyond += other[b] > known[b] ? 1 : 0;
  if (beyond == 0) return -1;
  const auto [at, _] = std::mismatch(other.begin(), other.end(), known.begin(), std::less_equal{});
  return static_cast<int>(at - other.begin());
}

Clocks::Clocks(std::size_t actors) : actors_(actors) {
  for (std::size_t a = 0; a < actors; ++a) {
    actors_[a].known.assign(actors, 0);
    actors_[a].known[a] = 1;
    actors_[a].moments.assign(1, {});
  }
}

/// What was written down behind the last copy, or from the beginning.
std::size_t Clocks::behind(const Actor& actor) {
  return actor.now.learned - (actor.copies.empty() ? 0 : actor.copies.back().learned);
}

Release Clocks::release(int a) {
  Actor& self = at(a);
  ++work_;
  if (self.lost || behind(self) >= self.known.size() / kCopied) {
    work_ += static_cast<std::int64_t>(self.known.size());
    self.now.gap += self.lost ? 1 : 0;
    self.lost = false;
    self.copies.push_back({self.now.learned, self.known});
    ++self.now.copies;
  }
  self.moments.push_back(self.now);
  return {a, self.known[static_cast<std::size_t>(a)]++};
}

void Clocks::learn(Actor& self, Release r) {
  Time& have = self.known[static_cast<std::size_t>(r.actor)];
  if (have >= r.time) return;
  have = r.time;
  if (self.lost) return;
  self.learned.push_back(r);
  ++self.now.learned;
}

void Clocks::learn(Actor& self, const Clock& other) {
  const std::size_t size = other.size();
  work_ += static_cast<std::int64_t>(size);
  if (!self.lost) {
    std::uint32_t news = 0;
    for (std::size_t b = 0; b < size; ++b) news += self.known[b] < other[b] ? 1 : 0;
    self.lost = news > size / kNews || behind(self) > size / kLost;
  }
  if (self.lost) return join(self.known, other);
  // By blocks, most of which say nothing new.
  constexpr std::size_t kBlock = 16;
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, size);
    Time news = 0;
    for (std::size_t b = begin; b < end; ++b) news |= self.known[b] < other[b] ? 1 : 0;
    if (news == 0) continue;
    for (std::size_t b = begin; b < end; ++b) learn(self, Release{static_cast<int>(b), other[b]});
  }
}

void Clocks::acquire(int a, Release r) {
  ++work_;
  if (knows(a, r.actor, r.time)) return;
  Actor& self = at(a);
  const Actor& from = at(r.actor);
  const Moment& begin = from.moment(self.known[static_cast<std::size_t>(r.actor)]);
  const Moment& end = from.moment(r.time);
  std::uint32_t i = begin.learned;
  if (begin.copies < end.copies &&
      (begin.gap != end.gap || end.learned - i > self.known.size() / kScanned)) {
    const Copy& copy = from.copies[end.copies - from.moments.front().copies - 1];
    learn(self, copy.known);
    i = copy.learned;
  }
  learn(self, r);
  work_ += end.learned - i;
  for (; i < end.learned; ++i) learn(self, from.learned[i]);
}

void Clocks::acquire(int a, const Clock& other) { learn(at(a), other); }

std::size_t Clocks::kept() const {
  std::size_t sum = 0;
  for (const Actor& a : actors_)
    sum += a.learned.size() + a.moments.size() + a.copies.size() * a.known.size();
  return sum;
}

void Clocks::trim() {
  work_ += static_cast<std::int64_t>(actors_.size() * actors_.size());
  Clock least = actors_.front().known;
  for (const Actor& actor : actors_) {
    for (std::size_t b = 0; b < least.size(); ++b) least[b] = std::min(least[b], actor.known[b]);
  }
  for (std::size_t b = 0; b < least.size(); ++b) {
    Actor& actor = actors_[b];
    const Moment from = actor.moment(least[b]);
    const auto drop = [](auto& of, std::ptrdiff_t n) { of.erase(of.begin(), of.begin() + n); };
    drop(actor.learned, from.learned);
    drop(actor.copies, from.copies - actor.moments.front().copies);
    drop(actor.moments, least[b] - actor.first);
    for (Moment& moment : actor.moments) moment.learned -= from.learned;
    for (Copy& copy : actor.copies) copy.learned -= from.learned;
    actor.now.learned -= from.learned;
    actor.first = least[b];
  }
}

}  // namespace tilelace::check
