# The command: its parts, and the built binary from outside. Absent when it is not built.
if(TARGET tilelace_cli)
  tilelace_test(cli_parts_test TOGETHER SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/cli_files_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_sizes_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_table_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/cli_plan_words_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_place_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_record_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_verify_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/cli_tuning_file_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_row_list_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_collectives_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_moe_test.cc
    LIBS tilelace_cli_parts nlohmann_json::nlohmann_json)
  add_library(fake_nvml MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvml.c)
  set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX .so.1)
  tilelace_test(cli_command_test TOGETHER SOURCES ${CMAKE_CURRENT_LIST_DIR}/cli_command_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/cli_doctor_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_experts_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_gpu_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_launch_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_process_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/cli_width_test.cc ${CMAKE_CURRENT_LIST_DIR}/cli_places.cc
    LIBS tilelace_cli_parts
    nlohmann_json::nlohmann_json)
  set_property(SOURCE ${CMAKE_CURRENT_LIST_DIR}/cli_places.cc PROPERTY COMPILE_DEFINITIONS
    TILELACE_COMMAND="$<TARGET_FILE:tilelace_cli>" TILELACE_FAKE_NVML="$<TARGET_FILE_DIR:fake_nvml>")
  add_dependencies(cli_command_test tilelace_cli fake_nvml)
endif()
