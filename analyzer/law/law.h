/*
 * law.h - `vramscope whatif --batch=… --seq=… a.db:batch=1,seq=1024 …`: what a program would hold at other
 * batches and lengths, and the largest that fits, from a few short recordings of it.
 */
#ifndef VS_LAW_LAW_H
#define VS_LAW_LAW_H

#include "base/base.h"

struct law_request {
    const char *batch, *seq; /* "1..64" (doubled from the first on), "1,2,3", "4"; NULL: those of the runs */
    uint64_t capacity;       /* 0: no end */
    int64_t device;          /* UNKNOWN: the first that has blocks */
    bool json, bytes;
};

/* The exit status; what goes wrong is said. */
int law_whatif(const struct law_request *request, char **files, size_t n);

/* What a program would hold, and how that is known. */
struct law_forecast {
    int64_t batch, seq;
    int64_t allocated,
        reserved; /* under the allocator of the recordings; UNKNOWN where nothing can be said */
};
/* Of FILES, whose names have their sizes in them, the laws, at COUNT points.  0, or 2, said. */
int law_forecast(char **files, size_t n, struct law_forecast *points, size_t count);

#endif
