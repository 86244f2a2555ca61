# Memory order: what the checker cannot see (it takes signal and wait at their word), ThreadSanitizer does.
add_executable(memory_order memory_order.cc)
target_link_libraries(memory_order PRIVATE tilelace_flags tilelace_comm tilelace_schedule)
add_test(NAME MemoryOrder.OrderedIsClean COMMAND memory_order ordered)
if(TILELACE_SANITIZE STREQUAL "thread")
  foreach(mutant relaxed_signal relaxed_wait)
    add_test(NAME MemoryOrder.ThreadSanitizerCatches_${mutant} COMMAND memory_order ${mutant})
    set_tests_properties(MemoryOrder.ThreadSanitizerCatches_${mutant} PROPERTIES
                         PASS_REGULAR_EXPRESSION "WARNING: ThreadSanitizer: data race")
  endforeach()
endif()
