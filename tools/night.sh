#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The night: what takes too long for the gate (./test), with new seeds. Run it as ./test --all[=PART].
# usage: tools/night.sh PART|all SEED     PART: cpu, sanitizers, cuda, emulated, python, docs; each an hour at most
# The last line says passed or failed, and how to repeat it.
set -uo pipefail
cd "$(dirname "$0")/.."
part=$1 seed=$2
parts=(cpu sanitizers cuda emulated python docs)
[ "$part" = all ] || parts=("$part")
. tools/stages.sh
echo "== night: ${parts[*]}, seed $seed"

# tests/night.h: other random cases than the gate's, as many as four times.
more() { TILELACE_TEST_SEED="$seed" TILELACE_TEST_TIMES=4 "$@"; }

# A second compiler, whose warnings are errors, too: library, command and examples.
clang_build() {
  CC=clang CXX=clang++ cmake --preset cpu -B build/clang -DTILELACE_TESTS=OFF && cmake --build build/clang
}

part_cpu() {
  stage "cpu: build" build cpu
  stage "cpu: headers compile alone" cmake --build --preset cpu --target check_headers
  stage "cpu: tidy, all files" tools/check_tidy.sh build/cpu
  stage "cpu: clang, without tests" clang_build
  stage "cpu: fuzz, readers of files" tools/fuzz --seconds 60 --seed "$seed"
  local toy
  for toy in "${toys[@]}"; do stage "cpu: a toy $toy" python3 "tests/doors/toy_$toy.py"; done
  stage "cpu: tests" more ctest --preset cpu -j2
  local op n  # 12288 columns of each rank's weight
  for op in ag_gemm gemm_rs gemm_ar; do
    n=$([ $op = ag_gemm ] && echo 98304 || echo 12288)
    stage "cpu: $op in every way" build/cpu/bin/tilelace check --op "$op" --tp 8 --m 8192 --n "$n" \
      --workers 132 --seed $((seed + 2))
  done
}

part_sanitizers() {
  local sanitizer
  for sanitizer in tsan asan; do
    stage "$sanitizer: build" build $sanitizer
    stage "$sanitizer: tests" more ctest --preset $sanitizer -j2 -E 'ProtocolSweep.*/[02-9]$'
  done
  stage "coverage" tools/coverage
  tail -1 .cache/stages/coverage.log
}

# Nothing else is built with traces: the program and its kernels, of one tile.
trace_program() {
  cmake --preset cuda -B build/trace -DTILELACE_TRACE=ON -DTILELACE_TILES=p128 -DTILELACE_EXAMPLES=OFF &&
    cmake --build build/trace --target gpu_op_trace
}
part_cuda() {
  if ! has_nvcc; then
    echo "== cuda: no nvcc here, left out"
    return
  fi
  stage "cuda: build, all kernels" build cuda "${cuda_targets[@]}" tests/gpu/all tilelace_cli cli_parts_test \
    cli_command_test
  stage "cuda: compiled kernels" python3 tools/check_kernels.py --require build/cuda
  stage "cuda: tests that differ" cuda_tests cuda "^CliCommand\.Doctor"
  stage "cuda: a program with traces" trace_program
}

# Problems with the night's seed, as many as the tests of the gate have, and those.
emulated_op() {  # emulated_op OP RANKS SHAPES ORDER
  TILELACE_EMULATED_GPUS=4 TILELACE_EMULATED_MULTIPROCESSORS=17 TILELACE_EMULATED_ORDER=$4 \
    build/emulated/bin/emulated_conformance --ops "$1" --ranks "$2" --shapes "$3" --seed "$seed" \
    --dtypes bf16 --small --timeout-s 100 --limit-seconds 900
}
part_emulated() {
  stage "emulated GPUs: build" build emulated "${emulated_targets[@]}"
  stage "emulated GPUs: tests" emulated_tests
  stage "emulated GPUs: gemm" env TILELACE_EMULATED_MULTIPROCESSORS=16 \
    build/emulated/bin/emulated_gemm_check --dtypes bf16 --small --shapes 140 --seed "$seed"
  stage "emulated GPUs: experts" env TILELACE_EMULATED_MULTIPROCESSORS=16 \
    build/emulated/bin/emulated_moe_check --dtypes bf16 --small --shapes 40 --graphs 2 --repeats 10 --calls 60 \
    --seed "$seed"
  local op ranks
  for ranks in 2 3 4; do
    stage "emulated GPUs: layers of experts, $ranks ranks" env TILELACE_EMULATED_GPUS=4 \
      TILELACE_EMULATED_MULTIPROCESSORS=17 build/emulated/bin/emulated_experts $ranks $((120 / ranks)) "$seed"
  done
  for op in ag_gemm gemm_rs gemm_ar; do
    stage "emulated GPUs: $op, order" emulated_op "$op" 2 24 1
    stage "emulated GPUs: $op, order, three" emulated_op "$op" 3 6 1
    stage "emulated GPUs: $op, four" emulated_op "$op" 4 18 0
  done
  stage "emulated GPUs: places of fences" python3 tools/fence_sites.py --check \
    $(seq -f "--seed %.0f" "$seed" $((seed + 4)))
}

part_python() {
  stage "python: torch and tools" tools/install_dependencies.sh python
  stage "python: package" python_package
  stage "python: tidy" tools/check_tidy.sh build/python
  stage "python: headers of the oldest torch" tools/check_oldest_torch
  stage "python: a trained model" tools/install_dependencies.sh models
  stage "python: a trained model, text" .cache/python/bin/python tests/python/real_model.py
  stage "python: tests and examples" more python_tests
  local ranks
  for ranks in 3 4; do
    stage "python: histories, $ranks ranks" .cache/python/bin/python tests/python/histories.py \
      --ranks "$ranks" --histories 200 --seed "$seed"
  done
  stage "python: wheel for other machines" tools/build_wheels --out dist/night
  if [ "$(id -u)" -ne 0 ]; then
    echo "== python: no root here, the wheel is not tried"
    return
  fi
  stage "python: wheel in a bare root" tools/try_wheel dist/night/tilelace-*.whl
}

# What README and docs tell a reader to type, as CPU ranks.
part_docs() {
  stage "docs: site and links" tools/build_docs
  stage "docs: cpu: build" build cpu
  stage "docs: torch and tools" tools/install_dependencies.sh python
  stage "docs: package" python_package
  stage "docs: shell and Python blocks" python3 tools/run_docs.py
}

stage "dependencies" tools/install_dependencies.sh all
for p in "${parts[@]}"; do "part_$p"; done
echo
echo "== times"
printf '%s\n' "${times[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  echo "night: failed, ./test --all=$part --seed $seed"
  exit 1
fi
echo "night: passed, ./test --all=$part --seed $seed"
