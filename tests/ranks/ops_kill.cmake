tilelace_test(ops_kill_test SOURCES ops_kill_test.cc LIBS tilelace_op tilelace_comm tilelace_plan
              TIMEOUT 120 DEFINITIONS $<$<BOOL:${TILELACE_SANITIZE}>:KILL_POINTS=4>)
