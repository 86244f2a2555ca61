tilelace_test(ops_faults_test SOURCES ops_faults_test.cc LIBS tilelace::tilelace fmt::fmt TIMEOUT 120)
