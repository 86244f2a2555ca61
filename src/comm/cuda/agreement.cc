// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/agreement.h"

#include <algorithm>

#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr std::size_t kMaxText = 1024;
constexpr std::string_view kCarrier = "all_gather";  ///< what its errors begin with

/// What a rank tells the others: a byte for the kind of its error (0: none), then the text of the
/// error or what its work returned.
std::string attempt(const std::function<std::string()>& work) {
  const auto failed = [](ErrorKind kind, std::string text) {
    text.resize(std::min(text.size(), kMaxText));
    text.insert(text.begin(), static_cast<char>(kind));
    return text;
  };
  try {
    std::string done = work();
    done.insert(done.begin(), '\0');
    return done;
  } catch (const Error& e) {
    return failed(e.kind(), e.what());
  } catch (const std::exception& e) {
    return failed(ErrorKind::system, e.what());
  }
}

void require_well(const std::string& said, std::size_t rank, std::string_view op) {
  if (said.empty()) raise(ErrorKind::peer, "{}: rank {} sent an empty answer", op, rank);
  if (said[0] == 0) return;
  const auto kind = static_cast<ErrorKind>(said[0]);
  const bool known = kind >= ErrorKind::usage && kind <= ErrorKind::timeout;
  raise(known ? kind : ErrorKind::system, "{} (on rank {})", said.substr(1), rank);
}

}  // namespace

std::vector<std::string> Agreement::round(const std::function<std::string()>& work) const {
  const std::string mine = attempt(work);
  std::vector<std::string> all;
  try {
    all = group_.all_gather(mine, left_s());
  } catch (const Error& e) {
    const std::string_view text = e.what();
    if (!text.starts_with(kCarrier)) throw;
    throw Error(e.kind(), op_ + std::string(text.substr(kCarrier.size())));
  }
  for (std::size_t r = 0; r < all.size(); ++r) require_well(all[r], r, op_);
  for (std::string& said : all) said.erase(0, 1);
  return all;
}

}  // namespace tilelace::comm
