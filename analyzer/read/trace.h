/*
 * trace.h - the recorded run, as structs: the only door to the database, and the only folder with
 * SQL.
 *
 * Opening completes the file first where its process was killed (the journal that it left is merged), and
 * says in one line why a file can't be used.  Reports, plots and analyses see arrays and visitors; UNKNOWN
 * (base.h) stands where the recording holds no number.  Texts live until trace_close.
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
    bool at_least;             /* bytes is what is known of it: libraries' pools held memory of unknown use */
};

/* The peak, UNKNOWN where only a part of it is known. */
static inline int64_t trace_peak_bytes(const struct trace_peak *p)
{
    return !p || p->at_least ? UNKNOWN : p->bytes;
}

struct trace_pool { /* what the pool of a library said of itself, over the run; UNKNOWN: it does not say */
    const char *name;
    int64_t answers, used, peak, held; /* the most of each: peak is the library's own counter */
};

struct trace_bound {                    /* where a total may be too high; of each device and kind together */
    int64_t device, rows, t_from, t_to; /* t_to UNKNOWN: to the end */
    const char *kind;
};

enum trace_loss_kind {
    LOSS_EVENTS, /* events are missing */
    LOSS_GAP,    /* calls may have gone past the recording: nobody knows which */
    LOSS_NOTE    /* every event is there; the text says what is not */
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
    int64_t free, free_t;                 /* of the driver, asked right after */
    int64_t reserved_then;                /* our figure at free_t */
    int64_t process_used, process_used_t; /* the last figure: of the same moment where not before free_t */
    int64_t device_used, device_used_t;
    const char *phase, *api, *space, *owner, *thread_name;
    bool stored;
};

struct trace_span {
    int64_t address, size;
};

struct trace_managed { /* what a framework got of the driver (op 1, 4), maps, unmaps, frees of anything */
    int64_t seq, op, mate, address, size;
};

struct trace_sample {
    int64_t t, device, driver_used, rss, pinned, reserved;
    const char *source;
};

/* The driver's figure moved by BYTES (UNKNOWN: it was not measured) across a call that allocates nothing. */
enum trace_cost_kind {
    COST_CONTEXT,
    COST_CONTEXT_END, /* with all that cost something in it */
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
    int64_t context; /* that the call was made in; 0: not recorded */
};

struct trace_range { /* a range that names a phase; t_pop = UNKNOWN while open */
    int64_t t_push, t_pop, thread;
    int phase;  /* index into phase_names */
    int source; /* 1 marker, 2 NVTX, 3 automatic */
};

struct trace_names {             /* ranges of one name that name no phase */
    const char *name, *domain;   /* domain NULL: none */
    int64_t ranges, ns;          /* ns: summed, those that are open up to the last moment recorded */
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
    const char *role;               /* what the block is for; NULL: it was not followed */
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
    int64_t stack;         /* that made it; 0: none was taken */
};
struct trace_step_memory {
    int64_t step, first_seq, last_seq; /* UNKNOWN where the moment is in no step that is whole in the file */
    const char *why;                   /* then: why so */
    int64_t before;                    /* allocated when it began */
    struct trace_step_point *points;
    size_t point_count;
    struct trace_lifetime *lifetimes; /* of what was made or freed in the step */
    size_t lifetime_count;
};

struct trace_step_end { /* a row of `step` */
    int64_t step, t, seq;
};
struct trace_birth { /* an allocation that lives at the end of the last step */
    int64_t step;    /* index of the step that made it, from 0 */
    int64_t size, phase, stack, op, space;
};

struct trace_folded {  /* stretches of the run that stand in the file as sums (fold.c) */
    int64_t stretches; /* that are left of them; 0: nothing was folded */
    int64_t from, to;  /* the first's begin, the last's end; between them some may be in full */
    int64_t first_step, last_step;
    int64_t events, ranges, steps, samples; /* in them */
    int64_t largest;                        /* how many were made one at most */
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

/* What is known of how the recording ended; everything is in the file after the first two alone. */
enum trace_end {
    TRACE_END_CLEAN,     /* the process ended in good order */
    TRACE_END_MERGED,    /* it was cut off, and its journal has been merged to its end */
    TRACE_END_RUNNING,   /* the file grows while we read */
    TRACE_END_UNKNOWN,   /* it was cut off, and named no journal */
    TRACE_END_GONE,      /* its journal is gone */
    TRACE_END_ELSEWHERE, /* its journal lies on another host, where it may still run */
    TRACE_END_OTHERS,    /* its journal is another user's */
    TRACE_END_FAILED     /* its journal could not be merged */
};

struct trace {
    struct sqlite3 *db;
    char *path;
    const char *label; /* what distinguishes the file: its name, or where names are equal its path */
    char why[512];
    int64_t steps_left; /* that SQLite may take (guard.h) */
    enum trace_end end;
    char *end_line; /* the sentence about an end that is not known to be in the file, else NULL */
    char *journal;  /* that the file names */
    bool thinned;   /* some events have no row: folded, or there was no room */
    struct trace_folded folded;
    int64_t unwritten, unwritten_from; /* events that never had a row, for lack of room; when that began */
    long recovered;                    /* events merged from a journal on opening, 0 = none */
    const char *version;
    int64_t t_first, t_last; /* of anything recorded */
    int64_t events, steps;
    int64_t unfinished_step;  /* that was under way when the recording ended; UNKNOWN: none */
    int64_t uncalled_classes; /* of an output layer that ran where no hook sees it; UNKNOWN: none such */
    int64_t reports;          /* of a framework, whose totals were compared with ours; UNKNOWN: not counted */
    int64_t reports_mismatched;   /* of these */
    struct trace_process process; /* the one that is shown */
    int64_t wanted_process;       /* process.id; 0: the first */
    int64_t processes;            /* that the file has */
    char *process_names;          /* "1 and 2" */
    int64_t before;               /* its events' numbers count from behind this one (schema.sql) */
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
    int64_t oom_total;        /* that a framework gave up on; UNKNOWN until trace_load_ooms */
    int64_t refused_total;    /* by the driver */
    const char **phase_names; /* by phase id; NULL in gaps */
    size_t phase_name_count;
    char **texts; /* owned */
    size_t text_count;
};

#define TRACE_OOMS 8

/* Opens PATH and reads everything small.  On -1 nothing stays open and *why has the line.  Of a file with
 * several processes the first is seen. */
int trace_open(struct trace *t, const char *path);
/* The same; of a file with several processes PROCESS is seen, 0: the first. */
int trace_open_process(struct trace *t, const char *path, int64_t process);
void trace_close(struct trace *t);

/* Whether the file is known to hold all of its run: it has the end, no event was lost, no call went past. */
bool trace_whole(const struct trace *t);
/* Why it is not, in a word or two and in a sentence that the caller frees; NULL where it is whole. */
const char *trace_not_whole(const struct trace *t);
char *trace_not_whole_line(const struct trace *t);
/* What is to be said of a file without any device. */
const char *trace_no_device(const struct trace *t);
/* The end's name in JSON. */
const char *trace_end_name(const struct trace *t);

/* PATHS and the databases in them where they are directories, sorted by name; NULL with WHY where one can't
 * be used. */
char **trace_files(char *const *paths, size_t n, size_t *count, char *why, size_t why_size);
/* The label of file I. */
const char *trace_label(char *const *files, size_t n, size_t i);
/* The same with the rank before it, where there is one: for screens that show several files. */
const char *trace_rank_label(struct trace *t, const char *label);
void trace_free_files(char **files, size_t n);

/* Reads the out-of-memory events into t->ooms: looks at every event. */
int trace_load_ooms(struct trace *t);

/* Out-of-memory that reached the program; the caller frees the arrays.  SEQ: its event. */
int trace_ooms_kept(struct trace *t, struct trace_oom_kept **out, size_t *n);
int trace_live_at_oom(struct trace *t, int64_t seq, struct trace_live **out, size_t *n);
int trace_blocks_at_oom(struct trace *t, int64_t seq, struct trace_span **out, size_t *n);
int trace_managed_events(struct trace *t, int64_t seq, int64_t device, struct trace_managed **out, size_t *n);
int64_t trace_counter(struct trace *t, const char *name); /* over all devices */
int64_t trace_steps_after(struct trace *t, int64_t when);

/* Whether each event between two numbers has its row. */
bool trace_all_events(struct trace *t, int64_t first_seq, int64_t last_seq);
/* A folded stretch that lies at least in part between two moments, or holds a step: which steps are in it. */
bool trace_folded_at(struct trace *t, int64_t from, int64_t to, int64_t *first_step, int64_t *last_step);
bool trace_step_folded(struct trace *t, int64_t step, int64_t *first_step, int64_t *last_step);

/* Tables read on demand; the caller frees the arrays. */
int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n);
int trace_costs(struct trace *t, struct trace_cost **out, size_t *n); /* of all devices, in order */
bool trace_arena_served(struct trace *t, int64_t device);             /* -1: any device */
int trace_pools(struct trace *t, int64_t device, struct trace_pool **out, size_t *n);
int trace_arenas(struct trace *t, struct trace_arena **out, size_t *n); /* in order of devices */
/* Bytes of physical memory that the program made by itself (cuMemCreate) on the device over the run, and in
 * *OWNER, which the caller frees, the library that made the most; NULL: unknown.  Looks at every event. */
int64_t trace_mapped(struct trace *t, int64_t device, char **owner);
int trace_ranges(struct trace *t, int64_t from, int64_t to, struct trace_range **out, size_t *n);
/* Those that took longest first; at most MOST.  *COUNT: how many names there are. */
int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *count);
int64_t trace_other_ranges(struct trace *t); /* how many ranges name no phase */
int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n);
/* Bytes of framework blocks (where there are none, of any memory) that lived at the device's peak, were born
 * in phase PHASE and made before event SEQ; UNKNOWN where the file can't be read. */
int64_t trace_live_since(struct trace *t, int64_t device, const char *phase, int64_t seq);
/* How many allocations succeeded, by device and phase: looks at every event. */
int trace_allocations(struct trace *t, struct trace_count **out, size_t *n);

/* The device's curve over [FROM, TO] to VISIT, in no particular order, as stretches no longer than COARSE ns
 * or as single events.  *BEFORE gets the totals at FROM. */
typedef void trace_visit(void *context, const struct trace_point *point);
int trace_curve(struct trace *t, int64_t device, int64_t from, int64_t to, int64_t coarse,
                struct trace_point *before, trace_visit *visit, void *context);

/* The frames of stack ID, innermost first; the caller frees them. */
int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n);

/* Which step the moment T belongs to, from 1; UNKNOWN where there are no steps. */
int64_t trace_step_at(struct trace *t, int64_t when);
/* When steps FIRST to LAST ran: from the end of the step before (of step 1: from its first range) to the end
 * of LAST.  False where the recording has no such steps. */
bool trace_step_span(struct trace *t, int64_t first, int64_t last, int64_t *from, int64_t *to);
/* The step that event SEQ lies in, from the end of the step before (of step 1: from its first range). */
int trace_step_memory(struct trace *t, int64_t device, int64_t seq, struct trace_step_memory *out);
void trace_free_step_memory(struct trace_step_memory *m);
/* The ends of steps in order, of those after the last that is folded; what was made in them, counts in the
 * device's totals and lives at the end of the last one (growth.c).  The caller frees the arrays. */
int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n);
int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count);
/* Allocated of DEVICE after event SEQ. */
int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq);
/* The library that asked by call stack STACK; NULL unknown. */
const char *trace_owner(struct trace *t, int64_t stack);
/* The program's own line of call stack STACK, "FILE:LINE FUNCTION"; NULL: it has no Python frame. */
const char *trace_line(struct trace *t, int64_t stack);
/* Reserved bytes of DEVICE after event SEQ; UNKNOWN where the event is not in the file. */
int64_t trace_reserved_at(struct trace *t, int64_t device, int64_t seq);
/* The phase that the device was in when its allocated peak was reached. */
const char *trace_phase_at_peak(struct trace *t, int64_t device);

/* Other phases and steps over the file's own (relabel.c), in this order: the names of ranges and marks;
 * which of them are a phase, which end a step; ranges and steps; events, whose phases PHASE says (0: as
 * recorded) until DONE frees CONTEXT at trace_close. */
struct trace_text {
    int64_t id;
    const char *text;
};
typedef int trace_phase_of(void *context, int64_t thread, int64_t t);
int trace_relabel_begin(struct trace *t, struct trace_text **names, size_t *n);
int trace_relabel_name(struct trace *t, int64_t name, const char *phase);
int trace_relabel_step(struct trace *t, int64_t name);
int trace_relabel_ranges(struct trace *t, bool steps);
int trace_relabel_events(struct trace *t, trace_phase_of *phase, void *context, void (*done)(void *context));
int trace_reload(struct trace *t); /* phases and steps anew */

/* Small look-ups over what trace_open has read. */
const struct trace_peak *trace_find_peak(const struct trace *t, int64_t device, const char *kind);
const struct trace_device *trace_find_device(const struct trace *t, int64_t device);
/* Whether there is a loss of KIND. */
bool trace_has_loss(const struct trace *t, enum trace_loss_kind kind);
/* Whether M only says what a framework held before the recording: since then the totals agree. */
bool trace_mismatch_is_late(const struct trace_mismatch *m);
/* How many kinds of mismatch there are beside that. */
size_t trace_disagreements(const struct trace *t);

#endif
