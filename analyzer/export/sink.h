/*
 * sink.h - where an export goes: a file, or standard output; and what becomes of it when that can't take any
 * more.
 *
 * What becomes of a file that can't be written whole, of links, pipes and devices: base/destination.h.
 */
#ifndef VS_EXPORT_SINK_H
#define VS_EXPORT_SINK_H

#include <stdio.h>

#include "base/destination.h"

struct sink {
    FILE *file;
    const char *path; /* NULL: standard output */
    struct destination to;
    bool replaces; /* another recording */
    int error;     /* errno of the first write that failed; 0: none did */
};

/* PATH NULL or "-": standard output, which can't be a terminal where BINARY.  SOURCE is the recording, which
 * is never written over; another one is where FORCE.  0, or EXIT_USAGE with the line said. */
int sink_open(struct sink *s, const char *path, bool binary, bool force, const char *source);
/* Makes the file what it is called where GOOD, and removes it where not, or where something was not written.
 * 0, or EXIT_USAGE with the line said. */
int sink_close(struct sink *s, bool good);

void sink_put(struct sink *s, const void *bytes, size_t n);
void sink_text(struct sink *s, const char *text);
void sink_format(struct sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
