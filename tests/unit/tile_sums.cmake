tilelace_test(tile_sums_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_sums_test.cc
              LIBS tilelace_schedule)
tilelace_test(multicast_permit_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/multicast_permit_test.cc
              LIBS tilelace_comm DEFINITIONS TILELACE_ROOT="${PROJECT_SOURCE_DIR}")
