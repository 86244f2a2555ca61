// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "commit.h"
#include "options.h"
#include "ranks.h"
#include "session.h"
#include "tilelace/error.h"
#include "tilelace/version.h"

namespace tilelace::cli {
namespace {

constexpr const char* kFirstSteps = R"(Start here:
  tilelace run --model minilm-l6 --tp 4 --m 128    a model's layer over four ranks, checked
  tilelace doctor                                  what this machine has
  tilelace COMMAND --help                          its options, and examples
Exit status: 0 done and verified, 1 a wrong result, 2 bad usage or input, 3 a lost rank, a timeout
or the system. launch: that of the first rank that failed.
)";

int fail(const Error& error) {
  fmt::print(stderr, "tilelace: {}\n", error.what());
  return error.kind() == ErrorKind::usage ? kUsage : kSystem;
}

int parse(CLI::App& app, std::vector<std::string> arguments, int& exit_code) {
  const std::string command = arguments[0];
  try {
    std::reverse(arguments.begin(), arguments.end());  // as the parser wants it
    app.parse(std::move(arguments));
    return std::fflush(stdout) == 0 ? exit_code : kUsage;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "tilelace: {}: {}\n", command, e.what());
    return kUsage;
  }
}

int run(int argc, char** argv) {
  try {
    CLI::App app("Collectives of tensor parallelism inside the tiles of a GEMM", "tilelace");
    const auto help = std::make_shared<HelpFormatter>();
    help->column_width(28);
    app.formatter(help);
    app.set_version_flag("--version",
                         fmt::format("tilelace {} ({})", TILELACE_VERSION_STRING, built_commit()));
    app.footer(kFirstSteps);
    app.require_subcommand(1);
    int exit_code = kDone;
    add_run(app, exit_code);
    add_bench(app, exit_code);
    add_plan(app, exit_code);
    add_tune(app, exit_code);
    add_simulate(app, exit_code);
    add_check(app, exit_code);
    add_launch(app, exit_code);
    add_doctor(app, exit_code);
    return parse(app, known_arguments(app, {argv + 1, argv + argc}), exit_code);
  } catch (const Error& e) {
    return fail(e);
  } catch (const Interrupted& e) {
    fmt::print(stderr, "tilelace: ended by signal {}\n", e.signal);
    return 128 + e.signal;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tilelace: out of memory for these sizes: take smaller ones\n");
    return kSystem;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tilelace: {}\n", e.what());
    return kSystem;
  }
}

}  // namespace
}  // namespace tilelace::cli

int main(int argc, char** argv) { return tilelace::cli::run(argc, argv); }
