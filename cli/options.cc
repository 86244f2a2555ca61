// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/check.h"
#include "nearest.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

/// An option that has another name now; no command: of all.
struct GoneOption {
  std::string_view command, name, now;
};
constexpr std::array kGoneOptions{
    GoneOption{"simulate", "--chunk", "--plan chunk=ROWS"},
    GoneOption{"simulate", "--route", "--plan route=mesh|ring|two_level"},
    GoneOption{"simulate", "--order", "--plan route=mesh|ring|two_level"},
    GoneOption{"simulate", "--transport", "--plan transport=push|pull|store"},
    GoneOption{"simulate", "--tile", "--plan tile_m=ROWS,tile_n=COLUMNS"},
    GoneOption{"simulate", "--blocks", "--plan blocks=N"},
    GoneOption{"simulate", "--layer", "--product"},
    GoneOption{"bench", "--transports", "one --plan for each, as --plan transport=pull"},
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string maybe(const std::optional<std::string>& word) {
  return word ? fmt::format("; did you mean {}?", *word) : "";
}

[[noreturn]] void refuse_command(const CLI::App& app, const std::string& word) {
  auto names = names_of_commands(app);
  names.emplace_back("help");
  raise(ErrorKind::usage, "there is no command \"{}\"{}\nCommands: {}", word,
        maybe(nearest(word, names)), fmt::join(names_of_commands(app), ", "));
}

[[noreturn]] void refuse_option(const CLI::App& command, const std::string& name) {
  const std::string& of = command.get_name();
  for (const GoneOption& gone : kGoneOptions)
    if (gone.command == of && gone.name == name)
      raise(ErrorKind::usage, "{}: {} is now {}", of, name, gone.now);
  const auto guess = nearest(name, names_of_options(command));
  raise(ErrorKind::usage, "{}: there is no option {}{}", of, name,
        guess ? maybe(guess) : fmt::format(". `tilelace {} --help` lists the options", of));
}

/// Looks at the words that begin with --, but for values and, of launch, what is the program's.
void check_options(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-')) {
      if (command.get_prefix_command()) return;
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr && word.starts_with("--")) refuse_option(command, name);
    if (option != nullptr && option->get_items_expected_max() > 0 && name == word) ++i;
  }
}

}  // namespace

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return {};
  const std::string type = option->get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  const bool number = name == "INT" || name == "UINT" || name == "FLOAT";
  return option->get_positional() ? "" : " " + (number ? "N" : name);
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty())
    text += fmt::format(" (default: {})", option->get_default_str());
  if (option->get_required() && !option->get_positional()) text += " (required)";
  const int columns = text_columns() > 0 ? text_columns() : kColumns;
  return filled(text, std::max(20, columns - static_cast<int>(get_column_width())));
}

CLI::Validator whole_between(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    if (good) return "";
    return fmt::format("got \"{}\", expected a whole number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? ""
                : fmt::format("got \"{}\", expected a number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

void add_wide_option(CLI::App& command) {
  command.add_flag_callback(
      "--wide", [] { set_wide(); },
      "All columns of the table; else those that fit COLUMNS, the terminal, or 100");
}

std::vector<std::string> known_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  require(!arguments.empty(),
          "a command is missing. `tilelace --help` says what each command does\nCommands: {}",
          fmt::join(names_of_commands(app), ", "));
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  if (arguments[0].starts_with('-')) {
    require(app.get_option_no_throw(arguments[0]) != nullptr,
            "there is no option {} in front of a command. `tilelace --help` lists the options",
            arguments[0]);
    return arguments;
  }
  const auto commands = commands_of(app);
  const auto found = std::ranges::find(commands, arguments[0], &CLI::App::get_name);
  if (found == commands.end()) refuse_command(app, arguments[0]);
  check_options(**found, arguments);
  return arguments;
}

}  // namespace tilelace::cli
