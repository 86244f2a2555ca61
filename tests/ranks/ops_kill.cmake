tilelace_test(ops_kill_test SOURCES ops_kill_test.cc LIBS tilelace_op tilelace_comm tilelace_plan
              TIMEOUT 120)
if(TILELACE_SANITIZE)
  target_compile_definitions(ops_kill_test PRIVATE KILL_POINTS=4)
endif()
