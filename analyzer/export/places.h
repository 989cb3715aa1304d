/*
 * places.h - call stacks as other tools know them: a path of places, each a name, a file and a line.
 *
 * An autograd node is shown as a function "backward: AddmmBackward0" over the forward code that made it; a
 * layer calls nothing and is left out.  Names are harmless (base/shown.h) and short (base/shown.h): UTF-8
 * without line breaks, whatever the program called its functions.
 */
#ifndef VS_EXPORT_PLACES_H
#define VS_EXPORT_PLACES_H

#include "export.h"
#include "read/stacks.h"

struct place {
    const char *name, *file; /* never NULL; file "" where nobody knows it */
    const char *whole;       /* the name with what cxx_name leaves out */
    int64_t line;            /* 0: unknown */
};

struct places {
    struct trace_stacks stacks;
    struct place *at; /* by index of the frame; name NULL: not asked for yet */
    char **owned;
    size_t owned_count;
    enum export_frames frames;
    int64_t *path; /* of the stack that was asked for last */
    size_t path_count;
};

/* 0, or -1 with t->why. */
int places_load(struct places *p, struct trace *t, enum export_frames frames);
void places_free(struct places *p);

/* The frames of stack ID that are wanted, innermost first, as indices for places_at; lives until the next
 * call. */
const int64_t *places_path(struct places *p, int64_t id, size_t *n);
const struct place *places_at(struct places *p, int64_t frame);

/* What stands for the call stack of what has none (of the wanted kind), and was asked for by OWNER, NULL
 * unknown: "direct, for libcublasLt.so.13 (no call stack)".  The caller frees it. */
char *places_stackless(const struct places *p, const char *category, const char *owner);

#endif
