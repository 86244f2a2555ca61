# Checks of the tree itself. The quick ones are tests, not in sanitizers' builds; target check_headers
# compiles every header alone (built by ./test, not by default).
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT TILELACE_SANITIZE)
  add_test(NAME tools.include_directions COMMAND Python3::Interpreter
           ${PROJECT_SOURCE_DIR}/tools/check_includes.py)
  add_test(NAME tools.include_directions_finds_violations COMMAND Python3::Interpreter
           ${PROJECT_SOURCE_DIR}/tools/check_includes_test.py)
  add_test(NAME tools.doors COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_doors.py)
  add_test(NAME tools.doors_finds_names COMMAND Python3::Interpreter
           ${PROJECT_SOURCE_DIR}/tools/check_doors_test.py)
  find_program(TILELACE_DOXYGEN doxygen)  # reads the headers
  if(TILELACE_DOXYGEN)
    add_test(NAME tools.docstrings_finds_gaps COMMAND Python3::Interpreter
             ${PROJECT_SOURCE_DIR}/tools/check_docstrings_test.py)
  endif()
  add_test(NAME tools.compiled_kernels_finds_mistakes COMMAND Python3::Interpreter
           ${PROJECT_SOURCE_DIR}/tools/check_kernels_test.py)
  # Pages: sentences that are read once; tables and pictures as the records have them.
  add_test(NAME tools.words COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_words.py)
  add_test(NAME tools.words_finds_sentences COMMAND Python3::Interpreter
           ${PROJECT_SOURCE_DIR}/tools/check_words_test.py)
  add_test(NAME tools.tables COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/write_tables.py --check)
  add_test(NAME tools.idea COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/draw_idea.py --check)
  foreach(tool build_wheels check_records coverage collectives_table plan_regret peer_summary release row_list run_docs sample_texts tuned_choices write_tables)
    add_test(NAME tools.${tool} COMMAND Python3::Interpreter
             ${PROJECT_SOURCE_DIR}/tools/${tool}_test.py)
  endforeach()
endif()

# included_first(RESULT ROOT HEADER): whether the source of the same name includes it before all else,
# so that the build shows what is checked here.
function(included_first result root header)
  set(${result} FALSE PARENT_SCOPE)
  string(REGEX REPLACE "\\.h$" ".cc" source ${root}/${header})
  if(NOT EXISTS ${source})
    return()
  endif()
  file(STRINGS ${root}/${header} once REGEX "^#pragma once$")
  file(STRINGS ${source} includes REGEX "^#include" LIMIT_COUNT 1)
  get_filename_component(name ${header} NAME)
  if(once AND (includes STREQUAL "#include \"${header}\"" OR includes STREQUAL "#include \"${name}\""))
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# header_check(TARGET ROOT FOLDER LIBS...): a source a header, which includes it twice.
function(header_check target root folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/${folder}/*.h)
  set(sources "")
  # Device code, which needs nvcc, and what includes the toolkit's headers or torch's.
  list(FILTER headers EXCLUDE REGEX "(^|/)cuda_(atomics|pairs)\\.h$|^backend/cuda/|^comm/cuda/|^bindings/torch/")
  foreach(header ${headers})
    included_first(shown ${root} ${header})
    if(shown)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${header} name)
    set(languages cc)
    if(header MATCHES "(^|/)c\\.h$")
      set(languages cc c)  # the C API is read by both
    endif()
    foreach(language ${languages})
      set(source ${PROJECT_BINARY_DIR}/header_check/${target}/${name}.${language})
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
      list(APPEND sources ${source})
    endforeach()
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE -O0 -g0)
  add_dependencies(check_headers ${target})
endfunction()

add_custom_target(check_headers)
# Public headers see nothing but each other.
add_library(tilelace_public_headers INTERFACE)
target_include_directories(tilelace_public_headers INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(tilelace_public_headers INTERFACE -Wall -Wextra -Werror -pedantic)
header_check(check_headers_public ${PROJECT_SOURCE_DIR}/include tilelace tilelace_public_headers)
header_check(check_headers_src ${PROJECT_SOURCE_DIR}/src . tilelace_core)
if(TARGET tilelace_cli)
  header_check(check_headers_cli ${PROJECT_SOURCE_DIR}/cli . tilelace_core tilelace_model
               nlohmann_json::nlohmann_json)
  target_include_directories(check_headers_cli PRIVATE
                             $<TARGET_PROPERTY:tilelace_cli,INCLUDE_DIRECTORIES>)
endif()
