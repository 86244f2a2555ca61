tilelace_test(collective_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/collective_plan_test.cc
  LIBS tilelace_plan fmt::fmt)
