// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <new>

#include "commands.h"
#include "ranks.h"
#include "session.h"
#include "tilelace/error.h"
#include "tilelace/version.h"

namespace tilelace::cli {
namespace {

constexpr const char* kFirstSteps = R"(Start here:
  tilelace run --model minilm-l6 --tp 4 --m 128    a model's layer over four ranks, checked
  tilelace doctor                                  what this machine has
  tilelace COMMAND --help                          options and examples
Exit status of every command: 0 done and verified, 1 a result was wrong or a bar missed,
2 usage or bad input, 3 a peer, a timeout or the system; launch: that of the failing rank.
)";

int fail(const Error& error) {
  fmt::print(stderr, "tilelace: {}\n", error.what());
  return error.kind() == ErrorKind::usage ? kUsage : kSystem;
}

int parse(CLI::App& app, int argc, char** argv, int& exit_code) {
  try {
    app.parse(argc, argv);
    return std::fflush(stdout) == 0 ? exit_code : kUsage;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kUsage;
  }
}

int run(int argc, char** argv) {
  try {
    CLI::App app("Tilelace: tensor-parallel collectives overlapped with GEMM", "tilelace");
    app.set_version_flag("--version", "tilelace " TILELACE_VERSION_STRING " (" TILELACE_COMMIT ")");
    app.footer(kFirstSteps);
    app.require_subcommand(1);
    app.get_formatter()->column_width(28);
    int exit_code = kDone;
    add_run(app, exit_code);
    add_bench(app, exit_code);
    add_plan(app, exit_code);
    add_tune(app, exit_code);
    add_simulate(app, exit_code);
    add_check(app, exit_code);
    add_launch(app, exit_code);
    add_doctor(app, exit_code);
    return parse(app, argc, argv, exit_code);
  } catch (const Error& e) {
    return fail(e);
  } catch (const Interrupted& e) {
    fmt::print(stderr, "tilelace: ended by signal {}\n", e.signal);
    return 128 + e.signal;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tilelace: memory: got none, expected enough for these sizes\n");
    return kSystem;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tilelace: {}\n", e.what());
    return kSystem;
  }
}

}  // namespace
}  // namespace tilelace::cli

int main(int argc, char** argv) { return tilelace::cli::run(argc, argv); }
