/*
 * sink.h - where an export goes: a file, or standard output; and what becomes of it when that can't take any
 * more.
 *
 * A file is written beside its name, as FILE.part, and gets its name when it is whole: nobody finds half an
 * export, and the one that was there stays until then.  What is no regular file (a pipe, /dev/null) is
 * written as it is.
 */
#ifndef VS_EXPORT_SINK_H
#define VS_EXPORT_SINK_H

#include <stdio.h>

#include "base/base.h"

struct sink {
    FILE *file;
    const char *path; /* NULL: standard output */
    char *part;       /* what is written meanwhile; NULL: PATH itself */
    int error;        /* errno of the first write that failed; 0: none did */
};

/* PATH NULL or "-": standard output, which can't be a terminal where BINARY.  SOURCE is the recording, which
 * is never written over.  0, or EXIT_USAGE with the line said. */
int sink_open(struct sink *s, const char *path, bool binary, const char *source);
/* Makes the file what it is called where GOOD, and removes it where not, or where something was not written.
 * 0, or EXIT_USAGE with the line said. */
int sink_close(struct sink *s, bool good);

void sink_put(struct sink *s, const void *bytes, size_t n);
void sink_text(struct sink *s, const char *text);
void sink_format(struct sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
