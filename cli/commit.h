// SPDX-License-Identifier: Apache-2.0
// The commit of the sources that this command was built from.
#pragma once

namespace tilelace::cli {

/// Twelve digits; "unknown" where git was not asked.
const char* built_commit();

}  // namespace tilelace::cli
