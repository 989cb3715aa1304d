/*
 * test_kernels.c - kernels.c: which words of a launch's parameters are looked at, and which are
 * sure.
 */
#include "use_kit.h"

#include "access/kernels.h"

static const struct vs_kernel *kernel(uintptr_t handle, const struct vs_kernel_params *p)
{
    return vs_kernel_learn((void *)handle, 7, false, p);
}

TEST(words_are_those_at_multiples_of_eight_of_the_layout, begin)
{
    /* int; a structure of {int, pointer, int}; a pointer */
    static struct vs_kernel_params p = {3, true, .at = {{0, 4}, {8, 24}, {32, 8}}};
    struct {
        int n, fill;
        uint64_t pointer;
        int rest, fill_too;
    } s = {1, 2, BASE + 512, 3, 4};
    uint64_t last = BASE + 1024;
    int n = 5;
    for (uint64_t i = 0; i < 4; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    const struct vs_kernel *k = kernel(0x1000, &p);
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&n, &s, &last}, NULL, 0);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 0);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 512)->uses, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 1024)->uses, 1);
    /* the same, packed; a buffer that ends too early is not read beyond */
    char buffer[40];
    uint64_t again = BASE + 1536;
    memset(buffer, 0, sizeof buffer);
    memcpy(buffer + 32, &again, 8);
    vs_kernel_given(k, &u, vs_grid(1, 1), NULL, buffer, 36);
    vs_kernel_given(k, &u, vs_grid(1, 1), NULL, buffer, 40);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 1536)->uses, 1);
}

TEST(a_handle_is_asked_again_after_an_unload, begin)
{
    static struct vs_kernel_params one = {1, true, .at = {{0, 8}}}, other = {1, true, .at = {{0, 64}}};
    const struct vs_kernel *k = kernel(0x2000, &one);
    assert_ptr_equal(vs_kernel_find((void *)0x2000), k);
    vs_kernels_doubt();
    assert_null(vs_kernel_find((void *)0x2000));
    assert_ptr_equal(kernel(0x2000, &one), k); /* as it was */
    vs_kernels_doubt();
    assert_ptr_not_equal(kernel(0x2000, &other), k);
    assert_int_equal(vs_kernel_find((void *)0x2000)->run[0].words, 8);
}

TEST(many_kernels_are_kept_apart, begin)
{
    static struct vs_kernel_params p = {1, true, .at = {{0, 8}}};
    for (uintptr_t i = 1; i <= 20000; i++)
        assert_non_null(vs_kernel_learn((void *)(i * 64), (uint32_t)i, false, &p));
    for (uintptr_t i = 1; i <= 20000; i++)
        assert_int_equal(vs_kernel_find((void *)(i * 64))->name, i);
}

TEST(a_tensor_map_is_known_by_its_content, begin)
{
    static struct vs_kernel_params p = {2, true, .at = {{0, 8}, {64, 192}}};
    _Alignas(64) uint64_t map[16], param[24];
    uint64_t zero = 0;
    for (int i = 0; i < 16; i++)
        map[i] = (uint64_t)i * 77 + 1; /* no word is the address */
    vs_map_made(map, BASE + 30);
    map[5]++;
    vs_map_made(map, BASE + 1000);
    map[5]--;
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    born(VS_OP_BLOCK_ALLOC, BASE + 512, 512);
    memset(param, 0, sizeof param);
    memcpy(param + 8, map, sizeof map); /* 64 bytes into the structure */
    const struct vs_kernel *k = kernel(0x3000, &p);
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&zero, param}, NULL, 0);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    SAYS(r, .uses = 1, .kinds = VS_ACCESS_KERNEL | VS_ACCESS_MAP);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 512)->uses, 0);
}

/* A word inside a structure may be what an earlier call left there; what has a parameter of its own, a place
 * in a known list, or a tensor map is given on purpose. */
TEST(a_use_by_a_word_inside_a_structure_is_not_sure, begin)
{
    static const struct vs_kernel_params p = {2, true, .at = {{0, 8}, {8, 24}}};
    static const struct vs_kernel_params array = {3, true, .array = 3, .at = {{0, 4}, {4, 4}, {8, 24}}};
    const struct vs_kernel *k = kernel(0x5000, &p), *known = kernel(0x6000, &array);
    uint64_t own = BASE, words[3] = {BASE + 512, 3, BASE + 1024};
    unsigned n = 1;
    for (uint64_t i = 0; i < 4; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    u.now = 2000;
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&own, words}, NULL, 0);
    words[0] = BASE; /* in the structure alone, later */
    own = BASE + 1536;
    u.now = 3000;
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&own, words}, NULL, 0);
    words[0] = BASE + 512;
    words[2] = BASE + 1536;
    u.now = 4000;
    vs_kernel_given(known, &u, vs_grid(1, 1), (void *[]){&n, &n, words}, NULL, 0);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    SAYS(r, .last_ns = 3000, .sure_first_ns = 2000, .sure_last_ns = 2000);
    r = died(VS_OP_BLOCK_FREE, BASE + 512);
    SAYS(r, .first_ns = 2000, .sure_first_ns = 4000);
    r = died(VS_OP_BLOCK_FREE, BASE + 1024);
    SAYS(r, .uses = 2, .sure_last_ns = 0);
    r = died(VS_OP_BLOCK_FREE, BASE + 1536);
    SAYS(r, .sure_first_ns = 3000, .sure_last_ns = 4000);
}

/* A list of two tensors: what is behind them was left there, unless the tables do not agree with the launch.
 */
TEST(words_behind_the_tensors_of_a_foreach_launch_are_not_given, begin)
{
    static struct vs_kernel_params p = {2, true, .at = {{0, 3368}, {3368, 8}}};
    static uint64_t list[421];
    uint64_t other = BASE + 2048;
    unsigned char *tensor = (unsigned char *)list + 1760;
    p.list = vs_foreach_of("_Z25multi_tensor_apply_kernelI18TensorListMetadataILi1EEE", 3368, 8);
    assert_int_equal(p.list.lists, 1);
    for (uint64_t i = 0; i < 5; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    for (uint64_t i = 0; i < 3; i++)
        list[i] = BASE + i * 512;
    list[300] = BASE + 1536; /* in the tables */
    tensor[1] = 1;
    const struct vs_kernel *k = kernel(0x4000, &p);
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, vs_grid(2, 1), (void *[]){list, &other}, NULL, 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + i * 512)->uses, i < 2 || i == 4);
    for (uint64_t i = 0; i < 5; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    tensor[0] = 1;
    vs_kernel_given(k, &u, vs_grid(2, 1), (void *[]){list, &other}, NULL, 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + i * 512)->uses, 1);
}

/* An elementwise kernel over two tensors: what its calculator of offsets does not write is no use, and the
 * tensors are sure ones. */
TEST(words_that_a_calculator_of_offsets_does_not_write_are_not_given, begin)
{
    static struct vs_kernel_params p = {2, true, .at = {{0, 4}, {8, 528}}};
    uint64_t given[66];
    unsigned n = 1;
    p.strided = vs_strided_of("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implI", 2, 528);
    assert_int_equal(p.strided.addresses, 2);
    for (uint64_t i = 0; i < 3; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    for (int i = 0; i < 66; i++)
        given[i] = BASE + 1024;
    given[0] = 2; /* dimensions */
    given[63] = BASE;
    given[64] = BASE + 512;
    given[65] = 0;
    const struct vs_kernel *k = kernel(0x7000, &p);
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&n, given}, NULL, 0);
    u.now++;
    vs_kernel_given(k, &u, vs_grid(1, 1), NULL, (uint64_t[67]){0}, 536); /* of nothing but zeros */
    for (uint64_t i = 0; i < 3; i++) {
        const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE + i * 512);
        assert_int_equal(r->uses, i < 2);
        assert_int_equal(r->sure_first_ns != 0, i < 2);
    }
    born(VS_OP_BLOCK_ALLOC, BASE + 1024, 512);
    given[0] = 77; /* not as PyTorch has it: every word may be an address */
    vs_kernel_given(k, &u, vs_grid(1, 1), (void *[]){&n, given}, NULL, 0);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE + 1024);
    SAYS(r, .uses = 1, .sure_first_ns = 0);
}
