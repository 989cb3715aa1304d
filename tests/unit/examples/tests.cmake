vs_unit_test(train_lm SOURCES examples/train_lm/model.c examples/train_lm/loss.c examples/train_lm/loss_fused.c examples/train_lm/text.c
             examples/train_lm/driver.c examples/train_lm/backend_cpu.c examples/train_lm/matmul_cpu.c
             LIBS linear_cross_entropy_static)
target_include_directories(test_train_lm PRIVATE ${CMAKE_SOURCE_DIR}/examples/train_lm)
