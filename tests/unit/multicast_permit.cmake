tilelace_test(multicast_permit_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/multicast_permit_test.cc
              LIBS tilelace_comm)
