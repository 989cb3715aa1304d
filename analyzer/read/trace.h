/*
 * trace.h - the recorded run as structs: what is read when a file is opened.  The other headers of this
 * folder, the only one with SQL, have what is read on demand.
 *
 * Opening a file whose process was killed first merges its journal.  A number that the recording lacks is
 * UNKNOWN (base.h).  Texts live until trace_close.  Every function that returns int gives 0, or -1 with the
 * one-line reason in t->why.
 */
#ifndef VS_READ_TRACE_H
#define VS_READ_TRACE_H

#include "base/base.h"
#include "trace/event.h"

struct trace_process {
    int64_t id, pid, rank, local_rank, world_size, start_realtime_ns, end_ns;
    const char *host, *command;
    enum vs_driver driver;
    const char *dry; /* of a dry run, what it stands for (schema.sql); NULL: not recorded */
};

struct trace_run_label { /* that the user gave the run: `vramscope run --label batch=4` */
    const char *name, *value;
};

struct trace_device {
    int64_t id;
    int64_t total_bytes; /* what the process could have of it */
    int64_t own_bytes;   /* what it has in all: more than that where `run --limit` was given */
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
    const char *code, *why; /* the kind (trace/database.h, or VS_CONTRACT_CODE), and what people read */
    const char *contract;   /* of a contract that is broken: its name; else NULL */
    enum trace_loss_kind kind;
};

#define VS_CONTRACT_CODE "contract"

struct trace_mismatch {
    int64_t rows, t_first, device, ours, theirs; /* the first of its kind */
    const char *what;
};

struct trace_oom {
    int64_t seq, t, device, size, framework, direct, reserved;
    const char *phase;
    bool driver; /* the driver refused; a framework may have freed something and tried again */
};

struct trace_folded {  /* stretches of the run that the file has as sums only (fold.c) */
    int64_t stretches; /* how many folded stretches the file has; 0: none */
    int64_t from, to;  /* begin of the first, end of the last; between them some may be in full */
    int64_t first_step, last_step;
    int64_t events, ranges, steps, samples; /* in them */
    int64_t largest;                        /* the largest number of stretches that were joined into one */
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

struct trace;
typedef int trace_find(struct trace *t);
typedef void trace_forget(struct trace *t);

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
    bool found_roles;                  /* by the lives of blocks (found_roles.c) */
    trace_find *find_roles; /* finds them for the first statement that asks for roles; NULL: done */
    bool own_views;         /* the views of this program were made (file.c) */
    long recovered;         /* events merged from a journal on opening, 0 = none */
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
    struct kept_tape *tapes;    /* the history of devices, as far as it was read (tape_kept.c) */
    trace_forget *forget_tapes; /* NULL: there is none */
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
/* The numbers (process.id) of the file's processes, in order. */
int trace_process_ids(struct trace *t, int64_t **out, size_t *n);
/* Whether the file is known to have its whole run: it has the end, no event was lost, and no call bypassed
 * the recording. */
bool trace_whole(const struct trace *t);
/* The reason why it is not, in a word or two and in a sentence that the caller frees; NULL: it is. */
const char *trace_not_whole(const struct trace *t);
char *trace_not_whole_line(const struct trace *t);
/* What every page, plot and export says of a recording that no GPU was involved in: "dry run, no GPU" for a
 * title, and a sentence, which the caller frees; NULL: one was. */
const char *trace_mark(const struct trace *t);
char *trace_mark_line(const struct trace *t);
/* What a dry run stands for, as schema.sql has it; NULL: it is none. */
const char *trace_dry(const struct trace *t);
/* The sentence about a file without any device. */
const char *trace_no_device(const struct trace *t);
/* The name of the end in JSON. */
const char *trace_end_name(const struct trace *t);
/* The file that NAME means: "job.db#3" is process 3 of job.db where no file has that name; *PROCESS, which
 * may be NULL, gets it, else 0.  The caller frees the name. */
char *trace_file(const char *name, int64_t *process);
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
void trace_free_files(char **files, size_t n);
/* What the user calls the run by: the value of the label NAME; NULL: it has no such label. */
const char *trace_run_label(const struct trace *t, const char *name);
/* All labels, "batch=4, seq=1024", which the caller frees; NULL: there is none. */
char *trace_run_labels(const struct trace *t);
/* Reads the out-of-memory events into t->ooms; scans all events. */
int trace_load_ooms(struct trace *t);
int64_t trace_counter(struct trace *t, const char *name); /* over all devices */
int trace_reload(struct trace *t);                        /* reads phases and steps again */
/* Look-ups in the tables that trace_open has read. */
const struct trace_peak *trace_find_peak(const struct trace *t, int64_t device, const char *kind);
const struct trace_device *trace_find_device(const struct trace *t, int64_t device);
/* Whether there is a loss of KIND. */
/* What a PART of a report lacks because others' code is not as it was taken for granted (core/contracts.def),
 * "lines": one sentence, or NULL. */
int64_t trace_proven(struct trace *t); /* how many contracts the recording says to hold */
const char *trace_unproven(const struct trace *t, const char *part);
bool trace_has_loss(const struct trace *t, enum trace_loss_kind kind);
/* Whether the recording was made of another tool's trace: what the driver was asked otherwise is unknown. */
bool trace_is_imported(const struct trace *t);
/* Whether M only reports what a framework held before the recording; since then the totals agree. */
bool trace_mismatch_is_late(const struct trace_mismatch *m);
/* The number of other kinds of mismatch. */
size_t trace_disagreements(const struct trace *t);

/* ---- why there is no answer ---- */

/* Why there is no answer, and what to do next: sentences for t->why that several commands end
 * with. */
/* The recording has nothing on DEVICE; UNKNOWN: on any. */
const char *absent_device(struct trace *t, int64_t device);
/* It has no steps STEPS[0] to STEPS[1]. */
const char *absent_steps(struct trace *t, const int64_t *steps);
/* 0, or -1: events are missing, so that a replay would be one of another run. */
int absent_events(struct trace *t);
/* No framework's allocator had blocks, on DEVICE where it is known. */
const char *absent_blocks(struct trace *t, int64_t device);

#endif
