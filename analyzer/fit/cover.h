/*
 * cover.h - a second tree of files: the machine's own, with overlays on all that can be written to.
 *
 *      SCRATCH/root       the new tree
 *      SCRATCH/up/N       what was written of overlay N, SCRATCH/work/N the kernel's own, SCRATCH/of/N a link
 * to the directory that it lies on
 */
#ifndef VS_FIT_COVER_H
#define VS_FIT_COVER_H

#include <stdbool.h>

#include "mounts.h"

struct cover {
    const char *scratch;
    bool user; /* in a user namespace */
    struct mounts mounts;
    int overlays;
};

/* Builds the tree; 0, or an errno. */
int cover_all(struct cover *c);
/* DIRECTORY of the machine's own in the place of what covers it. */
int cover_not(const struct cover *c, const char *directory);

#endif
