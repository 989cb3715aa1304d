/*
 * join.c - whether a database and the journal that is to be merged into it belong together.
 *
 * A journal names the database that it completes, and a recovery writes there.  So a database that is not
 * empty must name the journal too, and it must have all events that the journal has handed back.  An older
 * copy or backup lacks some, which are then in neither of the two, and the rows that follow would be about
 * allocations that the database does not have.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int say(const struct vs_store *s, char *why, size_t n, const char *what)
{
    snprintf(why, n, "%s: %s", s->config.path, what);
    return -ESTALE;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Compares file names only, because the journal may have been moved to survive a reboot.  The name contains
 * pid and start time of its process. */
static bool same_journal(const char *named, const char *path)
{
    struct stat a, b;
    if (strcmp(named, path) == 0)
        return true;
    if (stat(named, &a) == 0)
        return stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return strcmp(name_of(named), name_of(path)) == 0;
}

static bool names_journal(sqlite3 *db, const char *journal)
{
    sqlite3_stmt *q;
    bool same = false;
    if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key='journal'", -1, &q, NULL) != SQLITE_OK)
        return false;
    const char *named = sqlite3_step(q) == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    same = named && same_journal(named, journal);
    sqlite3_finalize(q);
    return same;
}

/* Whether the database is a copy: then the journal's own database is another file, which also names the
 * journal. */
static bool is_copy(struct vs_store *s)
{
    const char *original = vs_journal_database(s->journal);
    struct stat st;
    sqlite3 *db = NULL;
    if (stat(original, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 ||
        (st.st_dev == s->config.recovered_file->st_dev && st.st_ino == s->config.recovered_file->st_ino))
        return false;
    bool copy = sqlite3_open_v2(original, &db, SQLITE_OPEN_READONLY, "unix") == SQLITE_OK &&
                names_journal(db, s->config.journal_path);
    sqlite3_close(db);
    return copy;
}

/* Sequences below the ring's tail were committed to some database, or belong to slots that were killed
 * unread. */
static bool older_than_journal(struct vs_store *s)
{
    struct vs_journal_stats j;
    uint64_t upto = s->fresh ? 0 : (uint64_t)vs_store_number(s, "SELECT ring_seq FROM mark", 0);
    vs_journal_stats(s->journal, &j);
    return j.tail > upto + 1 + j.dead;
}

bool vs_store_merged(struct vs_store *s)
{
    return !s->fresh &&
           vs_store_number(s, "SELECT max(value) FROM meta WHERE key = 'journal_merged'", 0) == 1;
}

int vs_store_join(struct vs_store *s, char *why, size_t why_size)
{
    if (!s->fresh && !names_journal(s->db, s->config.journal_path))
        return say(s, why, why_size, "does not name this journal: it is another run's");
    if (is_copy(s))
        return say(s, why, why_size, "is a copy: the journal completes the original, recover that");
    if (!older_than_journal(s))
        return 0;
    return say(s, why, why_size,
               s->fresh
                   ? "is empty, but the journal continues a database: if that was moved, name the file "
                     "that it is now"
                   : "lacks events that the journal has handed back: it is a copy, recover the original");
}
