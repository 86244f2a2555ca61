tilelace_test(gemm_schedule_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/gemm_schedule_test.cc LIBS tilelace_plan)
