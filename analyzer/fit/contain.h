/*
 * contain.h - what a program writes stays in memory: in a mount namespace of its own each file system that it
 * could write to has an overlay of memory on it.  When it ends, the files that it wrote are listed, copied if
 * that is wanted, and go with the namespace; FOLDER and the journals stay the machine's own.
 *
 *      begin --> in the child: enter --> started --> the program runs --> end: what it wrote
 */
#ifndef VS_FIT_CONTAIN_H
#define VS_FIT_CONTAIN_H

#include "base/base.h"

struct contain {
    char *scratch;    /* FOLDER/scratch: where the memory is mounted, seen by the program's processes alone */
    char *folder;     /* of the recording */
    char *caches;     /* that further runs begin with; NULL */
    char *journals;   /* NULL: in the folder */
    const char *keep; /* where copies go of what was written; NULL */
    int64_t room;     /* bytes that can be written */
    int ends[2];      /* a socket, for the scratch as a descriptor */
};

enum written_how { WRITTEN_CREATED, WRITTEN_CHANGED, WRITTEN_DELETED };

struct written_file {
    char *path;
    int64_t bytes;
    enum written_how how;
};

struct written {
    struct written_file *files;
    size_t n;
    int64_t bytes, room;
    bool full; /* all the room was taken: the program may have been refused more */
};

/* Whether this machine allows it, by trying. */
bool contain_possible(const char *folder);
/* 0, or -1 with errno. */
int contain_begin(struct contain *c, const char *folder, const char *caches, const char *keep);
/* In the child, single-threaded: 0, or an errno. */
int contain_enter(const struct contain *c);
/* In the child: files that it was started with, beyond its output and errors, are not written to either.
 * Where it is CONTAINED they are of its own tree, else they can be read alone. */
void contain_descriptors(bool contained);
void contain_started(struct contain *c);
void contain_end(struct contain *c, struct written *w);
void written_free(struct written *w);

/* ---- what a program wrote, as its overlays have it (written.c) ---- */

/* SCRATCH: its descriptor.  Copies of it below KEEP, where that is not NULL. */
void written_read(struct written *w, int scratch, const char *keep);
/* The same where a library keeps files apart, in FOLDER/apart (dry/writes/apart.h).  0, or 2, said. */
int written_make_apart(const char *folder);
void written_read_apart(struct written *w, const char *folder, const char *keep);

/*
 * ---- the machine's files as a second tree, with overlays on all that can be written to (cover.c) ----
 *
 *      SCRATCH/root       the new tree
 *      SCRATCH/up/N       what was written of overlay N, SCRATCH/own/N the kernel's own, SCRATCH/of/N a link
 * to the directory that it lies on
 */

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
