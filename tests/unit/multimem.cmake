tilelace_test(multimem_tiles_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/multimem_tiles_test.cc
              LIBS tilelace_schedule)
