# The public API on CPU ranks; ops_gpu: what it says of GPU ranks where there are none.
tilelace_test(ops_test TOGETHER SOURCES ops_compare_test.cc ops_faults_test.cc ops_gpu_test.cc ops_limits_test.cc ops_prepare_test.cc
              ops_usage_test.cc LIBS tilelace::tilelace tilelace_core fmt::fmt TIMEOUT 120)

# The C API, seen by a C compiler.
foreach(test c_api_test c_api_sizes_test c_collectives_test c_moe_test)
  add_executable(${test} ${test}.c)
  target_compile_options(${test} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Werror -pedantic)
  target_link_libraries(${test} PRIVATE tilelace::tilelace Threads::Threads)
  set_target_properties(${test} PROPERTIES C_STANDARD 11 LINKER_LANGUAGE CXX)
  add_test(NAME ${test} COMMAND ${test})
  set_tests_properties(${test} PROPERTIES TIMEOUT 60)
endforeach()
