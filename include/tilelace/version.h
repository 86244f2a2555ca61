/* SPDX-License-Identifier: Apache-2.0 */
/* The version, for C and C++. The build and the Python package read it from this file. */
#ifndef TILELACE_VERSION_H
#define TILELACE_VERSION_H

/** Grows when the public interface changes. While it is 0, any minor version may change the
 * interface. */
#define TILELACE_VERSION_MAJOR 0
/** Grows when features are added. */
#define TILELACE_VERSION_MINOR 1
/** Grows when bugs are fixed. */
#define TILELACE_VERSION_PATCH 0

/** Version of these headers as a number for #if: 10000 * major + 100 * minor + patch. version()
 * gives the library's version. */
#define TILELACE_VERSION \
  (TILELACE_VERSION_MAJOR * 10000 + TILELACE_VERSION_MINOR * 100 + TILELACE_VERSION_PATCH)

#define TILELACE_VERSION_WORD_(x) #x
#define TILELACE_VERSION_TEXT_(major, minor, patch) \
  TILELACE_VERSION_WORD_(major) "." TILELACE_VERSION_WORD_(minor) "." TILELACE_VERSION_WORD_(patch)
/** Version of these headers as text: "major.minor.patch". In C, tilelace_version() gives the
 * library's version. */
#define TILELACE_VERSION_STRING \
  TILELACE_VERSION_TEXT_(TILELACE_VERSION_MAJOR, TILELACE_VERSION_MINOR, TILELACE_VERSION_PATCH)

#ifdef __cplusplus
namespace tilelace {

/// TILELACE_VERSION of the library in use. If that is a shared library, the headers that the
/// program was compiled with may have another version. Local. Errors: none.
int version() noexcept;

}  // namespace tilelace
#endif
#endif
