# Builds that pip asks for (pyproject.toml). AUTO: GPU kernels where nvcc 13 and an NVIDIA driver are, since
# they take half an hour. Other builds have CPU ranks only, and say so here and in `tilelace doctor`.
find_program(TILELACE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME ENV CUDACXX PATHS /usr/local/cuda/bin)
set(nvcc_release "none")
if(TILELACE_CUDA_COMPILER)
  execute_process(COMMAND ${TILELACE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET)
  if(nvcc_text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(nvcc_release ${CMAKE_MATCH_1})
  endif()
endif()
if(NOT DEFINED TILELACE_CUDA_DRIVER)  # nothing in the cache: a kept build folder sees a driver that came
  find_library(TILELACE_CUDA_DRIVER libcuda.so.1 PATHS /usr/lib/wsl/lib NO_CACHE)
  find_program(TILELACE_CUDA_DRIVER nvidia-smi NO_CACHE)
  find_file(TILELACE_CUDA_DRIVER nvidia0 PATHS /dev NO_CACHE NO_DEFAULT_PATH)
endif()
if(TILELACE_GPUS STREQUAL "AUTO")
  set(TILELACE_GPUS OFF)
  if(NOT nvcc_release VERSION_GREATER_EQUAL 13.0)
    set(why_no_gpus "nvcc: got ${nvcc_release}, expected 13.0 or later")
  elseif(NOT TILELACE_CUDA_DRIVER)
    set(why_no_gpus "NVIDIA driver: got none of libcuda.so.1, nvidia-smi and /dev/nvidia0, expected one; \
without a driver, too: pip install . -C cmake.define.TILELACE_GPUS=ON, which takes half an hour or more")
  else()
    set(TILELACE_GPUS ON)
  endif()
  if(NOT TILELACE_GPUS)
    message(WARNING "tilelace: ${why_no_gpus}: this build has CPU ranks only")
  endif()
elseif(NOT TILELACE_GPUS)
  set(why_no_gpus "it was built with TILELACE_GPUS=OFF")
endif()
if(TILELACE_GPUS)
  message(STATUS "tilelace: GPU kernels take half an hour or more; -C cmake.define.TILELACE_GPUS=OFF leaves them out")
endif()
# pip does not show warnings: `python -m tilelace doctor` reads this.
if(NOT TILELACE_GPUS)
  file(WRITE ${PROJECT_BINARY_DIR}/why_no_gpus.txt "${why_no_gpus}\n")
  install(FILES ${PROJECT_BINARY_DIR}/why_no_gpus.txt DESTINATION tilelace COMPONENT python)
endif()
set(TILELACE_CUDA ${TILELACE_GPUS} CACHE BOOL "" FORCE)

find_package(Python COMPONENTS Interpreter REQUIRED)
if(NOT TILELACE_TORCH_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE TILELACE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing
    ERROR_QUIET)
  if(torch_missing)
    message(FATAL_ERROR "tilelace: torch, got none for ${Python_EXECUTABLE}, expected 2.10 or later")
  endif()
endif()
