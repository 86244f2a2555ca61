set(few_points "")
if(TILELACE_SANITIZE)
  set(few_points KILL_POINTS=4)
endif()
tilelace_test(ops_kill_test SOURCES ops_kill_test.cc LIBS tilelace_op tilelace_comm tilelace_plan
              TIMEOUT 120 DEFINITIONS ${few_points})
