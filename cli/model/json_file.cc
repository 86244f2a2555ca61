// SPDX-License-Identifier: Apache-2.0
#include "model/json_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/check.h"

namespace tilelace::model {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxShown = 60;

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string cut(std::string text) {
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

}  // namespace

std::string read_text(std::string_view what, const std::filesystem::path& file, std::size_t limit) {
  // O_NONBLOCK: a pipe given by mistake must not block the open.
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (in.fd < 0 || ::fstat(in.fd, &st) != 0)
    raise(ErrorKind::usage, "{}: {}, got \"{}\", expected a readable file", what, file.string(),
          std::generic_category().message(errno));
  require(S_ISREG(st.st_mode), "{}: {}, got a {}, expected a regular file", what, file.string(),
          S_ISDIR(st.st_mode) ? "folder" : "special file");
  const auto size = static_cast<std::size_t>(st.st_size);
  require(size <= limit, "{}: {}, got {} bytes, expected at most {}", what, file.string(), size,
          limit);
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(in.fd, text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  require(done == size, "{}: {}, got {} of its {} bytes, expected a readable file", what,
          file.string(), done, size);
  require(size > 0, "{}: {}, got an empty file, expected a JSON object", what, file.string());
  return text;
}

nlohmann::json parse_object(std::string_view what, const std::filesystem::path& file,
                            std::string_view text) {
  const auto limit_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    require(depth <= kMaxDepth, "{}: {}, got JSON nested deeper than {}, expected a JSON object",
            what, file.string(), kMaxDepth);
    return true;
  };
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text.begin(), text.end(), limit_depth);
  } catch (const nlohmann::json::parse_error& e) {
    raise(ErrorKind::usage, "{}: {}, got a JSON syntax error at byte {}, expected a JSON object",
          what, file.string(), e.byte);
  } catch (const nlohmann::json::exception&) {
    raise(ErrorKind::usage, "{}: {}, got a number out of range, expected a JSON object", what,
          file.string());
  }
  require(value.is_object(), "{}: {}, got {}, expected a JSON object", what, file.string(),
          shown(&value));
  return value;
}

std::string shown(const nlohmann::json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list";
  return cut(value->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::string utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string printable(std::string_view name) {
  std::string text = cut(std::string(name.substr(0, kMaxShown + 1)));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace tilelace::model
