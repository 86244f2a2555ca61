// SPDX-License-Identifier: Apache-2.0
// Texts for strangers: without what names a machine or its users.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// What names this machine and its user. An empty one is looked for nowhere.
struct PrivateNames {
  std::string home;  ///< the user's folder
  std::string host;
  std::string user;
};

PrivateNames private_names();

/// The text with ~ for the user's folder and for any folder in /home.
std::string without_homes(std::string_view text, const PrivateNames& names);
/// The value of an environment variable: without homes; HOST, USER and ADDRESS for names of the
/// machine and its user and for IP addresses; "(not shown)" if the variable's name says that it is
/// a secret.
std::string shown_value(std::string_view variable, std::string_view value,
                        const PrivateNames& names);

}  // namespace tilelace::cli
