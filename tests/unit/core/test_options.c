/* test_options.c - every type of option, what makes no sense, and that a warning is one useful line. */
#define _GNU_SOURCE
#include "unit/child.h"
#include "capture.h"
#include "core/options.h"

static const char *load(const char *entry)
{
    char *environment[] = {(char *)(uintptr_t) "PATH=/bin", (char *)(uintptr_t)entry, NULL};
    capture_begin();
    vs_options_load(environment);
    vs_options_complain();
    return capture_end();
}

TEST(without_variables_the_defaults_hold_silently)
{
    assert_string_equal(load("HOME=/"), "");
    assert_string_equal(vs_options.output, "vramscope-%h-%p.db");
    assert_int_equal(vs_options.stacks, VS_STACKS_PYTHON);
    assert_int_equal(vs_options.stack_depth, 64);
    assert_int_equal(vs_options.ring_events, 262144);
    assert_int_equal(vs_options.sample_ms, 100);
    assert_int_equal(vs_options.max_bytes, UINT64_C(4) << 30);
    assert_true(vs_options.enabled);
    assert_false(vs_options.verbose);
}

TEST(labels_are_names_with_values_or_one_line_says_why_not)
{
    static const struct {
        const char *list, *wrong; /* NULL: good */
        size_t at;
    } lists[] = {{"", NULL, 0},
                 {"batch=4,seq=1024", NULL, 0},
                 {"note=a = b, c=d", "letters, digits", 11},
                 {"note=50 % of a=b", NULL, 0},
                 {"batch", "NAME=VALUE", 0},
                 {"batch=4,", NULL, 0},
                 {"batch=", "1 to 256", 0},
                 {"=4", "letters", 0},
                 {"a=1,b=2,a=3", "twice", 8},
                 {"a=1,ab=2,aa=3", NULL, 0},
                 {"a=x\ty", "control", 0}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t at = 0;
        const char *wrong = vs_labels_wrong(lists[i].list, &at);
        if (!lists[i].wrong)
            assert_null(wrong);
        else
            assert_true(wrong && strstr(wrong, lists[i].wrong) && at == lists[i].at);
    }
    assert_string_equal(load("VRAMSCOPE_LABELS=batch=4,seq=1024"), "");
    assert_string_equal(vs_options.labels, "batch=4,seq=1024");
    char *bad[] = {(char *)(uintptr_t) "VRAMSCOPE_LABELS=batch", NULL};
    vs_options_load(bad); /* the lines that a process says are counted: this one is not said */
    assert_string_equal(vs_options.labels, "");
}

TEST(limits_are_of_all_devices_or_of_each)
{
    static const char *const wrong[] = {"0",  "20XiB", "1GiB,2GiB", "0:1GiB,0:2GiB", "64:1GiB",
                                        "0:", ":1GiB", "-1:1GiB",   "0:1GiB;"};
    uint64_t bytes[VS_LIMITED_DEVICES];
    assert_null(vs_device_limits("", bytes));
    assert_true(bytes[0] == 0 && bytes[63] == 0);
    assert_null(vs_device_limits("20GiB", bytes));
    assert_true(bytes[0] == UINT64_C(20) << 30 && bytes[63] == bytes[0]);
    assert_null(vs_device_limits("1:512MiB,63:1GiB", bytes));
    assert_true(bytes[0] == 0 && bytes[1] == UINT64_C(512) << 20 && bytes[63] == UINT64_C(1) << 30);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(vs_device_limits(wrong[i], bytes));
    load("VRAMSCOPE_LIMIT=1:512MiB");
    assert_string_equal(vs_options.limit, "1:512MiB");
}

/* A process says so many lines and no more. */
CHILD_TEST(what_a_build_lacks_is_one_line_and_the_default)
{
    static const char line[] = "vramscope: VRAMSCOPE_ALLOCATOR=arena: it was left out; using off\n";
    load("VRAMSCOPE_ALLOCATOR=arena");
    vs_options_lack("VRAMSCOPE_ALLOCATOR", "arena", "it was left out");
    bool off = vs_options.allocator == VS_ALLOCATOR_OFF;
    capture_begin();
    vs_options_complain();
    bool said = strcmp(capture_end(), line) == 0;
    capture_begin();
    vs_options_complain();
    return off && said && !*capture_end();
}

TEST(each_type_takes_what_its_help_says)
{
    static const struct {
        const char *entry;
        uint64_t bytes;
    } sizes[] = {{"VRAMSCOPE_MAX_BYTES=0", 0},          {"VRAMSCOPE_MAX_BYTES=123", 123},
                 {"VRAMSCOPE_MAX_BYTES=2K", 2048},      {"VRAMSCOPE_MAX_BYTES=3MiB", 3 << 20},
                 {"VRAMSCOPE_MAX_BYTES=1T", 1LL << 40}, {"VRAMSCOPE_MAX_BYTES=7GB", 7LL << 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_string_equal(load(sizes[i].entry), "");
        assert_int_equal(vs_options.max_bytes, sizes[i].bytes);
    }
    assert_string_equal(load("VRAMSCOPE_STACKS=off"), "");
    assert_int_equal(vs_options.stacks, VS_STACKS_OFF);
    assert_string_equal(load("VRAMSCOPE_STACKS=all"), "");
    assert_int_equal(vs_options.stacks, VS_STACKS_ALL);
    assert_string_equal(load("VRAMSCOPE_ENABLED=off"), "");
    assert_false(vs_options.enabled);
    assert_string_equal(load("VRAMSCOPE_STACK_DEPTH=256"), "");
    assert_int_equal(vs_options.stack_depth, 256);
    assert_string_equal(load("VRAMSCOPE_SAMPLE_MS=20ms"), "");
    assert_int_equal(vs_options.sample_ms, 20);
    assert_string_equal(load("VRAMSCOPE_EXIT_MS=0"), "");
    assert_int_equal(vs_options.exit_ms, 0);
    assert_string_equal(load("VRAMSCOPE_RING_EVENTS=1024"), "");
    assert_int_equal(vs_options.ring_events, 1024);
    assert_string_equal(load("VRAMSCOPE_ALLOCATOR=arena"), "");
    assert_int_equal(vs_options.allocator, VS_ALLOCATOR_ARENA);
    assert_string_equal(load("VRAMSCOPE_CLAIM=1"), "");
    assert_string_equal(load("VRAMSCOPE_AUTO_PHASES=off"), "");
}

static const struct {
    const char *entry, *value, *words;
} nonsense[] = {
    {"VRAMSCOPE_STACKS=sometimes", "sometimes", "[off,driver,python,all]"},
    {"VRAMSCOPE_STACKS=", "VRAMSCOPE_STACKS= ", "[off,driver,python,all]"},
    {"VRAMSCOPE_STACKS=off,driver", "off,driver", "[off,driver,python,all]"},
    {"VRAMSCOPE_STACK_DEPTH=0", "=0", "1 to 256"},
    {"VRAMSCOPE_STACK_DEPTH=257", "=257", "using 64"},
    {"VRAMSCOPE_STACK_DEPTH=-1", "=-1", "using 64"},
    {"VRAMSCOPE_STACK_DEPTH=ten", "=ten", "using 64"},
    {"VRAMSCOPE_STACK_DEPTH=", "=", "using 64"},
    {"VRAMSCOPE_RING_EVENTS=1000", "=1000", "power of two"},
    {"VRAMSCOPE_RING_EVENTS=99999999999999999999999", "=999", "using 262144"},
    {"VRAMSCOPE_MAX_BYTES=4 GiB", "=4 GiB", "using 4GiB"},
    {"VRAMSCOPE_MAX_BYTES=4X", "=4X", "using 4GiB"},
    {"VRAMSCOPE_MAX_BYTES=99999999T", "T", "using 4GiB"},
    {"VRAMSCOPE_VERBOSE=perhaps", "=perhaps", "on or off"},
    {"VRAMSCOPE_EXIT_MS=3600001", "=3600001", "using 2000"},
    {"VRAMSCOPE_SAMPLE_MS=1s", "=1s", "milliseconds"},
    {"VRAMSCOPE_ALLOCATOR=Arena", "=Arena", "one of [off,arena]; using off"},
    {"VRAMSCOPE_ARENA_FREE=never", "=never", "one of [auto,wait,defer]; using auto"},
    {"VRAMSCOPE_ARENA_KEEP=10%", "=10%", "using 0"},
    {"VRAMSCOPE_ARENA_VIEWS=2", "=2", "on or off"},
    {"VRAMSCOPE_ARENA_WAITS=never", "=never", "on or off"},
    {"VRAMSCOPE_STAKCS=all", "VRAMSCOPE_STAKCS", "no option"},
};
static size_t tried;

/* The 20 lines that a process may say are counted: each in a process of its own. */
static int is_one_line_of_nonsense(void)
{
    const char *said = load(nonsense[tried].entry);
    bool ok = lines_in(said) == 1 && strncmp(said, "vramscope: VRAMSCOPE_", 21) == 0 &&
              strstr(said, nonsense[tried].value) && strstr(said, nonsense[tried].words) &&
              vs_options.stack_depth == 64 && vs_options.stacks == VS_STACKS_PYTHON &&
              vs_options.max_bytes == UINT64_C(4) << 30;
    if (!ok)
        fprintf(stderr, "%s -> %s\n", nonsense[tried].entry, said);
    return ok;
}

TEST(nonsense_is_one_line_with_variable_value_choices_and_default)
{
    for (tried = 0; tried < sizeof nonsense / sizeof *nonsense; tried++)
        assert_int_equal(in_child(is_one_line_of_nonsense), HOLDS);
}

CHILD_TEST(a_process_says_at_most_twenty_lines)
{
    capture_begin();
    for (int i = 0; i < 100; i++)
        vs_log("line %d", i);
    return lines_in(capture_end()) == 20;
}

TEST(help_lists_every_option)
{
    load("HOME=/");
    capture_begin();
    vs_options_print();
    const char *said = capture_end();
#define OPTION(type, field, name, otherwise, help)                                                           \
    assert_non_null(strstr(said, name));                                                                     \
    assert_non_null(strstr(said, help));
#include "core/options.def"
#undef OPTION
}

CHILD_TEST(a_file_that_took_over_descriptor_2_gets_nothing)
{
    vs_log_init(NULL);
    close(2);
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600); /* becomes descriptor 2 */
    vs_log("not for you");
    return file == 2 && lseek(2, 0, SEEK_END) == 0;
}

CHILD_TEST(a_closed_or_broken_stderr_harms_nobody)
{
    int ends[2];
    if (pipe(ends) != 0)
        return BROKEN;
    signal(SIGPIPE, SIG_DFL);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    vs_log_init(NULL);
    vs_log("nobody reads");
    close(2);
    vs_log("nobody there");
    return HOLDS;
}
