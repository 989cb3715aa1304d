/* kernels_image.S - the fat binary that nvcc made of kernels.cu, inside the program. */
    .section .rodata
    .globl train_lm_kernels
    .hidden train_lm_kernels
    .type train_lm_kernels, @object
    .balign 64
train_lm_kernels:
    .incbin TRAIN_LM_KERNELS_FILE
    .size train_lm_kernels, . - train_lm_kernels
    .byte 0
    .section .note.GNU-stack, "", @progbits
