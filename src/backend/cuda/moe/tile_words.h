// SPDX-License-Identifier: Apache-2.0
// Words of a GPU through which the CTAs of one call deal out its tiles.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::cuda {

/// A word of the current device that is 0 and that only the next call on this stream uses. That
/// call leaves it at 0. Calls of one stream share a word, since they run one after the other; each
/// captured call has its own. Null: all words are taken, which is said once. Thread-safe. Errors:
/// usage (an invalidated capture), system.
std::uint32_t* tile_word(cudaStream_t stream);

}  // namespace tilelace::cuda
