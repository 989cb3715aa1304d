/*
 * journal.h - the file-backed memory that events pass through, and that survives the process.
 *
 * The recording process writes the file, through a shared mapping.  Its drain thread reads it or, after a
 * SIGKILL, `vramscope recover`.  An event that is published survives the process: only a crash of the machine
 * can lose it.  One that finds the ring full is not published.
 *
 * Ring: sequences count from 1; a full ring consumes none.  The consumer kills a slot that is claimed and not
 * published within 100 ms: the event counts as lost, and the slot is skipped, as its late writer may still
 * write to it.  Tables: an id once returned means the same row for ever; 0 says "none", also of a full table
 * (counted in `table_full`).
 *
 * Thread-safety: append and intern functions may be called from any thread and from signal handlers; they
 * take no lock, allocate nothing and make no system call, but for append's bounded wait. peek and release
 * belong to one consumer.
 */
#ifndef VS_TRACE_JOURNAL_JOURNAL_H
#define VS_TRACE_JOURNAL_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/access.h"
#include "trace/control.h"
#include "trace/event.h"
#include "trace/now.h"

#define VS_JOURNAL_SUFFIX ".vsj"
#define VS_SEQ_NONE       UINT64_MAX

/* ---- rows of the append-only tables (fixed size, plain data) ---- */

struct vs_thread_row {
    uint32_t tid;
    uint32_t flags; /* VS_THREAD_AUTOGRAD ... */
    char name[24];  /* as PR_GET_NAME gave it at the thread's first event */
};
#define VS_THREAD_AUTOGRAD 1u /* name begins "pt_autograd_": without a range its events are `backward` */

struct vs_context_row {
    uint64_t handle; /* CUcontext */
    int32_t device;
    uint32_t reserved;
};

struct vs_device_row {
    int32_t ordinal;
    uint32_t reserved;
    uint64_t total_bytes;
    uint8_t uuid[16];
    char name[96];
};

struct vs_module_row {   /* one mapping of one object file */
    uint64_t base;       /* load bias */
    uint64_t start, end; /* mapped address range */
    uint32_t path;       /* string id */
    uint32_t build_id;   /* string id, hexadecimal; 0 = none */
    uint32_t reserved[2];
};

/* What a frame is.  The numbers are those of the database, frame.kind. */
enum vs_frame_kind {
    VS_FRAME_ADDRESS = 1, /* an address of code */
    VS_FRAME_PYTHON = 2,  /* a place in Python code: a function, a file and a line */
    VS_FRAME_NODE = 3,    /* function: the name of the autograd node that runs.  Its callers are the frames
                             that made it in the forward, not those that run it */
    VS_FRAME_LAYER = 4,   /* function: the path of the module or the ranges that were open; file: the module's
                             class.  It is the innermost frame of its stack and stands for no code */
    VS_FRAME_NATIVE = 5   /* native code of which a name is known and no address, as in an imported trace.  In
                             the database it is a VS_FRAME_ADDRESS that somebody has looked up */
};

struct vs_frame_row {
    union {
        uint64_t address; /* VS_FRAME_ADDRESS: the return address minus 1, absolute */
        struct {          /* the others: string ids */
            uint32_t function, file;
        };
    };
    union {
        uint32_t module; /* VS_FRAME_ADDRESS: module id, 0 = unknown */
        uint32_t line;   /* the others: 0 = unknown */
    };
    uint32_t kind; /* enum vs_frame_kind */
};
_Static_assert(sizeof(struct vs_frame_row) == 16, "both kinds of frame have the same row");

struct vs_stack_row { /* call-stack trie: a stack is the path from this node to the root (parent 0) */
    uint32_t parent;  /* the caller */
    uint32_t frame;
};

/* What a framework's block was asked for as.  As many int64_t sizes follow the row as it has dimensions. */
struct vs_tensor_row {
    uint32_t what; /* VS_TENSOR_WHAT */
    uint32_t reserved;
    uint64_t request; /* bytes; 0: unknown */
};
#define VS_TENSOR_DIMS_MAX 16u
#define VS_TENSOR_NO_SHAPE 255u /* dimensions: there is no shape, or it has more than VS_TENSOR_DIMS_MAX */
#define VS_TENSOR_NO_TYPE  255u

static inline uint32_t vs_tensor_what(enum vs_tensor_kind kind, uint32_t type, uint32_t dims)
{
    return (uint32_t)kind | type << 8 | dims << 16;
}
static inline uint32_t vs_tensor_kind_of(const struct vs_tensor_row *row)
{
    return row->what & 255;
}
static inline uint32_t vs_tensor_type_of(const struct vs_tensor_row *row)
{
    return row->what >> 8 & 255;
}
static inline uint32_t vs_tensor_dims_of(const struct vs_tensor_row *row)
{
    return row->what >> 16 & 255;
}

/* ---- creating, opening ---- */

struct vs_journal_config {
    uint32_t ring_slots;   /* power of two; 0 = default (1 << 18) */
    uint32_t string_bytes; /* 0 = default, likewise below */
    uint32_t threads, contexts, devices, modules, frames, stacks;
    uint32_t tensor_bytes;
    uint32_t accesses;    /* 0: none are recorded */
    const char *database; /* absolute path of the database that the drain writes */
    uint64_t start_ns;    /* CLOCK_MONOTONIC of the run's start */
    uint64_t start_realtime_ns;
};

struct vs_journal; /* process-local handle; the memory behind it is the file */

/* Creates PATH (O_EXCL, mode 0600), takes its whole space with posix_fallocate before mapping it (a full disk
 * is ENOSPC here and never a SIGBUS later) and keeps no descriptor.  0 or a negative errno. */
int vs_journal_create(struct vs_journal **out, const char *path, const struct vs_journal_config *config);

/* The size that the file of CONFIG will have. */
size_t vs_journal_bytes(const struct vs_journal_config *config);

/* Start time of process PID in clock ticks since boot (a reused pid has another); 0 = no such process. */
uint64_t vs_journal_process_start(int32_t pid);

/* Opens another process's journal for reading (`writable` = may release what it consumed).  Every offset and
 * count in the file is checked against its size first: a truncated, foreign or damaged file is -EINVAL, a
 * newer format -EPROTO, an older one -ENOTSUP, and never a crash.  A journal of another user is -EPERM: a
 * journal names the file to be written, and only its owner may decide that.  A symbolic link is not followed
 * (-EINVAL), a FIFO not waited for. */
int vs_journal_open(struct vs_journal **out, const char *path, bool writable);
/* Likewise with the open descriptor FD, which stays open. */
int vs_journal_open_fd(struct vs_journal **out, int fd, bool writable);
void vs_journal_close(struct vs_journal *j); /* unmaps; the file stays */
/* If another process truncates the file, the journal reads as zeros from then on, and NOTIFY(CONTEXT) is
 * called at least once, in a signal handler (guard.h).  Every call stays safe and finds nothing. */
void vs_journal_guard(struct vs_journal *j, void (*notify)(void *context), void *context);

/* ---- producers ---- */

/* Appends one event; `state` is ignored.  Returns its sequence number, or VS_SEQ_NONE when it was dropped: a
 * full ring is waited for at most 1 ms, once, and then drops (counted in `lost`) until it is half empty.  The
 * last eighth of the ring is reserved for ends (frees, releases, pops); if that is full too an end is lost,
 * and counted in `lost_ends` too.  The free of a dropped allocation is dropped with it and does not count as
 * a lost end.  A dropped push or pop is not counted: its caller keeps it and
 * tries again. */
uint64_t vs_journal_append(struct vs_journal *j, const struct vs_event *event);

/* The address of the words that every append reads and changes, to be prefetched (hot.h): this cache line and
 * the next. */
const void *vs_journal_head_line(const struct vs_journal *j);

/* The same without any wait, for the thread that is itself the consumer. */
uint64_t vs_journal_try_append(struct vs_journal *j, const struct vs_event *event);

/* Tells the ring what lives of the allocations that were dropped (dropped.c), where that has changed; T_NS:
 * now.  For the consumer, too. */
bool vs_journal_tell_dropped(struct vs_journal *j, uint64_t t_ns);

/* Counts an event of kind OP as lost: a push or a pop that was dropped and could not be kept. */
void vs_journal_count_lost(struct vs_journal *j, uint8_t op);

/* Whether MATTERS is true for one of the events from sequence FROM up to TO (exclusive), or one of them
 * cannot be read: it is not published yet, or its slot was reused.  For looking back over a few events just
 * recorded. */
bool vs_journal_any(const struct vs_journal *j, uint64_t from, uint64_t to,
                    bool (*matters)(uint8_t op, uint8_t space));

uint32_t vs_journal_string(struct vs_journal *j, const char *text,
                           size_t length); /* interned; <= 4095 bytes kept */
uint16_t vs_journal_thread(struct vs_journal *j, uint32_t tid, uint32_t flags,
                           const char *name);                                      /* new row */
uint8_t vs_journal_context(struct vs_journal *j, uint64_t handle, int32_t device); /* interned by handle */
void vs_journal_device(struct vs_journal *j, const struct vs_device_row *row);     /* once per ordinal */
uint32_t vs_journal_module(struct vs_journal *j, const struct vs_module_row *row); /* new row */
uint32_t vs_journal_frame(struct vs_journal *j, uint64_t address,
                          uint32_t module); /* interned by (address, module) */
/* A frame that is not an address, interned by all its fields.  FUNCTION and FILE are string ids; only those
 * of a node or a layer may be 0. */
uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line);
uint32_t vs_journal_stack(struct vs_journal *j, uint32_t parent, uint32_t frame); /* interned */
/* What a block was asked for as, interned by all of it: WHAT (vs_tensor_what), REQUEST in bytes, and as many
 * SIZES as it has dimensions (no shape: they may be NULL).  In a full table without its shape, or 0. */
uint32_t vs_journal_tensor(struct vs_journal *j, uint32_t what, uint64_t request, const int64_t *sizes);
uint32_t vs_journal_next_range(struct vs_journal *j); /* fresh range id, from 1 */
/* Counts N memory nodes of graphs, or allocations by them, for which the hooks' tables had no room. */
void vs_journal_untracked(struct vs_journal *j, uint64_t n);
/* Counts a range that cannot be tracked: it is nested too deeply, or too many threads have ranges. */
void vs_journal_lost_range(struct vs_journal *j);
/* Counts a node of a framework's graph that ran after the record of its birth was overwritten. */
void vs_journal_lost_birth(struct vs_journal *j);

/* Appends N words that the device was given, four an event, in the order of WORD: events VS_OP_USE, otherwise
 * LIKE (trace/access.h).  Returns the last one's sequence; VS_SEQ_NONE: uses were lost, which is counted in
 * row 0 of the accesses, or N is 0. */
uint64_t vs_journal_append_uses(struct vs_journal *j, const struct vs_event *like, const uint64_t *word,
                                uint32_t n);

/* Takes a vacant row of the table of accesses; 0 where there is none.  The row still has the values of its
 * last block. */
uint32_t vs_journal_access_take(struct vs_journal *j);
/* Makes row ID vacant.  Called by the process that owns the journal, on any thread. */
void vs_journal_access_give(struct vs_journal *j, uint32_t id);
/* Row ID, writable; NULL where there is no such row. */
struct vs_access_row *vs_journal_access(const struct vs_journal *j, uint32_t id);
/* Row 0, which is no block's (trace/access.h). */
struct vs_access_row *vs_journal_access_state(const struct vs_journal *j);
/* One more than the highest id that was ever taken. */
uint32_t vs_journal_access_rows(const struct vs_journal *j);

/* ---- consumer ---- */

/* Copies up to MAX published events, in ring order, to OUT and their sequences to SEQ, without handing the
 * slots back. Stops at the first slot that is claimed but not yet published, and kills it once it is 100 ms
 * old (at once if `final`: no producer is left).  Repeated calls give the same events until release(). */
size_t vs_journal_peek(struct vs_journal *j, struct vs_event *out, uint64_t *seq, size_t max, bool final);

/* Whether more ends were lost than *SEEN, which is updated.  If so, totals may be too high from sequence
 * *FIRST on, and the last of these ends is missing at *LAST.  Called after peek(), it covers every lost end
 * that can affect the events that peek() gave. */
bool vs_journal_lost_ends(struct vs_journal *j, uint64_t *seen, uint64_t *first, uint64_t *last);

/* Hands back everything up to and including sequence SEQ: call after the database committed it. */
void vs_journal_release(struct vs_journal *j, uint64_t seq);

/* Says where the process stands.  One thread at a time; no call, no allocation, never waits. */
void vs_journal_publish(struct vs_journal *j, const struct vs_now *now);

enum vs_now_state {
    VS_NOW_SEEN,
    VS_NOW_NOTHING, /* nothing has been said yet */
    VS_NOW_TORN     /* it is being written, or the writer was killed while it wrote */
};
/* What was said last, for any process that has the journal open. */
enum vs_now_state vs_journal_now(const struct vs_journal *j, struct vs_now *out);

/* ---- requests of other processes (requests.c) ---- */

/* Whether the recorded process can be asked: J is writable, and not of an older vramscope. */
bool vs_journal_can_ask(const struct vs_journal *j);
/* Asks; the request's number, or 0: an earlier one is being carried out.  The caller holds the lock (flock)
 * on the file until it knows the outcome.  UNTIL_NS of CLOCK_MONOTONIC: later it is not taken. */
uint32_t vs_journal_ask(struct vs_journal *j, const struct vs_control_request *request, uint64_t until_ns);
/* False: it was taken, and is or was carried out. */
bool vs_journal_withdraw(struct vs_journal *j, uint32_t number);

enum vs_request_state {
    VS_REQUEST_WAITS,    /* it is not taken */
    VS_REQUEST_TAKEN,    /* it is being carried out */
    VS_REQUEST_ANSWERED, /* *ANSWER is filled */
    VS_REQUEST_DROPPED   /* it was withdrawn, or not taken in time, or the page was wiped */
};
enum vs_request_state vs_journal_request_state(const struct vs_journal *j, uint32_t number,
                                               struct vs_control_answer *answer);

/* For the owner: takes a request that waits.  A load where there is none. */
bool vs_journal_requested(struct vs_journal *j, struct vs_control_request *out, uint64_t now_ns);
/* Answers the request of ANSWER's number, which was taken.  Any thread. */
void vs_journal_answer(struct vs_journal *j, const struct vs_control_answer *answer);

struct vs_journal_stats {
    uint64_t head, tail;               /* next sequence to claim; first not yet released */
    uint64_t lost;                     /* events dropped because the ring was full */
    uint64_t lost_ends;                /* of these: ends of something that was recorded */
    uint64_t dead;                     /* slots killed */
    uint64_t table_full;               /* rows refused by a full table, but for tensors */
    bool tensors_full;                 /* new shapes of tensors are refused */
    uint64_t late;                     /* events written too late into a killed slot */
    uint64_t untracked;                /* see vs_journal_untracked */
    uint64_t lost_uses;                /* see vs_journal_append_uses */
    uint64_t lost_ranges, lost_births; /* see vs_journal_lost_range, vs_journal_lost_birth */
    int32_t pid;
    uint64_t start_ns, start_realtime_ns;
};
void vs_journal_stats(const struct vs_journal *j, struct vs_journal_stats *out);
const char *vs_journal_database(const struct vs_journal *j);
/* Whether the process that created the journal still runs (by pid and start time, because pids
 * are reused). */
bool vs_journal_owner_alive(const struct vs_journal *j);
/* Whether it was written since this machine was booted. */
bool vs_journal_this_boot(const struct vs_journal *j);
/* Facts about the recording process that recover needs to make the `process` row: up to 32 short key/value
 * strings (host, boot_id, command, rank, local_rank, world_size, simulated, max_bytes, version, labels). Set
 * by the owner at any time. */
void vs_journal_set_fact(struct vs_journal *j, const char *key, const char *value);
#define VS_FACT_LIMIT        "limit"        /* VRAMSCOPE_LIMIT, where it is set */
#define VS_FACT_DRY          "dry"          /* what a dry run stands for (schema.sql) */
#define VS_FACT_CAME_TO_EXIT "came_to_exit" /* "1": the process ran its exit handlers; "0": not yet */
const char *vs_journal_fact(const struct vs_journal *j, const char *key); /* NULL = not set */

/* Facts that the writer turns into rows of table `loss`: numbered from 0. */
#define VS_UNCOVERED_FACT  "uncovered%d"
#define VS_UNCOVERED_FACTS 8

/* ---- reading rows: NULL where the id is 0, out of range or not yet published ---- */
const char *vs_journal_get_string(const struct vs_journal *j, uint32_t id, size_t *length);
const struct vs_thread_row *vs_journal_get_thread(const struct vs_journal *j, uint32_t id);
const struct vs_context_row *vs_journal_get_context(const struct vs_journal *j, uint32_t id);
const struct vs_device_row *vs_journal_get_device(const struct vs_journal *j, uint32_t id);
const struct vs_module_row *vs_journal_get_module(const struct vs_journal *j, uint32_t id);
const struct vs_frame_row *vs_journal_get_frame(const struct vs_journal *j, uint32_t id);
const struct vs_stack_row *vs_journal_get_stack(const struct vs_journal *j, uint32_t id);
/* A copy; false: likewise. */
struct vs_tensor {
    struct vs_tensor_row row;
    int64_t size[VS_TENSOR_DIMS_MAX];
};
bool vs_journal_get_tensor(const struct vs_journal *j, uint32_t id, struct vs_tensor *out);

#endif
