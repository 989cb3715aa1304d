/*
 * snapshot.h - a PyTorch memory snapshot as arrays: what happened, and what was there in the end.
 *
 * The trace may begin in the middle of a run; rewind.h finds the state before its first entry.  From PyTorch
 * 2.14 on host_traces and host_segments may have page-locked memory of the host.  It is the last device, and
 * has segments alone: each gets one block as large as itself, which says that somebody uses the segment.
 *
 * Sizes are the bytes that were requested, and the block may be larger; an export of ours that did not know
 * the request says so (rounded). Times are nanoseconds of the wall clock; PyTorch's own snapshots have whole
 * microseconds.
 */
#ifndef VS_IMPORT_SNAPSHOT_H
#define VS_IMPORT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/ledger/addresses.h"
#include "unpickle.h"

#define SNAPSHOT_DEVICES      64 /* the host included */
#define SNAPSHOT_POOL_UNKNOWN UINT32_MAX

enum snapshot_action {
    SNAPSHOT_OTHER,   /* a note that changes no memory */
    SNAPSHOT_UNKNOWN, /* a kind that we do not know */
    SNAPSHOT_ALLOC,
    SNAPSHOT_FREE_REQUESTED,
    SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_OOM
};

struct snapshot_event {
    int64_t time_ns; /* never before that of the event before it */
    uint64_t address, size, stream;
    uint32_t stack; /* 0: none; else stacks[stack - 1] */
    uint32_t label; /* 0: none; else labels[label - 1] */
    uint32_t pool;  /* as a segment's; unknown where the entry does not say it; pools.c sets it then */
    enum snapshot_action action;
    bool rounded;    /* an export of ours that knew no request: its size is the block's */
    bool driver;     /* likewise, of a block: memory that no allocator of PyTorch's asked for */
    bool free_known; /* of an OOM: `address` is what the driver had free */
    uint8_t rule;    /* an export of ours: by which the block's role was said, 0 none */
    uint64_t block;  /* likewise: the block's size; 0: as SIZE */
    const struct pickle_value *asked; /* likewise: the entry that says what it was asked for as; NULL */
};

struct snapshot_trace { /* of a device */
    struct snapshot_event *at;
    size_t n;
    bool timed;
};

enum snapshot_state { SNAPSHOT_FREE, SNAPSHOT_PENDING, SNAPSHOT_LIVE };

struct snapshot_block {
    uint64_t address, size, requested;
    uint32_t stack;
    enum snapshot_state state; /* PENDING: freed, and other streams may still use it */
    bool rounded, driver;      /* as of an event */
    uint8_t rule;
};

struct snapshot_segment {
    uint64_t address, size, stream;
    size_t first_block, blocks;
    int device;
    uint32_t pool; /* 0: the common one; else private, pools[pool - 1]; or unknown where none is said */
    bool expandable;
};

struct snapshot_text {
    const char *text;
    uint32_t length;
};

struct snapshot_range { /* an end of a range that record_function marked, by PyTorch itself or the program */
    int64_t time_ns;
    const char *name;
    uint32_t length, order; /* as recorded */
    int device;
    bool begins;
    bool told;  /* an export of ours: a phase of the recording's */
    bool steps; /* it is one of an optimizer's step, which lies in no other (phases.h) */
};

struct snapshot_settings {
    bool known;
    int64_t max_split;   /* bytes, -1: none */
    double gc_threshold; /* 0: none */
    bool expandable;
    bool registers;   /* the host's memory is the program's own, page-locked, and not the driver's */
    int64_t roundup;  /* the divisions; 0 none, -1 not the same for all sizes */
    const char *conf; /* as the variable had it */
    uint32_t conf_length;
};

struct snapshot {
    struct pickle *pickle;
    struct snapshot_trace traces[SNAPSHOT_DEVICES];
    int devices; /* traces, empty ones included, and the host's */
    int host;    /* the number of the last, if it is the host's; else -1 */
    struct snapshot_segment *segments;
    size_t segment_count;
    struct snapshot_pool {
        int64_t first, second;
    } * pools; /* private ones: pool n is pools[n - 1] */
    size_t pool_count;
    struct snapshot_block *blocks;
    size_t block_count;
    const struct pickle_value *annotations;
    struct snapshot_range *ranges; /* of these, by time (ranges.c) */
    size_t range_count;
    const struct pickle_object **stacks; /* different ones: lists of frames, innermost first */
    size_t stack_count;
    size_t stack_frames; /* in all of them */
    struct snapshot_text
        *labels; /* what the program said of blocks: _set_memory_metadata, _annotate_tensor */
    size_t label_count, labelled; /* different ones, and with different stacks */
    bool stacked;                 /* a block that lives at the end has a call stack */
    bool unrequested;             /* a block lacks the bytes that were requested: an old PyTorch */
    bool exact;                   /* a block, or its event, has what was requested */
    bool rounded;                 /* one has not: an export of ours */
    bool pairs;      /* of entries that cancel each other stand around mappings: an export of ours */
    size_t asked;    /* entries that say what their block was asked for as, or its size beside the request */
    bool ruled;      /* roles are said: an export of ours */
    bool registered; /* the host's memory is the program's own, in an export of ours */
    bool lowered;    /* addresses from 2^63 on lack that bit */
    int64_t end_ns;  /* when it was taken, 0 unknown */
    bool told;       /* phases are the recording's, of which it is an export; and so are its steps' ends: */
    const struct pickle_value *steps; /* a list of times; NULL */
    int64_t start_ns;                 /* when that began, 0 unknown */
    int64_t misfits;                  /* of the snapshot that was exported */
    const struct pickle_value *notes; /* a list of texts that were noted of it; NULL */
    bool skipped;                     /* the requests of frees were, when it was recorded */
    size_t events;                    /* of all devices, those that change no memory included */
    size_t moves;                     /* of these, those of a known kind that do */
    size_t unknown;                   /* and those of a kind that we do not know */
    struct snapshot_settings settings;
};

struct snapshot_frame {
    const char *name, *file;
    const char
        *last; /* of a Python function's qualified name ("Module._apply") the last part, which ends with it */
    uint32_t name_length, file_length, line, last_length;
};

/* Reads BYTES, which must live as long as the snapshot.  0, or -1 with a line in WHY that begins after the
 * file's name ("is ...", "has ..."). */
int snapshot_read(struct snapshot *s, const void *bytes, size_t size, char *why, size_t why_size);
void snapshot_free(struct snapshot *s);

/* When an entry or the end of a range was. */
int64_t snapshot_time(const struct pickle_value *v);

/* Frame I of stack STACK (from 1), 0 the innermost; false where there is none. */
bool snapshot_frame(const struct snapshot *s, uint32_t stack, size_t i, struct snapshot_frame *out);

/* Reads the ranges that S's annotations mark, as far as they lie in its trace (ranges.c). */
void ranges_read(struct snapshot *s);
/* Whether two ends are of a range of the same name. */
bool ranges_same(const struct snapshot_range *a, const struct snapshot_range *b);
/* Puts a request before each completion in T that has none, if one of a block that T allocates has none;
 * whether it is so (skipped.c). */
bool skipped_requests(struct snapshot_trace *t);

/*
 * What a program said of blocks in words of its own (labels.c): torch.cuda.memory._set_memory_metadata sets a
 * text that each later entry of the thread has (user_metadata); _annotate_tensor makes an entry `annotate`,
 * for the block that begins at its address.  The first text of a block is its label; what lived before the
 * trace has none.
 */
struct labels {                   /* while a snapshot is read */
    struct vs_table texts, pairs; /* hashes: of labels, of them with a stack */
    struct vs_table last; /* by address: the entry that allocated there last, of the trace that is read */
};

/* E has TEXT (NULL: none) for a label, if it has no other. */
void labels_take(struct labels *l, struct snapshot *s, struct snapshot_event *e,
                 const struct pickle_value *text);
/* E of T allocates; and TEXT is said of what is at ADDRESS then. */
void labels_allocated(struct labels *l, const struct snapshot_trace *t, const struct snapshot_event *e);
void labels_annotate(struct labels *l, struct snapshot *s, struct snapshot_trace *t, uint64_t address,
                     const struct pickle_value *text);
void labels_end_trace(struct labels *l);
void labels_free(struct labels *l);

#endif
