// SPDX-License-Identifier: Apache-2.0
// Removes the names of a machine and of its users from texts that strangers will read.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// The names of this machine and its user. An empty name is never replaced.
struct PrivateNames {
  std::string home;  ///< the user's home folder
  std::string host;
  std::string user;
};

PrivateNames private_names();

/// The text with ~ in place of the user's home folder and of any folder in /home.
std::string without_homes(std::string_view text, const PrivateNames& names);
/// The value of an environment variable, for strangers. HOST stands for the machine's name, USER
/// for the user's name, ADDRESS for an IP address, and ~ for a home folder. The result is
/// "(not shown)" if the variable's name says that the value is a secret.
std::string shown_value(std::string_view variable, std::string_view value,
                        const PrivateNames& names);

}  // namespace tilelace::cli
