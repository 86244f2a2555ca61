tilelace_test(collective_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/collective_plan_test.cc ${CMAKE_CURRENT_LIST_DIR}/expert_collectives_test.cc
  LIBS tilelace_plan fmt::fmt)
tilelace_test(norm_plan_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/norm_plan_test.cc
  LIBS tilelace_plan fmt::fmt)
