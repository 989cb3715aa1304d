/*
 * pickle.h - writes pickles, as much of them as a snapshot of PyTorch's allocator needs.
 *
 * CPython's Lib/pickletools.py defines the format: opcodes for a machine with a stack and a memo.  We write
 * protocol 4's opcodes for booleans, numbers, texts, lists, tuples and dicts: no class is among them, so any
 * unpickler may read it, and PyTorch's page in JavaScript can.  Texts have to be UTF-8.
 */
#ifndef VS_EXPORT_PICKLE_H
#define VS_EXPORT_PICKLE_H

#include "export.h"
#include "map.h"

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

/* A dict begins, then come keys and values, and set ends it. */
void pickle_dict(struct pickle *p);
void pickle_set(struct pickle *p);
/* A list begins, then come its elements, and append ends it.  After each few hundred, append and mark. */
void pickle_list(struct pickle *p);
void pickle_mark(struct pickle *p);
void pickle_append(struct pickle *p);
void pickle_pair(struct pickle *p); /* a tuple of the last two */

/* Keeps what was built last, and gives it again. */
int64_t pickle_keep(struct pickle *p);
void pickle_again(struct pickle *p, int64_t kept);

#endif
