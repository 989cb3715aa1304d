/* leftover.c - see leftover.h. */
#include "leftover.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/writer.h"

static void scan_directory(const char *directory, char ***paths, size_t *n)
{
    DIR *d = opendir(directory);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        size_t length = strlen(e->d_name), suffix = strlen(VS_JOURNAL_SUFFIX);
        if (length > suffix && !strcmp(e->d_name + length - suffix, VS_JOURNAL_SUFFIX))
            *PUSH(*paths, *n) = xformat("%s/%s", directory, e->d_name);
    }
    closedir(d);
}

static bool seen_before(char *const *paths, size_t n, const char *real)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(paths[i], real))
            return true;
    return false;
}

/* The same directory may be named twice (cwd is the database's): every journal once. */
static size_t make_unique(char **paths, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        char *real = realpath(paths[i], NULL);
        free(paths[i]);
        if (real && !seen_before(paths, kept, real))
            paths[kept++] = real;
        else
            free(real);
    }
    return kept;
}

char **leftover_scan(const char *directory, size_t *n)
{
    char **paths = NULL;
    const char *chosen = getenv("VRAMSCOPE_JOURNAL_DIR");
    *n = 0;
    if (chosen && *chosen)
        scan_directory(chosen, &paths, n);
    scan_directory("/dev/shm", &paths, n);
    scan_directory(directory ? directory : ".", &paths, n);
    *n = make_unique(paths, *n);
    return paths;
}

char *leftover_database(const char *journal, bool *alive)
{
    struct vs_journal *j;
    if (vs_journal_open(&j, journal, false))
        return NULL;
    char *database = xstrdup(vs_journal_database(j));
    *alive = vs_journal_owner_alive(j);
    vs_journal_close(j);
    return database;
}

static bool same_file(const char *a, const char *b)
{
    char *ra = realpath(a, NULL), *rb = realpath(b, NULL);
    bool same = ra && rb && !strcmp(ra, rb);
    free(ra);
    free(rb);
    return same;
}

static char *directory_of(const char *path)
{
    char *copy = xstrdup(path), *slash = strrchr(copy, '/');
    if (!slash) {
        free(copy);
        return xstrdup(".");
    }
    slash[slash == copy] = 0;
    return copy;
}

char *leftover_find(const char *database)
{
    size_t n;
    char *directory = directory_of(database), *found = NULL;
    char **paths = leftover_scan(directory, &n);
    for (size_t i = 0; i < n; i++) {
        bool alive;
        char *of = found ? NULL : leftover_database(paths[i], &alive);
        if (of && same_file(of, database))
            found = xstrdup(paths[i]);
        free(of);
        free(paths[i]);
    }
    free(paths);
    free(directory);
    return found;
}

enum leftover_state leftover_merge(const char *journal, const char *database, long *events, char *why,
                                   size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    *events = 0;
    long got = vs_recover(journal, database, why, why_size);
    if (got == -EBUSY)
        return LEFTOVER_RUNNING;
    if (got == -ENOENT)
        return LEFTOVER_NONE;
    if (got < 0) {
        if (!*why)
            snprintf(why, why_size, "journal %s can't be merged: %s", journal, strerror((int)-got));
        return LEFTOVER_FAILED;
    }
    *events = got;
    return LEFTOVER_RECOVERED;
}
