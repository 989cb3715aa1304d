/*
 * test_role_words.c - the words for what a block is for are the same in roles.h and in the views of
 * schema.sql, which a file is read by without us.
 */
#include <sqlite3.h>

#include "unit/test.h"
#include "trace/roles.h"
#include "trace/store/files.h"

static sqlite3 *made(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, vs_schema_sql, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

TEST(the_view_of_words_is_the_table)
{
    sqlite3 *db = made();
    sqlite3_stmt *s;
    unsigned role = 0;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT role, before FROM role_word", -1, &s, NULL), SQLITE_OK);
    for (; sqlite3_step(s) == SQLITE_ROW; role++) {
        assert_true(role < VS_ROLE_COUNT);
        const char *word = (const char *)sqlite3_column_text(s, 0);
        assert_int_equal(vs_role_named(word), role);
        assert_string_equal(vs_role_before(word), (const char *)sqlite3_column_text(s, 1));
    }
    assert_int_equal(role, VS_ROLE_COUNT);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* Every rule of a life, and each word of a framework's. */
TEST(a_rule_has_the_same_role_in_sql)
{
    sqlite3 *db = made();
    sqlite3_stmt *s;
    for (int n = 1; n <= VS_LIFE_CACHE; n++) {
        if (n >= VS_FRAMEWORK_ROLES && !vs_life_is_rule((uint64_t)n))
            continue;
        char sql[64];
        snprintf(sql, sizeof sql, "INSERT INTO framework_role VALUES(%d, %d)", n, n);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT alloc_seq, role, rule FROM block_role", -1, &s, NULL),
                     SQLITE_OK);
    int rows = 0;
    for (; sqlite3_step(s) == SQLITE_ROW; rows++) {
        int n = sqlite3_column_int(s, 0);
        const char *said = (const char *)sqlite3_column_text(s, 1),
                   *word = vs_role_word(vs_role_of((uint64_t)n));
        if (strcmp(said, word) != 0)
            fail_msg("rule %d: '%s' in schema.sql, '%s' in roles.h", n, said, word);
        bool fits = !strstr((const char *)sqlite3_column_text(s, 2), "no rule fits");
        assert_true(fits || n == VS_LIFE_UNKNOWN);
    }
    assert_int_equal(rows, VS_FRAMEWORK_ROLES - 1 + VS_LIFE_CACHE - VS_LIFE_UNKNOWN + 1);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* The roles that accesses tell: what stands between THEN and the next quote in the view's first CASE. */
TEST(what_accesses_say_is_a_word_of_the_table)
{
    const char *at = strstr(vs_schema_sql, "CREATE VIEW access_role AS"),
               *end = at ? strstr(at, " END AS role") : NULL;
    int words = 0;
    assert_non_null(end);
    while ((at = strchr(at, '\'')) != NULL && at < end) {
        char word[64];
        size_t n = strcspn(++at, "'");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (vs_role_named(word) == VS_ROLE_UNTOLD && strcmp(word, vs_role_word(VS_ROLE_UNTOLD)) != 0)
            fail_msg("'%s' is in view access_role and not in roles.h", word);
        at += n + 1;
        words++;
    }
    assert_true(words > 8);
}
