# Kernels of the GEMM: an op's .cu file is compiled in parts, each with every so-many-th tile, so that none
# takes long. Builds of a few tiles have one part.
set(TILELACE_KERNEL_PARTS gemm=5 ag_gemm=6 gemm_rs=4 gemm_ar=3 kept_partials=2)

# kernel_lists(TARGET SOURCE LINKS...): adds the parts to TARGET. `{op}` in SOURCE, a path, stands for the op.
# The parts' targets are returned in TARGET_kernel_lists, for what else they need.
function(kernel_lists target source)
  set(parts_made "")
  set(lists "")
  foreach(row ${TILELACE_KERNEL_PARTS})
    string(REGEX MATCH "(.*)=(.*)" row ${row})
    set(op ${CMAKE_MATCH_1})
    set(parts ${CMAKE_MATCH_2})
    if(TILELACE_TILES)
      set(parts 1)
    endif()
    string(REPLACE "{op}" ${op} file ${source})
    math(EXPR last "${parts} - 1")
    foreach(part RANGE ${last})
      set(name ${target}_kernels_${op}_${part})
      add_library(${name} OBJECT ${file})
      target_compile_definitions(${name} PRIVATE TILELACE_PART=${part} TILELACE_PARTS=${parts}
        TILELACE_KERNEL_LIST=${op}_kernels_${part})
      target_link_libraries(${name} PRIVATE ${ARGN})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${name}>)
      list(APPEND parts_made ${name})
      list(APPEND lists ${op}_kernels_${part})
    endforeach()
  endforeach()
  list(JOIN lists "," named)
  list(TRANSFORM lists APPEND "()")
  list(JOIN lists "," called)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/sm90/kernels.cc
    TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_DEFINITIONS "TILELACE_KERNEL_LISTS=${named};TILELACE_KERNEL_LIST_CALLS=${called}")
  set_target_properties(${target} PROPERTIES TILELACE_KERNELS "${parts_made}")
  set(${target}_kernel_lists ${parts_made} PARENT_SCOPE)
endfunction()
