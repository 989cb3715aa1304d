/* snapshot.h - a snapshot of PyTorch's allocator while it is written (pytorch.c says what the format is). */
#ifndef VS_EXPORT_SNAPSHOT_H
#define VS_EXPORT_SNAPSHOT_H

#include "export.h"
#include "heap.h"
#include "pickle.h"
#include "places.h"
#include "read/asked.h"
#include "read/lives.h"
#include "read/ooms.h"

struct snapshot_writer {
    struct trace *t;
    const struct export_options *o;
    struct pickle pickle;
    struct places places;
    struct map stacks, own_stacks; /* to what is kept: the frames of a stack, those with who held it */
    struct map frames;             /* by index + 1 */
    int64_t no_frames;             /* kept; -1: not yet */
    struct trace_role_finder *roles;
    struct trace_oom_kept *ooms;
    size_t oom_count;
    struct asked_table asked;
    struct heap *heaps; /* by device */
    size_t heap_count;
    size_t elements;      /* of the list that is being written */
    struct map waits;     /* of the device that is being written: from a deferred free to its end */
    struct map ending;    /* from that to its place in `pending` */
    struct pending_free { /* that was told as requested, and not as completed */
        struct holding of;
        int64_t next; /* of the same end: place + 1 */
        bool open;
    } * pending;
    size_t pending_count;
    struct held_free { /* of an imported trace: its block still waits at the end */
        struct holding of;
        int64_t device;
    } * held;
    size_t held_count;
    struct snapshot_settings { /* as struct trace_tape has them */
        bool known;
        int64_t max_split, roundup;
        double gc_threshold;
        const char *conf; /* NULL: unknown */
    } settings;
    int64_t seq;      /* of the event that is being told */
    bool pools_known; /* else some segments of it may be a private pool's and seem the common one's */
    bool told;       /* phases are the program's own, or of such a recording that was exported and imported */
    bool expandable; /* a piece of an expandable segment was seen */
    int64_t first_seq, now;
    int64_t start_seq; /* the events before it say what an imported trace began with; 0: none do */
    int64_t device;    /* that is being written */
    int64_t first_device;
};

/* Microseconds of the wall clock, as PyTorch's entries have them. */
int64_t snapshot_wall_ns(const struct snapshot_writer *w, int64_t t);

/* A list: begin, its elements, each followed by count, end. */
void snapshot_begin_list(struct snapshot_writer *w);
void snapshot_count(struct snapshot_writer *w);
void snapshot_end_list(struct snapshot_writer *w);

/* A key with its value. */
void snapshot_int(struct snapshot_writer *w, const char *key, int64_t value);
void snapshot_text(struct snapshot_writer *w, const char *key, const char *value);
void snapshot_bool(struct snapshot_writer *w, const char *key, bool value);

/* The keys that say when T was. */
void snapshot_put_time(struct snapshot_writer *w, int64_t t);

/* Lists of frames: an empty one; that of a call stack. */
void snapshot_no_frames(struct snapshot_writer *w);
void snapshot_stack(struct snapshot_writer *w, int64_t stack);
/* Of memory that is not PyTorch's: a frame in front says whose it is. */
void snapshot_own_stack(struct snapshot_writer *w, const struct holding *x);
/* The key `frames` with the list that fits X. */
void snapshot_frames(struct snapshot_writer *w, const struct holding *x);

/* Bytes that were asked for of a block; where they are not recorded the block's own. */
int64_t snapshot_request(const struct snapshot_writer *w, const struct holding *x);
/* A key of ours, which PyTorch's tools pass over, where the size of X is not what was asked for: importers
 * know then that it is the block's. */
void snapshot_mark_size(struct snapshot_writer *w, const struct holding *x);

/* Keys of ours with what X was asked for as. */
void snapshot_mark_asked(struct snapshot_writer *w, const struct holding *x);
/* A key of ours with the number by which the role of X was said, where it was (table framework_role). */
void snapshot_mark_role(struct snapshot_writer *w, const struct holding *x);

/* Of the device that is being written: the segments' streams and pools, and the deferred frees.  0, or -1
 * with w->t->why. */
int snapshot_homes(struct snapshot_writer *w, struct heap_homes *homes);
void snapshot_free_homes(struct heap_homes *homes);
/* The key `allocator_settings` with its dict. */
void snapshot_settings(struct snapshot_writer *w);
/* KEY with the pair that names POOL. */
void snapshot_pool(struct snapshot_writer *w, const char *key, int64_t pool);

/* An entry of a trace: what all have, then the caller's own keys, then its end.  POOL -1: not known.  STACK
 * has the layer that it is labelled with; 0: none. */
void snapshot_begin_entry(struct snapshot_writer *w, const char *action, int64_t size, int64_t stream,
                          int64_t pool, int64_t stack);
void snapshot_end_entry(struct snapshot_writer *w);

/* The keys `host_segments` and `host_traces` with their lists; -1 with w->t->why. */
int snapshot_host(struct snapshot_writer *w);

/* The keys `segments` and `external_annotations` with their lists; the latter -1 with w->t->why. */
void snapshot_segments(struct snapshot_writer *w);
int snapshot_annotations(struct snapshot_writer *w);

#endif
