tilelace_test(half_test SOURCES half_test.cc LIBS tilelace_cpu_gemm)
# What tables say.
tilelace_test(architecture_test TOGETHER SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/architecture_test.cc ${CMAKE_CURRENT_LIST_DIR}/link_table_test.cc LIBS tilelace_core)
tilelace_test(cpu_gemm_test SOURCES cpu_gemm_test.cc LIBS tilelace_cpu_gemm)
