tilelace_test(torch_pieces_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/torch_pieces_test.cc
              ${PROJECT_SOURCE_DIR}/src/bindings/torch/pieces.cc)
