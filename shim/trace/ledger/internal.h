/*
 * internal.h - the ledger's state, shared by its files:
 *
 *      ledger.c    feeding events, the end of a batch
 *      row.c       beginning and ending rows
 *      pending.c   the look-ahead queue: managed or direct
 *      totals.c    devices' totals, peaks
 *      entries.c   allocations that live, what lived at the peak, what others say of them
 *      alloc.c     driver allocations and frees
 *      undo.c      frees that may still fail; failed.c: one that did
 *      vmm.c       physical handles, mappings, reservations
 *      bind.c      physical memory bound into sparse arrays and multicast objects
 *      context.c   contexts, modules, limits, graph nodes, none of which have bytes here
 *      pools.c     what pools, graphs and the arena hold of the driver
 *      blocks.c    a framework's blocks, the check of its totals, reclassification
 *      ranges.c    ranges and their peaks
 *      phases.c    statistics per phase, zones
 *      doubt.c     from where to where totals are upper bounds, because ends were lost
 *      stretch.c   stretches: the units of folding
 *      oom.c       refusals: whether they reached the program, and what the driver said then
 *      oom_kept.c  those that are kept, and what lived then
 *      restore.c   continuing a database
 *      resume.c    the state that restoring needs beside the other tables
 */
#ifndef VS_TRACE_LEDGER_INTERNAL_H
#define VS_TRACE_LEDGER_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include "ledger.h"
#include "addresses.h"

#define VS_QUEUE_MAX       65536                 /* events held back at most */
#define VS_QUEUE_BLIND     1024                  /* the same, while no framework was ever seen */
#define VS_PENDING_MAX     16384                 /* provisional allocations at most */
#define VS_PENDING_NS      50000000u             /* age at which a provisional allocation is direct */
#define VS_RUN_NS          UINT64_C(10000000000) /* age limit of a thread's run of pieces */
#define VS_RUN_MAX         16384                 /* events held back for a run at most */
#define VS_MAKERS          64   /* threads whose work with physical memory is tracked at once */
#define VS_UNDO            4096 /* frees that may still turn out to have failed */
#define VS_UNDO_CALL       64   /* of these by one call: the hooks record no more before it */
#define VS_RANGES_OPEN_MAX 1024
#define VS_RANGE_CACHE     4096 /* ids whose phase is remembered after their pop */
#define VS_ZONE_EVENTS     1000
#define VS_ZONE_GAP        256 /* another phase's rows that end a zone */
#define VS_SPACES_MAX      13
#define VS_DOUBTS          2    /* totals of a device that can be upper bounds */
#define VS_MISMATCH_ROWS   1000 /* of one kind and device; after that they are only counted */

struct curve {
    uint64_t now, peak, peak_seq;
    int64_t peak_t;
    bool dirty;
};

struct device {
    struct curve curve[VS_CURVE_END];
    bool active, reported, resync, run_dirty;
    bool peak_restored;                      /* `gone` came from the database as a whole */
    struct vs_held held;                     /* of allocated, without `base` */
    uint64_t base, base_at_peak;             /* bytes that a framework held before the recording began */
    uint64_t managed_base, managed_base_seq; /* the same of its reserved total, and the row that set it */
    uint64_t pool_live, pool_sampled, direct_driver;
    uint64_t graph_live, graph_sampled; /* like the pools' figures, of graphs' memory */
    uint64_t arena_live, arena_managed; /* the arena's blocks: direct, and those carved by a framework */
    uint64_t arena_unknown_use;         /* the arena's blocks that other libraries' pools carve */
    uint64_t arena_reserved;            /* what it holds, as last recorded */
    uint64_t arena_away;                /* what of its blocks is on the host, likewise */
    bool was_away;                      /* some has been */
    uint64_t all_away;                  /* as all the arena's blocks were said to be on the host together */
    struct went {
        uint64_t out, back, times, waited_ns;
    } went[VS_AWAY_WHYS];                 /* so far, as struct vs_away_block_row has it */
    uint64_t away_of[VS_FRAMEWORK_ROLES]; /* bytes of blocks on the host, by role */
    struct vs_arena_row arena;            /* the parts of a sample of it that have come */
    uint32_t arena_sample, arena_parts;   /* its number; a bit per part */
    bool pools_in_doubt, graphs_in_doubt; /* the primary context ended; the next figure says if they did */
    uint64_t run_allocated, run_reserved; /* maximum since the last range boundary */
    int64_t run_t;
    int64_t diff[2];                      /* mismatch last written: allocated, reserved */
    VS_LIST(struct vs_alloc, gone);       /* ended since the peak of allocated, alive at it */
    uint64_t count[VS_COUNT_END];         /* see VS_COUNTS */
    uint32_t mismatches[VS_MISMATCH_END]; /* rows written */
    uint32_t last_phase, last_stat;       /* the phase_dev used last */
    uint32_t counts_dirty;                /* bit per counter */
    uint8_t doubt;                        /* doubt.c: the parts that may be too high */
    struct vs_doubt_row doubt_row[VS_DOUBTS];
};

struct entry { /* a living allocation */
    struct vs_alloc a;
    uint64_t alias;      /* second handle of the same physical memory, 0 none */
    uint32_t refs, maps; /* of an IMPORTED allocation: how often it was opened beyond the first time */
    uint8_t context;     /* journal context id that owns it, 0 none */
};

struct saved_map {
    uint64_t start, end;
    struct entry phys;
};

struct undo { /* a free that may still be reported as failed */
    uint64_t ring_seq, seq, address, end;
    uint64_t number; /* of its thread's ends */
    uint16_t thread;
    uint8_t op;
    struct entry entry;
    struct saved_map *maps; /* of an UNMAP; else bindings: object and key stand for start and end */
    size_t n_maps;
    struct ended *ended; /* allocations and modules that ended with it */
    size_t n_ended;
};

struct progress {   /* how far a thread has come: shows whether a free of its own may still be running */
    uint64_t other; /* ring sequence of its last event that ends nothing */
    uint64_t ends;  /* how many it has recorded */
};

struct ended { /* an allocation or module that ended with its context, or physical memory that ended with its
                  last mapping, and the row that ended it; 0: no row */
    struct entry entry;
    uint64_t seq;
};

struct object { /* a living context, module or library */
    uint64_t handle, seq, size;
    uint8_t op, context;
    int8_t device;
};

struct bound {
    uint64_t object, key;
    uint32_t index; /* into entries */
};

struct range_peak {
    uint64_t allocated, reserved;
    int64_t t;
};

struct open_range {
    struct vs_range_row row;
    bool dirty;
    struct range_peak *peak; /* [VS_LEDGER_DEVICES] */
};

struct phase {
    uint64_t ranges;
    int64_t ns;
    int64_t open_ns; /* time of the open outermost ranges so far */
    bool dirty;
};

struct phase_dev {
    struct vs_phase_row row; /* ranges and ns come from struct phase */
    struct vs_zone_row zone;
    bool dirty, zone_open, zone_dirty;
};

enum verdict { VERDICT_NONE, VERDICT_PENDING, VERDICT_DIRECT, VERDICT_MANAGED, VERDICT_UNKNOWN_USE };

static inline enum vs_managed vs_managed_by(enum verdict v)
{
    return v == VERDICT_MANAGED ? VS_MANAGED : v == VERDICT_UNKNOWN_USE ? VS_UNKNOWN_USE : VS_NOT_MANAGED;
}

struct held {
    struct vs_event event;
    uint64_t ring_seq;
    enum verdict verdict;
};

struct pending { /* a provisional allocation in the queue */
    uint64_t position, address, size, t_ns;
    uint16_t thread;
    uint8_t context; /* the owner's, as in struct entry */
    bool phys, mapped;
    bool released;     /* physical memory that was never mapped, so nothing can have used it */
    bool unreferenced; /* physical memory without a handle, which only its mappings keep alive */
    uint64_t map_start[4], map_end[4];
    int maps;
};

struct maker { /* a thread that makes and maps physical memory, since its last report */
    uint16_t thread;
    uint64_t t_ns;    /* of its latest event of that kind */
    uint64_t refused; /* bytes of the piece that the driver refused it; 0: none */
};

struct oom { /* one out-of-memory in one role */
    struct vs_oom_row row;
    VS_LIST(struct vs_alloc, gone); /* ended since, alive then */
    bool restored;                  /* `gone` came from the database as a whole */
    uint64_t retry_seq;             /* VS_OOM_OPEN_LAST: the same request, granted later */
    uint64_t retry_address;
};

struct last_sample { /* of a device, by kind: this process's, the whole device's */
    uint64_t used;
    int64_t t;
};

struct ooms {
    VS_LIST(struct oom, at);
    struct last_sample last_sample[VS_LEDGER_DEVICES][2];
    unsigned open;    /* threads that were refused and whose outcome is not known yet */
    uint64_t version; /* counts changes */
};

struct vs_ledger {
    struct vs_ledger_config config;
    struct vs_output *out; /* of the call in progress */
    uint64_t seq, ring_seq, current_ring_seq;
    int64_t t;     /* of the last row */
    bool finished; /* no more events come: what was open is closed, and its time is kept */
    uint64_t step;
    int level; /* of thinning */
    bool restoring, track_live, framework_seen;
    bool has_accesses; /* accesses were recorded */

    struct device device[VS_LEDGER_DEVICES];
    int devices; /* highest index in use + 1 */
    struct curve space[VS_SPACES_MAX];
    uint64_t doubt_from, doubt_to; /* ring sequences between which ends were lost; doubt_from 0: dealt with */
    uint64_t lost_to;              /* ring sequence of the last loss of anything; 0: none yet */

    VS_LIST(struct entry, entries);
    uint32_t vacant; /* free entries: index + 1, linked by a.next */
    size_t live;
    struct vs_table blocks, allocs, handles, phys_seq; /* -> index into entries */
    VS_LIST(uint32_t, fresh);
    struct vs_spans direct_spans, maps, reservations;
    struct vs_table pools; /* pool handle -> index into pool */
    VS_LIST(
        struct pool_sample {
            uint64_t bytes;
            int device;
            bool graph;
        },
        pool);
    VS_LIST(struct bound, bound);
    VS_LIST(struct object, objects);
    struct undo *undo;         /* ring of VS_UNDO */
    struct progress *progress; /* by thread; pages that no thread touches take no memory */
    uint64_t undo_next;

    VS_LIST(struct held, queue); /* a ring: size is a power of two, n unused */
    uint64_t queue_head, queue_tail;
    VS_LIST(struct pending, pending);
    struct maker maker[VS_MAKERS]; /* by thread */
    uint64_t newest_ns;
    struct {
        uint64_t to; /* up to this ring sequence events were already in the queue of an earlier ledger */
        bool again;  /* the present event was */
        struct vs_table verdicts; /* ring sequence -> that ledger's verdict */
    } resumed;

    VS_LIST(struct open_range, open);
    struct {
        uint32_t id, phase;
    } range_cache[VS_RANGE_CACHE];
    VS_LIST(struct phase, phase);
    VS_LIST(struct phase_dev, stat);
    struct vs_stretch_row stretch;
    struct ooms oom;
    struct vs_table stats; /* device << 32 | phase -> index into stat */
};

/* row.c; vs_ledger_apply: ledger.c */
void vs_row_begin(struct vs_ledger *l, struct vs_row *r,
                  const struct vs_event *e); /* takes the next number */
bool vs_has_api(uint8_t op);                 /* arg1 is the entry point */
uint32_t vs_event_phase(struct vs_ledger *l, const struct vs_event *e);
void vs_row_end(struct vs_ledger *l, struct vs_row *r); /* totals, peaks, zones, out */
void vs_ledger_apply(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict);
void vs_mismatch(struct vs_ledger *l, const struct vs_row *r, enum vs_mismatch what, uint64_t ours,
                 uint64_t theirs);

/* pending.c */
/* The verdict that the event itself carries. */
enum verdict vs_verdict_at_birth(const struct vs_event *e);
/* The time of the last event that could have decided the oldest provisional allocation.  There must
 * be one. */
uint64_t vs_pending_since(const struct vs_ledger *l);
bool vs_pending_take(struct vs_ledger *l, const struct vs_event *e,
                     uint64_t ring_seq);  /* false: apply it now */
void vs_pending_run(struct vs_ledger *l); /* applies what is certain */
void vs_pending_resolve_all(struct vs_ledger *l);
void vs_pending_each_resume(const struct vs_ledger *l,
                            void (*each)(void *context, const struct vs_resume_row *row), void *context);
void vs_pending_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row);

/* totals.c, entries.c */
/* Whether the device has had memory of unknown use, so that its allocated total is a lower bound. */
static inline bool vs_use_unknown(const struct device *d)
{
    return d->curve[VS_CURVE_UNKNOWN_USE].peak > 0;
}
/* An import that was first seen when its handle was retained begins with that row. */
static inline bool vs_makes_phys(uint8_t op)
{
    return op == VS_OP_PHYS_CREATE || op == VS_OP_PHYS_RETAIN;
}
int vs_device_index(int ordinal);
struct device *vs_device(struct vs_ledger *l, int ordinal);
void vs_count(struct vs_ledger *l, int ordinal, enum vs_count what);
void vs_uncount(struct vs_ledger *l, int ordinal, enum vs_count what);
void vs_curve_update(struct curve *c, uint64_t now, uint64_t seq, int64_t t);
void vs_device_totals(struct vs_ledger *l, struct vs_row *r);
void vs_account(struct vs_ledger *l, const struct vs_alloc *a, bool add, uint64_t seq, int64_t t);
uint32_t vs_entry_add(struct vs_ledger *l, struct vs_table *table, const struct entry *e, uint64_t since);
void vs_entry_remove(struct vs_ledger *l, uint32_t index); /* from the slab; tables are the caller's */
void vs_entry_dirty(struct vs_ledger *l, uint32_t index);
void vs_gone_remember(struct vs_ledger *l, const struct vs_alloc *a);
void vs_entry_from(const struct vs_row *r, struct entry *e);
bool vs_in_allocated(const struct vs_alloc *a);
uint32_t vs_entry_living(const struct vs_ledger *l, uint8_t op, uint64_t address, uint64_t seq);
bool vs_restored_lives(const struct vs_ledger *l, const struct vs_alloc *a, uint64_t seq);
void vs_held_add(struct vs_ledger *l, const struct vs_alloc *a, bool add);

/* alloc.c, undo.c, failed.c; vs_emit_end: entries.c */
void vs_apply_alloc(struct vs_ledger *l, const struct vs_event *e, enum vs_managed managed);
void vs_apply_free(struct vs_ledger *l, const struct vs_event *e);
void vs_apply_free_failed(struct vs_ledger *l, const struct vs_event *e);
struct undo *vs_unknown_free(struct vs_ledger *l, struct vs_row *r, uint64_t address);
struct undo *vs_undo_add(struct vs_ledger *l, const struct vs_row *r, uint64_t address);
struct undo *vs_undo_find(struct vs_ledger *l, uint64_t ring_seq, uint64_t seq, uint64_t address,
                          uint16_t thread);
void vs_emit_end(struct vs_ledger *l, const struct vs_event *cause, uint8_t op, uint32_t index);
void vs_undo_ended(struct vs_ledger *l, struct undo *u, const struct entry *entry, uint64_t seq);
void vs_undo_map(struct vs_ledger *l, struct undo *u, uint64_t start, uint64_t end, uint32_t phys);

/* vmm.c */
/* RESTORED_MATE: 0, or of a row of the database the row that created the physical memory. */
void vs_apply_vmm(struct vs_ledger *l, const struct vs_event *e, enum vs_managed managed,
                  uint64_t restored_mate);
void vs_vmm_undo_release(struct vs_ledger *l, struct undo *u);
void vs_vmm_undo_unmap(struct vs_ledger *l, struct undo *u);
void vs_phys_drop(struct vs_ledger *l, uint32_t index);
uint32_t vs_phys_of(struct vs_ledger *l, uint64_t handle, uint64_t restored_mate);
uint32_t vs_phys_mapped_at(struct vs_ledger *l, uint64_t address);
void vs_phys_unheld(struct vs_ledger *l, const struct vs_event *cause, struct undo *u, uint32_t index);
uint32_t vs_phys_revive(struct vs_ledger *l, const struct entry *saved);

/* bind.c */
void vs_apply_bind(struct vs_ledger *l, const struct vs_event *e, uint64_t restored_mate);
void vs_apply_unbind(struct vs_ledger *l, const struct vs_event *e);
void vs_bind_undo(struct vs_ledger *l, struct undo *u);
void vs_bind_object_gone(struct vs_ledger *l, const struct vs_event *cause, struct undo *u, uint64_t object);

/* context.c */
void vs_apply_object(struct vs_ledger *l, const struct vs_event *e);
void vs_apply_moved(struct vs_ledger *l, const struct vs_event *e);
void vs_context_undo(struct vs_ledger *l, struct undo *u, const struct vs_row *r); /* before the bindings */
/* A new figure of a pool or of the graphs, whose old one was BEFORE.  The first figure after a primary
 * context's end shows whether their allocations ended with it. */
void vs_context_reserve_reported(struct vs_ledger *l, const struct vs_event *e, int device, uint64_t before);
void vs_alloc_restore_ended(struct vs_ledger *l, const struct entry *e, uint64_t seq, int64_t t);
void vs_alloc_drop(struct vs_ledger *l, uint32_t index);

/* pools.c */
void vs_apply_pool(struct vs_ledger *l, const struct vs_event *e);
void vs_apply_arena_reserved(struct vs_ledger *l, const struct vs_event *e);
void vs_apply_block_away(struct vs_ledger *l, const struct vs_event *e);
/* A, of which some is on the host, ends or gets another ROLE. */
void vs_away_ends(struct vs_ledger *l, const struct vs_alloc *a);
void vs_away_has_role(struct vs_ledger *l, const struct vs_alloc *a, uint8_t role);
void vs_apply_arena_figures(struct vs_ledger *l, const struct vs_event *e);

void vs_access_ended(struct vs_ledger *l, const struct vs_event *e, const struct vs_alloc *a);
void vs_access_doubted(struct vs_ledger *l, const struct vs_alloc *a);

void vs_apply_role(struct vs_ledger *l, const struct vs_event *e);

/* blocks.c */
void vs_apply_block(struct vs_ledger *l, const struct vs_event *e);
void vs_reclassify(struct vs_ledger *l, const struct vs_event *cause, uint32_t index);
/* ADDRESS belongs to a caching allocator; so its whole reservation does, and everything that is mapped
 * there. */
void vs_reservation_managed(struct vs_ledger *l, const struct vs_event *cause, uint64_t address);

/* oom.c */
void vs_oom_event(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict); /* just applied */
void vs_oom_sample(struct vs_ledger *l, const struct vs_event *e, int64_t t);
void vs_oom_finish(struct vs_ledger *l); /* no more events come */

/* oom_kept.c */
#define VS_OOM_NONE       SIZE_MAX
#define VS_OOM_OPEN_ROLES (VS_OOM_OPEN_FIRST | VS_OOM_OPEN_LAST)
/* The one in ROLE of a device, or of a thread where the role is an open one; VS_OOM_NONE. */
size_t vs_oom_find(const struct vs_ledger *l, uint8_t role, int key);
/* Puts ROW into ROLE, with an empty list `gone`; VS_OOM_NONE: there is no memory. */
size_t vs_oom_put(struct vs_ledger *l, uint8_t role, const struct vs_oom_row *row);
/* FIRST and LAST, of a row of refusals (or the same one twice), reached the program. */
void vs_oom_reached(struct vs_ledger *l, size_t first, size_t last);
void vs_oom_remember(struct vs_ledger *l, const struct vs_alloc *a); /* as vs_gone_remember */
void vs_oom_free(struct vs_ledger *l);
void vs_oom_each_resume(const struct vs_ledger *l,
                        void (*each)(void *context, const struct vs_resume_row *row), void *context);
void vs_oom_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row);

/* doubt.c */
void vs_doubt_begin(struct vs_ledger *l); /* the present event is at or after doubt_from */
void vs_doubt_look(struct vs_ledger *l, const struct vs_row *r); /* after a change of its device's totals */
/* After the comparison with a framework's report (device.diff). */
void vs_doubt_report(struct vs_ledger *l, const struct vs_row *r, bool tells_managed);

/* ranges.c */
void vs_apply_range(struct vs_ledger *l, const struct vs_event *e);
uint32_t vs_range_phase(struct vs_ledger *l, uint32_t range);
void vs_ranges_fold(struct vs_ledger *l);
void vs_ranges_end_batch(struct vs_ledger *l);
void vs_ranges_finish(struct vs_ledger *l);
struct open_range *vs_range_open_slot(struct vs_ledger *l);
struct open_range *vs_range_find(struct vs_ledger *l, uint32_t id);

/* phases.c */
struct phase *vs_phase(struct vs_ledger *l, uint32_t phase);
struct phase_dev *vs_phase_dev(struct vs_ledger *l, int index, uint32_t phase);
void vs_phase_row(struct vs_ledger *l, const struct vs_row *r);
void vs_phase_peak(struct vs_ledger *l, int index, uint32_t phase, const struct range_peak *p);
void vs_zones_close(struct vs_ledger *l);
void vs_phases_end_batch(struct vs_ledger *l);

/* stretch.c */
void vs_stretch_row(struct vs_ledger *l, const struct vs_row *r, bool written);
void vs_stretch_end_batch(struct vs_ledger *l);

#endif
