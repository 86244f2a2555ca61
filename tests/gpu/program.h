// SPDX-License-Identifier: Apache-2.0
// The main function of every GPU program.
#pragma once
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tilelace/error.h"

namespace tilelace::gpu_test {

/// Parses the command line, runs `body` and prints its error. Returns the exit code: the body's, 2
/// after a usage error, 3 after any other error.
template <class Body>
int run_program(const char* program, CLI::App& app, int argc, char** argv, const Body& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return body();
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {} error: {}\n", program, name_of(e.kind()), e.what());
    return e.kind() == ErrorKind::usage ? 2 : 3;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", program, e.what());
    return 3;
  }
}

}  // namespace tilelace::gpu_test
