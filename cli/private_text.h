// SPDX-License-Identifier: Apache-2.0
// Removes the names of a machine and of its users from texts that strangers will read.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// What names this machine and its user. Empty names are not looked for.
struct PrivateNames {
  std::string home;  ///< the user's folder
  std::string host;
  std::string user;
};

PrivateNames private_names();

/// The text with ~ for the user's folder and for any folder in /home.
std::string without_homes(std::string_view text, const PrivateNames& names);
/// The value of an environment variable for strangers. HOST, USER, ADDRESS and ~ replace the names
/// of the machine and the user, IP addresses and users' folders. "(not shown)" if the variable's
/// name says that its value is a secret.
std::string shown_value(std::string_view variable, std::string_view value,
                        const PrivateNames& names);

}  // namespace tilelace::cli
