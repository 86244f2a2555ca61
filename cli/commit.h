// SPDX-License-Identifier: Apache-2.0
// The commit of the sources that this command was built from.
#pragma once

namespace tilelace::cli {

/// The first twelve digits of the commit's hash; "unknown" if the build had no git.
const char* built_commit();

}  // namespace tilelace::cli
