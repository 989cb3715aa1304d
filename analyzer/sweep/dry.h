/* dry.h - points without a GPU: `vramscope fit --json` runs each, and its answer is in the point's folder. */
#ifndef VS_SWEEP_DRY_H
#define VS_SWEEP_DRY_H

#include "base/args.h"

struct dry_options { /* that say which device, how far and what is assumed: a row of DRY_OPTIONS each */
    const char *gpu, *capacity, *steps, *allocator, *skew, *keep, *overflow, *ranks, *rank, *local_ranks;
    bool expandable;
};

/* Of a command whose struct options has them, DRY. */
#define DRY_OPTIONS                                                                                          \
    {"gpu", 0, "KEY", ARG_TEXT, AT(dry.gpu), "which GPU: H200 (default), H100, A100-80GB, RTX4090, ..."},    \
        {"capacity",       0,                                                                                \
         "SIZE",           ARG_TEXT,                                                                         \
         AT(dry.capacity), "memory of the GPU, e.g. 24GiB, in the place of what KEY has"},                   \
        {"steps",                                                                                            \
         0,                                                                                                  \
         "N|all",                                                                                            \
         ARG_TEXT,                                                                                           \
         AT(dry.steps),                                                                                      \
         "training steps, then the program is ended (default 3); all: it runs to its end, its output "       \
         "untouched"},                                                                                       \
        {"allocator",       0,                                                                               \
         "native|arena",    ARG_WORD,                                                                        \
         AT(dry.allocator), "PyTorch's own allocator, or vramscope's"},                                      \
        {"expandable", 0, NULL, ARG_FLAG, AT(dry.expandable), "PyTorch's own, with expandable segments"},    \
        {"skew",       0,                                                                                    \
         "F",          ARG_TEXT,                                                                             \
         AT(dry.skew), "the fullest expert of a router gets F times its share (default 1)"},                 \
        {"keep",       0,                                                                                    \
         "F",          ARG_TEXT,                                                                             \
         AT(dry.keep), "the share that a mask of floats keeps, 0 to 1 (default all)"},                       \
        {"overflow", 0, "N", ARG_TEXT, AT(dry.overflow), "GradScaler skips the first N steps"},              \
        {"ranks",       0,                                                                                   \
         "N",           ARG_TEXT,                                                                            \
         AT(dry.ranks), "the job has so many ranks, of which some run, each without the others"},            \
        {"rank",       0,                                                                                    \
         "R,R,...",    ARG_TEXT,                                                                             \
         AT(dry.rank), "which of them run (default: the first two and the last)"},                           \
    {                                                                                                        \
        "local-ranks", 0, "N", ARG_TEXT, AT(dry.local_ranks),                                                \
            "ranks of one machine (default: as many up to 8 as divide them)"                                 \
    }

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
