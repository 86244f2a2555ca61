// SPDX-License-Identifier: Apache-2.0
// A cache of the values that were made last, by key.
#pragma once
#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>

namespace tilelace {

/// Looks values up in constant time. A reference stays valid until `most` newer values have been
/// made.
template <class Key, class Value, class Hash>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  /// The value for this key; makes it with `make()` if there is none.
  template <class Make>
  const Value& get(const Key& key, const Make& make) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    const auto made = values_.emplace(key, make()).first;
    order_.push_back(&made->first);
    if (order_.size() > most_) {
      values_.erase(values_.find(*order_.front()));
      order_.pop_front();
    }
    return made->second;
  }

  void clear() {
    order_.clear();
    values_.clear();
  }

 private:
  std::size_t most_;
  std::unordered_map<Key, Value, Hash> values_;  // keys do not move in memory
  std::deque<const Key*> order_;
};

}  // namespace tilelace
