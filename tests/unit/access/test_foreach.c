/*
 * test_foreach.c - foreach.c, and what kernels.c makes of it: which words of the lists that foreach kernels
 * get are addresses that they use, and that nothing is left out where anything does not agree.
 */

#include "unit/says.h"
#include "access/by_value.h"
#include "core/contracts.h"

#define BEFORE                                                                                               \
    "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9892d25multi_tensor_apply_kernelI"
#define PLAIN BEFORE "NS1_18TensorListMetadataILi2EEENS1_21BinaryOpScalarFunctorI"

/* As in PyTorch, in both forms. */
#define FORM(form, block_index, blocks, of_two, of_one, of_four)                                             \
    struct plain_##form {                                                                                    \
        const void *addresses[2][of_two];                                                                    \
        int64_t numel[of_two];                                                                               \
        block_index block_to_tensor[blocks];                                                                 \
        int block_to_chunk[blocks];                                                                          \
        int start;                                                                                           \
    };                                                                                                       \
    struct scalars_##form {                                                                                  \
        const void *addresses[1][of_one];                                                                    \
        int64_t numel[of_one];                                                                               \
        float scalar[of_one];                                                                                \
        block_index block_to_tensor[blocks];                                                                 \
        int block_to_chunk[blocks];                                                                          \
    };                                                                                                       \
    struct fused_##form {                                                                                    \
        const void *addresses[4][of_four];                                                                   \
        int64_t numel[of_four];                                                                              \
        const void *steps[of_four];                                                                          \
        block_index block_to_tensor[blocks];                                                                 \
        int block_to_chunk[blocks];                                                                          \
        int start;                                                                                           \
    }
FORM(4k, unsigned char, 320, 64, 96, 36);
FORM(32k, uint16_t, 2240, 448, 672, 252);

#define SCALARS BEFORE "NS1_28TensorListScalarListMetadataIfLi1EEE"
#define FUSED   BEFORE "NS1_32FusedOptimizerTensorListMetadataILi4EEE"

static void assert_is(struct vs_foreach f, unsigned lists, size_t list_bytes, size_t steps, size_t blocks)
{
    SAYS(&f, .lists = lists, .tensors = list_bytes / lists / sizeof(void *), .steps = steps,
         .blocks = blocks);
}

#define BYTES(type, member) sizeof(((type *)NULL)->member)
#define ASSERT_KNOWN(form)                                                                                   \
    do {                                                                                                     \
        assert_is(vs_foreach_of(PLAIN, sizeof(struct plain_##form), 4), 2,                                   \
                  BYTES(struct plain_##form, addresses), 0, offsetof(struct plain_##form, block_to_tensor)); \
        assert_is(vs_foreach_of(SCALARS, sizeof(struct scalars_##form), 4), 1,                               \
                  BYTES(struct scalars_##form, addresses), 0,                                                \
                  offsetof(struct scalars_##form, block_to_tensor));                                         \
        assert_is(vs_foreach_of(FUSED, sizeof(struct fused_##form), 4), 4,                                   \
                  BYTES(struct fused_##form, addresses), offsetof(struct fused_##form, steps),               \
                  offsetof(struct fused_##form, block_to_tensor));                                           \
    } while (0)

TEST(a_kernel_is_known_by_its_name_and_the_size_of_its_list)
{
    assert_int_equal(vs_contract_state(VS_CONTRACT_TORCH_FOREACH), VS_CONTRACT_UNASKED);
    ASSERT_KNOWN(4k);
    ASSERT_KNOWN(32k);
    assert_int_equal(vs_contract_state(VS_CONTRACT_TORCH_FOREACH), VS_CONTRACT_PROVEN);
}

TEST(a_kernel_of_another_name_or_size_is_none)
{
    static const char *const names[] = {
        "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi6EE",
        "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi",
        "_Z25multi_tensor_apply_kernelI",
        "_Z9my_kernelI18TensorListMetadataILi2EE",
        "_Z25multi_tensor_apply_kernelI28TensorListScalarListMetadataIN3c107complexIdEELi2EE",
        ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint32_t size = 0; size <= 32768; size += 4)
            assert_int_equal(vs_foreach_of(names[i], size, size).lists, 0);
    /* the type of another library by that name has int sizes */
    assert_int_equal(vs_foreach_of("_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EEE",
                                   2 * 64 * 8 + 64 * 4 + 1604, 4)
                         .lists,
                     0);
    assert_int_equal(vs_contract_state(VS_CONTRACT_TORCH_FOREACH), VS_CONTRACT_PROVEN);
}

TEST(a_list_of_another_size_is_not_taken_apart_and_that_is_said)
{
    static const size_t sizes[] = {sizeof(struct plain_4k), sizeof(struct plain_32k)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vs_foreach_of(PLAIN, (uint32_t)sizes[i] - 8, 4).lists, 0);
        assert_int_equal(vs_foreach_of(PLAIN, (uint32_t)sizes[i] + 8, 4).lists, 0);
    }
    assert_int_equal(vs_contract_state(VS_CONTRACT_TORCH_FOREACH), VS_CONTRACT_BROKEN);
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

TEST(cat_has_a_row_of_blocks_for_each_tensor)
{
    struct cat c;
    struct vs_foreach f = vs_foreach_of(CAT "Li2ELi64ELi64E" TAIL, 8, sizeof c);
    SAYS(&f, .lists = 1, .param = 1, .tensors = 64);
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

TEST(arrays_of_elementwise_kernels_are_known_by_name_and_size)
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
    /* before 2.6 */
    static const char old[] = "_ZN2at6native29vectorized_elementwise_kernelILi2ENS0_15CUDAFunctor_addIN3c104"
                              "HalfEEENS_6detail5ArrayIPcLi3EEEEEviT0_T1_";
    assert_true(vs_foreach_is_array(old, 24));
    assert_false(vs_foreach_is_array(old, 16));
}

/* Three tensors of 2, 1 and 3 chunks; the rest is what was there before. */
#define THREE(form, block_index)                                                                             \
    static struct plain_##form three_##form(void)                                                            \
    {                                                                                                        \
        struct plain_##form p;                                                                               \
        memset(&p, 0x7f, sizeof p);                                                                          \
        memcpy(p.block_to_tensor, (block_index[]){0, 0, 1, 2, 2, 2}, 6 * sizeof(block_index));               \
        memcpy(p.block_to_chunk, (int[]){0, 1, 0, 0, 1, 2}, 6 * sizeof(int));                                \
        return p;                                                                                            \
    }
THREE(4k, unsigned char)
THREE(32k, uint16_t)

#define TENSORS(f, p, blocks) vs_foreach_tensors(&(f), p, vs_grid(blocks, 1))

/* MORE: 1 + the room for blocks */
#define TEST_TABLES(form, room, more)                                                                        \
    TEST(the_tensors_are_those_of_the_blocks_of_the_launch_##form)                                           \
    {                                                                                                        \
        struct vs_foreach f = vs_foreach_of(PLAIN, sizeof(struct plain_##form), 4);                          \
        struct plain_##form p = three_##form();                                                              \
        static char odd[sizeof(struct plain_##form) + 1];                                                    \
        assert_int_equal(TENSORS(f, &p, 6), 3);                                                              \
        assert_int_equal(TENSORS(f, &p, 3), 2);                                                              \
        assert_int_equal(TENSORS(f, &p, 1), 1);                                                              \
        memcpy(odd + 1, &p, sizeof p); /* wherever the parameter lies */                                     \
        assert_int_equal(TENSORS(f, odd + 1, 6), 3);                                                         \
        p.block_to_chunk[0] = 7; /* the launch before ended within the tensor */                             \
        p.block_to_chunk[1] = 8;                                                                             \
        assert_int_equal(TENSORS(f, &p, 6), 3);                                                              \
    }                                                                                                        \
                                                                                                             \
    TEST(tables_that_do_not_agree_with_the_launch_tell_nothing_##form)                                       \
    {                                                                                                        \
        struct vs_foreach f = vs_foreach_of(PLAIN, sizeof(struct plain_##form), 4), none = {0};              \
        struct plain_##form p = three_##form();                                                              \
        assert_int_equal(TENSORS(none, &p, 6), 0);                                                           \
        assert_int_equal(TENSORS(f, &p, 0), 0);                                                              \
        assert_int_equal(TENSORS(f, &p, 7), 0); /* the next is not from this launch */                       \
        assert_int_equal(TENSORS(f, &p, more), 0);                                                           \
        p = three_##form();                                                                                  \
        p.block_to_tensor[0] = 1;                                                                            \
        assert_int_equal(TENSORS(f, &p, 6), 0);                                                              \
        p = three_##form();                                                                                  \
        p.block_to_tensor[3] = 3; /* a tensor is left out */                                                 \
        assert_int_equal(TENSORS(f, &p, 4), 0);                                                              \
        p = three_##form();                                                                                  \
        p.block_to_chunk[2] = 1; /* a tensor does not begin with its begin */                                \
        assert_int_equal(TENSORS(f, &p, 6), 0);                                                              \
        p = three_##form();                                                                                  \
        p.block_to_chunk[5] = 3; /* a chunk is left out */                                                   \
        assert_int_equal(TENSORS(f, &p, 6), 0);                                                              \
        p = three_##form();                                                                                  \
        p.block_to_chunk[0] = -1;                                                                            \
        assert_int_equal(TENSORS(f, &p, 1), 0);                                                              \
        for (int i = 0; i < more - 1; i++) {                                                                 \
            p.block_to_tensor[i] = (__typeof__(p.block_to_tensor[0]))i;                                      \
            p.block_to_chunk[i] = 0;                                                                         \
        }                                                                                                    \
        assert_int_equal(TENSORS(f, &p, room), room);                                                        \
        assert_int_equal(TENSORS(f, &p, room + 1), 0); /* more than there is room for */                     \
        assert_int_equal(TENSORS(f, &p, 256), 256 <= room ? 256 : 0);                                        \
        assert_int_equal(TENSORS(f, &p, 257), 257 <= room ? 257 : 0);                                        \
    }
TEST_TABLES(4k, 64, 321)
TEST_TABLES(32k, 448, 2241)
