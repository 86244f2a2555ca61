tilelace_test(comm_thread_test SOURCES comm_thread_test.cc LIBS tilelace_comm TIMEOUT 60)
tilelace_test(comm_process_test SOURCES comm_process_test.cc LIBS tilelace_comm TIMEOUT 60)
tilelace_test(comm_hostile_test SOURCES comm_hostile_test.cc LIBS tilelace_comm TIMEOUT 60)
tilelace_test(tuning_test SOURCES tuning_test.cc LIBS tilelace_op tilelace_plan tilelace_comm TIMEOUT 60)
