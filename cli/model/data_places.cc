// SPDX-License-Identifier: Apache-2.0
// Where data files are. In a file of its own, which knows where this build lies: a compiler's cache
// keeps all others for every place.
#include "core/data_places.h"

#include "model/data_files.h"

namespace tilelace::model {

namespace fs = std::filesystem;

std::vector<fs::path> data_places(const std::string& folder, const fs::path& command,
                                  const std::optional<std::string>& data) {
  return tilelace::data_places(folder, command, data,
                               {TILELACE_SOURCE_DATA, TILELACE_INSTALL_DATA});
}

}  // namespace tilelace::model
