/*
 * apart.h - files that a program changes, in a folder apart: the machine's own stay as they are.
 *
 *      DIR/up/PATH       what was written in the place of PATH
 *      DIR/cwd           a link to where the program was started
 *      DIR/gone/PATH^A   a mark: PATH was removed; what is in its place since lies in up
 *
 * DIR is what VRAMSCOPE_DRY_WRITES names.  A path is looked up there first; what is opened for writing is
 * copied there before.  New files below TMPDIR, /tmp, /dev/shm and the user's cache, but not below DIR/cwd,
 * are made where they are wanted: compilers and the loader look for them there without asking us.  A
 * directory's list lacks what lies apart.
 *
 * No function here allocates or takes a lock, and errno is the caller's unless it fails.
 */
#ifndef DRY_WRITES_APART_H
#define DRY_WRITES_APART_H

#include <limits.h>
#include <stdbool.h>

#define APART_MARK "\001" /* behind a name: a mark is no directory that marks lie in */

struct apart {
    char real[PATH_MAX]; /* absolute, links followed */
    char left[PATH_MAX]; /* while it is looked for: what is not followed yet */
    char up[PATH_MAX + 64], gone[PATH_MAX + 64];
    bool other; /* a link that lies apart led there: REAL stands for the path */
    bool ours;  /* it is one that can be kept apart: not one of the kernel's, or in DIR already */
};

/* Fills A of PATH, which is relative to DIRECTORY (AT_FDCWD), with the last name's link followed where LAST;
 * false: nothing is kept apart. */
bool apart_find(struct apart *a, int directory, const char *path, bool last);
/* The path that is to be read in its place: PATH itself, or where it lies apart; NULL with ENOENT: it was
 * removed. */
const char *apart_to_read(struct apart *a, const char *path);
/* The path that is to be written, with what is there COPIED before; NULL with errno. */
const char *apart_to_write(struct apart *a, const char *path, bool copied);
/* The same for what is made new: directories, links.  PATH where there is such a name, so that the kernel
 * says it. */
const char *apart_to_make(struct apart *a, const char *path);
bool apart_is_there(const struct apart *a);
/* Removes it; 0, or -1 with errno. */
int apart_remove(struct apart *a, bool directory);
int apart_rename(struct apart *from, struct apart *to);

#endif
