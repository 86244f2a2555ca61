tilelace_test(cuda_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_plan_test.cc LIBS tilelace_plan)
tilelace_test(cuda_reduce_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_reduce_plan_test.cc LIBS tilelace_plan)
