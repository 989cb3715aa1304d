/*
 * contain.h - what a program writes goes nowhere: in a mount namespace of its own each file system that it
 * could write to has an overlay of memory on it.
 *
 *      begin --> in the child: enter --> started --> the program runs --> end: what it wrote
 *
 * Files that were written go with the namespace.  FOLDER and the journals stay the machine's own.
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

#endif
