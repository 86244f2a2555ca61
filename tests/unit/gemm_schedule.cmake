tilelace_test(gemm_schedule_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/gemm_schedule_test.cc LIBS tilelace_plan)
tilelace_test(gather_order_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/gather_order_test.cc LIBS tilelace_plan)
tilelace_test(ag_gemm_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/ag_gemm_plan_test.cc LIBS tilelace_plan)
tilelace_test(reduce_order_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/reduce_order_test.cc LIBS tilelace_plan)
