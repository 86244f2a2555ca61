/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were compiled with an older or a newer header than the library. */
#include <stdlib.h>

#include "c_checks.h"

enum { M = 4, N = 8, K = 4 };

/* Numbers that a field which is read by mistake would have. */
static void spoil(void* begin, size_t from, size_t to) {
  memset((char*)begin + from, 0x5a, to - from);
}

static tilelace_status make_one(const tilelace_options* options) {
  tilelace_communicator* one = NULL;
  const tilelace_status status = tilelace_communicator_threads(1, options, &one);
  tilelace_communicator_destroy(one);
  return status;
}

static void sizes_of_options(void) {
  struct {
    tilelace_options known;
    int64_t unknown;
  } o;
  char text[160];
  memset(&o, 0, sizeof o);
  snprintf(text, sizeof text,
           "communicator: options: struct_size: got 0, expected %zu: set it to the struct's sizeof",
           sizeof o.known);
  CHECK_USAGE(make_one(&o.known), text);
  o.known.struct_size = sizeof o.known - 3;
  CHECK(make_one(&o.known) == TILELACE_USAGE);
  o.known.struct_size = (size_t)1 << 40;
  CHECK(make_one(&o.known) == TILELACE_USAGE);
  o.known.struct_size = sizeof o.known;
  o.unknown = 1;
  CHECK_OK(make_one(&o.known));
  o.known.device = 9;
  CHECK(make_one(&o.known) == TILELACE_USAGE);

  o.known.device = TILELACE_CPU;
  o.unknown = 0;

  /* What is tuned, and by what: GPUs alone have tables. */
  o.known.tuning = "off";
  CHECK_OK(make_one(&o.known));
  o.known.tuning = "/nowhere/table.json";
  CHECK_USAGE(make_one(&o.known),
              "communicator: tuning: tables are for GPU ranks: pass none to CPU ranks");
  o.known.tuning = NULL;
  o.known.cache = "/nowhere";
  o.known.deterministic = 1;
  CHECK_OK(make_one(&o.known));
  o.known.autotune_seconds = 2;
  CHECK_USAGE(
      make_one(&o.known),
      "communicator: autotune with deterministic: got 2 s, expected 0: timed plans may differ "
      "from run to run, and so may the last bits of results");
  o.known.deterministic = 0;
  CHECK_OK(make_one(&o.known));
  o.known.autotune_seconds = -1;
  CHECK_USAGE(make_one(&o.known), "communicator: autotune: got -1 s, expected 0 to 3600");
  o.known.device = 9;

  /* An older header's: nothing behind its end is read. */
  o.known.struct_size = offsetof(tilelace_options, device);
  CHECK_OK(make_one(&o.known));
  o.known.struct_size = sizeof o.known.struct_size;
  spoil(&o, sizeof o.known.struct_size, sizeof o);
  CHECK_OK(make_one(&o.known));

  /* A newer header's: only where it uses nothing that is new. */
  memset(&o, 0, sizeof o);
  o.known.struct_size = sizeof o;
  CHECK_OK(make_one(&o.known));
  o.unknown = 1;
  snprintf(text, sizeof text,
           "communicator: options: struct_size: got %zu, with values beyond the %zu bytes of API "
           "version %d: set to 0 the fields that this library does not know",
           sizeof o, sizeof o.known, TILELACE_API_VERSION);
  CHECK_USAGE(make_one(&o.known), text);
}

static tilelace_tensor make(int64_t rows, int64_t cols, float value) {
  float* data = aligned_alloc(64, 256);
  if (data == NULL) abort();
  for (int i = 0; i < rows * cols; ++i) data[i] = value;
  const tilelace_tensor t = {data, TILELACE_FP32, rows, cols, cols};
  return t;
}

static void sizes_of_problems(tilelace_communicator* c, const tilelace_tensor* weight) {
  /* What an older header had; in a list the structs lie as close as it says. */
  enum { OLD = offsetof(tilelace_problem, rows) };
  _Alignas(tilelace_problem) char old[3 * OLD + sizeof(tilelace_problem)];
  char text[160];
  memset(old, 0x5a, sizeof old);
  for (int i = 0; i < 3; ++i) {
    tilelace_problem p;
    memset(&p, 0, sizeof p);
    p.struct_size = OLD;
    p.op = i;
    p.m = M;
    p.k = K;
    p.dtype = TILELACE_FP32;
    p.weights = weight;
    p.num_weights = 1;
    memcpy(old + i * OLD, &p, OLD);
  }
  tilelace_problem* list = (tilelace_problem*)(void*)old;
  CHECK_OK(tilelace_query_plan(c, list, NULL, 0, NULL));
  CHECK_OK(tilelace_prepare(c, list, 3));
  const size_t other = sizeof(tilelace_problem);
  memcpy(old + 2 * OLD, &other, sizeof other);
  snprintf(text, sizeof text,
           "prepare: problems 2: struct_size: got %zu, expected %d, as in the first one", other,
           OLD);
  CHECK_USAGE(tilelace_prepare(c, list, 3), text);
  list->struct_size = 8;
  CHECK(tilelace_query_plan(c, list, NULL, 0, NULL) == TILELACE_USAGE);
  list->struct_size = 0;
  CHECK(tilelace_prepare(c, list, 1) == TILELACE_USAGE);
  CHECK(tilelace_prepare_more(c, list, 1) == TILELACE_USAGE);
}

static int all_are(const tilelace_tensor* t, float value) {
  for (int i = 0; i < M * N; ++i)
    if (((const float*)t->data)[i] != value) return 0;
  return 1;
}

static void sizes_of_gather(tilelace_communicator* c, const tilelace_tensor* weight) {
  const tilelace_tensor out = make(M, N, 0);
  tilelace_ag_gemm_args args;
  memset(&args, 0, sizeof args);
  args.m = M;
  args.a = make(M, K, 2);
  args.weights = weight;
  args.num_weights = 1;
  args.out = &out;
  CHECK(tilelace_ag_gemm(c, &args) == TILELACE_USAGE);
  args.struct_size = offsetof(tilelace_ag_gemm_args, gathered);
  spoil(&args, args.struct_size, sizeof args);
  CHECK_OK(tilelace_ag_gemm(c, &args));
  CHECK(all_are(&out, 2 * 3 * K));
  free(args.a.data);
  free(out.data);
}

typedef tilelace_status (*reduce_op)(tilelace_communicator*, const tilelace_gemm_reduce_args*);

static void sizes_of_reduce(tilelace_communicator* c, const tilelace_tensor* weight, reduce_op op) {
  tilelace_gemm_reduce_args args;
  memset(&args, 0, sizeof args);
  args.m = M;
  args.x = make(M, K, 2);
  args.weight = *weight;
  args.out = make(M, N, 0);
  CHECK(op(c, &args) == TILELACE_USAGE);
  args.struct_size = sizeof args;
  args.residual = make(M, N, 1);
  CHECK_OK(op(c, &args));
  CHECK(all_are(&args.out, 2 * 3 * K + 1));
  /* A header from before the residual. */
  args.struct_size = offsetof(tilelace_gemm_reduce_args, residual);
  CHECK_OK(op(c, &args));
  CHECK(all_are(&args.out, 2 * 3 * K));
  free(args.residual.data);
  args.struct_size = offsetof(tilelace_gemm_reduce_args, rows);
  spoil(&args, args.struct_size, sizeof args);
  CHECK_OK(op(c, &args));
  args.struct_size -= 8;
  CHECK(op(c, &args) == TILELACE_USAGE);
  free(args.x.data);
  free(args.out.data);
}

typedef tilelace_status (*collective)(tilelace_communicator*, const tilelace_collective_args*);

static void sizes_of_collective(tilelace_communicator* c, collective op) {
  const float in[3] = {1, 2, 3};
  float out[3] = {0, 0, 0};
  const int64_t count = 3;
  tilelace_collective_args args;
  memset(&args, 0, sizeof args);
  args.in = in;
  args.out = out;
  args.item = TILELACE_ITEM_FP32;
  args.counts = &count;
  args.num_counts = 1;
  if (op == tilelace_all_to_all) args.takes = &count, args.num_takes = 1;
  CHECK(op(c, &args) == TILELACE_USAGE);
  args.struct_size = sizeof args;
  CHECK_OK(op(c, &args));
  CHECK(memcmp(in, out, sizeof in) == 0);
  args.shots = 3;
  CHECK(op(c, &args) == TILELACE_USAGE);
  args.struct_size = offsetof(tilelace_collective_args, lines);
  spoil(&args, args.struct_size, sizeof args);
  CHECK_OK(op(c, &args));
  args.struct_size -= 8;
  CHECK(op(c, &args) == TILELACE_USAGE);
}

int main(void) {
  CHECK(tilelace_api_version() == TILELACE_API_VERSION);
  sizes_of_options();
  tilelace_communicator* c = NULL;
  CHECK_OK(tilelace_communicator_threads(1, NULL, &c));
  if (c == NULL) return 1;
  const tilelace_tensor weight = make(N, K, 3);
  sizes_of_problems(c, &weight);
  sizes_of_gather(c, &weight);
  sizes_of_reduce(c, &weight, tilelace_gemm_rs);
  sizes_of_reduce(c, &weight, tilelace_gemm_ar);
  sizes_of_collective(c, tilelace_all_reduce);
  sizes_of_collective(c, tilelace_all_gather);
  sizes_of_collective(c, tilelace_reduce_scatter);
  sizes_of_collective(c, tilelace_all_to_all);
  tilelace_communicator_destroy(c);
  free(weight.data);
  if (failures == 0) puts("c_api_sizes_test: all is well");
  return failures == 0 ? 0 : 1;
}
