/*
 * recording.h - the state of a recording, shared by the files of this folder and by sample/, whose thread
 * works for the recording.
 *
 * All of it lies on one anonymous mapping that the kernel wipes in a fork child (core/fork.h): the child
 * reads zeros, which mean "not started".  So it cannot touch its parent's journal, and its first allocation
 * starts a recording of its own.
 */
#ifndef VS_RECORD_RECORDING_H
#define VS_RECORD_RECORDING_H

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hot.h"
#include "record.h"

#define likely_(x)   __builtin_expect(!!(x), 1)
#define unlikely_(x) __builtin_expect(!!(x), 0)

enum vs_recording_state { VS_RECORDING_NONE, VS_RECORDING_STARTING, VS_RECORDING_ON, VS_RECORDING_OFF };

/* What the sampler does: it takes samples repeatedly; takes the last one; only stays, so that the drain's
 * thread is not the process's last one; ends. */
enum vs_look { VS_LOOK_ALWAYS, VS_LOOK_LAST, VS_LOOK_NEVER, VS_LOOK_END };

#define VS_QUESTIONS 8 /* at once: see sample/query.c */
struct vs_question {
    _Atomic uint32_t state;
    int32_t device;
    uint64_t process, whole; /* the answer: struct vs_used */
    bool answered;
};

#define VS_ALONE_DEVICES 64 /* by their ordinals */

/* Whether the sampler's thread takes the samples, from NVML. */
enum vs_nvml_state { VS_NVML_UNDECIDED, VS_NVML_USED, VS_NVML_USELESS };

struct vs_recording {
    /* read at every event */
    _Atomic(struct vs_journal *) journal; /* NULL unless ON */
    _Atomic(struct vs_journal *) paused;  /* the journal while a benchmark pauses the recording (pause.c) */
    _Atomic uint32_t generation;          /* differs between a process and its fork child; 0 never */
    _Atomic uint32_t state;               /* enum vs_recording_state; a futex */
    uint32_t stack_traits;                /* which events get their call stack (record.c) */
    uint32_t python_traits;               /* of these, which get Python frames only */
    uint32_t tracked_traits;              /* which events are passed to the access ledger */

    _Alignas(64) _Atomic uint32_t nudge; /* the drain waits on it */
    _Atomic uint32_t stop;               /* tells the drain to finish */
    _Atomic uint32_t drained;            /* the drain has finished; a futex */
    _Atomic uint32_t late;               /* no drain thread any more: threads that record also drain */
    _Atomic uint32_t writing;            /* taken by the thread that drives the writer */
    _Atomic uint32_t has_thread;
    _Atomic uint32_t threads; /* how many of our threads run */
    _Atomic uint32_t keeper;  /* the sampler's thread runs, so the drain's will not be the last one */
    _Atomic uint32_t alone;   /* the host's threads have ended: ours end too, and with them the process */
    _Atomic uint32_t nvml;    /* enum vs_nvml_state */
    _Atomic uint32_t look;    /* enum vs_look; a futex that waits for the last sample */
    _Atomic uint32_t bell;    /* wakes the second thread; the futex that it waits on */
    _Atomic uint32_t control; /* how far a request of another process has come (control.c) */
    _Atomic uint64_t last_context;   /* CUcontext of the thread that waits for the last sample; 0: none */
    _Atomic uint32_t unanswered;     /* queries in a row that got no answer */
    _Atomic uint64_t query_ns;       /* total time that the host's threads have waited for answers */
    _Atomic uint64_t first_query_ns; /* time of the first query */
    _Atomic uint64_t last_query_ns;  /* duration of the last query */
    _Atomic uint64_t alone_ns[VS_ALONE_DEVICES]; /* when NVML last saw no other process there; 0: never */
    _Atomic uint32_t sample_soon;                /* a sample was requested before its time */
    struct vs_question questions[VS_QUESTIONS];
    uint32_t ring_slots;        /* requested; the journal rounds up to a power of two */
    pid_t pid;                  /* to recognise a vfork child that calls exit with all this state */
    _Atomic uint32_t cut_short; /* the journal was truncated, which ended the recording */
    struct vs_journal *sampler_journal;
    sigset_t host_signals; /* of the thread that started ours */
    _Atomic uint32_t sample_wanted;
    _Atomic uint32_t simulated; /* 0 not known yet, else process.simulated and one */
    _Atomic uint64_t host_rss;  /* the sampler's last figure */
    char database[PATH_MAX], journal_path[PATH_MAX];
};

/* Never NULL; the wiped-on-fork mapping once vs_recording_prepare has run.  (Atomic for the sake of processes
 * that prepare it late; the load costs what a plain one does.) */
extern VS_HOT struct vs_recording *_Atomic vs_recording;

/* Makes the mapping (idempotent); false: no memory. */
bool vs_recording_prepare(void);

/* The calling thread's id in journal J of generation GENERATION. */
uint16_t vs_record_thread_id(struct vs_journal *j, uint32_t generation);

/* Lets reports of blocks go straight into the ring of J, and other events prefetch its lines.  NULL: stops
 * both. */
void vs_record_into(const struct vs_journal *j);

/* Called by record.c, once, with the thread marked internal: claims the output, makes the journal, starts
 * the drain.  NULL: failed, and a line on stderr says why. */
struct vs_journal *vs_start(struct vs_recording *r);

/* Waits while another thread starts the recording, two seconds at most. */
void vs_record_await_start(struct vs_recording *r);

/* ---- drain.c ---- */

/* Starts the drain thread, before any other thread sees the journal; if it cannot be started, the journal is
 * drained at the end of the process.  The caller has all signals blocked; HOST_SIGNALS is its mask before
 * that. */
void vs_drain_start(struct vs_recording *r, struct vs_journal *j, const sigset_t *host_signals);

/* Writes J's events into the database and completes it, on the spot and without a thread. */
void vs_drain_here(struct vs_recording *r, struct vs_journal *j);

/* Starts a detached thread of ours, which takes itself out of r->threads at its end.  The caller has signals
 * blocked.  0 or an errno. */
int vs_record_thread(struct vs_recording *r, void *(*function)(void *), void *argument);

/* Wakes the drain thread or, after its end, drains on the spot.  errno is kept. */
void vs_drain_nudge(struct vs_recording *r);

/* Requests the final drain and waits for it, VRAMSCOPE_EXIT_MS at most.  Does nothing in a process without a
 * recording of its own, such as a fork child. */
void vs_drain_finish(void);

/* ---- keeper.c ---- */

/* The second thread: runs the suppliers' function (record.h) and then, if all threads of the host have ended,
 * ends last. */
void *vs_keeper_main(void *recording);

/* Wakes the second thread: `look` has changed, or there is a query, a request for a sample or one of another
 * process. */
void vs_keeper_ring(struct vs_recording *r);

/* The bell's number, which the second thread reads before it looks for what the bell may have rung for, and
 * then waits until it changes.  The thread of a request is started here. */
uint32_t vs_keeper_bell(struct vs_recording *r);

/* Has the thread of a request started (control.c). */
void vs_keeper_request(struct vs_recording *r);

/* Makes the second thread end. */
void vs_keeper_end(struct vs_recording *r);

/* ---- control.c: requests of other processes ---- */

struct vs_writer;

/* Takes a request, if there is one; true: a thread is to carry it out.  The drain's, in every round; W: NULL
 * where it could not be opened. */
bool vs_control_round(struct vs_recording *r, struct vs_journal *j, const struct vs_writer *w);

/* True: the caller starts the thread of a request, or says that it cannot. */
bool vs_control_begin(struct vs_recording *r);
void vs_control_no_thread(struct vs_recording *r, int error);
/* What that thread does. */
void vs_control_carry_out(struct vs_recording *r);

/* Refuses: what the suppliers have where there is no arena (suppliers.c). */
void vs_control_refuse(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, struct vs_control_answer *answer);

/* The process begins to end: no request is begun any more.  Waits for one that is under way,
 * VRAMSCOPE_EXIT_MS at most. */
void vs_control_end(struct vs_recording *r);

/* ---- output.c: the files of a process, database and journal ---- */

/* Remembers the working directory: relative names are relative to where the program was started, even if it
 * changes directory. */
void vs_output_init(void);

/* Creates the database's file, empty, under the first free name, and puts its absolute name into PATH.  0,
 * or a negative errno; then PATH is the name that failed. */
int vs_output_claim(char *path, size_t size);

/* Creates the journal in the first suitable place and puts its name into PATH; likewise. */
int vs_output_journal(struct vs_journal **out, char *path, size_t size,
                      const struct vs_journal_config *config);

/* For tests: expands %h %p %r %% of PATTERN, relative names against the start directory.  %r of a process
 * without a rank is "none". */
void vs_output_expand(char *path, size_t size, const char *pattern);

#endif
