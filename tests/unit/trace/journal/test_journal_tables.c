/*
 * test_journal_tables.c - the journal's tables: rows come back as they were written, equal keys get one id on
 * any number of threads.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "trace/journal/format.h"

#include "journal_kit.h"

TEST(rows_are_kept_and_keys_interned, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    uint16_t a = vs_journal_thread(j, 11, VS_THREAD_AUTOGRAD, "pt_autograd_0");
    uint16_t b = vs_journal_thread(j, 12, 0, "a name much longer than its field");
    assert_int_equal(vs_journal_get_thread(j, a)->tid, 11);
    assert_string_equal(vs_journal_get_thread(j, a)->name, "pt_autograd_0");
    assert_int_equal(strlen(vs_journal_get_thread(j, b)->name), 23);
    assert_int_equal(vs_journal_context(j, 0xabc, 1), vs_journal_context(j, 0xabc, 1));
    assert_int_not_equal(vs_journal_context(j, 0xabc, 1), vs_journal_context(j, 0xabd, 1));
    struct vs_device_row d = {.ordinal = 3, .total_bytes = 5, .name = "dev"};
    vs_journal_device(j, &d);
    vs_journal_device(j, &d);
    assert_int_equal(vs_journal_get_device(j, 1)->ordinal, 3);
    assert_string_equal(vs_journal_get_device(j, 1)->name, "dev");
    assert_null(vs_journal_get_device(j, 2));
    struct vs_module_row m = {.base = 1, .start = 2, .end = 3, .path = 4, .build_id = 5};
    assert_int_equal(vs_journal_get_module(j, vs_journal_module(j, &m))->build_id, 5);
    assert_int_equal(vs_journal_next_range(j), 1);
    assert_int_equal(vs_journal_next_range(j), 2);
    assert_null(vs_journal_get_string(j, 0, NULL));
    assert_null(vs_journal_get_stack(j, 0));
    assert_null(vs_journal_get_stack(j, UINT32_MAX));
    uint32_t empty = vs_journal_string(j, "", 0);
    assert_string_equal(vs_journal_get_string(j, empty, NULL), "");
    vs_journal_close(j);
}

TEST(a_named_frame_is_told_from_an_address_and_from_its_other_lines, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    uint32_t function = vs_journal_string(j, "f", 1), file = vs_journal_string(j, "/m.py", 5);
    uint32_t frame = vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 12);
    /* an address whose bits are the same */
    uint32_t address = vs_journal_frame(j, (uint64_t)file << 32 | function, 12);
    assert_int_not_equal(frame, 0);
    assert_int_not_equal(frame, address);
    assert_int_not_equal(frame, vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 13));
    assert_int_equal(frame, vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 12));
    assert_int_equal(vs_journal_named_frame(j, VS_FRAME_PYTHON, 0, file, 12), 0);
    vs_journal_close(j);
    assert_int_equal(vs_journal_open(&j, path, false), 0);
    const struct vs_frame_row *row = vs_journal_get_frame(j, frame);
    assert_int_equal(row->kind, VS_FRAME_PYTHON);
    assert_int_equal(row->line, 12);
    assert_string_equal(vs_journal_get_string(j, row->function, NULL), "f");
    assert_string_equal(vs_journal_get_string(j, row->file, NULL), "/m.py");
    assert_int_equal(vs_journal_get_frame(j, address)->kind, VS_FRAME_ADDRESS);
    vs_journal_close(j);
}

TEST(facts_can_be_set_changed_and_read_after_reopening, make_dir, drop_dir)
{
    struct vs_journal *j = create(64), *r;
    vs_journal_set_fact(j, "host", "a");
    vs_journal_set_fact(j, "rank", "3");
    vs_journal_set_fact(j, "host", "b");
    assert_int_equal(vs_journal_open(&r, path, false), 0);
    assert_string_equal(vs_journal_fact(r, "host"), "b");
    assert_string_equal(vs_journal_fact(r, "rank"), "3");
    assert_null(vs_journal_fact(r, "none"));
    vs_journal_close(r);
    vs_journal_close(j);
}

TEST(full_tables_answer_none_and_are_counted, make_dir, drop_dir)
{
    struct vs_journal_config c = {
        .ring_slots = 64, .string_bytes = 64, .threads = 3, .contexts = 3, .stacks = 2};
    struct vs_journal *j;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    assert_int_equal(vs_journal_thread(j, 1, 0, ""), 1);
    assert_int_equal(vs_journal_thread(j, 2, 0, ""), 2);
    assert_int_equal(vs_journal_thread(j, 3, 0, ""), VS_THREAD_UNKNOWN);
    assert_int_equal(vs_journal_context(j, 1, 0), 1);
    assert_int_equal(vs_journal_context(j, 2, 0), 2);
    assert_int_equal(vs_journal_context(j, 3, 0), VS_CONTEXT_UNKNOWN);
    assert_int_equal(vs_journal_context(j, 2, 0), 2);
    assert_int_equal(vs_journal_stack(j, 0, 1), 1);
    assert_int_equal(vs_journal_stack(j, 1, 1), 0);
    assert_int_not_equal(vs_journal_string(j, "0123456789012345678901234567890", 31), 0);
    assert_int_equal(vs_journal_string(j, "abcdefghijabcdefghijabcdefghijx", 31), 0);
    assert_int_equal(stats_of(j).table_full, 4);
    vs_journal_close(j);
}

#define THREADS 4

static void *intern_names(void *j)
{
    char name[32];
    uint32_t *ids = calloc(3000, sizeof *ids);
    for (int i = 0; i < 3000; i++) {
        int n = snprintf(name, sizeof name, "name-%d", i % 1000);
        ids[i] = vs_journal_string(j, name, (size_t)n);
        uint32_t frame = vs_journal_frame(j, (uint64_t)(i % 1000) + 1, 3);
        vs_journal_stack(j, vs_journal_stack(j, 0, frame), frame);
    }
    return ids;
}

TEST(threads_interning_the_same_keys_agree_on_the_ids, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    pthread_t t[THREADS];
    uint32_t *ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, intern_names, j);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], (void **)&ids[i]);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        size_t length;
        snprintf(name, sizeof name, "name-%d", i % 1000);
        for (int k = 0; k < THREADS; k++)
            assert_int_equal(ids[k][i], ids[0][i % 1000]);
        assert_string_equal(vs_journal_get_string(j, ids[0][i], &length), name);
        assert_int_equal(length, strlen(name));
    }
    uint32_t frame = vs_journal_frame(j, 7, 3);
    assert_int_equal(vs_journal_get_frame(j, frame)->address, 7);
    uint32_t node = vs_journal_stack(j, vs_journal_stack(j, 0, frame), frame);
    assert_int_equal(vs_journal_get_stack(j, node)->frame, frame);
    assert_int_equal(vs_journal_get_stack(j, vs_journal_get_stack(j, node)->parent)->parent, 0);
    for (int i = 0; i < THREADS; i++)
        free(ids[i]);
    vs_journal_close(j);
}

/* ---- what blocks were asked for as ---- */

static uint32_t tensor(struct vs_journal *j, uint8_t type, uint64_t request, uint32_t dims,
                       const int64_t *size)
{
    return vs_journal_tensor(j, vs_tensor_what(VS_TENSOR_WHOLE, type, dims), request, size);
}

TEST(what_blocks_were_asked_for_as_is_kept_once_and_exactly, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    const int64_t a[] = {4, 2048, 8192}, b[] = {4, 2048, 8193}, long_one[] = {INT64_MAX};
    uint32_t id = tensor(j, 15, 134217728, 3, a);
    assert_int_not_equal(id, 0);
    assert_int_equal(tensor(j, 15, 134217728, 3, (int64_t[]){4, 2048, 8192}), id);
    assert_int_not_equal(tensor(j, 15, 134217728, 3, b), id);
    assert_int_not_equal(tensor(j, 5, 134217728, 3, a), id);
    assert_int_not_equal(tensor(j, 15, 134217730, 3, a), id);
    assert_int_not_equal(tensor(j, 15, 134217728, 2, a), id);
    uint32_t scalar = tensor(j, 6, 4, 0, a), large = tensor(j, 0, INT64_MAX, 1, long_one);
    uint32_t raw =
        vs_journal_tensor(j, vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE), 0, NULL);
    struct vs_tensor t;
    assert_true(vs_journal_get_tensor(j, id, &t));
    assert_int_equal(t.row.request, 134217728);
    assert_int_equal(vs_tensor_kind_of(&t.row), VS_TENSOR_WHOLE);
    assert_int_equal(vs_tensor_type_of(&t.row), 15);
    assert_int_equal(vs_tensor_dims_of(&t.row), 3);
    assert_memory_equal(t.size, a, sizeof a);
    assert_true(vs_journal_get_tensor(j, scalar, &t) && vs_tensor_dims_of(&t.row) == 0);
    assert_true(vs_journal_get_tensor(j, large, &t) && t.size[0] == INT64_MAX);
    assert_true(vs_journal_get_tensor(j, raw, &t) && vs_tensor_kind_of(&t.row) == VS_TENSOR_RAW);
    assert_false(vs_journal_get_tensor(j, 0, &t));
    assert_false(vs_journal_get_tensor(j, UINT32_MAX, &t));
    vs_journal_close(j);
}

TEST(a_damaged_row_of_tensors_is_not_read_beyond_its_table, make_dir, drop_dir)
{
    struct vs_journal_config c = {.ring_slots = 64, .tensor_bytes = 80};
    struct vs_journal *j;
    struct vs_tensor t;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    uint32_t id = tensor(j, 6, 16, 2, (int64_t[]){2, 2});
    assert_int_not_equal(id, 0);
    assert_int_equal(tensor(j, 6, 16, 6, (int64_t[]){2, 2, 1, 1, 1, 1}), 0); /* no room, and said */
    assert_true(stats_of(j).tensors_full);
    assert_int_equal(stats_of(j).table_full, 0);
    uint32_t *what = (uint32_t *)vs_journal_row(j, VS_SEC_TENSORS, 8, id);
    for (uint32_t dims = 0; dims < 256; dims++) {
        *what = vs_tensor_what(VS_TENSOR_WHOLE, 6, dims);
        bool fits = dims <= 7 || dims == VS_TENSOR_NO_SHAPE; /* of 10 units: row 0, two of the row itself */
        assert_int_equal(vs_journal_get_tensor(j, id, &t), fits);
    }
    vs_journal_close(j);
}

TEST(a_full_table_of_tensors_keeps_bytes_and_types_a_while_longer, make_dir, drop_dir)
{
    struct vs_journal_config c = {.ring_slots = 64, .tensor_bytes = 800}; /* 88 of 100 units take shapes */
    struct vs_journal *j;
    struct vs_tensor t;
    uint32_t raw = vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE);
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    for (int64_t i = 1; i <= 21; i++) { /* 4 units each, from unit 1 on */
        uint32_t id = tensor(j, 6, (uint64_t)i, 2, (int64_t[]){i, 1});
        assert_true(vs_journal_get_tensor(j, id, &t) && vs_tensor_dims_of(&t.row) == 2);
        assert_false(stats_of(j).tensors_full);
    }
    uint32_t id = tensor(j, 6, 512, 2, (int64_t[]){128, 1});
    assert_true(vs_journal_get_tensor(j, id, &t));
    assert_int_equal(vs_tensor_dims_of(&t.row), VS_TENSOR_NO_SHAPE);
    assert_int_equal(vs_tensor_kind_of(&t.row), VS_TENSOR_WHOLE);
    assert_int_equal(vs_tensor_type_of(&t.row), 6);
    assert_int_equal(t.row.request, 512);
    assert_int_equal(tensor(j, 6, 512, 3, (int64_t[]){2, 64, 1}), id);
    assert_int_not_equal(vs_journal_tensor(j, raw, 0, NULL), 0);
    for (uint64_t i = 1; i <= 100; i++)
        tensor(j, 6, i << 10, 1, (int64_t[]){7});
    assert_int_equal(tensor(j, 6, 4, 1, (int64_t[]){9}), 0);
    assert_int_equal(tensor(j, 6, 512, 2, (int64_t[]){128, 1}), id);
    assert_true(vs_journal_get_tensor(j, tensor(j, 6, 1, 2, (int64_t[]){1, 1}), &t) &&
                vs_tensor_dims_of(&t.row) == 2);
    assert_true(stats_of(j).tensors_full);
    assert_int_equal(stats_of(j).table_full, 0);
    vs_journal_close(j);
}
