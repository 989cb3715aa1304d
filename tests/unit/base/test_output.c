/* test_output.c - what the analyzer prints: numbers, tables, JSON, and the options that it takes. */

#include "unit/test.h"
#include "base/args.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"

TEST(bytes_round_to_three_digits_and_never_show_1024)
{
    assert_string_equal(units_bytes(0, false).s, "0 B");
    assert_string_equal(units_bytes(1023, false).s, "1023 B");
    assert_string_equal(units_bytes(1024, false).s, "1.00 KiB");
    assert_string_equal(units_bytes((1 << 20) - 1, false).s, "1.00 MiB");
    assert_string_equal(units_bytes(7471108173, false).s, "6.96 GiB");
    assert_string_equal(units_bytes(7471108173, true).s, "7471108173");
    assert_string_equal(units_bytes(-3145728, false).s, "-3.00 MiB");
    assert_string_equal(units_bytes(UNKNOWN, true).s, "unknown");
}

TEST(times_choose_their_unit)
{
    assert_string_equal(units_time(1500).s, "1.5 us");
    assert_string_equal(units_time(999600).s, "1 ms");
    assert_string_equal(units_time(12300000).s, "12.3 ms");
    assert_string_equal(units_time(1500000000).s, "1.5 s");
    assert_string_equal(units_time(125000000000).s, "2 min 05 s");
    assert_string_equal(units_time(7380LL * 1000000000).s, "2 h 03 min");
    assert_string_equal(units_time(UNKNOWN).s, "unknown");
}

TEST(times_are_read_with_units_and_refused_without_sense)
{
    int64_t ns = 0;
    assert_true(units_read_time("1.5s", &ns) && ns == 1500000000);
    assert_true(units_read_time("20ms", &ns) && ns == 20000000);
    assert_true(units_read_time("2min", &ns) && ns == 120000000000);
    assert_true(units_read_time("3", &ns) && ns == 3000000000);
    assert_false(units_read_time("", &ns));
    assert_false(units_read_time("-1", &ns));
    assert_false(units_read_time("1 fortnight", &ns));
    assert_false(units_read_time("nan", &ns));
    assert_false(units_read_time("1e300", &ns));
}

/* ---- JSON ---- */

static char *written(void (*write)(struct json *j))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct json j;
    json_open(&j, out);
    write(&j);
    json_close(&j);
    fclose(out);
    return text;
}

static void write_nested(struct json *j)
{
    json_begin(j, NULL, '{');
    json_int(j, "n_bytes", 3);
    json_int(j, "unknown", UNKNOWN);
    json_begin(j, "empty", '[');
    json_end(j);
    json_begin(j, "list", '[');
    json_int(j, NULL, 1);
    json_int(j, NULL, -2);
    json_end(j);
    json_end(j);
}

TEST(json_nests_with_commas_and_null_for_unknown)
{
    char *text = written(write_nested);
    assert_string_equal(text, "{\n  \"n_bytes\": 3,\n  \"unknown\": null,\n  \"empty\": [],\n  \"list\": [\n "
                              "   1,\n    -2\n  ]\n}\n");
    free(text);
}

static void write_hostile(struct json *j)
{
    json_begin(j, NULL, '[');
    json_text(j, NULL, "a\"b\\c\n\x01");
    json_text(j, NULL, "caf\xc3\xa9");
    json_text(j, NULL, "\xff\xc0\x80\xed\xa0\x80");
    json_text(j, NULL, "cut\xe2\x82");
    json_end(j);
}

TEST(json_escapes_what_is_no_text)
{
    char *text = written(write_hostile);
    assert_string_equal(text,
                        "[\n  \"a\\\"b\\\\c\\u000a\\u0001\",\n  \"caf\xc3\xa9\",\n"
                        "  \"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\",\n  \"cut\\ufffd\\ufffd\"\n]\n");
    free(text);
}

static void write_acting(struct json *j)
{
    json_begin(j, NULL, '[');
    json_text(j, NULL, "\xc2\x85 \xe2\x80\xae \xf3\xa0\x80\xa1");
    json_end(j);
}

TEST(json_escapes_what_a_terminal_would_act_on)
{
    char *text = written(write_acting);
    assert_string_equal(text, "[\n  \"\\u0085 \\u202e \\udb40\\udc21\"\n]\n");
    free(text);
}

/* ---- names ---- */

TEST(names_are_shown_as_data)
{
    assert_string_equal(shown("a\nb\tc\r\033[2J\x7f"), "a\\nb\\tc\\r\\x1b[2J\\x7f");
    assert_string_equal(shown("caf\xe9 \xc0\x80 \xed\xa0\x80 \xe2\x82"),
                        "caf\\xe9 \\xc0\\x80 \\xed\\xa0\\x80 \\xe2\\x82");
    assert_string_equal(shown("\xc2\x9b"
                              "31m \xe2\x80\xa8 \xe2\x80\xae"
                              "moc \xef\xbb\xbf \xf3\xa0\x80\xa1"),
                        "\\u009b31m \\u2028 \\u202emoc \\ufeff \\U000e0021");
}

TEST(names_that_need_nothing_stay_as_they_are)
{
    static const char plain[] =
        "C:\\n caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac";
    assert_ptr_equal(shown(plain), plain);
    assert_ptr_equal(shown(NULL), NULL);
    const char *once = shown("a\nb");
    assert_ptr_equal(shown(once), once);
    assert_ptr_equal(shown("a\nb"), once);
}

TEST(names_are_cut_between_characters)
{
    char *cut = shown_cut("caf\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 7),
         *whole = shown_cut("caf\xc3\xa9", 4);
    assert_string_equal(cut, "caf\xc3\xa9...");
    assert_string_equal(whole, "caf\xc3\xa9");
    free(cut);
    free(whole);
}

/* ---- tables ---- */

TEST(tables_align_by_characters_and_let_no_control_character_through)
{
    static const char *const header[] = {"name", "n"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct table t;
    table_init(&t, "<>", header);
    table_cell(&t, "caf\xc3\xa9 au lait");
    table_cell(&t, "1");
    table_cell(&t, "\033[31m");
    table_cell(&t, "1000");
    table_rule(&t);
    table_print(&t, out, 1);
    table_free(&t);
    fclose(out);
    assert_string_equal(text, " name             n\n caf\xc3\xa9 au lait     1\n \\x1b[31m      1000\n"
                              " ────────────  ────\n");
    free(text);
}

/* ---- options ---- */

struct options {
    bool flag;
    const char *text, *word;
    int index;
    int64_t count, time, size[2];
    struct arg_list list;
};

static const struct option_row rows[] = {{"flag", 'f', NULL, ARG_FLAG, AT(flag), ""},
                                         {"text", 't', "X", ARG_TEXT, AT(text), ""},
                                         {"word", 'w', "one|other", ARG_WORD, AT(word), ""},
                                         {"index", 0, "a|b|c", ARG_INDEX, AT(index), ""},
                                         {"count", 'c', "N", ARG_COUNT, AT(count), ""},
                                         {"time", 0, "T", ARG_TIME, AT(time), ""},
                                         {"size", 0, "WxH", ARG_SIZE, AT(size), ""},
                                         {"list", 'l', "X", ARG_LIST, AT(list), ""},
                                         {0}};

static struct options given;
static char *operands[32];
static int operand_count;

static int keep(void *options, char **words, int n)
{
    given = *(struct options *)options;
    operand_count = n;
    memcpy(operands, words, ((size_t)n + 1) * sizeof *words);
    assert_string_equal(n && given.list.count ? given.list.values[0] : "L", "L"); /* freed behind us */
    return EXIT_INCOMPLETE;
}

static const struct command
    plain = {"test", "", "", "", rows, keep, COMMAND_OPTIONS(.index = -1, .count = 7)},
    stops = {"test", "", "", "", rows, keep, COMMAND_OPTIONS(), .stop_at_operand = true};

static int call(const struct command *c, const char *words)
{
    static char buffer[256], *argv[32];
    int argc = 0;
    snprintf(buffer, sizeof buffer, "test %s", words);
    for (char *s = strtok(buffer, " "); s; s = strtok(NULL, " "))
        argv[argc++] = s;
    argv[argc] = NULL;
    return command_call(c, argc, argv);
}

TEST(options_are_taken_in_every_form)
{
    assert_int_equal(
        call(&plain,
             "a --text=x -f b --count 3 --time 2ms --size=10x20 -c4 -wother --index=c -l L -lM -- -z"),
        EXIT_INCOMPLETE);
    assert_true(given.flag && given.count == 4 && given.time == 2000000 && given.size[0] == 10 &&
                given.size[1] == 20);
    assert_string_equal(given.text, "x");
    assert_string_equal(given.word, "other");
    assert_true(given.index == 2 && given.list.count == 2 && operand_count == 3);
    assert_string_equal(operands[0], "a");
    assert_string_equal(operands[1], "b");
    assert_string_equal(operands[2], "-z");
    assert_null(operands[3]);
    assert_int_equal(call(&plain, ""), EXIT_INCOMPLETE);
    assert_true(given.index == -1 && given.count == 7 && !given.word);
}

TEST(what_follows_the_command_of_run_is_left_alone)
{
    assert_int_equal(call(&stops, "-f python -c --flag -- x"), EXIT_INCOMPLETE);
    assert_int_equal(operand_count, 5);
    assert_string_equal(operands[1], "-c");
    assert_string_equal(operands[3], "--");
}

TEST(bad_options_are_refused)
{
    static const char *const bad[] = {
        "--flga",      "--count=x", "--count=-1", "--count=",         "--text",
        "--flag=1",    "-x",        "-fq",        "--size=10",        "--size=10x20x",
        "--time=soon", "--word=on", "--word=",    "--word=one|other", "--index=d"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(call(&plain, bad[i]), EXIT_USAGE);
}

TEST(only_near_names_are_suggested)
{
    static const char *const names[] = {"report", "recover", "run", "plot", NULL};
    assert_string_equal(args_nearest("repotr", names), "report");
    assert_string_equal(args_nearest("plo", names), "plot");
    assert_null(args_nearest("frobnicate", names));
}
