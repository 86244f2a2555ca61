tilelace_test(moe_passes_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/moe_passes_test.cc LIBS tilelace_op tilelace_cpu)
