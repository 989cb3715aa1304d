/*
 * cover.h - a second tree of files: the machine's own, with overlays on all that can be written to.
 *
 *      SCRATCH/root       the new tree
 *      SCRATCH/up/N       what was written of overlay N, SCRATCH/own/N the kernel's own, SCRATCH/of/N a link
 * to the directory that it lies on
 */
#ifndef VS_FIT_COVER_H
#define VS_FIT_COVER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "mounts.h"

/* A file that is copied without being written to, at most. */
enum { COVER_SMALL = 1 << 20 };

struct cover {
    const char *scratch;
    const char *cwd;
    bool user; /* in a user namespace */
    struct mounts mounts;
    int overlays;
};

/* Like those at PATH; 0, or an errno. */
int cover_make_directory(const char *directory, const char *path);
int cover_copy_file(const char *path, const char *target, const struct stat *st);
/* Builds the tree; 0, or an errno.  The mounts were read before the scratch was one. */
int cover_all(struct cover *c);
/* In a user namespace the kernel can give its copy of a file to no user or group but ours, and so it changes
 * nothing that is another's.  This makes DIRECTORY, which lies in OVERLAID, ours in UPPER, the upper
 * directory of an overlay that is not mounted yet.  BELOW: what can be written in DIRECTORY, too. */
void cover_others(const char *directory, bool below, const char *overlaid, const char *upper);
/* DIRECTORY of the machine's own in the place of what covers it. */
int cover_not(const struct cover *c, const char *directory);

#endif
