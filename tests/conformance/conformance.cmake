# The case table, the checks and the runner are shared with every backend's binary.
add_library(tilelace_conformance STATIC cases.cc host_place.cc operands.cc problems.cc runner.cc)
# Also in builds that do not optimise: results are judged element by element.
target_compile_options(tilelace_conformance PRIVATE -O2)
target_include_directories(tilelace_conformance PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(tilelace_conformance PUBLIC
  TILELACE_CONFORMANCE_SHAPES=${TILELACE_CONFORMANCE_SHAPES}
  TILELACE_STRAGGLER_CALLS=${TILELACE_STRAGGLER_CALLS})
target_link_libraries(tilelace_conformance PUBLIC tilelace_flags tilelace_op tilelace_plan
                      Threads::Threads)
tilelace_test(conformance_exact_test TIMEOUT 300 SOURCES exact_test.cc LIBS tilelace_conformance)
# Of numbers: threads add nothing to what the exact tests show.
if(NOT TILELACE_SANITIZE OR TILELACE_TEST_SET STREQUAL all)
  tilelace_test(conformance_bounds_test TIMEOUT 300 SOURCES bounds_test.cc LIBS tilelace_conformance)
endif()
tilelace_test(conformance_straggler_test TIMEOUT 600 SOURCES straggler_test.cc LIBS tilelace_conformance)
