# What the planner knows of an architecture's devices: the machine file that says "plans": NAME has
# the figures. Keys stand in the order of the members of Hardware (src/plan/base/hardware.h), and are
# those of the simulator's machines, too.
set(hardware_keys
  compute.multiprocessors compute.peak_tflops kernels.efficiency compute.l2_gbps kernels.alone_gbps
  kernels.l2_total_gbps kernels.l2_mb kernels.memory_gbps kernels.worker_memory_gbps kernels.power_tflops
  kernels.power_l2_gbps kernels.power_memory_gbps kernels.fixed_us kernels.worker_flag_us kernels.step_us
  kernels.tile_us kernels.call_us
  links.push_gbps links.mesh_gbps links.pull_gbps links.store_gbps kernels.fetch_gbps
  kernels.spilled_gbps links.copy_us links.flag_us)

function(write_hardware_values out)
  file(GLOB machines CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/machines/*.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${machines})
  set(rows "")
  set(members "")
  foreach(key IN LISTS hardware_keys)
    string(REGEX REPLACE ".*[.]" "" name ${key})
    string(APPEND members "    .${name} = m.${key},\n")
  endforeach()
  foreach(machine IN LISTS machines)
    file(READ ${machine} text)
    string(JSON architecture ERROR_VARIABLE none GET "${text}" plans)
    if(none)
      continue()
    endif()
    string(APPEND rows "inline constexpr Hardware k_${architecture}_hardware{\n")
    foreach(key IN LISTS hardware_keys)
      string(REPLACE "." ";" path ${key})
      list(GET path 0 section)
      list(GET path 1 name)
      string(JSON value GET "${text}" ${section} ${name} 0)
      string(APPEND rows "    .${name} = ${value},\n")
    endforeach()
    string(APPEND rows "};\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "// Written by cmake/hardware.cmake from machines/*.json.
#pragma once
#include \"plan/base/hardware.h\"

namespace tilelace::plan {

${rows}
/// The figures of a machine that has them by the keys of machines/*.json.
template <class Model>
Hardware figures_of(const Model& m) {
  return {
${members}  };
}

}  // namespace tilelace::plan
")
endfunction()
