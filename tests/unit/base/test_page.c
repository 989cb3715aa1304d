/* test_page.c - what is printed fits the page: its width, its characters, and tables that lose detail in
 * their order. */

#include "unit/test.h"
#include "base/args.h"
#include "base/page.h"
#include "base/table.h"
#include "base/units.h"

TEST(times_as_printed_are_times_as_accepted)
{
    static const int64_t times[] = {1500,        12300000,     801000000,     1500000000,
                                    99400000000, 125000000000, 7380000000000, 15360000000000};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t read = -1;
        assert_true(units_read_time(units_time(times[i]).s, &read));
        assert_int_equal(read, times[i]);
    }
    int64_t ns = 0;
    assert_true(units_read_time("4h16min", &ns) && ns == 15360000000000);
    assert_true(units_read_time("1 min 2.5 s", &ns) && ns == 62500000000);
    assert_false(units_read_time("16 min 4 h", &ns));
    assert_false(units_read_time("4 h 16", &ns));
    assert_false(units_read_time("4 h h", &ns));
    assert_false(units_read_time("2 minutes", &ns));
}

TEST(columns_says_how_wide_the_page_is)
{
    setenv("COLUMNS", "123", 1);
    assert_int_equal(page_width(), 123);
    setenv("COLUMNS", "3", 1);
    assert_int_equal(page_width(), 20);
    setenv("COLUMNS", "wide", 1);
    assert_true(page_width() > 0);
    unsetenv("COLUMNS");
}

TEST(the_first_locale_that_is_set_says_whether_ascii_is_wanted)
{
    static const struct {
        const char *all, *ctype, *lang;
        bool ascii;
    } cases[] = {{NULL, NULL, NULL, false},         {"C", NULL, "en_US.UTF-8", true},
                 {"", NULL, "C.UTF-8", false},      {NULL, "POSIX", "C.UTF-8", true},
                 {NULL, NULL, "de_DE.utf8", false}, {NULL, NULL, "en_US.ISO-8859-1", true}};
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *values[] = {cases[i].all, cases[i].ctype, cases[i].lang};
        for (int k = 0; k < 3; k++)
            values[k] ? setenv(names[k], values[k], 1) : unsetenv(names[k]);
        assert_int_equal(page_ascii(), cases[i].ascii);
    }
    setenv("LC_ALL", "C.UTF-8", 1);
    char *text = page_in_ascii("▸ ≤ 1 ─│ 前");
    assert_string_equal(text, "> <= 1 -| \\u524d");
    free(text);
}

TEST(wide_characters_take_two_columns_and_colours_none)
{
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("前向"), 4);
    assert_int_equal(text_width("e\xcc\x81"), 1);
    assert_int_equal(text_width("\033[38;2;1;2;3mx\033[0m"), 1);
}

static char *printed(const struct table *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    table_print(t, out, 2);
    fclose(out);
    return text;
}

static void fill(struct table *t)
{
    static const char *const header[] = {"line", "ranges", "time", "peak"};
    table_init(t, "<>>>", header);
    table_drops(t, "-12-");
    table_cell(t, "/home/ada/some/where/far/away/model.py:41 Model.forward");
    table_cell(t, "1234567");
    table_cell(t, "12 min 03 s");
    table_cell(t, "12.34 GiB");
}

TEST(a_table_loses_detail_in_the_order_that_is_stated)
{
    static const struct {
        const char *columns;
        bool whole, ranges, time;
    } cases[] = {{"120", true, true, true},
                 {"80", false, true, true},
                 {"56", false, false, true},
                 {"44", false, false, false}};
    struct table t;
    fill(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("COLUMNS", cases[i].columns, 1);
        char *text = printed(&t);
        assert_int_equal(strstr(text, "/home/ada/some/where/far/away/model.py:41 Model.forward") != NULL,
                         cases[i].whole);
        assert_int_equal(strstr(text, "1234567") != NULL, cases[i].ranges);
        assert_int_equal(strstr(text, "12 min 03 s") != NULL, cases[i].time);
        assert_int_equal(strstr(text, "no room for: ranges") != NULL, !cases[i].ranges);
        assert_non_null(strstr(text, "12.34 GiB"));
        assert_non_null(strstr(text, "Model.forward"));
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            if (!strstr(line, "no room"))
                assert_true((long)text_width(line) <= atol(cases[i].columns));
        free(text);
    }
    unsetenv("COLUMNS");
    table_free(&t);
}

TEST(a_place_in_the_code_keeps_its_line)
{
    static const struct {
        const char *place, *columns, *shown;
    } cases[] = {
        {"modeling_llama.py:217 LlamaDecoderLayer.forward", "80",
         "modeling_llama.py:217 LlamaDecoderLayer.forward"},
        {"modeling_llama.py:217 LlamaDecoderLayer.forward", "47",
         "modeling_llama.py:217 ...DecoderLayer.forward"},
        {"forward: modeling_llama.py:217 Layer.forward", "44", "forward: modeling_llama.py:217 ....forward"},
        {"forward: modeling_llama.py:217 Layer.forward", "40", "forward: modeling_llama.py:217"},
        {"a_file_with_a_very_long_name_indeed.py:217 f", "30", "...y_long_name_indeed.py:217"},
        {"/home/ada/far/away/train.py:5 Model.forward", "32", "...ay/train.py:5 Model.forward"},
        {"Llama.model.layers.self_attn.q_proj.weight", "30", "Llama.mo...ttn.q_proj.weight"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table t;
        table_init(&t, "<", NULL);
        table_cell(&t, "%s", cases[i].place);
        setenv("COLUMNS", cases[i].columns, 1);
        char *text = printed(&t);
        text[strcspn(text, "\n")] = 0;
        assert_string_equal(text + 2, cases[i].shown);
        free(text);
        table_free(&t);
    }
    unsetenv("COLUMNS");
}

/* Were each character left out by measuring all that follow, this would take hours. */
TEST(a_name_of_a_megabyte_is_cut_in_one_pass)
{
    static char name[(1 << 20) + 1];
    struct table t;
    char *text = NULL;
    size_t size;
    memset(name, 'x', sizeof name - 1);
    memcpy(name + sizeof name - 4, "end", 3);
    setenv("COLUMNS", "40", 1);
    table_init(&t, "<", NULL);
    table_cell(&t, "%s", name);
    FILE *out = open_memstream(&text, &size);
    table_print(&t, out, 0);
    fclose(out);
    assert_true(size <= 41);
    assert_non_null(strstr(text, "...xxx"));
    assert_string_equal(text + size - 4, "end\n");
    free(text);
    table_free(&t);
}

TEST(as_many_rows_are_shown_as_somebody_says)
{
    struct choice c = CHOICE_NONE;
    assert_int_equal(choice_rows(&c, 5, 3), 3);
    c.top = 0;
    assert_int_equal(choice_rows(&c, 5, 3), 5);
    c.top = 2;
    assert_int_equal(choice_rows(&c, 5, 3), 2);
}
