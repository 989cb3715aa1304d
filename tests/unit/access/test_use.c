/*
 * test_use.c - use.c, kernels.c, maps.c and trace/uses: what a use leaves in its block's row, by way of the
 * ring, and which words of parameters are looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "access/kernels.h"
#include "access/maps.h"
#include "record/block.h"
#include "record/record.h"
#include "trace/uses/uses.h"

#define BASE UINT64_C(0x7f3300000000)

static struct vs_journal *j;
static struct vs_uses *uses;
static uint64_t taken; /* the last event's sequence */
static uint32_t row_of_free;
static uint32_t range;
static bool autograd;

/* stand in for the recording */
uint32_t vs_record_range(void)
{
    return range;
}
bool vs_record_thread_is_autograd(void)
{
    return autograd;
}

void vs_record_uses_nudge(void) {}

/* Takes the ring's events, as the writer does. */
static void apply(void)
{
    struct vs_event e[64];
    uint64_t seq[64];
    struct vs_journal_stats stats;
    size_t n = vs_journal_peek(j, e, seq, 64, false);
    vs_journal_stats(j, &stats);
    vs_uses_missing(uses, stats.head);
    for (size_t i = 0; i < n; i++) {
        vs_uses_apply(uses, &e[i], seq[i]);
        if (e[i].op == VS_OP_FREE || e[i].op == VS_OP_BLOCK_FREE)
            row_of_free = e[i].stack;
        taken = seq[i];
    }
}

static void take(void)
{
    apply();
    vs_journal_release(j, taken);
}

static int begin(void **state)
{
    char path[64];
    struct vs_journal_config c = {.ring_slots = 64, .accesses = 100, .database = "/nowhere.db"};
    vs_uses_free(uses);
    if (j != NULL)
        vs_journal_close(j);
    snprintf(path, sizeof path, "/tmp/vs-use-%d.vsj", (int)getpid());
    if (vs_journal_create(&j, path, &c) != 0)
        return -1;
    unlink(path);
    range = 0;
    autograd = false;
    vs_access_begin(j);
    vs_kernels_reset();
    return vs_uses_open(&uses, j, 0);
}

static uint64_t now = 1000;

static void put(struct vs_event e)
{
    e.t_ns = now++;
    vs_access_before(&e);
    vs_access_after(&e, vs_journal_append(j, &e));
}

static void record(struct vs_event e)
{
    put(e);
    take();
}

static void born(uint8_t op, uint64_t address, uint64_t size)
{
    record((struct vs_event){
        .op = op, .space = op == VS_OP_ALLOC ? VS_SPACE_DEVICE : 0, .address = address, .size = size});
}

/* The row that the free of the block names. */
static const struct vs_access_row *died(uint8_t op, uint64_t address)
{
    take();
    record((struct vs_event){.op = op, .address = address});
    return vs_journal_access(j, row_of_free);
}

static void push(uint32_t id, const char *phase)
{
    record((struct vs_event){.op = VS_OP_RANGE_PUSH,
                             .range = id,
                             .address = vs_journal_string(j, phase, strlen(phase)),
                             .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
    range = id;
}

static void use(uint64_t word, uint64_t at, uint32_t name)
{
    struct vs_use u = vs_use_begin(name, VS_ACCESS_KERNEL);
    u.now = at;
    vs_use_word(&u, word, true);
}

static void the_row_has_first_last_longest_pause_steps_and_phases(void **state)
{
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    push(1, "forward");
    use(BASE + 100, 2000, 11);
    use(BASE, 2500, 12);
    record((struct vs_event){.op = VS_OP_STEP});
    push(2, "backward");
    use(BASE + 4095, 9000, 13);
    use(BASE + 4096, 9500, 14); /* behind it */
    record((struct vs_event){.op = VS_OP_STEP, .arg0 = 2});
    push(3, "mine");
    use(BASE, 9100, 15);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    assert_int_equal(r->uses, 4);
    assert_int_equal(r->first_ns, 2000);
    assert_int_equal(r->first_name, 11);
    assert_int_equal(r->first_step, 1);
    assert_int_equal(r->last_ns, 9100);
    assert_int_equal(r->last_name, 15);
    assert_int_equal(r->last_step, 5);
    assert_int_equal(r->end_step, 5);
    assert_int_equal(r->steps, 3);
    assert_int_equal(r->gap_ns, 6500);
    assert_int_equal(r->gap_end_ns, 9000);
    assert_int_equal(r->phases, VS_ACCESS_IN_FORWARD | VS_ACCESS_IN_BACKWARD | VS_ACCESS_IN_OTHER);
    assert_string_equal(vs_journal_get_string(j, r->first_phase, NULL), "forward");
    assert_string_equal(vs_journal_get_string(j, r->last_phase, NULL), "mine");
}

static void two_words_of_one_launch_are_one_use(void **state)
{
    uint64_t words[3] = {BASE, BASE + 512, BASE + 8};
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    struct vs_use_batch batch;
    vs_use_batch_begin(&batch);
    vs_use_words(&u, &batch, words, 3, true);
    vs_use_flush(&u, &batch);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
}

/* Two pages 128 GiB apart share a bit, so the second block finds it set. */
static void a_block_on_a_page_that_shares_its_bit_is_seen(void **state)
{
    const uint64_t shares = BASE + (UINT64_C(128) << 30);
    uint64_t words[3] = {shares, 7, UINT64_MAX >> 1};
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    born(VS_OP_BLOCK_ALLOC, shares - (UINT64_C(2) << 30), 4096);
    record((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = shares, .size = 4096});
    vs_pages_reset();
    vs_pages_block(BASE, 4096);
    vs_pages_block(shares - (UINT64_C(2) << 30), 4096);
    vs_pages_block(shares, 4096);
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    struct vs_use_batch batch;
    vs_use_batch_begin(&batch);
    vs_use_words(&u, &batch, words, 3, true);
    assert_int_equal(batch.n, 1);
    vs_use_flush(&u, &batch);
    assert_int_equal(died(VS_OP_BLOCK_FREE, shares)->uses, 1);
}

static void a_block_inside_an_allocation_is_meant_before_it(void **state)
{
    born(VS_OP_ALLOC, BASE, 1 << 20);
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    use(BASE + 10, 2000, 1);
    use(BASE + 8192, 2001, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
    assert_int_equal(died(VS_OP_FREE, BASE)->uses, 1);
}

static void a_thread_of_autograd_without_a_range_is_backward(void **state)
{
    autograd = true;
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    use(BASE, 2000, 1);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    assert_int_equal(r->phases, VS_ACCESS_IN_BACKWARD);
    assert_string_equal(vs_journal_get_string(j, r->first_phase, NULL), "backward");
}

static void an_address_that_comes_again_is_another_block(void **state)
{
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    use(BASE, 2000, 1);
    died(VS_OP_BLOCK_FREE, BASE);
    use(BASE, 2001, 1); /* nobody's */
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    use(BASE + 600, 2002, 1);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    assert_int_equal(r->uses, 0);
    assert_int_equal(r->phases, 0);
}

static void more_blocks_than_rows_are_not_followed_and_do_no_harm(void **state)
{
    for (uint64_t i = 0; i < 150; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    use(BASE + 140 * 512, 2000, 1);
    assert_null(died(VS_OP_BLOCK_FREE, BASE + 140 * 512));
    assert_non_null(died(VS_OP_BLOCK_FREE, BASE + 40 * 512));
}

/* The ring's order counts, not when the events are taken out of it. */
static void a_use_is_of_the_block_that_lived_where_it_stands_in_the_ring(void **state)
{
    struct vs_event e = {.op = VS_OP_BLOCK_ALLOC, .address = BASE, .size = 4096};
    uint32_t row[2];
    put(e);
    use(BASE, 2000, 1);
    use(BASE + 8, 3000, 2);
    put((struct vs_event){.op = VS_OP_BLOCK_FREE, .address = BASE});
    use(BASE, 3500, 9); /* nobody's */
    e.size = 512;
    put(e);
    use(BASE + 511, 4000, 3);
    take();
    row[0] = row_of_free;
    died(VS_OP_BLOCK_FREE, BASE);
    row[1] = row_of_free;
    assert_int_not_equal(row[0], row[1]);
    assert_int_equal(vs_journal_access(j, row[0])->uses, 2);
    assert_int_equal(vs_journal_access(j, row[0])->last_name, 2);
    assert_int_equal(vs_journal_access(j, row[1])->uses, 1);
    assert_int_equal(vs_journal_access(j, row[1])->first_name, 3);
}

/* What the killed process has applied, and not written into the database, is applied again. */
static void uses_that_come_again_behind_a_kill_count_once(void **state)
{
    for (uint64_t i = 0; i < 3; i++)
        put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + i * 512, .size = 512});
    use(BASE, 2000, 1);
    take(); /* and committed */
    uint64_t committed = taken;
    use(BASE, 3000, 1);
    use(BASE + 512, 3001, 1);
    put((struct vs_event){.op = VS_OP_STEP});
    put((struct vs_event){.op = VS_OP_BLOCK_FREE, .address = BASE + 512});
    put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + 512, .size = 512});
    use(BASE + 512, 4000, 1);
    apply();
    uint32_t freed = row_of_free;
    vs_uses_free(uses);
    assert_int_equal(vs_uses_open(&uses, j, committed), 0);
    row_of_free = 0;
    apply();
    assert_int_equal(row_of_free, freed);
    assert_int_equal(vs_journal_access(j, freed)->uses, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 2);
    const struct vs_access_row *again = died(VS_OP_BLOCK_FREE, BASE + 512);
    assert_int_equal(again->uses, 1);
    assert_int_equal(again->first_ns, 4000);
    assert_int_equal(again->end_step, 2);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 1024)->uses, 0);
    /* all of that is committed by now: a third reader finds nothing that lives, and each row is vacant */
    vs_uses_free(uses);
    assert_int_equal(vs_uses_open(&uses, j, taken), 0);
    for (uint32_t id = 1; id < vs_journal_access_rows(j); id++)
        assert_int_equal(vs_journal_access(j, id)->address, 0);
}

/* Nothing is said to be idle that may have been used by what was lost. */
static void blocks_of_uses_that_a_full_ring_loses_are_not_said_to_be_followed(void **state)
{
    struct vs_journal_stats stats;
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    for (uint64_t i = 0; i < 60; i++)
        use(BASE, 2000 + i, 1);
    vs_journal_stats(j, &stats);
    assert_int_equal(stats.lost, 0); /* no event was */
    put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + 512, .size = 512});
    put((struct vs_event){.op = VS_OP_BLOCK_FREE, .address = BASE});
    put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + 1024, .size = 512});
    take();
    assert_true(vs_journal_access(j, row_of_free)->uses < 60);
    assert_true(vs_journal_access(j, row_of_free)->kinds & VS_ACCESS_PARTIAL);
    born(VS_OP_BLOCK_ALLOC, BASE + 1536, 512);
    use(BASE + 1536, 9000, 1);
    assert_true(died(VS_OP_BLOCK_FREE, BASE + 512)->kinds & VS_ACCESS_PARTIAL);
    assert_true(died(VS_OP_BLOCK_FREE, BASE + 1024)->kinds & VS_ACCESS_PARTIAL);
    const struct vs_access_row *later = died(VS_OP_BLOCK_FREE, BASE + 1536);
    assert_int_equal(later->uses, 1);
    assert_int_equal(later->kinds, VS_ACCESS_KERNEL);
}

static void words_on_pages_without_blocks_are_not_put_into_the_ring(void **state)
{
    struct vs_journal_stats before, after;
    born(VS_OP_BLOCK_ALLOC, BASE, 3 << 21);
    vs_journal_stats(j, &before);
    use(BASE + (3 << 21), 2000, 1);
    use(BASE - 1, 2000, 1);
    use(17, 2000, 1);
    use(UINT64_MAX, 2000, 1);
    vs_journal_stats(j, &after);
    assert_int_equal(after.head, before.head);
    use(BASE + (3 << 21) - 1, 2000, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
}

static void addresses_that_the_host_copies_are_stored_and_bad_memory_is_not_read(void **state)
{
    static uint64_t table[2000];
    void *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    born(VS_OP_BLOCK_ALLOC, BASE + 512, 512);
    table[1999] = BASE + 17;
    vs_use_stored(table, sizeof table);
    take();
    uint32_t reached = vs_journal_access_state(j)->reach;
    vs_use_stored(unreadable, 4096);
    take();
    assert_int_equal(vs_journal_access_state(j)->reach, reached + 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->kinds, VS_ACCESS_STORED | VS_ACCESS_REACHABLE);
    munmap(unreadable, 4096);
}

/* ---- parameters ---- */

static const struct vs_kernel *kernel(uintptr_t handle, const struct vs_kernel_params *p)
{
    return vs_kernel_learn((void *)handle, 7, false, p);
}

static void words_are_those_at_multiples_of_eight_of_the_layout(void **state)
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

static void a_handle_is_asked_again_after_an_unload(void **state)
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

static void many_kernels_are_kept_apart(void **state)
{
    static struct vs_kernel_params p = {1, true, .at = {{0, 8}}};
    for (uintptr_t i = 1; i <= 20000; i++)
        assert_non_null(vs_kernel_learn((void *)(i * 64), (uint32_t)i, false, &p));
    for (uintptr_t i = 1; i <= 20000; i++)
        assert_int_equal(vs_kernel_find((void *)(i * 64))->name, i);
}

static void a_tensor_map_is_known_by_its_content(void **state)
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
    assert_int_equal(r->uses, 1);
    assert_int_equal(r->kinds, VS_ACCESS_KERNEL | VS_ACCESS_MAP);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE + 512)->uses, 0);
}

/* A word inside a structure may be what an earlier call left there; what has a parameter of its own, a place
 * in a known list, or a tensor map is given on purpose. */
static void a_use_by_a_word_inside_a_structure_is_not_sure(void **state)
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
    assert_int_equal(r->last_ns, 3000);
    assert_int_equal(r->sure_first_ns, 2000);
    assert_int_equal(r->sure_last_ns, 2000);
    r = died(VS_OP_BLOCK_FREE, BASE + 512);
    assert_int_equal(r->first_ns, 2000);
    assert_int_equal(r->sure_first_ns, 4000);
    r = died(VS_OP_BLOCK_FREE, BASE + 1024);
    assert_int_equal(r->uses, 2);
    assert_int_equal(r->sure_last_ns, 0);
    r = died(VS_OP_BLOCK_FREE, BASE + 1536);
    assert_int_equal(r->sure_first_ns, 3000);
    assert_int_equal(r->sure_last_ns, 4000);
}

/* A list of two tensors: what is behind them was left there, unless the tables do not agree with the launch.
 */
static void words_behind_the_tensors_of_a_foreach_launch_are_not_given(void **state)
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
static void words_that_a_calculator_of_offsets_does_not_write_are_not_given(void **state)
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
    assert_int_equal(r->uses, 1);
    assert_int_equal(r->sure_first_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(words_that_a_calculator_of_offsets_does_not_write_are_not_given, begin),
        cmocka_unit_test_setup(a_use_by_a_word_inside_a_structure_is_not_sure, begin),
        cmocka_unit_test_setup(words_behind_the_tensors_of_a_foreach_launch_are_not_given, begin),
        cmocka_unit_test_setup(the_row_has_first_last_longest_pause_steps_and_phases, begin),
        cmocka_unit_test_setup(two_words_of_one_launch_are_one_use, begin),
        cmocka_unit_test_setup(a_block_on_a_page_that_shares_its_bit_is_seen, begin),
        cmocka_unit_test_setup(a_block_inside_an_allocation_is_meant_before_it, begin),
        cmocka_unit_test_setup(a_thread_of_autograd_without_a_range_is_backward, begin),
        cmocka_unit_test_setup(an_address_that_comes_again_is_another_block, begin),
        cmocka_unit_test_setup(more_blocks_than_rows_are_not_followed_and_do_no_harm, begin),
        cmocka_unit_test_setup(a_use_is_of_the_block_that_lived_where_it_stands_in_the_ring, begin),
        cmocka_unit_test_setup(uses_that_come_again_behind_a_kill_count_once, begin),
        cmocka_unit_test_setup(blocks_of_uses_that_a_full_ring_loses_are_not_said_to_be_followed, begin),
        cmocka_unit_test_setup(words_on_pages_without_blocks_are_not_put_into_the_ring, begin),
        cmocka_unit_test_setup(addresses_that_the_host_copies_are_stored_and_bad_memory_is_not_read, begin),
        cmocka_unit_test_setup(words_are_those_at_multiples_of_eight_of_the_layout, begin),
        cmocka_unit_test_setup(a_handle_is_asked_again_after_an_unload, begin),
        cmocka_unit_test_setup(many_kernels_are_kept_apart, begin),
        cmocka_unit_test_setup(a_tensor_map_is_known_by_its_content, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
