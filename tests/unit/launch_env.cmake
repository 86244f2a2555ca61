tilelace_test(launch_env_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/launch_env_test.cc
              LIBS tilelace_comm)
