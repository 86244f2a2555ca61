/* SPDX-License-Identifier: Apache-2.0 */
/* Check macros for tests of the C API. They count failures. */
#pragma once
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tilelace/c.h"

static atomic_int failures;

static void check(int ok, const char* file, int line, const char* what) {
  if (ok) return;
  const char* slash = strrchr(file, '/');
  fprintf(stderr, "%s:%d: %s (last error: %s)\n", slash == NULL ? file : slash + 1, line, what,
          tilelace_last_error());
  atomic_fetch_add(&failures, 1);
}
#define CHECK(condition) check((condition), __FILE__, __LINE__, #condition)
#define CHECK_OK(call) CHECK((call) == TILELACE_OK)
#define CHECK_USAGE(call, text) \
  CHECK((call) == TILELACE_USAGE && strcmp(tilelace_last_error(), (text)) == 0)
