/* mounts.h - what is mounted, as /proc/self/mountinfo says. */
#ifndef VS_FIT_MOUNTS_H
#define VS_FIT_MOUNTS_H

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

/* 0, or an errno. */
int mounts_read(struct mounts *m);
void mounts_free(struct mounts *m);
/* What is mounted on PATH itself, the last where there are several; NULL: nothing. */
const struct mount_point *mounts_at(const struct mounts *m, const char *path);
/* Whether PATH lies below DIRECTORY. */
bool mounts_below(const char *path, const char *directory);
/* Whether I is below DIRECTORY with no other mount between. */
bool mounts_next_below(const struct mounts *m, size_t i, const char *directory);

#endif
