/*
 * output.h - which file a run writes, and whether it can.
 */
#ifndef VS_RUN_OUTPUT_H
#define VS_RUN_OUTPUT_H

#include <stdbool.h>

struct output {
    char *path;  /* absolute; the caller frees it */
    bool shared; /* by an outer `vramscope run`, or as the beginning of several names: nobody replaces it */
};

/* OPTION: -o's value, or NULL. */
struct output output_of(const char *option);
/* Makes its directory, and with FORCE removes a recording that is there.  0, or 2 with the reason said in the
 * name of COMMAND. */
int output_check(const struct output *o, bool force, const char *command);
/* Why no file PATH can be made; NULL: it can be, or is there. */
const char *output_cannot_be_made(const char *path);

#endif
