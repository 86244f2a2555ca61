// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "comm/group.h"
#include "commands.h"
#include "core/check.h"
#include "launch.h"
#include "options.h"

namespace tilelace::cli {
namespace {

constexpr const char* kExplained =
    R"(Each rank finds in its environment what torchrun would tell it: RANK and LOCAL_RANK (0, 1, ...),
WORLD_SIZE and LOCAL_WORLD_SIZE (--ranks), MASTER_ADDR (127.0.0.1), MASTER_PORT (a fresh one).
Ranks meet in a directory named after these; it is gone when the launch ends. A rank reads nothing
from standard input. All options of launch come before PROGRAM.

When a rank fails, or on Ctrl-C, the others get SIGTERM and, --grace seconds later, SIGKILL, as do
the processes they have started. Ctrl-C again kills at once.

Examples:
  tilelace launch --ranks 4 ./my_program --its-option 3
      Four processes, on GPUs 0 to 3 if the program takes the one of its LOCAL_RANK.
  tilelace launch --ranks 2 --tag -- sh -c 'echo rank $RANK of $WORLD_SIZE'
      [0] rank 0 of 2
      [1] rank 1 of 2
Exit status: that of the first rank that failed (128 + n if signal n ended it), 0 if none did;
2 for bad usage, a program that cannot be started included; 128 + n after signal n.
)";

std::vector<std::string> command_of(std::vector<std::string> rest) {
  const bool marked = !rest.empty() && rest.front() == "--";
  if (marked) rest.erase(rest.begin());
  require(!rest.empty(),
          "launch: PROGRAM is missing: give it last, as in tilelace launch --ranks 4 ./my_program");
  require(
      marked || !rest.front().starts_with('-'),
      "launch: there is no option {}. Options are --ranks, --tag and --grace, in front of PROGRAM",
      rest.front());
  return rest;
}

}  // namespace

void add_launch(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<LaunchOptions>();
  auto* command = app.add_subcommand(
      "launch", "Start a program once per rank, as processes that find each other");
  command->footer(kExplained);
  // PROGRAM is told in the help and never taken: it stops the parser, which leaves all that follows
  // as it stands, whatever it looks like.
  command
      ->add_option_function<std::string>(
          "PROGRAM", [](const std::string&) {}, "The program, and its arguments")
      ->check([](const std::string&) { return std::string("left to the program"); });
  command->validate_positionals();
  command->prefix_command();
  command->add_option("--ranks,-n", o->ranks, "Number of processes")
      ->required()
      ->check(whole_between(1, comm::kMaxRanks))
      ->type_name("N");
  command->add_flag("--tag", o->tag, "Put [rank] in front of each line of output");
  command->add_option("--grace", o->grace_s, "Seconds from SIGTERM to SIGKILL")
      ->check(number_between(0, 3600))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->callback([o, command, &exit_code] {
    o->command = command_of(command->remaining());
    exit_code = launch(*o);
  });
}

}  // namespace tilelace::cli
