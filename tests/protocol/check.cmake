tilelace_test(protocol_sweep_test TIMEOUT 600 SOURCES sweep_test.cc LIBS tilelace_check fmt::fmt)
tilelace_test(protocol_mutants_test SOURCES mutants_test.cc LIBS tilelace_check)
tilelace_test(protocol_checker_test SOURCES checker_test.cc LIBS tilelace_check)
if(NOT TILELACE_SANITIZE)  # counts are the same there
  tilelace_test(protocol_cost_test SOURCES cost_test.cc LIBS tilelace_check)
endif()
tilelace_test(protocol_watched_test SOURCES watched_test.cc LIBS tilelace_check Threads::Threads)
tilelace_test(protocol_shared_tiles_test SOURCES shared_tiles_test.cc LIBS tilelace_check tilelace_comm Threads::Threads)
tilelace_test(protocol_exchange_test SOURCES exchange_test.cc LIBS tilelace_check fmt::fmt)
