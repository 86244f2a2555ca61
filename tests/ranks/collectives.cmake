tilelace_test(collectives_test TOGETHER JUDGES SOURCES collectives_test.cc collectives_faults_test.cc
  LIBS tilelace_op tilelace_comm tilelace_plan fmt::fmt TIMEOUT 120)
tilelace_test(all_reduce_norm_test JUDGES SOURCES all_reduce_norm_test.cc
  LIBS tilelace_op tilelace_comm tilelace_plan fmt::fmt TIMEOUT 120)
