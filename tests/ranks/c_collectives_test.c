/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as a C program sees them: two ranks through all of them, and wrong arguments. */
#include "c_members.h"

enum { N = 5 };

static int32_t value(int rank, int i) { return rank * 100 + i; }

static tilelace_collective_args arguments(const int32_t* in, int32_t* out, const int64_t* counts,
                                          size_t num_counts) {
  tilelace_collective_args a;
  memset(&a, 0, sizeof a);
  a.struct_size = sizeof a;
  a.in = in;
  a.out = out;
  a.item = TILELACE_ITEM_I32;
  a.counts = counts;
  a.num_counts = num_counts;
  return a;
}

static void sums(const member* me, const int32_t* in) {
  int32_t out[N];
  const int64_t count = N;
  const int64_t parts[RANKS] = {2, 3};
  tilelace_collective_args a = arguments(in, out, &count, 1);
  for (int shots = 0; shots <= 2; ++shots) {
    a.shots = shots;
    CHECK_OK(tilelace_all_reduce(me->c, &a));
    for (int i = 0; i < N; ++i) CHECK(out[i] == value(0, i) + value(1, i));
  }
  a.shots = 0;
  a.reduction = TILELACE_MAX;
  CHECK_OK(tilelace_all_reduce(me->c, &a));
  for (int i = 0; i < N; ++i) CHECK(out[i] == value(1, i));
  a = arguments(in, out, parts, RANKS);
  CHECK_OK(tilelace_reduce_scatter(me->c, &a));
  for (int i = 0; i < parts[me->rank]; ++i) {
    const int at = me->rank * 2 + i;
    CHECK(out[i] == value(0, at) + value(1, at));
  }
}

static void moves(const member* me, const int32_t* in) {
  int32_t out[2 * N];
  const int64_t parts[RANKS] = {2, 3};
  tilelace_collective_args a = arguments(in, out, parts, RANKS);
  CHECK_OK(tilelace_all_gather(me->c, &a));
  for (int i = 0; i < N; ++i) CHECK(out[i] == (i < 2 ? value(0, i) : value(1, i - 2)));
  /* Rank 0 keeps one and sends three, rank 1 sends two and keeps none. */
  const int64_t counts[RANKS][RANKS] = {{1, 3}, {2, 0}};
  const int64_t takes[RANKS] = {counts[0][me->rank], counts[1][me->rank]};
  a = arguments(in, out, counts[me->rank], RANKS);
  a.takes = takes;
  a.num_takes = RANKS;
  CHECK_OK(tilelace_all_to_all(me->c, &a));
  for (int i = 0; i < 3; ++i) {
    const int32_t first = i < 1 ? value(0, 0) : value(1, i - 1);
    CHECK(out[i] == (me->rank == 0 ? first : value(0, 1 + i)));
  }
}

/* Ones in bf16, whose sum with a residual of ones is 3: normed to 1, which is e4m3's 448 / 448. */
static void norms(const member* me) {
  enum { M = 3, COLS = 16, BF16_1 = 0x3f80, BF16_3 = 0x4040 };
  _Alignas(16) uint16_t x[M * COLS], residual[M * COLS], weight[COLS], normed[M * COLS];
  _Alignas(16) uint8_t quantised[M * COLS];
  float scales[M];
  for (int i = 0; i < M * COLS; ++i) x[i] = residual[i] = BF16_1;
  for (int i = 0; i < COLS; ++i) weight[i] = BF16_1;
  tilelace_all_reduce_norm_args a;
  memset(&a, 0, sizeof a);
  a.struct_size = sizeof a;
  a.x = x;
  a.residual = a.out = residual;
  a.weight = weight;
  a.normed = normed;
  a.m = M;
  a.n = COLS;
  CHECK_OK(tilelace_all_reduce_norm(me->c, &a));
  for (int i = 0; i < M * COLS; ++i) CHECK(residual[i] == BF16_3 && normed[i] == BF16_1);
  for (int i = 0; i < M * COLS; ++i) residual[i] = BF16_1;
  a.normed = NULL;
  a.quant = TILELACE_QUANT_TOKEN;
  a.quantised = quantised;
  a.scales = scales;
  a.workers = 1;
  CHECK_OK(tilelace_all_reduce_norm(me->c, &a));
  for (int i = 0; i < M * COLS; ++i) CHECK(residual[i] == BF16_3 && quantised[i] == 0x7e);
  for (int i = 0; i < M; ++i) CHECK(scales[i] == 1.0F / 448.0F);

  CHECK_USAGE(tilelace_all_reduce_norm(me->c, NULL),
              "all_reduce_norm: args: got NULL, expected a pointer");
  a.quant = 9;
  CHECK_USAGE(
      tilelace_all_reduce_norm(me->c, &a),
      "all_reduce_norm: quant: got the unknown value 9, expected none, token, block or given");
  a.quant = TILELACE_QUANT_TOKEN;
  a.item = TILELACE_ITEM_FP32;
  CHECK_USAGE(tilelace_all_reduce_norm(me->c, &a),
              "all_reduce_norm: item: got fp32, expected bf16 or fp16");
  a.item = TILELACE_ITEM_BF16;
  a.chunk = -1;
  CHECK_USAGE(tilelace_all_reduce_norm(me->c, &a),
              "all_reduce_norm: chunk: got -1 bytes, expected at least 1");
  /* What an older header lacks is not read. */
  a.struct_size = offsetof(tilelace_all_reduce_norm_args, lines);
  CHECK_OK(tilelace_all_reduce_norm(me->c, &a));
  a.struct_size -= 8;
  CHECK(tilelace_all_reduce_norm(me->c, &a) == TILELACE_USAGE);
}

static void wrong_arguments(const member* me, const int32_t* in) {
  int32_t out[N];
  const int64_t count = N;
  tilelace_collective_args a = arguments(in, out, &count, 1);
  CHECK_USAGE(tilelace_all_reduce(NULL, &a),
              "all_reduce: communicator: got NULL, expected a pointer");
  CHECK_USAGE(tilelace_all_reduce(me->c, NULL), "all_reduce: args: got NULL, expected a pointer");
  a.item = -1;
  CHECK_USAGE(
      tilelace_all_reduce(me->c, &a),
      "all_reduce: item: got the unknown value 255, expected bf16, fp16, fp32, i32, i64 or u8");
  a.item = TILELACE_ITEM_I32;
  a.reduction = 7;
  CHECK_USAGE(tilelace_all_reduce(me->c, &a),
              "all_reduce: reduction: got the unknown value 7, expected sum, avg or max");
  a.reduction = TILELACE_SUM;
  /* Only rank 1 is wrong: rank 0 is told. */
  a.counts = me->rank == 1 ? NULL : &count;
  CHECK_USAGE(tilelace_all_gather(me->c, &a),
              me->rank == 1 ? "all_gather: counts: got NULL, expected 1 numbers"
                            : "all_gather: rank 1 refused its call: all_gather: counts: got NULL, "
                              "expected 1 numbers");
  a.counts = &count;
  CHECK_OK(tilelace_all_reduce(me->c, &a));
}

static void* run(void* argument) {
  const member* me = argument;
  int32_t in[N];
  for (int i = 0; i < N; ++i) in[i] = value(me->rank, i);
  CHECK_OK(tilelace_prepare_collectives(me->c));
  sums(me, in);
  moves(me, in);
  norms(me);
  wrong_arguments(me, in);
  return NULL;
}

int main(void) { return run_members(run, "c_collectives_test"); }
