add_library(tilelace_cpu STATIC call.cc checked.cc collect.cc collectives.cc engine.cc gather_verbs.cc item_sums.cc link.cc moe_passes.cc prepare.cc reduce_verbs.cc row_norm.cc tile_work.cc worker_pool.cc)
target_link_libraries(tilelace_cpu PUBLIC tilelace_comm tilelace_plan PRIVATE tilelace_cpu_gemm tilelace_check)
# Every operation is rounded (core/rounded.h).
set_source_files_properties(row_norm.cc PROPERTIES COMPILE_OPTIONS -ffp-contract=off SKIP_UNITY_BUILD_INCLUSION ON)
