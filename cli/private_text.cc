// SPDX-License-Identifier: Apache-2.0
#include "private_text.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "core/env.h"

namespace tilelace::cli {
namespace {

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// The text with `word` for `name` wherever it stands by itself; with_domain: and what follows it
/// behind a dot.
std::string replaced(std::string text, const std::string& name, const char* word,
                     bool with_domain) {
  if (name.empty()) return text;
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
    std::size_t end = at + name.size();
    if ((at > 0 && in_name(text[at - 1])) || (end < text.size() && in_name(text[end]))) {
      ++at;
      continue;
    }
    while (with_domain && end + 1 < text.size() && text[end] == '.' && in_name(text[end + 1])) {
      ++end;
      while (end < text.size() && in_name(text[end])) ++end;
    }
    text.replace(at, end - at, word);
    at += std::string_view(word).size();
  }
  return text;
}

}  // namespace

PrivateNames private_names() {
  PrivateNames names{env::home(), {}, {}};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) names.host = host.data();
  names.host.resize(std::min(names.host.find('.'), names.host.size()));
  if (const passwd* entry = getpwuid(geteuid())) {  // NOLINT(concurrency-mt-unsafe): one thread
    names.user = entry->pw_name;
    if (names.home.empty()) names.home = entry->pw_dir;
  }
  if (names.user == "root") names.user.clear();  // names nobody
  if (names.host == "localhost") names.host.clear();
  return names;
}

std::string without_homes(std::string_view text, const PrivateNames& names) {
  std::string out(text);
  std::string home = names.home;
  while (!home.empty() && home.back() == '/') home.pop_back();
  out = replaced(out, home, "~", false);
  static const std::regex others("/home/[^/\\s:,;=\"']+");
  return std::regex_replace(out, others, "~");
}

std::string shown_value(std::string_view variable, std::string_view value,
                        const PrivateNames& names) {
  for (const char* part : {"TOKEN", "SECRET", "PASSWORD", "KEY"})
    if (variable.find(part) != std::string_view::npos) return "(not shown)";
  std::string out = without_homes(value, names);
  out = replaced(out, names.host, "HOST", true);
  out = replaced(out, names.user, "USER", false);
  static const std::regex addresses(
      R"((?:\d{1,3}\.){3}\d{1,3}|\[[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%\w+)?\])");
  return std::regex_replace(out, addresses, "ADDRESS");
}

}  // namespace tilelace::cli
