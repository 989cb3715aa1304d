/*
 * place.c - finds the tree of this installation (place.h).
 *
 *      TREE/bin/vramscope        an installed tree, or a build
 *      PREFIX/bin/vramscope      of a wheel; the tree is the Python package, which lies in
 *          PREFIX/lib/python3.12/site-packages/vramscope     as pip, uv and pipx install it, or in
 *          PREFIX/vramscope                                  after `pip install --target PREFIX`
 *
 * Several versions of Python can share a prefix, each with a package of its own; bin/ has the command of the
 * wheel that was installed last.  So the package is taken that pip has noted with this command's own version.
 */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define LIBRARY "lib/libvramscope.so"

static bool is_tree(const char *directory)
{
    char *library = xformat("%s/" LIBRARY, directory);
    bool is = !access(library, F_OK);
    free(library);
    return is;
}

/* The tree in a directory of Python packages, where this version's wheel is installed there; NULL otherwise.
 */
static char *tree_in_packages(const char *directory)
{
    char *note = xformat("%s/vramscope-" VRAMSCOPE_VERSION ".dist-info", directory);
    char *tree = xformat("%s/vramscope", directory);
    bool there = !access(note, F_OK) && is_tree(tree);
    free(note);
    if (there)
        return tree;
    free(tree);
    return NULL;
}

/* The same in LIBRARIES/python3.X/, for any X. */
static char *tree_in_pythons(const char *libraries)
{
    static const char *const kinds[] = {"site-packages", "dist-packages"}; /* the second is Debian's */
    char *tree = NULL;
    DIR *d = opendir(libraries);
    for (struct dirent *e; d && !tree && (e = readdir(d));) {
        for (size_t i = 0; !strncmp(e->d_name, "python", 6) && !tree && i < sizeof kinds / sizeof *kinds;
             i++) {
            char *packages = xformat("%s/%s/%s", libraries, e->d_name, kinds[i]);
            tree = tree_in_packages(packages);
            free(packages);
        }
    }
    if (d)
        closedir(d);
    return tree;
}

static char *tree_of_wheel(const char *prefix)
{
    static const char *const libraries[] = {"lib", "lib64"};
    char *tree = tree_in_packages(prefix);
    for (size_t i = 0; !tree && i < sizeof libraries / sizeof *libraries; i++) {
        char *directory = xformat("%s/%s", prefix, libraries[i]);
        tree = tree_in_pythons(directory);
        free(directory);
    }
    return tree;
}

static char *find_tree(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return xstrdup("/usr");
    self[n] = 0;
    for (int up = 0; up < 2; up++) { /* removes the command's name, then bin/ */
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
    }
    char *tree = is_tree(self) ? NULL : tree_of_wheel(self);
    return tree ? tree : xstrdup(self);
}

char *place_of(const char *relative)
{
    static char *tree; /* lives as long as the command */
    if (!tree)
        tree = find_tree();
    return xformat("%s/%s", tree, relative);
}

/* ---- a directory whose name has blanks or colons by a name without them ---- */

bool place_listable(const char *path)
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
    if (*directory == '/' && place_listable(directory) && (!mkdir(parent, 0700) || errno == EEXIST) &&
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

/* The name of a link to DIRECTORY that can be in LD_PRELOAD; NULL: there is no place for one.  It lies in a
 * directory that only this user can write, ~/.cache/vramscope or /tmp/vramscope-<uid>, as a user who could
 * change it could make our programs load any library.  It is named by its target, made once and never
 * removed: a program that outlives us may start others, and for each the loader would complain about a
 * missing library. */
static char *alias_of(const char *directory)
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

char *place_listed(const char *relative)
{
    char *path = place_of(relative), *prefix, *alias;
    if (place_listable(path))
        return path;
    prefix = xformat("%.*s", (int)(strlen(path) - strlen(relative) - 1), path);
    if ((alias = alias_of(prefix))) {
        free(path);
        path = xformat("%s/%s", alias, relative);
    }
    free(alias);
    free(prefix);
    return path;
}

char *place_library(char *why, size_t why_size)
{
    char *path = place_listed(LIBRARY);
    if (!access(path, R_OK))
        return path;
    snprintf(why, why_size, "%s is missing: reinstall vramscope, bin/ and lib/ belong side by side", path);
    free(path);
    return NULL;
}

char *place_stand_ins(const char *name)
{
    static const char *const places[] = {"lib/vramscope/%s", "%s"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *relative = xformat(places[i], name), *path = place_listed(relative);
        free(relative);
        if (!access(path, X_OK))
            return path;
        free(path);
    }
    return NULL;
}

char *place_python(void)
{
    char *path = place_listed("share/vramscope/python");
    if (!access(path, X_OK))
        return path;
    free(path);
    return NULL;
}
