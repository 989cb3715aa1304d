/*
 * cover.h - a second tree of files: the machine's own, with overlays on all that can be written to.
 *
 *      SCRATCH/root       the new tree
 *      SCRATCH/up/N       what was written of overlay N, SCRATCH/own/N the kernel's own, SCRATCH/of/N a link
 * to the directory that it lies on
 */
#ifndef VS_FIT_COVER_H
#define VS_FIT_COVER_H

#include "base/base.h"

struct mount_point {
    char *path;
    bool read_only;
    bool kernels; /* no files of anybody's: proc, sysfs, devices */
};

struct mounts {
    struct mount_point *all;
    size_t n;
};

struct cover {
    const char *scratch;
    const char *cwd;
    bool user; /* in a user namespace */
    struct mounts mounts;
    int overlays;
};

/* What is mounted, as /proc/self/mountinfo says; 0, or an errno. */
int mounts_read(struct mounts *m);
void mounts_free(struct mounts *m);
/* Builds the tree; 0, or an errno.  The mounts were read before the scratch was one. */
int cover_all(struct cover *c);
/* DIRECTORY of the machine's own in the place of what covers it. */
int cover_not(const struct cover *c, const char *directory);

#endif
