tilelace_test(protocol_moe_map_test JUDGES SOURCES ${CMAKE_CURRENT_LIST_DIR}/moe_map_test.cc LIBS tilelace_check)
