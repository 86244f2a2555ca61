tilelace_test(half_test SOURCES half_test.cc LIBS tilelace_cpu_gemm)
tilelace_test(architecture_test SOURCES architecture_test.cc LIBS tilelace_core)
tilelace_test(cpu_gemm_test SOURCES cpu_gemm_test.cc LIBS tilelace_cpu_gemm)
