tilelace_test(cuda_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_plan_test.cc LIBS tilelace_plan)
tilelace_test(cuda_reduce_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_reduce_plan_test.cc LIBS tilelace_plan)
tilelace_test(cuda_sums_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_sums_plan_test.cc LIBS tilelace_plan)
tilelace_test(gemm_ar_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/gemm_ar_plan_test.cc LIBS tilelace_plan)
tilelace_test(gemm_rs_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/gemm_rs_plan_test.cc LIBS tilelace_plan)
tilelace_test(share_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/share_plan_test.cc LIBS tilelace_plan)
# Host code of a folder that needs nvcc, of which this header does not.
tilelace_test(call_slots_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/call_slots_test.cc LIBS tilelace_plan)
