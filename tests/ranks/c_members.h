/* SPDX-License-Identifier: Apache-2.0 */
/* Runs two ranks as threads, for tests of the C API. */
#pragma once
#include <pthread.h>
#include <stdlib.h>

#include "c_checks.h"

enum { RANKS = 2 };

typedef struct member {
  tilelace_communicator* c;
  int rank;
} member;

/* Calls run(member) on a thread for each member. */
static inline void run_threads(tilelace_communicator* const* c, void* (*run)(void*)) {
  pthread_t threads[RANKS];
  member members[RANKS];
  for (int r = 0; r < RANKS; ++r) {
    members[r].c = c[r];
    members[r].rank = r;
    if (pthread_create(&threads[r], NULL, run, &members[r]) != 0) abort();
  }
  for (int r = 0; r < RANKS; ++r) pthread_join(threads[r], NULL);
}

/* Runs a whole test and returns the exit code. */
static inline int run_members(void* (*run)(void*), const char* name) {
  tilelace_communicator* c[RANKS];
  CHECK_OK(tilelace_communicator_threads(RANKS, NULL, c));
  if (failures != 0) return 1;
  run_threads(c, run);
  for (int r = 0; r < RANKS; ++r) tilelace_communicator_destroy(c[r]);
  if (failures == 0) printf("%s: all is well\n", name);
  return failures == 0 ? 0 : 1;
}
