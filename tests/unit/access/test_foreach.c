/*
 * test_foreach.c - foreach.c, and what kernels.c makes of it: which words of the lists that foreach kernels
 * get are addresses that they use, and that nothing is left out where anything does not agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "access/foreach.h"

#define BEFORE                                                                                               \
    "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9892d25multi_tensor_apply_kernelI"
#define PLAIN BEFORE "NS1_18TensorListMetadataILi2EEENS1_21BinaryOpScalarFunctorI"

/* As in PyTorch. */
struct plain {
    const void *addresses[2][64];
    int64_t numel[64];
    unsigned char block_to_tensor[320];
    int block_to_chunk[320];
    int start;
};
struct scalars {
    const void *addresses[1][96];
    int64_t numel[96];
    float scalar[96];
    unsigned char block_to_tensor[320];
    int block_to_chunk[320];
};
struct fused {
    const void *addresses[4][36];
    int64_t numel[36];
    const void *steps[36];
    unsigned char block_to_tensor[320];
    int block_to_chunk[320];
    int start;
};

static void a_kernel_is_known_by_its_name_and_the_size_of_its_list(void **state)
{
    struct vs_foreach f = vs_foreach_of(PLAIN, sizeof(struct plain), 4);
    assert_int_equal(f.lists, 2);
    assert_int_equal(f.tensors, 64);
    assert_int_equal(f.steps, 0);
    assert_int_equal(f.blocks, offsetof(struct plain, block_to_tensor));
    f = vs_foreach_of(BEFORE "NS1_28TensorListScalarListMetadataIfLi1EEE", sizeof(struct scalars), 4);
    assert_int_equal(f.lists, 1);
    assert_int_equal(f.tensors, 96);
    assert_int_equal(f.steps, 0);
    assert_int_equal(f.blocks, offsetof(struct scalars, block_to_tensor));
    f = vs_foreach_of(BEFORE "NS1_32FusedOptimizerTensorListMetadataILi4EEE", sizeof(struct fused), 4);
    assert_int_equal(f.lists, 4);
    assert_int_equal(f.tensors, 36);
    assert_int_equal(f.steps, offsetof(struct fused, steps));
    assert_int_equal(f.blocks, offsetof(struct fused, block_to_tensor));
}

static void a_kernel_of_another_name_or_size_is_none(void **state)
{
    static const char *const names[] = {
        "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi6EE",
        "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi",
        "_Z25multi_tensor_apply_kernelI",
        "_Z9my_kernelI18TensorListMetadataILi2EE",
        "_Z25multi_tensor_apply_kernelI28TensorListScalarListMetadataIN3c107complexIdEELi2EE",
        ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint32_t size = 0; size <= 4096; size += 4)
            assert_int_equal(vs_foreach_of(names[i], size, size).lists, 0);
    /* the type of another library by that name has int sizes */
    assert_int_equal(vs_foreach_of("_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EEE",
                                   2 * 64 * 8 + 64 * 4 + 1604, 4)
                         .lists,
                     0);
    assert_int_equal(vs_foreach_of(PLAIN, sizeof(struct plain) - 8, 4).lists, 0);
    assert_int_equal(vs_foreach_of(PLAIN, sizeof(struct plain) + 8, 4).lists, 0);
}

/* As in PyTorch. */
struct cat {
    const void *input[64];
    unsigned offset[64], extent[64], elements[64];
    bool contiguous[64];
    struct {
        unsigned size[4], stride[4];
    } strides[64];
};
#define CAT                                                                                                  \
    "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c26CatArrayBatchedCopy_contigINS1_"               \
    "10OpaqueTypeILj4EEEj"
#define TAIL "EEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_"

static void cat_has_a_row_of_blocks_for_each_tensor(void **state)
{
    struct cat c;
    struct vs_foreach f = vs_foreach_of(CAT "Li2ELi64ELi64E" TAIL, 8, sizeof c);
    assert_int_equal(f.lists, 1);
    assert_int_equal(f.param, 1);
    assert_int_equal(f.tensors, 64);
    assert_int_equal(vs_foreach_tensors(&f, &c, vs_grid(7, 3)), 3);
    assert_int_equal(vs_foreach_tensors(&f, &c, vs_grid(1, 64)), 64);
    assert_int_equal(vs_foreach_tensors(&f, &c, vs_grid(1, 65)), 0);
    assert_int_equal(vs_foreach_tensors(&f, &c, vs_grid(1, 0)), 0);
    f = vs_foreach_of(CAT "Li4ELi128ELi1ELi16ELi8E" TAIL, 8,
                      2720); /* the vectorized one has two numbers more */
    assert_int_equal(f.tensors, 128);
    assert_int_equal(vs_foreach_of(CAT "Li2ELi64ELi64E" TAIL, 8, sizeof c + 8).lists, 0);
    assert_int_equal(vs_foreach_of(CAT "Li2ELi64ELi64E" TAIL, sizeof c, 8).lists, 0);
    assert_int_equal(vs_foreach_of(CAT "Li2ELi64E" TAIL, 8, sizeof c).lists, 0);
    assert_int_equal(vs_foreach_of("_Z19CatArrayBatchedCopyIfjLi2ELi64ELi64EEEvPT_", 8, sizeof c).lists, 0);
}

static void arrays_of_elementwise_kernels_are_known_by_name_and_size(void **state)
{
    static const char add[] = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"
                              "addIfEESt5arrayIPcLm3EEEEviT0_T1_";
    assert_true(vs_foreach_is_array(add, 24));
    assert_false(vs_foreach_is_array(add, 16));
    assert_false(vs_foreach_is_array(add, 504));
    assert_true(vs_foreach_is_array(
        "_ZN2at6native27unrolled_elementwise_kernelINS0_11FillFunctorIfEESt5arrayIPcLm1EE", 8));
    assert_false(vs_foreach_is_array("_ZN2at6native18elementwise_kernelILi128ELi2EZNSt5arrayIPcLm3EE", 24));
    assert_false(vs_foreach_is_array("_Z29vectorized_elementwise_kernelILi4ESt5arrayIPcLm3EE", 24));
    assert_false(vs_foreach_is_array("", 0));
}

/* Three tensors of 2, 1 and 3 chunks; the rest is what was there before. */
static struct plain three(void)
{
    struct plain p;
    memset(&p, 0x7f, sizeof p);
    memcpy(p.block_to_tensor, (unsigned char[]){0, 0, 1, 2, 2, 2}, 6);
    memcpy(p.block_to_chunk, (int[]){0, 1, 0, 0, 1, 2}, 6 * sizeof(int));
    return p;
}

static void the_tensors_are_those_of_the_blocks_of_the_launch(void **state)
{
    struct vs_foreach f = vs_foreach_of(PLAIN, sizeof(struct plain), 4);
    struct plain p = three();
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(6, 1)), 3);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(3, 1)), 2);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(1, 1)), 1);
    p.block_to_chunk[0] = 7; /* the launch before ended within the tensor */
    p.block_to_chunk[1] = 8;
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(6, 1)), 3);
}

static void tables_that_do_not_agree_with_the_launch_tell_nothing(void **state)
{
    struct vs_foreach f = vs_foreach_of(PLAIN, sizeof(struct plain), 4), none = {0};
    struct plain p = three();
    assert_int_equal(vs_foreach_tensors(&none, &p, vs_grid(6, 1)), 0);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(0, 1)), 0);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(7, 1)), 0); /* the next is not from this launch */
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(321, 1)), 0);
    p = three();
    p.block_to_tensor[0] = 1;
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(6, 1)), 0);
    p = three();
    p.block_to_tensor[3] = 3; /* a tensor is left out */
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(4, 1)), 0);
    p = three();
    p.block_to_chunk[2] = 1; /* a tensor does not begin with its begin */
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(6, 1)), 0);
    p = three();
    p.block_to_chunk[5] = 3; /* a chunk is left out */
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(6, 1)), 0);
    p = three();
    p.block_to_chunk[0] = -1;
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(1, 1)), 0);
    for (int i = 0; i < 320; i++) {
        p.block_to_tensor[i] = (unsigned char)i;
        p.block_to_chunk[i] = 0;
    }
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(64, 1)), 64);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(65, 1)), 0); /* more than there is room for */
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(256, 1)), 0);
    assert_int_equal(vs_foreach_tensors(&f, &p, vs_grid(257, 1)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_is_known_by_its_name_and_the_size_of_its_list),
        cmocka_unit_test(a_kernel_of_another_name_or_size_is_none),
        cmocka_unit_test(arrays_of_elementwise_kernels_are_known_by_name_and_size),
        cmocka_unit_test(cat_has_a_row_of_blocks_for_each_tensor),
        cmocka_unit_test(the_tensors_are_those_of_the_blocks_of_the_launch),
        cmocka_unit_test(tables_that_do_not_agree_with_the_launch_tell_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
