/* test_shown.c - names as words of a command that is to be copied into a shell. */

#include "unit/test.h"
#include "base/shown.h"

TEST(a_word_is_quoted_where_a_shell_would_change_it)
{
    assert_string_equal(shown_word("runs/a-1_b.db#2:batch=4,seq=8"), "runs/a-1_b.db#2:batch=4,seq=8");
    assert_string_equal(shown_word("l\xc3\xa4ufe.db"), "l\xc3\xa4ufe.db");
    assert_string_equal(shown_word("my run.db"), "'my run.db'");
    assert_string_equal(shown_word("it's.db"), "'it'\\''s.db'");
    assert_string_equal(shown_word("$HOME;x"), "'$HOME;x'");
    assert_string_equal(shown_word("#1"), "'#1'");
    assert_string_equal(shown_word(""), "''");
}

TEST(a_word_is_harmless_to_a_terminal)
{
    assert_string_equal(shown_word("a\nb"), "'a\\nb'");
    assert_string_equal(shown_word("a\nb"), shown_word("a\nb")); /* kept */
}
