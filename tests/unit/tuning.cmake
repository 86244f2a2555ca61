tilelace_test(tuning_table_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/tuning_table_test.cc
  LIBS tilelace_plan nlohmann_json::nlohmann_json)
