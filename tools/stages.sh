# SPDX-License-Identifier: Apache-2.0
# What ./test and its night (tools/night.sh) share: stages, each with its time, and what several of them run.
# To be sourced in the root of the tree. What a stage printed stays in .cache/stages.
times=()
failed=()
mkdir -p .cache/stages

stage() {  # stage NAME COMMAND...: runs it, keeps its time; output only if it fails
  local name=$1 begin=$SECONDS log=.cache/stages/${1//[^a-zA-Z0-9]/_}.log
  shift
  printf '== %-34s' "$name"
  if "$@" >"$log" 2>&1; then
    printf ' %4d s  ok\n' $((SECONDS - begin))
  else
    printf ' %4d s  FAILED\n' $((SECONDS - begin))
    tail -60 "$log"
    failed+=("$name")
  fi
  times+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
}

build() {  # build PRESET [TARGETS...]; test_set: see tests/CMakeLists.txt
  cmake --preset "$1" "-DTILELACE_TEST_SET=${test_set:-all}" && cmake --build --preset "$1" ${2:+--target "${@:2}"}
}

has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# What a build with CUDA has of its own or runs differently. The others are those of the preset cpu, of
# the same sources under the same flags: not built here again.
cuda_targets=(tilelace_library examples/all schedule_static_test gemm_schedule_test launch_env_test
              gpu_allocation_test gpu_arena_test gpu_cases_test gpu_exchange_test gpu_nccl_test
              gpu_range_test gpu_trace_test gpu_transport_test)
emulated_targets=(emulated_conformance emulated_gemm_check emulated_collectives emulated_moe_check
                  emulated_experts emulated_tune)
cuda_tests() {  # cuda_tests PRESET [REGEX of more tests]
  ctest --test-dir "build/$1/tests/gpu" -j2 --no-tests=error --output-on-failure &&
    ctest --preset "$1" -j2 --no-tests=error -R "^(Schedule|GemmSchedule|GemmPlan|Launch|examples)\.${2:+|$2}"
}

# For the gate: few kernels, a look at what is compiled of them, and the programs of emulated GPUs.
gpu_code() {
  build emulated "${emulated_targets[@]}"
  local code=$?
  build cuda_few "${cuda_targets[@]}" && python3 tools/check_kernels.py --require build/cuda_few && return $code
}

emulated_tests() {
  ctest --test-dir build/emulated -R '^emulated\.' -j2 --no-tests=error --output-on-failure
}

# What comes into a copy of the tree by a few files each, and whether it does.
toys=(op type link architecture)
toys() {
  local toy
  for toy in "${toys[@]}"; do python3 "tests/doors/toy_$toy.py" "$@" || return 1; done
}

# A static and a shared library as their users install them, side by side.
installed() {
  cmake --preset cpu -B build/shared "-DTILELACE_TEST_SET=${test_set:-all}" -DBUILD_SHARED_LIBS=ON \
    -DTILELACE_TESTS=OFF -DTILELACE_EXAMPLES=OFF -DTILELACE_CLI=OFF &&
    cmake --build build/shared || return 1
  python3 tests/install/check_install.py build/shared &
  local shared=$!
  python3 tests/install/check_install.py build/cpu
  local code=$?
  wait $shared && return $code
}

# The wheel, built and installed as a user's is (CPU ranks), then its tests and examples. The compiler
# by the name that the preset cpu knows it by: ccache takes another name for another compiler.
python_package() {
  CC=${CC:-cc} CXX=${CXX:-c++} .cache/python/bin/pip install --no-build-isolation --no-deps . \
    -C cmake.define.TILELACE_GPUS=OFF -C cmake.define.TILELACE_WERROR=ON -C cmake.define.TILELACE_TEST_SET="${test_set:-all}" \
    -C build.verbose=true
}
python_tests() { .cache/python/bin/python -m pytest --durations=25 tests/python; }
