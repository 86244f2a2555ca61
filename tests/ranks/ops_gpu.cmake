# What the API says of GPU ranks where there are none.
tilelace_test(ops_gpu_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/ops_gpu_test.cc
              LIBS tilelace::tilelace tilelace_core TIMEOUT 60)
