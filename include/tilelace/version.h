/* SPDX-License-Identifier: Apache-2.0 */
/* The version, for C and C++. It stands here alone: the build and the Python package read it. */
#ifndef TILELACE_VERSION_H
#define TILELACE_VERSION_H

/** Changes with the public interface; 0: any minor version may change it. */
#define TILELACE_VERSION_MAJOR 0
/** Changes with what is added. */
#define TILELACE_VERSION_MINOR 1
/** Changes with what is mended. */
#define TILELACE_VERSION_PATCH 0

/** 10000 * major + 100 * minor + patch of these headers, for #if. The library's: version(). */
#define TILELACE_VERSION \
  (TILELACE_VERSION_MAJOR * 10000 + TILELACE_VERSION_MINOR * 100 + TILELACE_VERSION_PATCH)

#define TILELACE_VERSION_WORD_(x) #x
#define TILELACE_VERSION_TEXT_(major, minor, patch) \
  TILELACE_VERSION_WORD_(major) "." TILELACE_VERSION_WORD_(minor) "." TILELACE_VERSION_WORD_(patch)
/** "major.minor.patch" of these headers. The library's in C: tilelace_version(). */
#define TILELACE_VERSION_STRING \
  TILELACE_VERSION_TEXT_(TILELACE_VERSION_MAJOR, TILELACE_VERSION_MINOR, TILELACE_VERSION_PATCH)

#ifdef __cplusplus
namespace tilelace {

/// TILELACE_VERSION of the library that runs. With a shared library it may differ from that of the
/// headers that the program was compiled with. Local. Errors: none.
int version() noexcept;

}  // namespace tilelace
#endif
#endif
