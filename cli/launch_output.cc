// SPDX-License-Identifier: Apache-2.0
#include "launch_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/check.h"
#include "signals.h"

namespace tilelace::cli {
namespace {

constexpr std::size_t kLongestLine = 65536;  // longer ones are printed in pieces

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote > 0) {
      at += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, 100);
    } else if (errno != EINTR) {
      throw Interrupted{SIGPIPE};
    }
  }
}

}  // namespace

comm::UniqueFd TaggedOutput::add(int rank, int to) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    raise(ErrorKind::system, "launch: cannot make a pipe: {}", std::strerror(errno));
  streams_.push_back({rank, to, comm::UniqueFd(ends[0]), {}});
  comm::UniqueFd write_end(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return write_end;
}

void TaggedOutput::print(int wait_ms) {
  std::vector<pollfd> fds;
  for (const Stream& s : streams_) fds.push_back({s.from ? s.from.get() : -1, POLLIN, 0});
  if (poll(fds.data(), fds.size(), wait_ms) <= 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i)
    if (fds[i].revents != 0) read_some(streams_[i]);
}

void TaggedOutput::finish() {
  for (Stream& s : streams_) {
    // As much as a pipe holds, not more: whoever escaped the launch may still write.
    for (int i = 0; i < 32 && s.from; ++i) read_some(s);
    if (!s.text.empty()) s.text += '\n';
    print_lines(s);
  }
  streams_.clear();
}

void TaggedOutput::read_some(Stream& s) {
  std::array<char, 32768> buffer{};
  const ssize_t got = read(s.from.get(), buffer.data(), buffer.size());
  if (got == 0) s.from.reset();
  if (got <= 0) return;
  s.text.append(buffer.data(), static_cast<std::size_t>(got));
  print_lines(s);
}

void TaggedOutput::print_lines(Stream& s) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = s.text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines += fmt::format("[{}] {}", s.rank, s.text.substr(begin, end + 1 - begin));
  s.text.erase(0, begin);
  if (s.text.size() > kLongestLine) {
    lines += fmt::format("[{}] {}\n", s.rank, s.text);
    s.text.clear();
  }
  write_all(s.to, lines);
}

}  // namespace tilelace::cli
