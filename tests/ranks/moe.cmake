tilelace_test(moe_test JUDGES SOURCES moe_test.cc
  LIBS tilelace_op tilelace_comm tilelace_plan fmt::fmt TIMEOUT 240)
