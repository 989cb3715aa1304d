/*
 * test_strided.c - strided.c: which words of the structures of PyTorch's strided kernels are addresses, for
 * every size that PyTorch 2.11 has of them, and that nothing is left out where anything does not agree.
 */

#include "unit/test.h"
#include "access/by_value.h"
#include "core/contracts.h"
#include "core/pages.h"

#define BLOCK UINT64_C(0x7f3300000000)
#define COPY                                                                                                 \
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_" \
    "cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE10_clEvEUlN3c108BFloat16EE_EEvS4_RKT_EUliE_EEviT1_"
#define SOFT                                                                                                 \
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_68_GLOBAL__N__"        \
    "1cef9e28_29_ActivationSoftshrinkKernel_cu_751192d7_1571417softshrink_kernelERNS_18TensorIteratorBaseE"
#define CAST                                                                                                 \
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_15CUDAFunctor_addIfEEEEvRNS_"    \
    "18TensorIteratorBaseERKT_EUliE_EEviT1_"
#define SUM                                                                                                  \
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functorIfffEcl"  \
    "ERNS_14TensorIteratorEEUlffE_EEjfLi4ELi4EEEEEvT1_"

/* As in PyTorch. */
#define CALCULATOR(n)                                                                                        \
    struct {                                                                                                 \
        int dimensions;                                                                                      \
        unsigned divisor[25][3], stride[25][n];                                                              \
    }
struct copy {
    CALCULATOR(2) calculator;
    uint64_t data[2];
    float values[4];
};
struct reduce { /* of a function without values, as for sums */
    char function;
    float ident;
    int config[16];
    CALCULATOR(1) input;
    CALCULATOR(2) output;
    uint64_t source, out[2], sums, block_sums, semaphores;
    int64_t base;
    bool accumulates, is_last;
    int outputs;
};

static int begin(void **state)
{
    vs_pages_reset();
    vs_pages_add(BLOCK, 1 << 21);
    return 0;
}

/* A structure full of a block's address, as earlier calls leave it, but for what this call writes. */
static struct copy a_copy(void)
{
    struct copy c;
    for (size_t i = 0; i < sizeof c / 8; i++)
        memcpy((char *)&c + 8 * i, &(uint64_t){BLOCK + 0x5500}, 8);
    c.calculator.dimensions = 3;
    c.data[0] = BLOCK;
    c.data[1] = BLOCK + 512;
    return c;
}

static struct reduce a_sum(void)
{
    struct reduce r;
    for (size_t i = 0; i < sizeof r / 8; i++)
        memcpy((char *)&r + 8 * i, &(uint64_t){BLOCK + 0x5500}, 8);
    r.input.dimensions = 1;
    r.output.dimensions = 2;
    r.source = BLOCK;
    r.out[0] = BLOCK + 512;
    r.sums = r.block_sums = r.semaphores = 0;
    r.base = 0;
    r.accumulates = r.is_last = true;
    r.outputs = 1;
    return r;
}

static bool is(enum vs_contract_state state)
{
    return vs_contract_state(VS_CONTRACT_TORCH_STRIDED) == state;
}

/* The first one of the program. */
TEST(a_launch_that_agrees_proves_where_the_addresses_are, begin)
{
    struct vs_strided s = vs_strided_of(COPY, 2, sizeof(struct copy));
    struct vs_words parts[VS_STRIDED_PARTS];
    struct copy c = a_copy();
    c.data[1] = 0x7f4400000000; /* of memory that nobody saw */
    assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 0);
    assert_true(is(VS_CONTRACT_UNASKED));
    c = a_copy();
    assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 1);
    assert_true(is(VS_CONTRACT_PROVEN));
}

/* The second one. */
TEST(a_calculator_with_too_many_dimensions_is_none, begin)
{
    struct vs_strided s = vs_strided_of(SUM, 1, sizeof(struct reduce));
    struct vs_words parts[VS_STRIDED_PARTS];
    struct reduce r = a_sum();
    memset(&r, 0x7f, sizeof r);
    assert_true(is(VS_CONTRACT_PROVEN));
    assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 0);
    assert_true(is(VS_CONTRACT_BROKEN));
}

TEST(the_tensors_of_an_elementwise_kernel_follow_from_its_size, begin)
{
    /* sizes as the driver gives them, with the number of tensors: unary, binary, ternary functions and more,
     * with and without a conversion of types */
    static const uint32_t sizes[][2] = {
        {432, 1}, {440, 1}, {448, 1}, {536, 2}, {544, 2}, {552, 2}, {560, 2},  {568, 2}, {576, 2}, {584, 2},
        {616, 2}, {648, 3}, {656, 3}, {664, 3}, {672, 3}, {680, 3}, {688, 3},  {752, 4}, {760, 4}, {768, 4},
        {776, 4}, {800, 4}, {864, 5}, {888, 5}, {896, 5}, {968, 6}, {1080, 7}, {1192, 8}};
    static const uint16_t first[] = {0, 408, 504, 608, 704, 808, 904, 1008, 1104};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct vs_strided s = vs_strided_of(i % 2 ? COPY : CAST, 2, sizes[i][0]);
        assert_int_equal(s.param, 2);
        assert_int_equal(s.addresses, sizes[i][1]);
        assert_int_equal(s.at, first[sizes[i][1]]);
    }
}

TEST(kernels_of_other_names_and_shapes_are_none, begin)
{
    static const char *const names[] = {
        "",
        "_Z18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implI",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelI",
        "_ZN2at6native18elementwise_kernelILi128ELi4E",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorI",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8OtherOpsIf",
        "_ZN4mine13reduce_kernelILi512ELi1ENS0_8ReduceOpIf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint32_t n = 1; n < 4; n++)
            assert_int_equal(vs_strided_of(names[i], n, n == 1 ? 1048 : 536).param, 0);
    assert_int_equal(vs_strided_of(COPY, 1, 536).param, 0);
    assert_int_equal(vs_strided_of(COPY, 3, 536).param, 0);
    assert_int_equal(vs_strided_of(COPY, 2, 408).param, 0); /* no room for a function */
    assert_int_equal(vs_strided_of(SUM, 2, 1048).param, 0);
    assert_int_equal(vs_strided_of(SUM, 1, 968).param, 0);
    assert_int_equal(vs_strided_of(SUM, 1, 1044).param, 0);
}

TEST(of_an_elementwise_launch_its_tensors_and_its_functions_values_count, begin)
{
    struct vs_strided s = vs_strided_of(SOFT, 2, sizeof(struct copy));
    struct vs_words parts[VS_STRIDED_PARTS];
    struct copy c = a_copy();
    assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 2);
    assert_ptr_equal(parts[0].at, c.data);
    assert_int_equal(parts[0].words, 2);
    assert_true(parts[0].sure);
    assert_ptr_equal(parts[1].at, c.values);
    assert_int_equal(parts[1].words, 2);
    assert_false(parts[1].sure);
}

/* Behind the function's values, too, lies what earlier calls left. */
TEST(of_a_function_that_has_numbers_alone_no_value_counts, begin)
{
    static const char *const names[] = {COPY, CAST};
    for (int i = 0; i < 2; i++) {
        struct vs_strided s = vs_strided_of(names[i], 2, sizeof(struct copy));
        struct vs_words parts[VS_STRIDED_PARTS];
        struct copy c = a_copy();
        assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 1);
        assert_ptr_equal(parts[0].at, c.data);
    }
}

TEST(an_elementwise_launch_that_does_not_agree_is_not_taken_apart, begin)
{
    struct vs_strided s = vs_strided_of(COPY, 2, sizeof(struct copy));
    struct vs_words parts[VS_STRIDED_PARTS];
    struct copy c = a_copy();
    c.calculator.dimensions = 26;
    assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 0);
    c.calculator.dimensions = -1;
    assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 0);
    for (int i = 0; i < 2; i++) { /* a tensor where no block is, or a number in its place */
        c = a_copy();
        c.data[i] = 0x7f4400000000;
        assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 0);
        c.data[i] = 0;
        assert_int_equal(vs_strided_parts(&s, (const char *)&c, parts), 0);
    }
    /* a function so large that its size says three tensors where there are two: its values are no addresses
     */
    struct {
        struct copy copy;
        uint64_t more[13];
    } large = {.copy = a_copy(), .more = {1, 2, 3}};
    s = vs_strided_of(COPY, 2, sizeof large);
    assert_int_equal(s.addresses, 3);
    assert_int_equal(vs_strided_parts(&s, (const char *)&large, parts), 0);
}

TEST(of_a_reduction_source_outputs_and_buffers_count, begin)
{
    struct vs_strided s = vs_strided_of(SUM, 1, sizeof(struct reduce));
    struct vs_words parts[VS_STRIDED_PARTS];
    struct reduce r = a_sum();
    assert_int_equal(sizeof r, 1048); /* as the driver says */
    assert_int_equal(s.param, 1);
    assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 3);
    assert_ptr_equal(parts[0].at, &r);
    assert_int_equal(parts[0].words, offsetof(struct reduce, input) / 8);
    assert_false(parts[0].sure);
    assert_ptr_equal(parts[1].at, &r.source);
    assert_int_equal(parts[1].words, 2); /* the second output was not written */
    assert_true(parts[1].sure);
    assert_ptr_equal(parts[2].at, &r.sums);
    assert_int_equal(parts[2].words, 3);
    assert_true(parts[2].sure);
    r.outputs = 2;
    r.sums = BLOCK + 4096;
    assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 3);
    assert_int_equal(parts[1].words, 3);
}

/* Four bytes of a function's values more, and the calculators end where the source begins. */
TEST(the_calculators_of_a_reduction_may_leave_a_gap_before_the_source, begin)
{
    struct {
        int factor;
        char function;
        float ident;
        int config[16];
        CALCULATOR(1) input;
        CALCULATOR(2) output;
        uint64_t words[6];
        int64_t base;
        bool bools[2];
        int outputs;
    } r;
    memset(&r, 0x55, sizeof r);
    memcpy(r.words, (uint64_t[6]){BLOCK, BLOCK + 512, 77}, sizeof r.words);
    memset(r.bools, 0, sizeof r.bools);
    r.outputs = 1;
    struct vs_strided s = vs_strided_of(SUM, 1, sizeof r);
    struct vs_words parts[VS_STRIDED_PARTS];
    r.input.dimensions = r.output.dimensions = 2;
    assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 3);
    assert_ptr_equal(parts[1].at, r.words);
    r.input.dimensions = 99;
    assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 0);
}

TEST(a_reduction_that_does_not_agree_is_not_taken_apart, begin)
{
    struct vs_strided s = vs_strided_of(SUM, 1, sizeof(struct reduce));
    struct vs_words parts[VS_STRIDED_PARTS];
    for (int wrong = 0; wrong < 9; wrong++) {
        struct reduce r = a_sum();
        r.input.dimensions = wrong == 0 ? 26 : 1;
        r.output.dimensions = wrong == 1 ? 26 : 1;
        r.source = wrong == 2 ? 0 : r.source;
        r.out[0] = wrong == 3 ? 7 : r.out[0];
        r.outputs = wrong == 4 ? 3 : wrong == 5 ? 0 : 1;
        r.semaphores = wrong == 6 ? 7 : 0;
        memset(&r.accumulates, wrong == 7 ? 2 : 1, 1);
        memset(&r.is_last, wrong == 8 ? 0x7f : 0, 1);
        assert_int_equal(vs_strided_parts(&s, (const char *)&r, parts), 0);
    }
}

TEST(a_calculator_and_a_tensors_description_are_parameters_of_their_own, begin)
{
    static const char cross[] = "_ZN2at6native12cross_kernelIf16OffsetCalculatorILi3EjLb0EEiEEviPT_";
    static const char index[] =
        "_ZN2at6native19indexFuncLargeIndexIfljLin1EEvNS_4cuda6detail10TensorInfoIT_T1_EE";
    assert_int_equal(vs_strided_room(cross, 604), 0);
    assert_int_equal(vs_strided_room(cross, 404), 0);
    assert_int_equal(vs_strided_room(cross, 8), 8);
    assert_int_equal(vs_strided_room(cross, 304), 304);
    assert_int_equal(vs_strided_room(cross, 612), 612);
    assert_int_equal(vs_strided_room(cross, 216), 216);
    assert_int_equal(vs_strided_room(index, 216), 8);
    assert_int_equal(vs_strided_room(index, 416), 8);
    assert_int_equal(vs_strided_room(index, 8), 8);
    assert_int_equal(vs_strided_room(index, 604), 604);
    assert_int_equal(vs_strided_room("", 216), 216);
    assert_int_equal(vs_strided_room("", 604), 604);
}
