/* test_python.c - an interpreter in which something is not as it should be has no Python frames, and says
 * why; nothing of it is followed where there is no memory.  (What real ones have is tests/python's.) */
#include "stack_helpers.h"

#include "core/contracts.h"
#include "core/open_calls.h"
#include "stacks/python.h"

int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units);

/* Runs BODY in a child with the fake NAME loaded, as an embedded interpreter is. */
static void with_fake(const char *name, void (*body)(void *fake, const char *argument), const char *argument)
{
    char file[PATH_MAX + 64];
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        snprintf(file, sizeof file, "%s/fakes/%s/libpython3.13.so.1.0", directory, name);
        void *fake = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (!fake) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(3);
        }
        vs_options.stacks = VS_STACKS_PYTHON;
        vs_python_prepare();
        body(fake, argument);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        fprintf(stderr, "%s: status %x\n", name, (unsigned)status);
    assert_int_equal(status, 0);
}

static void require(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not so: %s; %s\n", what, vs_python_why_off());
        _exit(1);
    }
}
#define REQUIRE(condition) require(condition, #condition)

static void has_frames(void *fake, const char *release)
{
    REQUIRE(vs_python_now() != NULL);
    uint32_t stack = vs_python_capture(journal);
    const struct vs_frame_row *f = frame_at(stack, 0);
    REQUIRE(depth_of(stack) == 2 && f->kind == VS_FRAME_PYTHON && f->line == 42);
    REQUIRE(frame_at(stack, 1)->line == 42);
    REQUIRE(strcmp(vs_journal_get_string(journal, f->file, NULL), "/fake.py") == 0);
    REQUIRE(strcmp(vs_journal_get_string(journal, f->function, NULL), "Fake.f") == 0);
    REQUIRE(vs_python_capture(journal) == stack);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_FRAME) == VS_CONTRACT_PROVEN);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_CODE) == VS_CONTRACT_PROVEN);
    REQUIRE(strcmp(vs_party_name(VS_PARTY_PYTHON) + strlen("CPython "), release) == 0);
    int *finalizing = dlsym(fake, "fake_finalizing");
    *finalizing = 1;
    REQUIRE(vs_python_capture(journal) == 0);
}

TEST(a_good_one_has_its_frames_until_it_ends)
{
    with_fake("good", has_frames, "3.13.5");
    with_fake("good-14", has_frames, "3.14.5");
}

TEST(so_has_a_free_threaded_one)
{
    with_fake("good-13t", has_frames, "3.13.5 free-threaded");
    with_fake("good-14t", has_frames, "3.14.5 free-threaded");
}

static void reads_its_copy(void *fake, const char *unused)
{
    void (*other_copy)(void) = (void (*)(void))dlsym(fake, "fake_other_copy");
    REQUIRE(frame_at(vs_python_capture(journal), 0)->line == 42);
    REQUIRE(frame_at(vs_python_capture(journal), 0)->line == 42);
    other_copy();
    REQUIRE(frame_at(vs_python_capture(journal), 0)->line == 44);
}

TEST(an_instruction_is_looked_for_in_the_bytecode_that_its_thread_has_now)
{
    with_fake("good-14t", reads_its_copy, NULL);
}

static void is_refused(void *fake, const char *why)
{
    REQUIRE(vs_python_now() == NULL);
    REQUIRE(strstr(vs_python_why_off(), why) != NULL);
    REQUIRE(vs_python_capture(journal) == 0);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_FRAME) == VS_CONTRACT_BROKEN);
}

TEST(another_version_or_build_is_refused_before_anything_is_read)
{
    static const char *const cases[][2] = {{"pre_release", "it is a pre-release"},
                                           {"newer", "it is newer than this vramscope knows"},
                                           {"older", "it is older than 3.10"},
                                           {"no_cookie", "it does not describe itself"},
                                           {"other_hex", "it does not describe itself"},
                                           {"half_free", "it has its fields where that version has not"},
                                           {"moved", "it has its fields where that version has not"},
                                           {"moved-13t", "it has its fields where that version has not"},
                                           {"moved-14t", "it has its fields where that version has not"},
                                           {"debug_build", "it is a debug build"},
                                           {"no_symbol", "it does not export what is needed"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        with_fake(cases[i][0], is_refused, cases[i][1]);
}

static void is_refused_at_the_first_frame(void *fake, const char *why)
{
    REQUIRE(vs_python_now() != NULL);
    REQUIRE(vs_python_capture(journal) == 0);
    is_refused(fake, "its frames do not look as that version's do");
}

TEST(frames_that_are_none_are_refused_and_not_followed)
{
    static const char *const cases[] = {
        "no_string",     "no_table",       "outside",           "nowhere",     "other_strings",
        "no_string-14t", "no_table-13t",   "outside-13t",       "nowhere-14t", "other_strings-14t",
        "no_copy-14t",   "other_copy-14t", "copies_nowhere-14t"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        with_fake(cases[i], is_refused_at_the_first_frame, NULL);
}

static void has_no_frames(void *fake, const char *unused)
{
    REQUIRE(vs_python_capture(journal) == 0);
}

TEST(a_frame_of_another_kind_of_code_is_no_frame)
{
    with_fake("no_type", has_no_frames, NULL);
}

static void is_as_deep_as_wanted(void *fake, const char *unused)
{
    REQUIRE(depth_of(vs_python_capture(journal)) == 64);
}

TEST(a_chain_without_an_end_is_cut)
{
    with_fake("endless", is_as_deep_as_wanted, NULL);
}

static void tells_them_apart_otherwise(void *fake, const char *unused)
{
    uint32_t stack = vs_python_capture(journal);
    REQUIRE(depth_of(stack) == 2 && vs_python_now()->kind == VS_PYTHON_UNPROVEN);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_FRAME) == VS_CONTRACT_PROVEN);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_CODE) == VS_CONTRACT_BROKEN);
    REQUIRE(vs_python_capture(journal) == stack);
}

TEST(code_without_numbers_of_its_own_is_told_apart_otherwise)
{
    with_fake("no_numbers", tells_them_apart_otherwise, NULL);
    with_fake("same_numbers", tells_them_apart_otherwise, NULL);
}

static void is_not_proven(void *fake, const char *unused)
{
    uint32_t stack = vs_python_capture(journal);
    for (int i = 0; i < 100; i++)
        REQUIRE(depth_of(stack) == 1 && vs_python_capture(journal) == stack);
    REQUIRE(vs_python_now()->checked && vs_python_now()->kind == VS_PYTHON_UNPROVEN);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_CODE) == VS_CONTRACT_UNASKED);
}

TEST(one_piece_of_code_does_not_prove_that_numbers_differ)
{
    with_fake("alone", is_not_proven, NULL);
}

/* What the hook says of the fake's function. */
static int answer(void *fake, const char *name, uint32_t last_line)
{
    void *(*code)(void) = (void *(*)(void))dlsym(fake, "fake_code");
    const uint32_t lines[] = {42, 42, 44, last_line};
    return vramscope_auto_code((uintptr_t)code(), "/fake.py", name, lines, 4);
}

static void reads_what_python_says(void *fake, const char *unused)
{
    REQUIRE(answer(fake, "Fake.f", 44) == 1);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_LINES) == VS_CONTRACT_PROVEN);
    REQUIRE(frame_at(vs_python_capture(journal), 0)->line == 42);
}

static void reads_another_line(void *fake, const char *unused)
{
    REQUIRE(answer(fake, "Fake.f", 45) == 0);
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_LINES) == VS_CONTRACT_BROKEN);
    const struct vs_frame_row *f = frame_at(vs_python_capture(journal), 0);
    REQUIRE(f->line == 0 && strcmp(vs_journal_get_string(journal, f->function, NULL), "Fake.f") == 0);
}

static void reads_another_name(void *fake, const char *unused)
{
    REQUIRE(answer(fake, "Fake.g", 44) == 0);
    is_refused(fake, "a function's name or file is read otherwise than it is");
}

static void is_no_code(void *fake, const char *unused)
{
    REQUIRE(answer(fake, "Fake.f", 44) == 0);
    REQUIRE(vs_python_capture(journal) == 0);
}

TEST(what_is_read_otherwise_than_python_says_it_is_given_up)
{
    static const char *const fakes[] = {"good", "good-13t", "good-14t"};
    for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
        with_fake(fakes[i], reads_what_python_says, NULL);
        with_fake(fakes[i], reads_another_line, NULL);
        with_fake(fakes[i], reads_another_name, NULL);
    }
    with_fake("no_type", is_no_code, NULL);
    with_fake("no_table", is_no_code, NULL);
}

/* BOTH: the caller of an open call goes on while that is open, as no interpreter does. */
static void goes_on_in_an_open_call(void *fake, bool both)
{
    void *(*caller)(void) = (void *(*)(void))dlsym(fake, "fake_caller");
    void (*go_on)(int) = (void (*)(int))dlsym(fake, "fake_goes_on");
    uint32_t level = vs_open_call_begin((uintptr_t)caller()), stack = vs_python_capture(journal);
    REQUIRE(frame_at(stack, 1)->line == 42 && vs_open_call_innermost()->frames == 1);
    go_on(both);
    stack = vs_python_capture(journal);
    REQUIRE(frame_at(stack, 0)->line == 44 && frame_at(stack, 1)->line == (both ? 44 : 42));
    REQUIRE(vs_contract_state(VS_CONTRACT_PY_STANDSTILL) == (both ? VS_CONTRACT_BROKEN : VS_CONTRACT_PROVEN));
    REQUIRE(vs_python_now()->whole == both && vs_python_capture(journal) == stack);
    vs_open_call_end(level);
}

static void stands_still(void *fake, const char *unused)
{
    goes_on_in_an_open_call(fake, false);
}

static void moves(void *fake, const char *unused)
{
    goes_on_in_an_open_call(fake, true);
}

TEST(what_is_outside_of_an_open_call_is_walked_over_once_it_has_moved)
{
    with_fake("good", stands_still, NULL);
    with_fake("good", moves, NULL);
}

static void has_two(void *fake, const char *unused)
{
    is_refused(fake, "two interpreters are in the process");
}

TEST(two_interpreters_are_refused)
{
    char file[PATH_MAX + 64];
    snprintf(file, sizeof file, "%s/fakes/good/libpython3.13.so.1.0", directory);
    void *first = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(first);
    with_fake("second", has_two, NULL);
    dlclose(first);
}

TEST(lines_are_those_of_the_entry_that_contains_the_instruction)
{
    /* 3.11: 2 units at the first line, 3 units three lines on, 1 unit without a line, 8 units two lines back
     */
    const unsigned char table[] = {0x80 | 10 << 3 | 1,
                                   9,
                                   9,
                                   0x80 | 13 << 3 | 2,
                                   3 << 1,
                                   0x80 | 15 << 3,
                                   0x80 | 14 << 3 | 7,
                                   2 << 1 | 1,
                                   0,
                                   0,
                                   0};
    const uint32_t lines[] = {10, 10, 13, 13, 13, 0, 11, 11};
    for (long unit = 0; unit < 8; unit++)
        assert_int_equal(vs_python_line_311(table, sizeof table, 10, unit), lines[unit]);
    assert_int_equal(vs_python_line_311(table, sizeof table, 10, -1), 10);
    assert_int_equal(vs_python_line_311(table, sizeof table, 10, 14), 0);
    /* a number of two groups */
    const unsigned char far[] = {0x80 | 13 << 3, 0x40 | 8, 100 >> 5};
    assert_int_equal(vs_python_line_311(far, sizeof far, 1, 0), 1 + ((8 | (100 >> 5) << 6) >> 1));
    /* 3.10: bytes of code and lines further */
    const unsigned char old[] = {4, 0, 6, 3, 2, 0x80, 4, (unsigned char)-2};
    const uint32_t old_lines[] = {10, 10, 13, 13, 13, 0, 11, 11, 0};
    for (long unit = 0; unit < 9; unit++)
        assert_int_equal(vs_python_line_310(old, sizeof old, 10, unit), old_lines[unit]);
}

TEST(a_line_table_of_any_bytes_is_read_within_its_bounds)
{
    size_t page = 4096;
    unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    srand(1);
    for (int round = 0; round < 100000; round++) {
        size_t length = (size_t)rand() % 12;
        unsigned char *table = pages + page - length;
        for (size_t i = 0; i < length; i++)
            table[i] = (unsigned char)rand();
        vs_python_line_311(table, length, 1, rand() % 40 - 1);
        vs_python_line_310(table, length, 1, rand() % 40 - 1);
    }
    munmap(pages, 2 * page);
}

int main(void)
{
    begin_stack_tests();
    vs_modules_prepare();
    return run_all_tests(NULL, NULL);
}
