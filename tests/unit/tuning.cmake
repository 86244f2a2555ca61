tilelace_test(tuning_table_test TOGETHER SOURCES ${CMAKE_CURRENT_LIST_DIR}/tuning_table_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/find_tuning_test.cc ${CMAKE_CURRENT_LIST_DIR}/tuned_tiles_test.cc ${CMAKE_CURRENT_LIST_DIR}/disturbance_test.cc ${CMAKE_CURRENT_LIST_DIR}/halving_test.cc
  LIBS tilelace_plan nlohmann_json::nlohmann_json)
# The gate's asan does not run it.
if(NOT TILELACE_SANITIZE OR TILELACE_TEST_SET STREQUAL all)
  tilelace_test(plan_regret_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_regret_test.cc
    LIBS tilelace_plan nlohmann_json::nlohmann_json)
endif()
