// SPDX-License-Identifier: Apache-2.0
// Where shipped tables are. In a file of its own, which knows where this build lies: a compiler's
// cache keeps all others for every place.
#include <dlfcn.h>

#include <system_error>

#include "core/data_places.h"
#include "core/env.h"
#include "plan/tuning/find_tuning.h"

namespace tilelace::plan {
namespace {

namespace fs = std::filesystem;

/// The file that this code was linked into: a library, or the program.
fs::path own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr)
    if (fs::path library = info.dli_fname; library.is_absolute()) return library;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program;
}

}  // namespace

std::vector<fs::path> tuning_places() {
  return data_places("tuning", own_file(), env::data_folder(),
                     {TILELACE_INSTALL_DATA, TILELACE_SOURCE_DATA});
}

}  // namespace tilelace::plan
