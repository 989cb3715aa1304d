/* test_holders.c - groups of the live set sum to it; the residual hides nothing. */

#include "unit/test.h"
#include "analysis/holders.h"
#include "read/living.h"

static const struct trace_live live[] = {
    {0, 100, 1, 5, "forward", "framework block", "libtorch_cuda.so", "/a/model.py:4 f", NULL, NULL,
     "activation"},
    {0, 50, 2, 5, "forward", "framework block", NULL, NULL, NULL, NULL, NULL},
    {0, 70, 1, UNKNOWN, "logits", "framework block", NULL, NULL, NULL, NULL, "output"},
    {0, 33, 1, 9, "forward", "direct", "libcublasLt.so.13", "/a/model.py:4 f", NULL, NULL, "activation"},
    {0, 7, 1, 10, NULL, "direct", "libnccl.so.2", NULL, NULL, NULL, NULL},
};
enum { ROWS = sizeof live / sizeof *live };

TEST(every_question_sums_to_the_whole)
{
    for (int by = BY_LINE; by <= BY_STACK; by++) {
        size_t n;
        int64_t sum = 0;
        struct holder *groups = holders_group(live, ROWS, (enum holder_by)by, &n);
        for (size_t i = 0; i < n; i++) {
            sum += groups[i].bytes;
            assert_true(i == 0 || groups[i].bytes <= groups[i - 1].bytes);
        }
        assert_true(sum == holders_total(live, ROWS) && sum == 260);
        free(groups);
    }
}

TEST(phases_melt_and_unknown_stays_apart)
{
    size_t n;
    struct holder *groups = holders_group(live, ROWS, BY_PHASE, &n);
    assert_int_equal(n, 3);
    assert_string_equal(groups[0].phase, "forward");
    assert_true(groups[0].bytes == 183 && groups[0].count == 4);
    assert_null(groups[2].phase);
    free(groups);
}

TEST(roles_melt_and_what_has_none_is_told_by_its_phase)
{
    size_t n;
    struct holder *groups = holders_group(live, ROWS, BY_ROLE, &n);
    assert_int_equal(n, 4);
    assert_string_equal(groups[0].role, "activation");
    assert_true(groups[0].bytes == 133 && groups[0].count == 2 && !groups[0].category);
    assert_true(!groups[2].role && groups[2].bytes == 50 && !strcmp(groups[2].phase, "forward"));
    assert_true(!groups[3].role && groups[3].bytes == 7 && !groups[3].phase);
    free(groups);
}

TEST(the_composition_names_phases_of_blocks_and_libraries_of_the_rest)
{
    size_t n;
    struct holder *groups = holders_composition(live, ROWS, &n);
    assert_int_equal(n, 4);
    assert_true(groups[0].bytes == 150 && !strcmp(groups[0].phase, "forward") && !groups[0].owner);
    assert_true(groups[2].bytes == 33 && !strcmp(groups[2].owner, "libcublasLt.so.13") && !groups[2].phase);
    free(groups);
}

TEST(what_has_no_layer_is_told_by_category)
{
    static const struct trace_live rows[] = {
        {0, 5, 1, 3, "forward", "framework block", NULL, NULL, "Net.fc", "Linear", NULL},
        {0, 9, 1, 4, "backward", "framework block", NULL, NULL, "Net.fc", "Linear", NULL},
        {0, 3, 1, 5, "forward", "framework block", NULL, NULL, NULL, NULL, NULL},
        {0, 2, 1, 0, "forward", "direct", NULL, NULL, NULL, NULL, NULL}};
    size_t n;
    struct holder *groups = holders_group(rows, 4, BY_LAYER, &n);
    assert_int_equal(n, 3);
    assert_int_equal(groups[0].bytes, 14);
    assert_string_equal(groups[0].layer, "Net.fc");
    assert_null(groups[0].category);
    assert_null(groups[1].layer);
    assert_string_equal(groups[1].category, "framework block");
    free(groups);
}

TEST(without_a_framework_direct_memory_is_told_apart_by_phase)
{
    static const struct trace_live direct[] = {
        {0, 9, 1, 5, "forward", "direct", "train", NULL, NULL, NULL, NULL},
        {0, 4, 1, 5, "logits", "direct", "train", NULL, NULL, NULL, NULL}};
    size_t n;
    struct holder *groups = holders_composition(direct, 2, &n);
    assert_int_equal(n, 2);
    assert_string_equal(groups[0].phase, "forward");
    assert_string_equal(groups[1].owner, "train");
    free(groups);
}

TEST(nothing_is_no_group)
{
    size_t n = 9;
    struct holder *groups = holders_group(NULL, 0, BY_STACK, &n);
    assert_int_equal(n, 0);
    free(groups);
}

static char *name_of_row(const struct trace_live *rows, size_t n, enum holder_by by, size_t row)
{
    size_t count;
    struct holder *groups = holders_group(rows, n, by, &count);
    char *name = holders_nameless(&groups[row], rows, n, false);
    free(groups);
    return name;
}

static void expect_name(const struct trace_live *rows, size_t n, size_t row, const char *want)
{
    for (int by = BY_LIBRARY; by <= BY_STACK; by++) {
        char *name = name_of_row(rows, n, (enum holder_by)by, row);
        assert_string_equal(name, want);
        free(name);
    }
}

TEST(without_call_stacks_a_group_says_which_option_takes_them)
{
    static const struct trace_live blocks[] = {
        {0, 100, 9, 0, "forward", "framework block", NULL, NULL, NULL, NULL, NULL},
        {0, 33, 1, 9, "forward", "direct", "libcublasLt.so.13", NULL, NULL, NULL, NULL}};
    static const struct trace_live some[] = {
        {0, 100, 9, 0, "forward", "framework block", NULL, NULL, NULL, NULL, NULL},
        {0, 50, 9, 7, "forward", "framework block", "libtorch_cuda.so", NULL, NULL, NULL, NULL}};
    static const struct trace_live off[] = {
        {0, 100, 9, 0, "forward", "direct", NULL, NULL, NULL, NULL, NULL},
        {0, 50, 9, UNKNOWN, "none", "before recording", NULL, NULL, NULL, NULL, NULL}};
    expect_name(blocks, 2, 0, "framework (no call stacks: VRAMSCOPE_STACKS=all)");
    expect_name(some, 2, 0, "framework (no call stack)");
    expect_name(off, 2, 0, "direct (no call stacks: VRAMSCOPE_STACKS=driver)");
    expect_name(off, 2, 1, "held before the recording began");
}

TEST(a_call_stack_that_names_no_library_is_unknown)
{
    static const struct trace_live rows[] = {
        {0, 100, 9, 4, "forward", "direct", NULL, NULL, NULL, NULL, NULL},
        {0, 70, 9, 5, "forward", "framework block", NULL, NULL, NULL, NULL, NULL}};
    size_t n;
    struct holder *groups = holders_group(rows, 2, BY_LIBRARY, &n);
    char *name = holders_nameless(&groups[0], rows, 2, false);
    assert_int_equal(n, 1);
    assert_true(groups[0].bytes == 170);
    assert_string_equal(name, "unknown");
    free(name);
    free(groups);
}

TEST(blocks_of_one_line_are_one_group_and_those_without_are_one_of_their_kind)
{
    size_t n;
    struct holder *groups = holders_group(live, ROWS, BY_LINE, &n);
    assert_int_equal(n, 3);
    assert_string_equal(groups[0].line, "/a/model.py:4 f");
    assert_true(groups[0].bytes == 133);
    const char *const names[] = {NULL, "framework (no Python line)", "direct (no Python line)"};
    for (size_t i = 1; i < n; i++) {
        char *name = holders_lineless(&groups[i]);
        assert_string_equal(name, names[i]);
        free(name);
    }
    free(groups);
}

TEST(blocks_with_python_frames_alone_say_which_option_takes_native_ones)
{
    static const struct trace_live rows[] = {
        {0, 100, 9, 4, "forward", "framework block", NULL, "/a.py:1 f", NULL, NULL, NULL},
        {0, 70, 9, 5, "forward", "direct", NULL, "/a.py:1 f", NULL, NULL, NULL}};
    char *name = name_of_row(rows, 2, BY_LIBRARY, 0), *direct = name_of_row(rows, 2, BY_LIBRARY, 1);
    assert_string_equal(name, "framework (by library: VRAMSCOPE_STACKS=all)");
    assert_string_equal(direct, "unknown");
    free(name);
    free(direct);
}

TEST(an_imported_snapshot_is_advised_what_pytorch_can_take)
{
    static const struct trace_live bare[] = {
        {0, 100, 9, 0, "forward", "framework block", NULL, NULL, NULL, NULL, NULL}};
    static const struct trace_live python[] = {
        {0, 100, 9, 4, "forward", "framework block", NULL, "/a.py:1 f", NULL, NULL, NULL}};
    size_t n;
    struct holder *none = holders_group(bare, 1, BY_STACK, &n);
    struct holder *no_native = holders_group(python, 1, BY_LIBRARY, &n);
    char *first = holders_nameless(none, bare, 1, true),
         *second = holders_nameless(no_native, python, 1, true);
    assert_string_equal(first, "framework (no call stacks: a snapshot with stacks=\"all\")");
    assert_string_equal(second, "framework (by library: a snapshot with stacks=\"all\")");
    free(none);
    free(no_native);
    free(first);
    free(second);
}
