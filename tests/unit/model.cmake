# The command's model reader; absent when the command is not built.
if(TARGET tilelace_model)
  tilelace_test(model_test TOGETHER SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/model_config_test.cc ${CMAKE_CURRENT_LIST_DIR}/model_mutation_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/model_experts_test.cc ${CMAKE_CURRENT_LIST_DIR}/model_layers_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/model_safetensors_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/model_checkpoint_test.cc ${CMAKE_CURRENT_LIST_DIR}/model_shard_test.cc
    LIBS tilelace_model)
endif()
