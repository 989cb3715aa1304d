/*
 * pickle.h - writes pickles, the serialisation of Python: as much of it as a snapshot of PyTorch's allocator
 * needs.
 *
 * The format is defined by CPython's Lib/pickletools.py: opcodes for a machine with a stack and a memo.  Here
 * protocol 4's opcodes are written that build None, booleans, whole numbers, texts, lists, tuples and dicts.
 * No class is among them, so any unpickler may read it.  PyTorch's page in JavaScript knows these opcodes,
 * too.  Texts have to be UTF-8 (places.h makes them so).
 */
#ifndef VS_EXPORT_PICKLE_H
#define VS_EXPORT_PICKLE_H

#include "map.h"
#include "sink.h"

struct pickle {
    struct sink *out;
    struct texts texts; /* that are in the memo */
    int64_t *memo_of;   /* by index in texts */
    int64_t memo;       /* entries so far */
};

void pickle_begin(struct pickle *p, struct sink *out);
void pickle_end(struct pickle *p); /* what was built is the result; frees P's tables */

void pickle_int(struct pickle *p, int64_t value);
void pickle_float(struct pickle *p, double value);
void pickle_bool(struct pickle *p, bool value);
/* Later ones of the same refer to the first. */
void pickle_text(struct pickle *p, const char *text);

void pickle_dict(struct pickle *p);  /* an empty one, on which then stands: */
void pickle_items(struct pickle *p); /* ... keys and values between these two */
void pickle_set(struct pickle *p);
void pickle_list(struct pickle *p); /* an empty one, and in pieces of some hundred: */
void pickle_mark(struct pickle *p); /* ... elements between these two */
void pickle_append(struct pickle *p);
void pickle_pair(struct pickle *p); /* a tuple of the last two */

/* Keeps what was built last, and gives it again. */
int64_t pickle_keep(struct pickle *p);
void pickle_again(struct pickle *p, int64_t kept);

#endif
