/* SPDX-License-Identifier: Apache-2.0 */
/* The C API as a C program sees it: two ranks through the three ops, and wrong arguments. */
#include <stdlib.h>

#include "c_members.h"

enum { M = 4, SHARD = 2, N = 8, K = 4 };

/* Only rank 1 is wrong: rank 0 is told. */
#define CHECK_TOLD(me, op, call, text) \
  CHECK_USAGE(call, (me)->rank == 1 ? op ": " text : op ": rank 1 refused its call: " op ": " text)

/* The same of a text that is made here. */
static void told_of(char* text, size_t size, int rank, const char* op, const char* what) {
  if (rank == 1)
    snprintf(text, size, "%s: %s", op, what);
  else
    snprintf(text, size, "%s: rank 1 refused its call: %s: %s", op, op, what);
}

static float value(int which, int rank, int i, int j) {
  return (float)((which * 5 + rank * 7 + i * 3 + j * 2) % 9 - 4);
}

static tilelace_tensor make(int64_t rows, int64_t cols, int which, int rank) {
  float* data = aligned_alloc(64, 256);
  if (data == NULL) abort();
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) data[i * cols + j] = value(which, rank, i, j);
  }
  const tilelace_tensor t = {data, TILELACE_FP32, rows, cols, cols};
  return t;
}

static float at(const tilelace_tensor* t, int64_t i, int64_t j) {
  return ((const float*)t->data)[i * t->stride + j];
}

/* Row i, column j of the sum over the ranks of x * weight^T, plus the bias. */
static float reduced(int i, int j) {
  float sum = value(3, 0, 0, j);
  for (int p = 0; p < RANKS; ++p) {
    for (int k = 0; k < K; ++k) sum += value(1, p, i, k) * value(2, p, j, k);
  }
  return sum;
}

static void expect_reduced(const tilelace_tensor* out, int first) {
  for (int i = 0; i < out->rows; ++i) {
    for (int j = 0; j < N; ++j) CHECK(at(out, i, j) == reduced(first + i, j));
  }
}

/* The same with the tensor that make(rows, N, 5, 0) gives added to it. */
static void expect_added(const tilelace_tensor* out, int first) {
  for (int i = 0; i < out->rows; ++i) {
    for (int j = 0; j < N; ++j) CHECK(at(out, i, j) == reduced(first + i, j) + value(5, 0, i, j));
  }
}

static void gather(member* me, const tilelace_tensor* weight, const tilelace_tensor* bias) {
  const tilelace_tensor out = make(M, N, 7, 0);
  tilelace_ag_gemm_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.m = M;
  args.a = make(SHARD, K, 0, me->rank);
  args.weights = weight;
  args.num_weights = 1;
  args.bias = bias;
  args.out = &out;
  args.gathered = make(M, K, 7, 0);
  CHECK_OK(tilelace_ag_gemm(me->c, &args));
  for (int i = 0; i < M; ++i) {
    for (int k = 0; k < K; ++k) {
      CHECK(at(&args.gathered, i, k) == value(0, i / SHARD, i % SHARD, k));
    }
    for (int j = 0; j < N; ++j) {
      float sum = value(3, 0, 0, j);
      for (int k = 0; k < K; ++k) {
        sum += value(0, i / SHARD, i % SHARD, k) * value(2, me->rank, j, k);
      }
      CHECK(at(&out, i, j) == sum);
    }
  }
  /* On every rank: values that name nothing, and lists that are not there. */
  args.activation = 9;
  CHECK_USAGE(
      tilelace_ag_gemm(me->c, &args),
      "ag_gemm: activation: got the unknown value 9, expected none, gelu, gelu_tanh, silu or "
      "swiglu");
  args.activation = TILELACE_ACT_NONE;
  args.out = NULL;
  CHECK_USAGE(tilelace_ag_gemm(me->c, &args), "ag_gemm: out: got NULL, expected 1 tensors");
  args.out = &out;
  args.weights = NULL;
  CHECK_USAGE(tilelace_ag_gemm(me->c, &args), "ag_gemm: weights: got NULL, expected 1 tensors");
  args.weights = weight;
  args.num_rows = 2;
  CHECK_USAGE(tilelace_ag_gemm(me->c, &args), "ag_gemm: rows: got NULL, expected 2 numbers");
  args.num_rows = me->rank == 1 ? 2 : 0;
  CHECK_TOLD(me, "ag_gemm", tilelace_ag_gemm(me->c, &args), "rows: got NULL, expected 2 numbers");
  args.num_rows = 0;
  args.out = me->rank == 1 ? NULL : &out;
  CHECK_TOLD(me, "ag_gemm", tilelace_ag_gemm(me->c, &args), "out: got NULL, expected 1 tensors");
  args.out = &out;
  CHECK_TOLD(me, "ag_gemm", tilelace_ag_gemm(me->c, me->rank == 1 ? NULL : &args),
             "args: got NULL, expected a pointer");
  args.struct_size = me->rank == 1 ? 8 : sizeof args;
  char what[96];
  char told[256];
  snprintf(what, sizeof what,
           "args: struct_size: got 8, expected %zu: set it to the struct's sizeof", sizeof args);
  told_of(told, sizeof told, me->rank, "ag_gemm", what);
  CHECK_USAGE(tilelace_ag_gemm(me->c, &args), told);
  args.struct_size = sizeof args;
  CHECK_OK(tilelace_ag_gemm(me->c, &args));
  free(args.a.data);
  free(args.gathered.data);
  free(out.data);
}

static void reduce(member* me, const tilelace_tensor* weight, const tilelace_tensor* bias) {
  tilelace_gemm_reduce_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.m = M;
  args.x = make(M, K, 1, me->rank);
  args.weight = *weight;
  args.bias = *bias;
  args.out = make(SHARD, N, 7, 0);
  CHECK_OK(tilelace_gemm_rs(me->c, &args));
  expect_reduced(&args.out, me->rank * SHARD);
  args.residual = make(SHARD, N, 5, 0);
  CHECK_OK(tilelace_gemm_rs(me->c, &args));
  expect_added(&args.out, me->rank * SHARD);
  free(args.residual.data);
  free(args.out.data);
  args.out = make(M, N, 7, 0);
  args.residual = make(M, N, 5, 0);
  CHECK_OK(tilelace_gemm_ar(me->c, &args));
  expect_added(&args.out, 0);
  free(args.residual.data);
  memset(&args.residual, 0, sizeof args.residual);
  CHECK_OK(tilelace_gemm_ar(me->c, &args));
  expect_reduced(&args.out, 0);
  /* Only rank 1 is wrong: rank 0 is told, and both go on. */
  if (me->rank == 1) args.x.dtype = 9;
  CHECK_USAGE(tilelace_gemm_ar(me->c, &args),
              me->rank == 1
                  ? "gemm_ar: dtype: got the unknown value 9, expected bf16, fp16 or fp32"
                  : "gemm_ar: rank 1 refused its call: gemm_ar: dtype: got the unknown value 9, "
                    "expected bf16, fp16 or fp32");
  args.x.dtype = TILELACE_FP32;
  CHECK_OK(tilelace_gemm_ar(me->c, &args));
  expect_reduced(&args.out, 0);
  args.num_rows = 2;
  CHECK_USAGE(tilelace_gemm_rs(me->c, &args), "gemm_rs: rows: got NULL, expected 2 numbers");
  args.num_rows = me->rank == 1 ? 2 : 0;
  CHECK_TOLD(me, "gemm_ar", tilelace_gemm_ar(me->c, &args), "rows: got NULL, expected 2 numbers");
  args.num_rows = 0;
  CHECK_TOLD(me, "gemm_ar", tilelace_gemm_ar(me->c, me->rank == 1 ? NULL : &args),
             "args: got NULL, expected a pointer");
  CHECK_OK(tilelace_gemm_ar(me->c, &args));
  expect_reduced(&args.out, 0);
  free(args.out.data);
  free(args.x.data);
}

/* A call by the names of op and operands. */
static void call_by_name(member* me, const tilelace_tensor* weight, const tilelace_tensor* bias) {
  tilelace_operand operands[5] = {{"out", make(SHARD, N, 7, 0)},
                                  {"residual", make(SHARD, N, 5, 0)},
                                  {"x", make(M, K, 1, me->rank)},
                                  {"bias", *bias},
                                  {"weight", *weight}};
  tilelace_call_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.op = "gemm_rs";
  args.m = M;
  args.operands = operands;
  args.num_operands = 5;
  CHECK_OK(tilelace_call(me->c, &args));
  expect_added(&operands[0].tensor, me->rank * SHARD);
  CHECK_USAGE(tilelace_call(NULL, &args), "gemm_rs: communicator: got NULL, expected a pointer");
  CHECK_USAGE(tilelace_call(me->c, NULL), "call: args: got NULL, expected a pointer");
  args.num_operands = 4;
  CHECK_USAGE(tilelace_call(me->c, &args), "gemm_rs: weights: got none, expected at least one");
  args.num_operands = 5;
  operands[1].name = me->rank == 1 ? "gathered" : "residual";
  CHECK_TOLD(me, "gemm_rs", tilelace_call(me->c, &args),
             "operand: got \"gathered\", expected the name of an operand of this op (docs/ops.md)");
  operands[1].name = "x";
  CHECK_USAGE(tilelace_call(me->c, &args), "gemm_rs: x: got 2 tensors, expected one");
  args.op = "gemm";
  CHECK_USAGE(tilelace_call(me->c, &args),
              "call: op: got \"gemm\", expected ag_gemm, gemm_rs or gemm_ar");
  for (int i = 0; i < 3; ++i) free(operands[i].tensor.data);
}

/* Lists that are not there, on rank 1 alone and on both. */
static void refuse_to_prepare(member* me, tilelace_problem* problems,
                              const tilelace_tensor* weight) {
  const char* told =
      "prepare: rank 1 refused to prepare: prepare: weights: got NULL, expected 1 tensors";
  problems[1].weights = me->rank == 1 ? NULL : weight;
  CHECK_USAGE(tilelace_prepare(me->c, problems, 3),
              me->rank == 1 ? "prepare: weights: got NULL, expected 1 tensors" : told);
  problems[1].weights = weight;
  problems[2].num_rows = 2;
  CHECK_USAGE(tilelace_prepare(me->c, problems, 3), "prepare: rows: got NULL, expected 2 numbers");
  problems[2].num_rows = 0;
  CHECK_USAGE(tilelace_prepare(me->c, NULL, 1), "prepare: problems: got NULL, expected 1 problems");
}

/* Where a rank has no place for what all make, the others have theirs. */
static void refuse_a_place(member* me) {
  tilelace_buffer* buffer = NULL;
  if (me->rank == 1) {
    CHECK_USAGE(tilelace_buffer_create(me->c, 64, NULL),
                "buffer: out: got NULL, expected a pointer");
  } else {
    CHECK_OK(tilelace_buffer_create(me->c, 64, &buffer));
  }
  tilelace_buffer_destroy(buffer);
}

static void* run_rank(void* argument) {
  member* me = argument;
  refuse_a_place(me);
  const tilelace_tensor weight = make(N, K, 2, me->rank);
  const tilelace_tensor bias = make(1, N, 3, 0);
  tilelace_problem problems[3];
  memset(problems, 0, sizeof problems);
  for (int i = 0; i < 3; ++i) {
    problems[i].struct_size = sizeof problems[i];
    problems[i].op = i;
    problems[i].m = M;
    problems[i].k = K;
    problems[i].dtype = TILELACE_FP32;
    problems[i].bias = 1;
    problems[i].return_gathered = i == TILELACE_AG_GEMM;
    problems[i].weights = &weight;
    problems[i].num_weights = 1;
  }
  problems[0].op = 7;
  CHECK_USAGE(tilelace_prepare(me->c, problems, 3),
              "op: got the unknown value 7, expected ag_gemm, gemm_rs or gemm_ar");
  problems[0].op = TILELACE_AG_GEMM;
  refuse_to_prepare(me, problems, &weight);
  CHECK_OK(tilelace_prepare(me->c, problems, 1));
  CHECK_OK(tilelace_prepare_more(me->c, problems + 1, 2));
  gather(me, &weight, &bias);
  reduce(me, &weight, &bias);
  call_by_name(me, &weight, &bias);

  char text[16];
  size_t needed = 0;
  CHECK_OK(tilelace_query_plan(me->c, &problems[1], text, sizeof text, &needed));
  CHECK(needed > sizeof text && strlen(text) == sizeof text - 1);
  CHECK(strncmp(text, "gemm_rs ", 8) == 0);
  CHECK_OK(tilelace_query_plan(me->c, &problems[1], NULL, 0, &needed));
  CHECK_USAGE(tilelace_query_plan(me->c, &problems[1], NULL, 8, NULL),
              "query_plan: text: got NULL, expected 8 bytes");
  problems[1].weights = NULL;
  CHECK_USAGE(tilelace_query_plan(me->c, &problems[1], text, sizeof text, NULL),
              "query_plan: weights: got NULL, expected 1 tensors");

  tilelace_buffer* buffer = NULL;
  void* address = NULL;
  CHECK_OK(tilelace_buffer_create(me->c, 64, &buffer));
  CHECK_OK(tilelace_buffer_peer(buffer, 1 - me->rank, &address));
  if (address != NULL) *(int*)address = 100 + me->rank;
  CHECK_OK(tilelace_communicator_barrier(me->c));
  CHECK_OK(tilelace_buffer_peer(buffer, me->rank, &address));
  CHECK(address != NULL && *(int*)address == 101 - me->rank);
  CHECK_USAGE(tilelace_buffer_peer(buffer, 2, &address),
              "symmetric buffer: rank: got 2, expected 0 to 1");
  CHECK_USAGE(tilelace_buffer_peer(buffer, 0, NULL),
              "buffer: address: got NULL, expected a pointer");
  tilelace_buffer_destroy(buffer);

  const int32_t both[RANKS] = {1, 0};
  tilelace_communicator* pair = NULL;
  int32_t rank = -1;
  int32_t size = -1;
  CHECK_OK(tilelace_communicator_subgroup(me->c, both, RANKS, &pair));
  CHECK_OK(tilelace_communicator_rank(pair, &rank));
  CHECK_OK(tilelace_communicator_size(pair, &size));
  CHECK(rank == 1 - me->rank && size == RANKS);
  CHECK_OK(tilelace_communicator_barrier(pair));
  tilelace_communicator_destroy(pair);
  CHECK_OK(tilelace_communicator_barrier(me->c));
  free(weight.data);
  free(bias.data);
  return NULL;
}

#define NEEDS(call, what, name) CHECK_USAGE(call, what ": " name ": got NULL, expected a pointer")

static void refuse_nulls(tilelace_communicator* c) {
  tilelace_communicator* other = NULL;
  tilelace_buffer* buffer = NULL;
  const int32_t list[1] = {0};
  int32_t number = 0;
  void* address = NULL;
  tilelace_problem problem;
  tilelace_ag_gemm_args gather_args;
  tilelace_gemm_reduce_args reduce_args;
  memset(&problem, 0, sizeof problem);
  memset(&gather_args, 0, sizeof gather_args);
  memset(&reduce_args, 0, sizeof reduce_args);
  NEEDS(tilelace_communicator_threads(2, NULL, NULL), "communicator", "out");
  NEEDS(tilelace_communicator_process(0, 1, "/tmp", NULL, NULL), "communicator", "out");
  NEEDS(tilelace_communicator_process(0, 1, NULL, NULL, &other), "communicator", "directory");
  NEEDS(tilelace_communicator_subgroup(NULL, list, 1, &other), "subgroup", "communicator");
  NEEDS(tilelace_communicator_subgroup(c, NULL, 1, &other), "subgroup", "ranks");
  NEEDS(tilelace_communicator_subgroup(c, list, 1, NULL), "subgroup", "out");
  NEEDS(tilelace_communicator_rank(NULL, &number), "rank", "communicator");
  NEEDS(tilelace_communicator_rank(c, NULL), "rank", "rank");
  NEEDS(tilelace_communicator_size(NULL, &number), "size", "communicator");
  NEEDS(tilelace_communicator_size(c, NULL), "size", "size");
  NEEDS(tilelace_communicator_barrier(NULL), "barrier", "communicator");
  NEEDS(tilelace_prepare(NULL, &problem, 1), "prepare", "communicator");
  NEEDS(tilelace_prepare_more(NULL, &problem, 1), "prepare", "communicator");
  NEEDS(tilelace_ag_gemm(NULL, &gather_args), "ag_gemm", "communicator");
  NEEDS(tilelace_gemm_rs(NULL, &reduce_args), "gemm_rs", "communicator");
  NEEDS(tilelace_gemm_ar(NULL, &reduce_args), "gemm_ar", "communicator");
  NEEDS(tilelace_query_plan(NULL, &problem, NULL, 0, NULL), "query_plan", "communicator");
  NEEDS(tilelace_query_plan(c, NULL, NULL, 0, NULL), "query_plan", "problem");
  NEEDS(tilelace_buffer_create(NULL, 64, &buffer), "buffer", "communicator");
  NEEDS(tilelace_buffer_peer(NULL, 0, &address), "buffer", "buffer");
  tilelace_communicator_destroy(NULL);
  tilelace_communicator_abort(NULL);
  tilelace_buffer_destroy(NULL);
  CHECK_USAGE(tilelace_communicator_threads(0, NULL, &other),
              "communicator: ranks: got 0, expected 1 to 64");
}

int main(void) {
  tilelace_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.workers = 1;
  options.timeout_s = 5;
  tilelace_communicator* members[RANKS] = {NULL, NULL};
  CHECK(strcmp(tilelace_last_error(), "no error") == 0);
  CHECK(strcmp(tilelace_version(), TILELACE_VERSION_STRING) == 0);
  CHECK(strcmp(tilelace_status_name(TILELACE_OK), "ok") == 0);
  CHECK(strcmp(tilelace_status_name(TILELACE_USAGE), "usage") == 0);
  CHECK(strcmp(tilelace_status_name(TILELACE_TIMEOUT), "timeout") == 0);
  CHECK(strcmp(tilelace_status_name((tilelace_status)5), "unknown") == 0);
  CHECK_OK(tilelace_communicator_threads(RANKS, &options, members));
  if (members[0] == NULL) return 1;
  refuse_nulls(members[0]);
  run_threads(members, run_rank);
  tilelace_communicator_abort(members[0]);
  CHECK(tilelace_communicator_barrier(members[1]) == TILELACE_PEER);
  for (int r = 0; r < RANKS; ++r) tilelace_communicator_destroy(members[r]);
  if (failures == 0) puts("c_api_test: all is well");
  return failures == 0 ? 0 : 1;
}
