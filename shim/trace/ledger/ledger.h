/*
 * ledger.h - ordered events in, finished rows out: totals, pairing, classification, range peaks.
 *
 *      vs_ledger_feed(event) ... vs_ledger_end_batch() --> struct vs_output --> store --> vs_output_clear()
 *
 * Pure: no I/O, no clock, no SQLite, no CUDA.  The same events always give the same rows, so the drain
 * thread, `vramscope recover` and the tests cannot disagree.  Rows are numbered from 1 as they come out,
 * those among them that the ledger itself makes (RECLASSIFY, PHYS_FREED, FREE_MISSED, CONTEXT_FREED).
 *
 * Where malloc fails the event is counted (VS_COUNT_NO_MEMORY) and its effect is missing; nothing crashes.
 */
#ifndef VS_TRACE_LEDGER_LEDGER_H
#define VS_TRACE_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/access.h"
#include "trace/control.h"
#include "trace/event.h"
#include "trace/now.h"
#include "core/list.h"

#define VS_LEDGER_DEVICES 65 /* 0 = unknown (and ordinals beyond 63), else ordinal + 1 */

/* the first rows of table `phase`, fixed numbers for ledger and store */
enum {
    VS_PHASE_NONE,
    VS_PHASE_FORWARD,
    VS_PHASE_LOGITS,
    VS_PHASE_BACKWARD,
    VS_PHASE_OPTIMIZER,
    VS_PHASE_FIRST_FREE
};

struct vs_ledger;

struct vs_ledger_config {
    int64_t start_ns; /* becomes time 0 */
    void *context;    /* for the three functions, each of which may be NULL: then it answers 0 or false */
    uint32_t (*phase_of)(void *context, uint32_t name); /* journal string -> phase id */
    bool (*is_autograd)(void *context, uint16_t thread);
    /* copies the journal's row ID of a block that has ended; false: there is none */
    bool (*access_of)(void *context, uint32_t id, struct vs_access_row *out);
    uint32_t stretch_min, stretch_max; /* events (stretch.c); 0 = the usual sizes */
};

/* ---- rows ---- */

/* Whether an allocation is carved into blocks: kind.managed of the database. */
enum vs_managed { VS_NOT_MANAGED, VS_MANAGED, VS_UNKNOWN_USE };

/* One row of `ev`, with its device's totals after it.  framework: a caching allocator's blocks.  direct:
 * driver allocations that no caching allocator manages (device memory, physical VMM memory, arrays, what
 * pools gave, what graphs allocate beyond their launch, the arena's blocks).  Their sum is `allocated`.
 * Some libraries' pools report no blocks (unknown use): then it is a lower bound.  reserved: direct, what
 * caching allocators and such libraries carve, and what pools, graphs and the arena hold beyond what they
 * gave.  What is away is in no figure of it, so it may be less than allocated (totals_of in totals.c). */
struct vs_row {
    uint64_t seq;
    int64_t t;
    uint64_t address, size, mate, framework, direct, reserved;
    uint64_t stream; /* or, of an event without one, its second number (kind.stream in schema.sql) */
    uint32_t phase, range, stack, kind;
    uint32_t tensor; /* of a block: the journal's id, 0 unknown */
    uint16_t api, thread, status;
    uint8_t op, space, context, managed;
    int8_t device;
    bool dropped; /* thinned: it counts, but is not written */
};

struct vs_range_row {
    uint32_t id, phase, name, domain, parent, step;
    uint16_t thread;
    uint8_t source;
    union {
        struct {
            bool outermost : 1,             /* no open range around it has its phase */
                cross_thread : 1, lost : 1; /* its pop was lost, so the ledger closed it */
            uint8_t none : 5;               /* a member, so that an initializer clears these bits, too */
        };
        uint8_t flags; /* of table rng */
    };
    uint64_t first_seq;
    int64_t t_push, t_pop; /* t_pop -1: open, or its pop was not seen */
};

struct vs_range_peak_row {
    uint32_t range;
    int device;
    uint64_t allocated, reserved;
    int64_t t;
};

/* Who held a device's `allocated`: bytes by the phase of their birth, separately for blocks of a framework
 * and direct allocations.  Phases from VS_HELD_PHASES - 1 on share the last place. */
#define VS_HELD_PHASES 16
struct vs_held {
    uint64_t framework[VS_HELD_PHASES], direct[VS_HELD_PHASES];
};

struct vs_zone_row {
    uint64_t first_seq, last_seq;
    int64_t t_first, t_last, max_t, min_t, max_reserved_t, min_reserved_t;
    uint64_t min_allocated, max_allocated, min_reserved, max_reserved;
    uint64_t reserved_at_max, reserved_at_min; /* of allocated */
    uint64_t last_framework, last_direct, last_reserved;
    uint64_t events;
    uint32_t phase;
    int device;
    struct vs_held held; /* when allocated was greatest */
    uint64_t stretch;    /* the store's: the folded stretch that it stands for; 0: none */
};

struct vs_stretch_row { /* a piece of the run that is folded as one (stretch.c) */
    uint64_t first_seq, last_seq;
    int64_t t_first, t_last;
    uint64_t first_step, last_step;  /* under way when it began and when it ended, from 1 */
    uint64_t steps, ranges, samples; /* how many ended (samples: were taken) in it */
    uint64_t unwritten;              /* events without a row from the start */
    uint64_t bytes;                  /* about how much it takes in the file */
    bool open;                       /* more events come */
};

struct vs_sample_row {
    uint64_t seq;
    int64_t t;
    uint64_t used, rss, pinned, reserved;
    int device;
    uint32_t source;
};

struct vs_arena_row { /* a sample of the arena's figures */
    int64_t t;
    int device;
    uint64_t figure[VS_FIGURE_END];
};

struct vs_away_row { /* how much of what lives on the device is on the host, from event SEQ on */
    uint64_t seq, bytes;
    int64_t t;
    int device;
};

/* How many bytes of a block (alloc_seq 0: of all the arena's) are on the host from event SEQ on.  The other
 * figures are of the device, for the same reason, so far: `out` bytes went, `back` came back or ended there,
 * some went `times` times while none was there, and the program waited for `waited_ns`. */
struct vs_away_block_row {
    uint64_t seq, alloc_seq, bytes, out, back, times;
    uint64_t waited_ns; /* VS_BYTES_UNKNOWN */
    int64_t t;
    int device;
    uint8_t why; /* enum vs_away_why */
};

struct vs_fact_row { /* of table meta: strings */
    uint32_t key, value;
};

struct vs_pool_row { /* a library's pool as it reports itself; VS_BYTES_UNKNOWN: not reported */
    int64_t t;
    uint64_t used, peak, held;
    uint32_t name;
    int device;
};

struct vs_role_row { /* what a framework says that an allocation is for */
    uint64_t alloc_seq;
    uint8_t role; /* enum vs_role */
};

struct vs_step_row {
    uint64_t step, seq;
    int64_t t;
};

struct vs_mark_row {
    uint64_t seq;
    int64_t t;
    uint32_t name, source;
    uint16_t thread;
};

/* `what` of a mismatch: codes, which are part of the format */
#define VS_MISMATCHES(X)                                                                                     \
    X(ALLOCATED, "allocated") /* framework's allocated total against ours; equal again: a row too */         \
    X(RESERVED, "reserved")   /* framework's reserved total against our managed reserved */                  \
    X(LATE_ALLOCATED, "late_allocated") /* the framework had bytes before the recording: the base */         \
    X(LATE_RESERVED, "late_reserved")                                                                        \
    X(FREE_MISSED, "free_missed") /* an address handed out again while it lived */

enum vs_mismatch {
#define X(NAME, text) VS_MISMATCH_##NAME,
    VS_MISMATCHES(X)
#undef X
        VS_MISMATCH_END
};

struct vs_mismatch_row {
    uint64_t seq, ours, theirs;
    int64_t t;
    int device;
    enum vs_mismatch what;
};

struct vs_amend_row { /* row `by` corrects row `seq`: op RECLASSIFY (of an allocation), FREE_FAILED (of a
                         free) */
    uint64_t seq, by;
    uint8_t op;
};

/* What is known of the device's accesses to an allocation that has ended (access.c). */
struct vs_access_ended {
    uint64_t alloc_seq; /* 0: its allocation was not seen */
    int64_t t;          /* when it was allocated */
    uint32_t id;        /* of the journal's row, which becomes vacant once this is committed; 0: none */
    struct vs_access_row row;
};

struct vs_phase_row { /* upsert of phase_stat */
    int device;
    uint32_t phase;
    uint64_t ranges, events, allocated, reserved, end_allocated; /* allocated: VS_BYTES_UNKNOWN likewise */
    int64_t ns, open_ns, t_allocated;                            /* ns -1: unknown */
};

#define VS_CURVES(X)                                                                                         \
    X(ALLOCATED, "allocated")                                                                                \
    X(RESERVED, "reserved")                                                                                  \
    X(FRAMEWORK, "framework")                                                                                \
    X(DIRECT, "direct")                                                                                      \
    X(MANAGED, "managed_reserved")                                                                           \
    X(UNKNOWN_USE, "unknown_use") /* held by libraries' pools, whose use is unknown */

enum vs_curve {
#define X(NAME, text) VS_CURVE_##NAME,
    VS_CURVES(X)
#undef X
        VS_CURVE_END
};

struct vs_peak_row { /* upsert of peak; curve < VS_CURVE_END, or VS_CURVE_END + space for the others (device
                        -1) */
    int device;
    int curve;
    uint64_t peak, seq, end; /* VS_BYTES_UNKNOWN: of allocated, where memory of unknown use was there */
    uint64_t known;          /* the known part of peak, where peak is unknown */
    int64_t t;
};

struct vs_doubt_row { /* upsert of upper_bound; curve is ALLOCATED or RESERVED */
    int device;
    enum vs_curve curve;
    uint64_t from_seq, to_seq; /* to_seq 0: still so */
    int64_t t_from, t_to;
};

/* counters per device (device -1 where they belong to none); the names are part of the format */
#define VS_COUNTS(X)                                                                                         \
    X(REPORTS, "framework_reports")                                                                          \
    X(BLOCK_ALLOCS, "framework_allocations")                                                                 \
    X(BLOCK_FREES, "framework_frees")                                                                        \
    X(MISMATCHED, "framework_reports_in_mismatch")                                                           \
    /* frees of allocations that were not recorded: from before the recording, or a closed window; no        \
     * mismatch, and none where the driver refused the free */                                               \
    X(UNKNOWN_FREE, "unknown_frees")                                                                         \
    X(FREE_MISSED, "missed_frees")                                                                           \
    X(FAILED_ALLOC, "failed_allocations")                                                                    \
    X(FAILED_FREE, "failed_frees")                                                                           \
    X(OOM, "out_of_memory")                                                                                  \
    X(RECLASSIFIED, "reclassified")                                                                          \
    X(LOST_POP, "lost_range_pops")                                                                           \
    X(REFUSED, "driver_out_of_memory")                                                                       \
    X(REFUSED_ABSORBED, "driver_out_of_memory_absorbed") /* the framework tried again, and got it */         \
    X(REFUSED_REPORTED, "driver_out_of_memory_reported") /* the framework gave up: its own report */         \
    X(NO_MEMORY, "not_tracked")

enum vs_count {
#define X(NAME, text) VS_COUNT_##NAME,
    VS_COUNTS(X)
#undef X
        VS_COUNT_END
};

struct vs_count_row {
    int device;
    enum vs_count what;
    uint64_t value;
};

/* Which out-of-memory a vs_oom_row describes (oom.c). */
enum {
    VS_OOM_FIRST = 1, /* of those of its device that reached the program */
    VS_OOM_LAST = 2,
    VS_OOM_LARGEST = 4,
    VS_OOM_OPEN_FIRST = 8, /* the driver refused, and whether the framework recovers is not known yet: the */
    VS_OOM_OPEN_LAST = 16  /* first and the last refusal of a thread's row of them */
};

struct vs_oom_row { /* the device at an out-of-memory; totals as after event seq */
    uint64_t seq, requested;
    uint64_t framework, direct, managed, reserved, base; /* base: as in vs_ledger_each_at_peak */
    uint64_t pinned, registered;
    uint64_t refusals;     /* by the driver: this one and those right before it, of the same request */
    uint64_t asked_driver; /* bytes that the driver refused; 0: no request reached the driver */
    uint64_t step;         /* under way, from 1 */
    uint64_t free_bytes, process_used, device_used; /* VS_BYTES_UNKNOWN: no figure */
    uint64_t unknown_use;                           /* of reserved: held by libraries' pools */
    uint64_t reserved_then;                         /* at the moment when free_bytes was queried */
    int64_t t, free_t, process_used_t, device_used_t;
    uint32_t phase, range, stack, tensor;
    uint16_t api, thread;
    uint8_t op, space, roles, context;
    bool stored; /* the store's: what lived then is written */
    int device;
};

/* What a ledger that continues a database must know beside the other tables (resume.c):
 * table resume. */
enum vs_resume {
    VS_RESUME_PLACE =
        1,            /* time of the last row, steps so far, newest time in the look-ahead, framework seen */
    VS_RESUME_LOST,   /* ring sequences: from where to where ends were lost, the last loss */
    VS_RESUME_DEVICE, /* id: device + 1; flags */
    VS_RESUME_BASE, /* id: device + 1; held before the recording: allocated, at its peak, reserved, the row */
    VS_RESUME_ARENA,      /* id: device + 1; number of the sample of which some parts have come */
    VS_RESUME_ARENA_PART, /* id: (device + 1) << 8 | part; its figures */
    VS_RESUME_RANGE,  /* id: range << 8 | device + 1; what is known of an unknown peak of allocated, when */
    VS_RESUME_PHASE,  /* id: phase << 8 | device + 1; the same */
    VS_RESUME_RANGES, /* id: phase of which no device has statistics; its ranges, their time */
    VS_RESUME_LAST_SAMPLE, /* id: (device + 1) << 1 | kind; the last figure of used memory, when */
    VS_RESUME_RETRY,       /* id: thread; of an open refusal: the same request, granted: its row, address */
    VS_RESUME_REFUSED,     /* id: thread; size of the piece of physical memory that it was refused */
    VS_RESUME_HELD,        /* ring sequence up to which events have been in the look-ahead */
    VS_RESUME_VERDICT      /* id: ring sequence of an allocation in the look-ahead; what it is known to be */
};

struct vs_resume_row {
    enum vs_resume what;
    uint64_t id, value[4];
};

/* One living allocation: a framework block (op BLOCK_ALLOC) or a driver allocation (ALLOC, PHYS_CREATE). */
struct vs_alloc {
    uint64_t seq, address, size;
    uint64_t away;  /* the ledger's own: of its bytes, on the host */
    uint64_t since; /* the ledger's own: seq, or the row that took back a free of it that failed */
    int64_t t;
    uint32_t phase, range, stack, tensor;
    int8_t device;
    uint8_t op, space, managed; /* managed: enum vs_managed */
    uint8_t away_why;           /* the ledger's own, as away */
    uint8_t fresh;              /* the ledger's own: not yet in table live */
    uint8_t role;               /* the ledger's own: enum vs_role, as written; 0: none yet */
    uint32_t next;              /* the ledger's own */
};

/* What a batch has to write.  The ledger appends; the store reads; vs_output_clear empties it after the
 * commit, so that a batch that failed to commit can be committed again as it stands. */
#define VS_OUTPUT_LISTS(X)                                                                                   \
    X(rows, struct vs_row)                                                                                   \
    X(ranges, struct vs_range_row)                                                                           \
    X(range_peaks, struct vs_range_peak_row)                                                                 \
    X(zones, struct vs_zone_row)                                                                             \
    X(stretches, struct vs_stretch_row)                                                                      \
    X(samples, struct vs_sample_row)                                                                         \
    X(arenas, struct vs_arena_row)                                                                           \
    X(aways, struct vs_away_row)                                                                             \
    X(away_blocks, struct vs_away_block_row)                                                                 \
    X(pools, struct vs_pool_row)                                                                             \
    X(roles, struct vs_role_row)                                                                             \
    X(facts, struct vs_fact_row)                                                                             \
    X(steps, struct vs_step_row)                                                                             \
    X(accesses, struct vs_access_ended)                                                                      \
    X(marks, struct vs_mark_row)                                                                             \
    X(mismatches, struct vs_mismatch_row)                                                                    \
    X(amends, struct vs_amend_row)                                                                           \
    X(phases, struct vs_phase_row)                                                                           \
    X(peaks, struct vs_peak_row)                                                                             \
    X(counts, struct vs_count_row)                                                                           \
    X(doubts, struct vs_doubt_row)                                                                           \
    X(born, struct vs_alloc) /* vs_ledger_track_live: what table live gains and loses by this batch */       \
    X(died, uint64_t)
struct vs_output {
#define X(name, type) VS_LIST(type, name);
    VS_OUTPUT_LISTS(X)
#undef X
    uint64_t dropped; /* rows not written because of thinning */
    uint64_t no_memory;
};

void vs_output_clear(struct vs_output *out);
void vs_output_free(struct vs_output *out);

/* ---- use ---- */

struct vs_ledger *vs_ledger_new(const struct vs_ledger_config *config); /* NULL: no memory */
void vs_ledger_free(struct vs_ledger *l);

/* Takes the next event in the ring's order; rows that are certain appear in OUT.  A driver allocation is
 * provisional until its thread's next framework report, and rows from it on are held back.  Without such a
 * report it becomes direct when it is freed, after 65,536 events or 50 ms (1,024 events while no framework
 * was ever seen), or at vs_ledger_flush(); pending.c has the exceptions. */
void vs_ledger_feed(struct vs_ledger *l, const struct vs_event *event, uint64_t ring_seq,
                    struct vs_output *out);
/* Ends (frees, pops) were lost: the totals may be too high from the event at ring sequence FIRST on, and the
 * last of those ends is missing at LAST.  Before the events from FIRST on are fed. */
void vs_ledger_lost_ends(struct vs_ledger *l, uint64_t first, uint64_t last);
/* Anything was lost among the events that are fed next, up to ring sequence LAST. */
void vs_ledger_lost(struct vs_ledger *l, uint64_t last);
/* Decides what is still provisional: no more is known, or nobody wants to wait. */
void vs_ledger_flush(struct vs_ledger *l, struct vs_output *out);
size_t vs_ledger_held(const struct vs_ledger *l);        /* events in the look-ahead queue */
uint64_t vs_ledger_ring_seq(const struct vs_ledger *l);  /* of the last event whose row is out; 0 = none */
uint64_t vs_ledger_seq(const struct vs_ledger *l);       /* the last row's number */
int64_t vs_ledger_held_since(const struct vs_ledger *l); /* t_ns of the last event that could have decided
                                                            what holds the others back */

/* Adds to OUT what changed since the last call: open ranges and their peaks, zones, statistics. */
void vs_ledger_end_batch(struct vs_ledger *l, struct vs_output *out);
/* The ranges that are still open stay so (t_pop -1): nothing more comes. */
void vs_ledger_finish(struct vs_ledger *l, struct vs_output *out);

/* What is written of the next events: 0 and 1 every row, 2 the driver's events alone, 3 nothing but
 * aggregates (from 2 on there is no room although everything old is folded). */
void vs_ledger_set_thinning(struct vs_ledger *l, int level);
/* From now on OUT's `born` and `died` say how table live changes. */
void vs_ledger_track_live(struct vs_ledger *l, bool on);

/* Calls EACH for every living allocation (ascending within blocks and within driver allocations is not
 * promised). */
void vs_ledger_each_live(const struct vs_ledger *l, void (*each)(void *context, const struct vs_alloc *a),
                         void *context);
size_t vs_ledger_live_count(const struct vs_ledger *l);
/* The living allocation that ROW is about: its seq, and in *T when it was allocated; 0: there is none. */
uint64_t vs_ledger_access_seq(const struct vs_ledger *l, const struct vs_access_row *row, int64_t *t);

/* The arena's living blocks that REQUEST, which names roles, is about: up to MOST of them; how many there
 * are.  *NAMED: how many blocks have one of the roles that it names, be they to go or to stay. */
size_t vs_ledger_blocks(const struct vs_ledger *l, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named);

/* What pools of the driver and graphs hold of all devices now. */
void vs_ledger_pools(const struct vs_ledger *l, uint64_t *pools, uint64_t *graphs);

/* Where it stands; published_ns and step_t are the caller's. */
void vs_ledger_now(const struct vs_ledger *l, struct vs_now *out);

/* What was alive at the peak of `allocated`, per device (ordinal): the blocks and direct allocations whose
 * sizes add up to it, and with op 0 the bytes that a framework held before the recording began. */
struct vs_peak_info {
    int device;
    uint64_t seq, bytes;
    uint64_t reserved_seq; /* where `reserved` was greatest */
    int64_t t;
};
size_t vs_ledger_peaks(const struct vs_ledger *l, struct vs_peak_info *out, size_t max);
void vs_ledger_each_at_peak(const struct vs_ledger *l, int device,
                            void (*each)(void *context, const struct vs_alloc *a), void *context);

/* The out-of-memory events that are kept, one row each however many roles it has; how many, at most MAX.
 * _version counts their changes, from 0 in a fresh ledger or one that continues a database. */
size_t vs_ledger_ooms(const struct vs_ledger *l, struct vs_oom_row *out, size_t max);
size_t vs_ledger_oom_seqs(const struct vs_ledger *l, uint64_t *out, size_t max); /* their events alone */
uint64_t vs_ledger_ooms_version(const struct vs_ledger *l);
/* What was alive then on its device: of `allocated`, so that the sizes and `base` add up to framework +
 * direct; of no device (-1: host memory) everything that belongs to none. */
void vs_ledger_each_at_oom(const struct vs_ledger *l, uint64_t seq,
                           void (*each)(void *context, const struct vs_alloc *a), void *context);

/* What `resume` has to say as of the last row. */
void vs_ledger_each_resume(const struct vs_ledger *l,
                           void (*each)(void *context, const struct vs_resume_row *row), void *context);

/* Whether range ID is open: its pop may still come. */
bool vs_ledger_range_open(const struct vs_ledger *l, uint32_t id);

/* ---- continuing a database (see restore.c for the order of calls) ---- */

void vs_ledger_restore_peak(struct vs_ledger *l, const struct vs_peak_row *row);
void vs_ledger_restore_oom(struct vs_ledger *l, const struct vs_oom_row *row); /* beside restore_peak */
void vs_ledger_restore_begin(struct vs_ledger *l);
void vs_ledger_restore_row(struct vs_ledger *l, const struct vs_row *row);
void vs_ledger_restore_block(struct vs_ledger *l, const struct vs_alloc *block);
void vs_ledger_restore_at_peak(struct vs_ledger *l, int device, const struct vs_alloc *a);
void vs_ledger_restore_at_oom(struct vs_ledger *l, uint64_t oom_seq, const struct vs_alloc *a);
void vs_ledger_restore_totals(struct vs_ledger *l, const struct vs_peak_row *row);
void vs_ledger_restore_phase(struct vs_ledger *l, const struct vs_phase_row *row);
void vs_ledger_restore_stretch(struct vs_ledger *l, const struct vs_stretch_row *row); /* the open one */
void vs_ledger_restore_zone(struct vs_ledger *l, const struct vs_zone_row *row);
void vs_ledger_restore_range(struct vs_ledger *l, const struct vs_range_row *row);
void vs_ledger_restore_range_peak(struct vs_ledger *l, const struct vs_range_peak_row *row);
void vs_ledger_restore_count(struct vs_ledger *l, const struct vs_count_row *row);
void vs_ledger_restore_away_block(struct vs_ledger *l, const struct vs_away_block_row *row);
void vs_ledger_restore_mismatch(struct vs_ledger *l, const struct vs_mismatch_row *row);
void vs_ledger_restore_doubt(struct vs_ledger *l, const struct vs_doubt_row *row); /* one that is still so */
void vs_ledger_restore_end(struct vs_ledger *l, uint64_t seq, uint64_t ring_seq);  /* of the last row */
void vs_ledger_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row);

#endif
