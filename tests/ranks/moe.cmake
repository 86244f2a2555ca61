tilelace_test(moe_test JUDGES SOURCES moe_test.cc
  LIBS tilelace_op tilelace_comm tilelace_plan fmt::fmt TIMEOUT 240)
# The same where calls are compared before they begin: who disagrees or is wrong is told there.
if(TARGET moe_test)
  add_test(NAME Moe.ComparedCalls COMMAND moe_test --gtest_filter=Spoilt.*:Moe.EveryRun*)
  set_tests_properties(Moe.ComparedCalls PROPERTIES ENVIRONMENT TILELACE_COMPARE_CALLS=1 TIMEOUT 240)
endif()
