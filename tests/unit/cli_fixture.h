// SPDX-License-Identifier: Apache-2.0
// Runs the built command as a separate process.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli_places.h"

namespace tilelace::cli {

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A running command with these arguments. Its output goes to files in a folder of its own.
class RunningCommand {
 public:
  explicit RunningCommand(const std::vector<std::string>& arguments) {
    std::string name = testing::TempDir() + "tilelace-cli-XXXXXX";
    folder_ = mkdtemp(name.data());
    std::vector<char*> argv{const_cast<char*>(kCommand)};
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const std::string out = folder_ + "/out", err = folder_ + "/err";
    pid_ = fork();
    if (pid_ == 0) {
      const int o = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
      const int e = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
      dup2(o, 1), dup2(e, 2);
      execv(kCommand, argv.data());
      _exit(127);
    }
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    for (const char* file : {"/out", "/err"}) unlink((folder_ + file).c_str());
    rmdir(folder_.c_str());
  }

  /// Waits and returns the exit status: 128 + n for signal n, -1 if it takes longer than `seconds`.
  int wait(double seconds) {
    int status = 0;
    for (int i = 0; i < seconds * 100; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string out() const { return read_whole(folder_ + "/out"); }
  [[nodiscard]] std::string err() const { return read_whole(folder_ + "/err"); }
  [[nodiscard]] std::string folder() const { return folder_; }

 private:
  pid_t pid_ = -1;
  std::string folder_;
};

struct Finished {
  int code = 0;
  std::string out, err;
};

/// Runs a command line, whose arguments are separated by spaces. `last` is one more argument, which
/// may have spaces.
inline Finished run_command(const std::string& line, double seconds = 100,
                            const std::string& last = {}) {
  std::vector<std::string> arguments;
  std::istringstream in(line);
  for (std::string a; in >> a;) arguments.push_back(a);
  if (!last.empty()) arguments.push_back(last);
  RunningCommand command(arguments);
  const int code = command.wait(seconds);
  return {code, command.out(), command.err()};
}

}  // namespace tilelace::cli
