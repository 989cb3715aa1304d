/*
 * dry.h - points without a GPU: `vramscope fit --json` runs each, and says what became of it.
 *
 *      DIR/batch=1,seq=512/answer    what it said
 */
#ifndef VS_SWEEP_DRY_H
#define VS_SWEEP_DRY_H

#include "base/args.h"

struct dry_options { /* that say which device, how far and what is assumed: a row of DRY_OPTIONS each */
    const char *gpu, *capacity, *steps, *allocator, *skew, *keep, *overflow, *ranks, *rank, *local_ranks;
    bool expandable;
};

#define DRY_OPTION(type, member, name, value, field, help)                                                   \
    {                                                                                                        \
        name, 0, value, ARG_TEXT, offsetof(type, member.field), help                                         \
    }

/* Of a command whose options TYPE have them as MEMBER. */
#define DRY_OPTIONS(type, member)                                                                            \
    DRY_OPTION(type, member, "gpu", "KEY", gpu, "which GPU: H200 (default), H100, A100-80GB, RTX4090, ..."), \
        DRY_OPTION(type, member, "capacity", "SIZE", capacity,                                               \
                   "memory of the GPU, e.g. 24GiB, in the place of what KEY has"),                           \
        DRY_OPTION(type, member, "steps", "N|all", steps,                                                    \
                   "training steps, then the program is ended (default 3); all: it runs to its end, its "    \
                   "output untouched"),                                                                      \
        DRY_OPTION(type, member, "allocator", "native|arena", allocator,                                     \
                   "PyTorch's own allocator, or vramscope's"),                                               \
        {"expandable",                                                                                       \
         0,                                                                                                  \
         NULL,                                                                                               \
         ARG_FLAG,                                                                                           \
         offsetof(type, member.expandable),                                                                  \
         "PyTorch's own, with expandable segments"},                                                         \
        DRY_OPTION(type, member, "skew", "F", skew,                                                          \
                   "the fullest expert of a router gets F times its share (default 1)"),                     \
        DRY_OPTION(type, member, "keep", "F", keep,                                                          \
                   "the share that a mask of floats keeps, 0 to 1 (default all)"),                           \
        DRY_OPTION(type, member, "overflow", "N", overflow, "GradScaler skips the first N steps"),           \
        DRY_OPTION(type, member, "ranks", "N", ranks,                                                        \
                   "the job has so many ranks, of which some run, each without the others"),                 \
        DRY_OPTION(type, member, "rank", "R,R,...", rank,                                                    \
                   "which of them run (default: the first two and the last)"),                               \
        DRY_OPTION(type, member, "local-ranks", "N", local_ranks,                                            \
                   "ranks of one machine (default: as many up to 8 as divide them)")

/* "fit", "--json" and the options that were given, NULL at the end. */
char **dry_words(const struct dry_options *o);
void words_free(char **words);

struct dry_answer {      /* UNKNOWN, NULL: not said */
    bool there, certain; /* certain: the verdict holds for all that its interval has */
    bool exact;
    char *verdict, *why, *last_line; /* last_line: that a program which failed said */
    struct {
        int64_t least, most;
    } allocated, reserved;                    /* by the framework */
    int64_t at_peak[2], beside, left, device; /* at_peak: allocated and reserved */
};

/* Of the file at PATH. */
void dry_answer_read(struct dry_answer *a, const char *path);
void dry_answer_free(struct dry_answer *a);

#endif
