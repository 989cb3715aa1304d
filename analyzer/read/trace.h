/*
 * trace.h - the recorded run as structs: the only interface to the database, in the only folder with SQL.
 *
 * Opening a file whose process was killed first merges the journal that the process left.  If a file can't
 * be used there is a one-line reason.  Reports, plots and analyses see arrays and visitors; a number that
 * the recording lacks is UNKNOWN (base.h).  Texts live until trace_close.
 *
 * Every function that returns int gives 0, or -1 with the one-line reason in t->why.
 */
#ifndef VS_READ_TRACE_H
#define VS_READ_TRACE_H

#include "base/base.h"
#include "trace/event.h"

struct trace_process {
    int64_t id, pid, rank, local_rank, world_size, start_realtime_ns, end_ns;
    const char *host, *command;
    bool simulated;
};

struct trace_run_label { /* that the user gave the run: `vramscope run --label batch=4` */
    const char *name, *value;
};

struct trace_device {
    int64_t id, total_bytes;
    const char *name, *uuid;
};

struct trace_phase {
    int64_t device, ranges, ns, events, allocated, reserved, end_allocated, t_allocated;
    const char *name;
};

struct trace_peak { /* one row of `peak`: kind is 'allocated', 'reserved', 'pinned', ... */
    int64_t device, bytes, seq, t, end;
    const char *kind;
    bool at_most, end_at_most; /* the figure may be too high: ends were lost */
    bool at_least;             /* bytes is a lower bound: libraries' pools held memory of unknown use */
};

/* The peak; UNKNOWN if only a lower bound is known. */
static inline int64_t trace_peak_bytes(const struct trace_peak *p)
{
    return !p || p->at_least ? UNKNOWN : p->bytes;
}

struct trace_pool { /* a library's pool as it reported itself, over the run; UNKNOWN: not reported */
    const char *name;
    int64_t answers, used, peak, held; /* the most of each: peak is the library's own counter */
};

struct trace_sweep_rank { /* a process of a point, where it reserved most; UNKNOWN, NAN: not known */
    int64_t process, rank;
    int64_t allocated, reserved;
    int64_t framework_allocated, framework_reserved; /* of the framework's allocator */
    double rate;                                     /* steps a second, without the first */
};

struct trace_sweep_point {                  /* of a sweep; UNKNOWN: not known */
    const char *name, *outcome, *status;    /* outcome NULL: not run */
    const char **values;                    /* of each axis; NULL: it has none */
    int64_t ns, expected, recorded;         /* processes */
    int64_t refused;                        /* of the request that ended an oom */
    int64_t allocated, reserved;            /* the most that a process of it held on a device */
    int64_t predicted_allocated, predicted; /* by the framework's allocator; predicted: reserved */
    int64_t predicted_rank;                 /* whose that is */
    bool fitted;                            /* the predictions were made of this point among others */
    struct trace_sweep_rank *ranks;
    size_t rank_count;
};

struct trace_sweep { /* its texts are the trace's */
    const char **axes;
    size_t axis_count;
    struct trace_sweep_point *points;
    size_t n;
};

struct trace_bound { /* where a total may be too high: all intervals of a device and kind together */
    int64_t device, rows, t_from, t_to; /* t_to UNKNOWN: to the end */
    const char *kind;
};

enum trace_loss_kind {
    LOSS_EVENTS, /* events are missing */
    LOSS_GAP,    /* calls may have bypassed the recording: it is not known which */
    LOSS_NOTE    /* every event is there; the text says what is missing */
};
struct trace_loss {
    int64_t events, rows, t_first;
    const char *code, *why; /* the kind (trace/loss.h), and what people read */
    enum trace_loss_kind kind;
};

struct trace_mismatch {
    int64_t rows, t_first, device, ours, theirs; /* the first of its kind */
    const char *what;
};

struct trace_oom {
    int64_t seq, t, device, size, framework, direct, reserved;
    const char *phase;
    bool driver; /* the driver refused; a framework may have freed something and tried again */
};

struct trace_oom_kept { /* a row of `oom`: the first, the last, the largest that reached the program */
    int64_t seq, role, t, device, op, thread, stack, step;
    int64_t requested, asked_driver, refusals;
    int64_t framework, direct, managed, unknown_use, reserved, base, pinned, registered;
    int64_t free, free_t;                 /* the driver's free bytes, queried right after */
    int64_t reserved_then;                /* our figure at free_t */
    int64_t process_used, process_used_t; /* the last figure; of the same moment unless older than free_t */
    int64_t device_used, device_used_t;
    const char *phase, *api, *space, *owner, *thread_name;
    const char *made_for, *element_type, *shape; /* of what was refused; NULL: not recorded */
    int64_t tensor_bytes;                        /* of that, which requested is rounded up from */
    bool stored;
};

struct trace_span {
    int64_t address, size;
};

struct trace_managed { /* a framework's allocation by the driver (op 1, 4), or any map, unmap or free */
    int64_t seq, op, mate, address, size;
};

struct trace_sample {
    int64_t t, device, driver_used, rss, pinned, reserved;
    const char *source;
};

/* The driver's figure moved by BYTES (UNKNOWN: it was not measured) across a call that allocates nothing. */
enum trace_cost_kind {
    COST_CONTEXT,
    COST_CONTEXT_END, /* ends all costs in the context */
    COST_MODULE,
    COST_MODULE_END,
    COST_LIMIT,
    COST_CODE, /* kernels at their first launch, and what they need */
    COST_STREAM,
    COST_GRAPH,
    COST_PEER
};
struct trace_cost {
    enum trace_cost_kind kind;
    int64_t t, device, bytes;
    int64_t address; /* of the context, the module */
    int64_t context; /* the call's context; 0: not recorded */
};

struct trace_range { /* a range that names a phase; t_pop = UNKNOWN while open */
    int64_t t_push, t_pop, thread;
    int phase;  /* index into phase_names */
    int source; /* 1 marker, 2 NVTX, 3 automatic */
};

struct trace_names {             /* ranges of one name that name no phase */
    const char *name, *domain;   /* domain NULL: none */
    int64_t ranges, ns;          /* ns: their sum; open ranges count up to the last recorded moment */
    int64_t allocated, reserved; /* greatest while one was open */
};

struct trace_arena { /* of a device, as of its last sample at t */
    int64_t device, t;
    int64_t figure[VS_FIGURE_END];
    double calls_per_thousand, last_third_calls_per_thousand; /* NAN: unknown */
};

struct trace_live { /* bytes held at the device's allocated peak */
    int64_t device, size, count, stack;
    const char *phase, *category, *owner;
    const char *line; /* "FILE:LINE FUNCTION", the program's own innermost; NULL without Python frames */
    const char *layer, *layer_type; /* path of modules or ranges, the module's class; NULL: none */
    const char *role;               /* the block's purpose; NULL: it was not tracked */
};

/* How a block that was followed lay unused, and is known to have. */
enum trace_waste_kind { WASTE_NEVER, WASTE_EARLY, WASTE_LATE, WASTE_IDLE, WASTE_KINDS };
struct trace_waste { /* a row of view waste, or of view waste_at_most */
    enum trace_waste_kind kind;
    int64_t alloc_seq, free_seq; /* free_seq UNKNOWN: it lives */
    int64_t size, from, to;      /* ns */
    int64_t all_from, all_to;    /* what of it counts in a sum over all kinds; all_to < all_from: nothing */
    int64_t stack;
    const char *line, *layer, *role; /* as in struct trace_live */
};
struct trace_total { /* of a device after an event */
    int64_t seq, t, allocated;
};
struct trace_followed {    /* bytes at a device's peak */
    int64_t all, followed; /* of all: whose uses were followed */
    int64_t unseen;        /* of these: may have been used without being given to the device */
};

/* What blocks that lived were asked for as: those with the same type, shape, line and role. */
struct trace_tensor {
    const char *made_for; /* "tensor", "storage", "raw"; NULL: not known, or no framework's block */
    const char *element_type, *shape; /* of a tensor: "bfloat16", "[4, 2048, 8192]" */
    const char *line, *role, *category;
    int64_t size, request, count; /* request: bytes before the allocator rounded them; UNKNOWN */
};

struct trace_rule { /* why what lived has its role */
    const char *role, *rule;
    int64_t bytes, count;
};
struct trace_witness { /* bytes at a peak by what a framework says and what the accesses say; NULL: nothing */
    const char *by_framework, *by_access;
    int64_t bytes, count;
};

struct trace_point { /* the device's totals over [t, t_last]; one event, or a stretch of them */
    int64_t t, t_last, t_max;
    int64_t allocated_min, allocated_max, allocated_last;
    int64_t reserved_min, reserved_max, reserved_last;
    int phase;   /* of the maximum; index into phase_names */
    bool folded; /* no single events are behind it */
};

/* One training step of a device, event by event (step.c). */
struct trace_step_point {
    int64_t seq, allocated; /* after the event */
    int phase;
};
struct trace_lifetime {
    int64_t made_seq, freed_seq; /* INT64_MAX: not freed in the step */
    int64_t bytes;
    int made_in, freed_in; /* phases */
    int64_t stack;         /* the call stack that made it; 0: none was taken */
};
struct trace_step_memory {
    int64_t step, first_seq, last_seq; /* UNKNOWN: the file has no whole step around the moment */
    int64_t work_seq; /* its own work ends here: before last_seq in a run's last step; 0: at last_seq */
    const char *why;  /* where the file has no whole step: the reason */
    int64_t before;   /* allocated when the step began */
    struct trace_step_point *points;
    size_t point_count;
    struct trace_lifetime *lifetimes; /* of the allocations that were made or freed in the step */
    size_t lifetime_count;
};

struct trace_step_end { /* a row of `step` */
    int64_t step, t, seq;
};
struct trace_birth { /* an allocation that lives at the end of the last step */
    int64_t step;    /* index of the step that made it, from 0 */
    int64_t size, phase, stack, op, space;
};

struct trace_folded {  /* stretches of the run that the file has as sums only (fold.c) */
    int64_t stretches; /* how many folded stretches the file has; 0: none */
    int64_t from, to;  /* begin of the first, end of the last; between them some may be in full */
    int64_t first_step, last_step;
    int64_t events, ranges, steps, samples; /* in them */
    int64_t largest;                        /* the largest number of stretches that were joined into one */
};

struct trace_count {
    int64_t device, count;
    const char *phase;
};

struct trace_frame {
    const char *module, *function, *file;
    int64_t offset, line;
    int64_t kind; /* enum vs_frame_kind */
};

/* How the recording ended; only in the first two cases the file is known to have everything. */
enum trace_end {
    TRACE_END_CLEAN,     /* the process ended regularly */
    TRACE_END_MERGED,    /* its journal has been merged to its end: see came_to_exit */
    TRACE_END_RUNNING,   /* the process runs, so the file still grows */
    TRACE_END_UNKNOWN,   /* it was cut off, and named no journal */
    TRACE_END_GONE,      /* its journal is gone */
    TRACE_END_ELSEWHERE, /* its journal lies on another host, where it may still run */
    TRACE_END_OTHERS,    /* its journal is another user's */
    TRACE_END_FAILED     /* its journal could not be merged */
};

struct trace {
    struct sqlite3 *db;
    char *path;        /* as it was given */
    char *file;        /* of it the file: trace_file */
    const char *label; /* the file's name, or its path if names are equal */
    char why[512];
    int64_t steps_left; /* how many steps SQLite may still take (guard.h) */
    enum trace_end end;
    int64_t came_to_exit; /* 1: the process ran its exit handlers; 0: it was killed, or left without them;
                             UNKNOWN: neither is recorded */
    char *end_line;       /* a sentence about an end that may be missing, else NULL */
    char *journal;        /* the one that the file names */
    bool thinned;         /* some events have no row: they were folded, or there was no room */
    struct trace_folded folded;
    int64_t unwritten, unwritten_from; /* events that never had a row, for lack of room; when that began */
    bool brief;                        /* opened by trace_open_brief */
    bool own_views;                    /* the views of this program were made (file.c) */
    long recovered;                    /* events merged from a journal on opening, 0 = none */
    const char *version;
    int64_t t_first, t_last; /* of anything recorded */
    int64_t events, steps;
    int64_t unfinished_step;  /* the step in progress when the recording ended; UNKNOWN: none */
    int64_t uncalled_classes; /* of an output layer that ran where no hook sees it; UNKNOWN: none */
    int64_t reports; /* a framework's reports, whose totals were compared with ours; UNKNOWN: not counted */
    int64_t reports_mismatched;     /* of these */
    struct trace_process process;   /* the one that is shown */
    struct trace_run_label *labels; /* of the process, by name */
    size_t label_count;
    int64_t wanted_process; /* process.id; 0: the first */
    int64_t only_device;    /* that reports are about; UNKNOWN, as trace_open leaves it: all */
    int64_t processes;      /* that the file has */
    char *process_names;    /* "1 and 2" */
    int64_t before;         /* the shown process's event numbers count from this one (schema.sql) */
    struct trace_device *devices;
    size_t device_count;
    struct trace_phase *phases;
    size_t phase_count;
    struct trace_peak *peaks;
    size_t peak_count;
    struct trace_bound *bounds;
    size_t bound_count;
    struct trace_loss *losses;
    size_t loss_count;
    struct trace_mismatch *mismatches;
    size_t mismatch_count;
    struct trace_oom *ooms; /* the first TRACE_OOMS of each kind */
    size_t oom_count;
    int64_t oom_total;        /* requests that a framework gave up on; UNKNOWN until trace_load_ooms */
    int64_t refused_total;    /* by the driver */
    const char **phase_names; /* by phase id; NULL in gaps */
    size_t phase_name_count;
    char **texts; /* owned */
    size_t text_count;
};

#define TRACE_OOMS 8

/* Opens PATH and reads the small tables.  On -1 nothing stays open and *why has the reason.  Of a file with
 * several processes the first is shown. */
int trace_open(struct trace *t, const char *path);
/* Likewise; of a file with several processes PROCESS is shown, 0: the first. */
int trace_open_process(struct trace *t, const char *path, int64_t process);
/* Likewise, for the few figures of one of many files: in a third of the time.  No query may be asked within
 * another. */
int trace_open_brief(struct trace *t, const char *path, int64_t process);
void trace_close(struct trace *t);
/* The file that NAME means: "job.db#3" is process 3 of job.db where no file has that name; *PROCESS, which
 * may be NULL, gets it, else 0.  The caller frees the name. */
char *trace_file(const char *name, int64_t *process);

/* Whether the file is known to have its whole run: it has the end, no event was lost, and no call bypassed
 * the recording. */
bool trace_whole(const struct trace *t);
/* The reason why it is not, in a word or two and in a sentence that the caller frees; NULL: it is. */
const char *trace_not_whole(const struct trace *t);
char *trace_not_whole_line(const struct trace *t);
/* The sentence about a file without any device. */
const char *trace_no_device(const struct trace *t);
/* The name of the end in JSON. */
const char *trace_end_name(const struct trace *t);

/* The files among PATHS, and the databases in the directories among them, sorted by name; NULL with WHY: one
 * can't be used. */
char **trace_files(char *const *paths, size_t n, size_t *count, char *why, size_t why_size);
/* Puts "job.db#1", "job.db#2", ... in the place of files that `vramscope merge` made, of which each process
 * stands for a file; 0, or -1 with WHY. */
int trace_spread(char ***files, size_t *count, char *why, size_t why_size);
bool trace_is_merged(const char *file);
/* Whether a directory is among PATHS. */
bool trace_directory(char *const *paths, size_t n);
/* The label of file I. */
const char *trace_label(char *const *files, size_t n, size_t i);
/* Likewise, with the rank in front if there is one: for pages about several files. */
const char *trace_rank_label(struct trace *t, const char *label);
/* What the user calls the run by: the value of the label NAME, NULL where it has none of that name; and all,
 * "batch=4, seq=1024", which the caller frees, NULL where there is none. */
const char *trace_run_label(const struct trace *t, const char *name);
char *trace_run_labels(const struct trace *t);
void trace_free_files(char **files, size_t n);

/* Reads the out-of-memory events into t->ooms; scans all events. */
int trace_load_ooms(struct trace *t);

/* Out-of-memory that reached the program; the caller frees the arrays.  SEQ: its event. */
int trace_ooms_kept(struct trace *t, struct trace_oom_kept **out, size_t *n);
/* Bytes of the last request that was refused, where nothing was got and no step ended after it, by anybody
 * (0: the call does not say how many); UNKNOWN: there is none. */
int64_t trace_last_refused(struct trace *t);
int trace_live_at_oom(struct trace *t, int64_t seq, struct trace_live **out, size_t *n);
int trace_blocks_at_oom(struct trace *t, int64_t seq, struct trace_span **out, size_t *n);
int trace_managed_events(struct trace *t, int64_t seq, int64_t device, struct trace_managed **out, size_t *n);
int64_t trace_counter(struct trace *t, const char *name); /* over all devices */
int64_t trace_steps_after(struct trace *t, int64_t when);

/* Whether all events between two numbers have rows. */
bool trace_all_events(struct trace *t, int64_t first_seq, int64_t last_seq);
/* Finds a folded stretch that overlaps the time between two moments, or contains a step; gives its steps. */
bool trace_folded_at(struct trace *t, int64_t from, int64_t to, int64_t *first_step, int64_t *last_step);
bool trace_step_folded(struct trace *t, int64_t step, int64_t *first_step, int64_t *last_step);

/* Tables read on demand; the caller frees the arrays. */
int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n);
int trace_costs(struct trace *t, struct trace_cost **out, size_t *n); /* of all devices, in order */
bool trace_arena_served(struct trace *t, int64_t device);             /* -1: any device */
/* All points of the sweep that the file is of, none where it is of no sweep (points.c); what it made is freed
 * also where it failed. */
int trace_sweep_load(struct trace *t, struct trace_sweep *out);
void trace_sweep_free(struct trace_sweep *s);
bool trace_sweep_point_missing(
    const struct trace_sweep_point *p); /* not run, or not every process has a recording */
int trace_pools(struct trace *t, int64_t device, struct trace_pool **out, size_t *n);
int trace_arenas(struct trace *t, struct trace_arena **out, size_t *n); /* in order of devices */
/* Bytes of physical memory that the program made by itself (cuMemCreate) on the device over the run, and in
 * *OWNER, which the caller frees, the library that made the most; NULL: unknown.  Scans all events. */
int64_t trace_mapped(struct trace *t, int64_t device, char **owner);
int trace_ranges(struct trace *t, int64_t from, int64_t to, struct trace_range **out, size_t *n);
/* The ones with the longest time first; at most MOST.  *COUNT: the number of all names. */
int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *count);
int64_t trace_other_ranges(struct trace *t); /* how many ranges name no phase */
int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n);
/* Likewise, to stand beside what lived in OTHER: where T alone followed uses, roles are PyTorch's word alone.
 */
int trace_live_beside(struct trace *t, struct trace *other, int64_t device, struct trace_live **out,
                      size_t *n);
bool trace_follows(struct trace *t); /* the uses of any block */
/* Bytes of framework blocks (without any, of all memory) that lived at the device's peak and were born in
 * phase PHASE before event SEQ; UNKNOWN: the file can't be read. */
int64_t trace_live_since(struct trace *t, int64_t device, const char *phase, int64_t seq);
/* Roles and the rules that decided them, of what lived at the device's peak or (SEQ not UNKNOWN) at that
 * out-of-memory, the most bytes first; and what the two witnesses of roles say of the peak. */
int trace_rules(struct trace *t, int64_t device, int64_t seq, struct trace_rule **out, size_t *n);
/* What lived then was asked for as, the most bytes first; whether the file says so of anything. */
int trace_tensors(struct trace *t, int64_t device, int64_t seq, struct trace_tensor **out, size_t *n);
bool trace_knows_tensors(struct trace *t);
/* "bfloat16 [4, 2048, 8192]", "raw bytes", "resized storage"; NULL where MADE_FOR is.  The caller frees it.
 */
char *trace_tensor_words(const char *made_for, const char *element_type, const char *shape);
int trace_witnesses(struct trace *t, int64_t device, struct trace_witness **out, size_t *n);
/* Where blocks of DEVICE lay unused, as far as each use that was seen is one, or AT_MOST; how much of the
 * peak was followed; and the device's total after each of its events that has a row, in order.  All scan all
 * events.  trace_knows_sure: of any use it is recorded that it is sure, or there is none; otherwise AT_MOST
 * says nothing. */
bool trace_knows_sure(struct trace *t);
int trace_waste(struct trace *t, int64_t device, bool at_most, struct trace_waste **out, size_t *n);
int trace_followed(struct trace *t, int64_t device, struct trace_followed *out);
int trace_totals(struct trace *t, int64_t device, struct trace_total **out, size_t *n);
/* The numbers of successful allocations, by device and phase; scans all events. */
int trace_allocations(struct trace *t, struct trace_count **out, size_t *n);

/* What a framework's caching allocator of DEVICE was asked for, and what it asked of the driver (tape.c). */
enum tape_what {
    TAPE_ALLOC,
    TAPE_FREE,
    TAPE_REUSABLE, /* a block whose free was deferred */
    TAPE_OOM,
    TAPE_SEGMENT_ALLOC,
    TAPE_SEGMENT_FREE,
    TAPE_MAP, /* of an expandable segment; in pieces as they were recorded */
    TAPE_UNMAP,
    TAPE_REFUSED,     /* the driver had no memory, at first, for the request that comes next */
    TAPE_EMPTY_CACHE, /* the program called empty_cache() */
    TAPE_LIMIT        /* the framework may hold SIZE bytes from here on */
};
struct tape_event {
    uint64_t address, size; /* of a block what was requested, where that is known (unasked); else its own */
    int64_t t;
    uint32_t id;     /* of the block, from 0 */
    uint16_t stream; /* a number of the tape's own; memory of a private pool has numbers of its own */
    uint8_t what;    /* enum tape_what */
    bool deferred;   /* a free whose block other streams still used */
    bool rounded;    /* SIZE is a block's, not a request */
};
struct tape_stream { /* as recorded; POOL 0: PyTorch's common one */
    uint64_t number, pool;
};
struct tape_birth { /* of driver memory: the event that made it, and where on the tape it came */
    int64_t seq;
    size_t at;
};
struct tape_wait { /* a deferred free, and the event at which the block was reusable; INT64_MAX: none */
    int64_t free_seq, done_seq;
};
struct trace_tape {
    struct tape_event *at;
    size_t n, start; /* events before START set up what there was when recording began */
    uint32_t ids, streams;
    bool *private_pool;         /* by stream: its memory is a private pool's */
    struct tape_stream *stream; /* by stream */
    struct tape_birth *births;  /* segments and mapped pieces */
    size_t birth_count;
    struct tape_wait *waits;
    size_t wait_count;
    bool requests;                    /* imported: each size that no request stands beside is one */
    bool imported, expandable, arena; /* arena: blocks were the arena's own */
    bool streams_known, settings_known;
    bool calls_known; /* the driver's refusals and the program's calls of the allocator are events of it */
    bool changed;     /* settings were changed while the framework held memory */
    uint32_t asked, unasked, unasked_large; /* blocks whose requests are known; are not; of more than 1 MiB */
    bool driver_blocks;    /* of an import: some are memory that PyTorch's allocator did not ask for */
    int64_t pools_unknown; /* requests of an import that are taken as the common pool's, and may not be */
    uint32_t guessed;      /* streams of requests that were not recorded, and follow from their segments */
    uint32_t unwatched;    /* frees that were not deferred after all, or whose end was not seen */
    const char *version;   /* PyTorch's; NULL: unknown */
    const char
        *environment; /* the settings are those of this text, in the environment; NULL: said otherwise */
    double fraction;  /* of the device's memory that it may hold from the start on; 0: all */
    /* PyTorch's settings where they are known: bytes, -1 none; 0 none, -1 not the same for all sizes; bytes,
     * 0 the default; a share */
    int64_t max_split, roundup, large_segment;
    double gc_threshold;
};
int trace_tape(struct trace *t, int64_t device, struct trace_tape *tape);
void trace_free_tape(struct trace_tape *tape);

/* Passes the device's curve over [FROM, TO] to VISIT, in no particular order, as stretches no longer than
 * COARSE ns or as single events.  *BEFORE gets the totals at FROM. */
typedef void trace_visit(void *context, const struct trace_point *point);
int trace_curve(struct trace *t, int64_t device, int64_t from, int64_t to, int64_t coarse,
                struct trace_point *before, trace_visit *visit, void *context);

/* What events did to allocated of a device, in the order of their numbers (deltas.c). */
struct trace_delta {
    int64_t seq, t, size;
    int64_t mate;      /* seq of the event that this one ends or takes back; 0: none */
    int64_t allocated; /* of the device, after the event */
    int op, phase;     /* enum vs_op; index into phase_names */
};
typedef bool trace_delta_visit(void *context, const struct trace_delta *delta); /* false: no more */
int trace_deltas(struct trace *t, int64_t device, trace_delta_visit *visit, void *context);

/* What the blocks are for that were followed, by the events that made them; the caller frees the array. */
struct trace_role {
    int64_t seq;
    const char *role;
};
bool trace_has_roles(struct trace *t);
int trace_roles(struct trace *t, struct trace_role **out, size_t *n);

/* The frames of stack ID, innermost first; the caller frees them. */
int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n);

/* The number of the step that the moment T belongs to, from 1; UNKNOWN: there are no steps. */
int64_t trace_step_at(struct trace *t, int64_t when);
/* The time of steps FIRST to LAST: from the end of the step before (of step 1: from its first range) to the
 * end of LAST.  False: the recording has no such steps. */
bool trace_step_span(struct trace *t, int64_t first, int64_t last, int64_t *from, int64_t *to);
/* Reads the step that contains event SEQ, from the end of the step before (of step 1: from its first
 * range). */
int trace_step_memory(struct trace *t, int64_t device, int64_t seq, struct trace_step_memory *out);
void trace_free_step_memory(struct trace_step_memory *m);
/* The ends of the steps after the last folded one, in order; and the allocations that were made in these
 * steps, count in the device's totals and live at the end of the last step (growth.c).  The caller frees the
 * arrays. */
int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n);
int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count);
/* The last event after event AFTER, up to event UPTO, that allocated memory on any device; UNKNOWN: none. */
int64_t trace_last_birth(struct trace *t, int64_t after, int64_t upto);
/* The device's allocated total after event SEQ. */
int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq);
/* The library that made the requests with call stack STACK; NULL: unknown. */
const char *trace_owner(struct trace *t, int64_t stack);
/* The program's own line of call stack STACK, "FILE:LINE FUNCTION"; NULL: it has no Python frame. */
const char *trace_line(struct trace *t, int64_t stack);
/* The device's reserved total after event SEQ; UNKNOWN: the event is not in the file. */
int64_t trace_reserved_at(struct trace *t, int64_t device, int64_t seq);
/* The device's phase when its allocated peak was reached. */
const char *trace_phase_at_peak(struct trace *t, int64_t device);

/* What some blocks held (held.c).  Whether a block is one of them follows from its call stack and from the
 * rest; where a part of that was not recorded it may be one. */
enum trace_held_class { HELD_NOT, HELD_MAYBE, HELD_YES };
struct trace_held_by {
    void *context;
    /* LINE, LAYER: NULL where there is none; UNSEEN_LINE, UNSEEN_LAYER: there may be one all the same */
    enum trace_held_class (*stack)(void *context, const char *line, bool unseen_line, const char *layer,
                                   bool unseen_layer);
    /* PHASE: that it was born in.  ROLE: NULL where its use was not followed. */
    enum trace_held_class (*block)(void *context, const char *phase, const char *role);
    bool roles; /* roles are asked for */
};
struct trace_held {
    int64_t blocks;       /* that are certainly of them */
    int64_t most, seq, t; /* of these the most bytes at a time, and the event that reached it */
    int64_t possible;     /* the most with all that may be of them */
};
/* On DEVICE over the whole run.  Looks at every event: the file must not be thinned. */
int trace_held_most(struct trace *t, int64_t device, const struct trace_held_by *by, struct trace_held *out);
/* What lived on DEVICE after event SEQ, as trace_live gives it, without category and owner; right only where
 * no event from SEQ on is folded. */
int trace_live_at(struct trace *t, int64_t device, int64_t seq, struct trace_live **out, size_t *n);
/* The last event up to the moment WHEN; UNKNOWN. */
int64_t trace_last_seq(struct trace *t, int64_t when);
/* Reserved bytes of DEVICE after event SEQ, whatever that was. */
int64_t trace_reserved_after(struct trace *t, int64_t device, int64_t seq);

/* Lays other phases and steps over the file's own (relabel.c).  To be called in this order: read the names
 * of ranges and marks; say which names are a phase and which end a step; then ranges and steps; then events,
 * whose phases PHASE gives (0: as recorded) until DONE frees CONTEXT at trace_close. */
struct trace_text {
    int64_t id;
    const char *text;
};
struct trace_relabel_text {
    int64_t id;
    const char *text;
    bool free; /* has a range that a rule may make a phase */
};
typedef int trace_phase_of(void *context, int64_t thread, int64_t seq);
int trace_relabel_begin(struct trace *t, struct trace_relabel_text **names, size_t *n);
int trace_relabel_name(struct trace *t, int64_t name, const char *phase);
int trace_relabel_step(struct trace *t, int64_t name);
int trace_relabel_ranges(struct trace *t, bool steps);
/* What trace_ranges gives, with sequence numbers for times: many events may have the time of a phase's begin.
 */
int trace_relabel_spans(struct trace *t, struct trace_range **out, size_t *n);
int trace_relabel_events(struct trace *t, trace_phase_of *phase, void *context, void (*done)(void *context));
int trace_reload(struct trace *t); /* reads phases and steps again */

/* Look-ups in the tables that trace_open has read. */
const struct trace_peak *trace_find_peak(const struct trace *t, int64_t device, const char *kind);
const struct trace_device *trace_find_device(const struct trace *t, int64_t device);
/* Whether there is a loss of KIND. */
bool trace_has_loss(const struct trace *t, enum trace_loss_kind kind);
/* Whether the recording was made of another tool's trace: what the driver was asked otherwise is unknown. */
bool trace_is_imported(const struct trace *t);
/* Whether it has the table of points that `vramscope sweep` leaves. */
bool trace_is_sweep(struct trace *t);
/* Whether M only reports what a framework held before the recording; since then the totals agree. */
bool trace_mismatch_is_late(const struct trace_mismatch *m);
/* The number of other kinds of mismatch. */
size_t trace_disagreements(const struct trace *t);

#endif
