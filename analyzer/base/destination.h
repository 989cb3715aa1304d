/*
 * destination.h - the file that a command writes: whole, or not at all.
 *
 * A regular file is written as FILE.part (FILE.part2 where that is there, and so on) and gets its name when
 * it is whole; until then a file of that name stays.  Of a link the target is written.  A pipe or a device
 * is written as it is, and never replaced.
 */
#ifndef VS_BASE_DESTINATION_H
#define VS_BASE_DESTINATION_H

#include "base.h"

struct destination {
    const char *command, *asked; /* of destination_open */
    char *path;                  /* where links lead to */
    char *part;                  /* what is written meanwhile; NULL: PATH itself */
    bool made;                   /* PART is there, and ours */
    int error;                   /* errno, where it could not be made */
};

/* Makes the part, too: destination_end must follow. */
void destination_find(struct destination *d, const char *path);
/* The name to open for writing. */
const char *destination_name(const struct destination *d);
/* Gives the file its name where GOOD, and removes it where not.  0, or errno: then it is removed, too. */
int destination_end(struct destination *d, bool good);

/* Both, of a stream: opens it, NULL: said in the name of COMMAND, closes it; 0, or 2, said: not all could be
 * written. */
FILE *destination_open(struct destination *d, const char *command, const char *path);
int destination_close(struct destination *d, FILE *out, bool good);

/* Says that COMMAND cannot write PATH, by errno, and what to do; 0: the disk may be full.  Returns 2. */
int destination_failed(const char *command, const char *path, int error);

/* Whether both are names of one file, which exists. */
bool same_file(const char *a, const char *b);

#endif
