/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts as a C program sees it: two ranks through both halves, and wrong arguments.
 */
#include "c_members.h"

enum { OWN = 2, M = RANKS * OWN, HIDDEN = 8, INNER = 8, EXPERTS = 3, TOP_K = 2 };

/* What one thread has, aligned as tensors are. */
typedef struct tensors {
  _Alignas(16) float x[OWN * HIDDEN];
  _Alignas(16) float first[EXPERTS * INNER * HIDDEN];
  _Alignas(16) float second[EXPERTS * HIDDEN * INNER];
  _Alignas(16) float act[M * TOP_K * INNER];
  _Alignas(16) float out[M * HIDDEN];
  _Alignas(16) int32_t map[512];
} tensors;

static tilelace_tensor matrix(float* data, int64_t rows, int64_t cols) {
  const tilelace_tensor t = {data, TILELACE_FP32, rows, cols, cols};
  return t;
}

/* Token t of all has ones times t + 1; expert e's first weight has e + 1 on the diagonal, and its
 * second one too. */
static void fill(tensors* t, int rank) {
  memset(t, 0, sizeof *t);
  for (int i = 0; i < OWN * HIDDEN; ++i) t->x[i] = (float)(rank * OWN + i / HIDDEN + 1);
  for (int e = 0; e < EXPERTS; ++e)
    for (int i = 0; i < INNER; ++i)
      t->first[(e * INNER + i) * HIDDEN + i] = t->second[(e * HIDDEN + i) * INNER + i] =
          (float)(e + 1);
}

/* `a`: a call that is right. */
static void wrong_calls(const member* me, const tilelace_moe_layer* layer, tilelace_ag_moe_args a) {
  CHECK_USAGE(tilelace_grouped_gemm(NULL), "grouped_gemm: args: got NULL, expected a pointer");
  CHECK_USAGE(tilelace_ag_moe(NULL, &a), "ag_moe: communicator: got NULL, expected a pointer");
  CHECK_USAGE(tilelace_moe_ar(me->c, NULL), "moe_ar: args: got NULL, expected a pointer");
  /* Only rank 1 is wrong: rank 0 is told. */
  a.layer = me->rank == 1 ? NULL : layer;
  CHECK_USAGE(tilelace_ag_moe(me->c, &a),
              me->rank == 1 ? "ag_moe: layer: got NULL, expected a pointer"
                            : "ag_moe: rank 1 refused its call: ag_moe: layer: got NULL, expected "
                              "a pointer");
  a.layer = layer;
  a.struct_size -= 8;
  CHECK(tilelace_ag_moe(me->c, &a) == TILELACE_USAGE);
  a.struct_size += 8;
  CHECK_OK(tilelace_ag_moe(me->c, &a));
  tilelace_moe_layer part = *layer;
  part.first = INT64_MAX;
  part.here = 1;
  int64_t words = 0;
  CHECK(tilelace_moe_map_words(&part, M, &words) == TILELACE_USAGE && words == 0);
  part.first = 1;
  part.here = INT64_MAX;
  CHECK(tilelace_moe_map_words(&part, M, &words) == TILELACE_USAGE && words == 0);
}

static void* run(void* argument) {
  const member* me = argument;
  /* Token t chooses experts t mod 3 and 2, with weights 1 and 0.5; the last one only the first. */
  const int64_t ids[M * TOP_K] = {0, 2, 1, 2, 2, 2, 0, -1};
  const float weights[M * TOP_K] = {1, 0.5F, 1, 0.5F, 1, 0.5F, 1, 0.5F};
  tensors t;
  fill(&t, me->rank);
  tilelace_moe_layer layer;
  memset(&layer, 0, sizeof layer);
  layer.struct_size = sizeof layer;
  layer.dtype = TILELACE_FP32;
  layer.activation = TILELACE_EXPERT_NONE;
  layer.m = M;
  layer.hidden = HIDDEN;
  layer.inner = INNER;
  layer.experts = EXPERTS;
  layer.top_k = TOP_K;
  int64_t words = 0;
  CHECK_OK(tilelace_moe_map_words(&layer, M, &words));
  CHECK(words <= 512);
  /* Only rank 1 is wrong: rank 0 is told. */
  CHECK_USAGE(tilelace_prepare_moe(me->c, me->rank == 1 ? NULL : &layer),
              me->rank == 1 ? "prepare_moe: layer: got NULL, expected a pointer"
                            : "prepare_collectives: rank 1 refused its call: prepare_moe: layer: "
                              "got NULL, expected a pointer");
  CHECK_OK(tilelace_prepare_moe(me->c, &layer));

  tilelace_ag_moe_args a;
  memset(&a, 0, sizeof a);
  a.struct_size = sizeof a;
  a.layer = &layer;
  a.m = M;
  a.x = matrix(t.x, OWN, HIDDEN);
  a.ids = ids + me->rank * OWN * TOP_K;
  a.id_type = TILELACE_ITEM_I64;
  a.weights = weights + me->rank * OWN * TOP_K;
  a.weight = matrix(t.first, EXPERTS * INNER, HIDDEN);
  a.map = t.map;
  a.out = matrix(t.act, M * TOP_K, INNER);
  CHECK_OK(tilelace_ag_moe(me->c, &a));
  CHECK(t.map[0] == 0 && t.map[1] == 2 && t.map[2] == 3 && t.map[3] == 7);

  tilelace_moe_reduce_args r;
  memset(&r, 0, sizeof r);
  r.struct_size = sizeof r;
  r.layer = &layer;
  r.m = M;
  r.x = a.out;
  r.map = t.map;
  r.weight = matrix(t.second, EXPERTS * HIDDEN, INNER);
  r.out = matrix(t.out, M, HIDDEN);
  CHECK_OK(tilelace_moe_ar(me->c, &r));
  /* Both ranks bring the same terms. */
  const float sums[M] = {2 * 1 * (1 + 4.5F), 2 * 2 * (4 + 4.5F), 2 * 3 * (9 + 4.5F), 2 * 4};
  for (int i = 0; i < M * HIDDEN; ++i) CHECK(t.out[i] == sums[i / HIDDEN]);
  memset(t.out, 0, sizeof t.out);
  r.out = matrix(t.out, OWN, HIDDEN);
  CHECK_OK(tilelace_moe_rs(me->c, &r));
  for (int i = 0; i < OWN * HIDDEN; ++i) CHECK(t.out[i] == sums[me->rank * OWN + i / HIDDEN]);

  tilelace_grouped_gemm_args g;
  memset(&g, 0, sizeof g);
  g.struct_size = sizeof g;
  g.x = a.x;
  const int32_t begins[EXPERTS + 1] = {0, 0, 1, 2};
  g.begins = begins;
  g.experts = EXPERTS;
  g.weight = a.weight;
  g.out = matrix(t.out, OWN, INNER);
  CHECK_OK(tilelace_grouped_gemm(&g));
  for (int i = 0; i < OWN * INNER; ++i) CHECK(t.out[i] == t.x[i] * (float)(i / INNER + 2));
  g.experts = INT64_MAX / 2;
  CHECK(tilelace_grouped_gemm(&g) == TILELACE_USAGE);
  wrong_calls(me, &layer, a);
  return NULL;
}

int main(void) { return run_members(run, "c_moe_test"); }
