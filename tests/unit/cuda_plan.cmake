# Plans and orders of GPU ranks; no GPU is needed. Compiled together as far as their names allow.
tilelace_test(gpu_plans_test TOGETHER SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/agreement_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/architecture_plans_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/cuda_plan_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/cuda_reduce_plan_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/cuda_sums_plan_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/gemm_ar_plan_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/op_table_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/plan_sweep_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/share_plan_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/transport_table_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/ag_gemm_plan_test.cc
  LIBS tilelace_plan)
# In the gate asan sees orders under the calls of CPU ranks, which walk them.
if(NOT TILELACE_SANITIZE OR TILELACE_TEST_SET STREQUAL all)
  tilelace_test(gpu_orders_test TOGETHER SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/gather_order_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/reduce_order_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/gather_exchange_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/pushed_sum_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/gemm_rs_plan_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/tile_sums_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/call_slots_test.cc
    LIBS tilelace_plan)
  tilelace_test(gpu_sums_test TOGETHER SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/share_order_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/reduce_rows_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/add_terms_test.cc
    LIBS tilelace_plan)
endif()
tilelace_test(gpu_tiles_test TOGETHER SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/share_tiles_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/token_slices_test.cc
  LIBS tilelace_plan)
