/* SPDX-License-Identifier: Apache-2.0 */
/* All-gather + GEMM over four ranks by the C API, each rank a thread of this process.
 *
 * Every rank holds some rows of A and its own slice of the weight's rows (the output's columns).
 * The call gathers A while the product of what has arrived is computed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tilelace/c.h"

enum { RANKS = 4, ROWS = 200, SHARD = ROWS / RANKS, DEPTH = 64, COLS = 48 };

typedef struct member {
  tilelace_communicator* c;
  int rank;
  int right;
} member;

static float a_at(int row, int k) { return (float)((row + k) % 5 - 2); }
static float w_at(int rank, int col, int k) { return (float)((rank + 2 * col + 3 * k) % 7 - 3); }

/* A dense matrix of zeros; data must be aligned to 16 bytes. */
static tilelace_tensor make(int rows, int cols) {
  const size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
  const tilelace_tensor t = {aligned_alloc(64, (bytes + 63) / 64 * 64), TILELACE_FP32, rows, cols,
                             cols};
  if (t.data == NULL) abort();
  memset(t.data, 0, bytes);
  return t;
}

/* Small integers: the sums are exact. */
static int is_right(const float* out, int rank) {
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLS; ++j) {
      float want = 0;
      for (int k = 0; k < DEPTH; ++k) want += a_at(i, k) * w_at(rank, j, k);
      if (out[i * COLS + j] != want) return 0;
    }
  }
  return 1;
}

static tilelace_status multiply(tilelace_communicator* c, const tilelace_tensor* a,
                                const tilelace_tensor* weight, const tilelace_tensor* out) {
  /* Once: say which problems will come and with which weights. Collective. */
  tilelace_problem problem;
  memset(&problem, 0, sizeof problem); /* zeros are the defaults, here and below */
  problem.struct_size = sizeof problem;
  problem.op = TILELACE_AG_GEMM;
  problem.m = ROWS;
  problem.k = DEPTH;
  problem.dtype = TILELACE_FP32;
  problem.weights = weight;
  problem.num_weights = 1;
  const tilelace_status prepared = tilelace_prepare(c, &problem, 1);
  if (prepared != TILELACE_OK) return prepared;

  /* As often as wanted: the call. It returns when `out` is whole. */
  tilelace_ag_gemm_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.m = ROWS;
  args.a = *a;
  args.weights = weight;
  args.num_weights = 1;
  args.out = out;
  return tilelace_ag_gemm(c, &args);
}

static void* run_rank(void* argument) {
  member* me = argument;
  /* This rank's rows of A and its weight [n, k], as a linear layer stores it. */
  const tilelace_tensor a = make(SHARD, DEPTH), weight = make(COLS, DEPTH), out = make(ROWS, COLS);
  float* rows = a.data;
  float* weights = weight.data;
  for (int i = 0; i < SHARD; ++i)
    for (int k = 0; k < DEPTH; ++k) rows[i * DEPTH + k] = a_at(me->rank * SHARD + i, k);
  for (int j = 0; j < COLS; ++j)
    for (int k = 0; k < DEPTH; ++k) weights[j * DEPTH + k] = w_at(me->rank, j, k);

  const tilelace_status status = multiply(me->c, &a, &weight, &out);
  if (status == TILELACE_OK) {
    me->right = is_right(out.data, me->rank);
  } else {
    fprintf(stderr, "rank %d: %s: %s\n", me->rank, tilelace_status_name(status),
            tilelace_last_error());     /* the text of this thread's error */
    tilelace_communicator_abort(me->c); /* the peers need not wait for this rank */
  }
  free(a.data);
  free(weight.data);
  free(out.data);
  return NULL;
}

int main(void) {
  tilelace_communicator* group[RANKS];
  if (tilelace_communicator_threads(RANKS, NULL, group) != TILELACE_OK) {
    fprintf(stderr, "%s\n", tilelace_last_error());
    return 1;
  }
  pthread_t threads[RANKS];
  member members[RANKS];
  for (int r = 0; r < RANKS; ++r) {
    members[r] = (member){group[r], r, 0};
    if (pthread_create(&threads[r], NULL, run_rank, &members[r]) != 0) abort();
  }
  int right = 0;
  for (int r = 0; r < RANKS; ++r) {
    pthread_join(threads[r], NULL);
    right += members[r].right;
  }
  for (int r = 0; r < RANKS; ++r) tilelace_communicator_destroy(group[r]);
  printf("ag_gemm: %d of %d ranks have the right product\n", right, RANKS);
  return right == RANKS ? 0 : 1;
}
