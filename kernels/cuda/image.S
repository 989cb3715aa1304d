/* image.S - the fat binaries that nvcc made of the .cu files, inside the library. */
    .section .rodata
    .macro image name, file
    .globl \name
    .hidden \name
    .type \name, @object
    .balign 64
\name:
    .incbin "\file"
    .size \name, . - \name
    .byte 0
    .endm
    image lce_image_softmax, softmax.fatbin
    image lce_image_tokens, tokens.fatbin
    image lce_image_slab, slab.fatbin
    image lce_image_tail, tail.fatbin
    image lce_image_product, product.fatbin
    image lce_image_exponents, exponents.fatbin
    image lce_image_odds, odds.fatbin
    .section .note.GNU-stack, "", @progbits
