/*
 * alias.c - see alias.h.
 *
 * The link lies in a directory that only this user can write, ~/.cache/vramscope or /tmp/vramscope-<uid>: a
 * user who could change it could make our programs load any library.  It is named by its target and made
 * once.  It is never removed: a program that outlives us may start others, and for each of those the loader
 * would complain about a missing library.
 */
#include "alias.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

bool alias_needless(const char *path)
{
    return !strpbrk(path, " \t\n:");
}

/* Creates DIRECTORY if necessary; true: only this user can write to it. */
static bool is_ours(const char *directory)
{
    struct stat st;
    if (mkdir(directory, 0700) && errno != EEXIST)
        return false;
    return !lstat(directory, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* "<PARENT>/vramscope", if that is usable; NULL otherwise. */
static char *in_cache(const char *parent)
{
    char *directory = xformat("%s/vramscope", parent);
    if (*directory == '/' && alias_needless(directory) && (!mkdir(parent, 0700) || errno == EEXIST) &&
        is_ours(directory))
        return directory;
    free(directory);
    return NULL;
}

static char *private_directory(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *parent = cache && *cache ? xstrdup(cache) : xformat("%s/.cache", home ? home : "");
    char *directory = in_cache(parent);
    free(parent);
    if (directory)
        return directory;
    directory = xformat("/tmp/vramscope-%ld", (long)geteuid());
    if (is_ours(directory))
        return directory;
    free(directory);
    return NULL;
}

static bool points_to(const char *link, const char *target)
{
    char at[PATH_MAX];
    ssize_t n = readlink(link, at, sizeof at);
    return n > 0 && (size_t)n == strlen(target) && !memcmp(at, target, (size_t)n);
}

/* Creates the link under a name of this process's own and renames it, so that two processes can do so at
 * once. */
static bool make_link(const char *link, const char *target)
{
    char *own = xformat("%s.%ld", link, (long)getpid());
    unlink(own);
    bool made = !symlink(target, own) && !rename(own, link);
    if (!made)
        unlink(own);
    free(own);
    return made;
}

static uint64_t hash(const char *text) /* FNV-1a */
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

char *alias_of(const char *directory)
{
    char *in = private_directory();
    if (!in)
        return NULL;
    char *link = xformat("%s/%016llx", in, (unsigned long long)hash(directory));
    free(in);
    if (points_to(link, directory) || make_link(link, directory))
        return link;
    free(link);
    return NULL;
}
