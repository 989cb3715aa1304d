/*
 * recording.h - the state of a recording, shared by the files of this folder and by sample/, whose
 * thread works for the recording.
 *
 * All of it lies on one anonymous mapping that the kernel wipes in a fork child (core/fork.h), however
 * the child was made: where the parent was recording, the child reads zeros, which say "not started".  So the
 * child cannot touch its parent's journal, and its own first allocation starts a recording of its own.
 */
#ifndef VS_RECORD_RECORDING_H
#define VS_RECORD_RECORDING_H

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/hot.h"
#include "record.h"

#define likely_(x)   __builtin_expect(!!(x), 1)
#define unlikely_(x) __builtin_expect(!!(x), 0)

enum vs_recording_state { VS_RECORDING_NONE, VS_RECORDING_STARTING, VS_RECORDING_ON, VS_RECORDING_OFF };

/* What the sampler does: looks, again and again; takes the last look; only stays, so that the drain's thread
 * is not the process's last one; ends. */
enum vs_look { VS_LOOK_ALWAYS, VS_LOOK_LAST, VS_LOOK_NEVER, VS_LOOK_END };

#define VS_QUESTIONS 8 /* at once: see sample/query.c */
struct vs_question {
    _Atomic uint32_t state;
    int32_t device;
    uint64_t process, whole; /* the answer: struct vs_used */
    bool answered;
};

#define VS_ALONE_DEVICES 64 /* by their ordinals */

/* Whether the sampler's thread takes what samples there are, from NVML. */
enum vs_nvml_state { VS_NVML_UNDECIDED, VS_NVML_USED, VS_NVML_USELESS };

struct vs_recording {
    /* read at every event */
    _Atomic(struct vs_journal *) journal; /* NULL unless ON */
    _Atomic(struct vs_journal *) paused;  /* what it is while a benchmark has the recording off (pause.c) */
    _Atomic uint32_t generation;          /* differs between a process and its fork child; 0 never */
    _Atomic uint32_t state;               /* enum vs_recording_state; a futex */
    uint32_t stack_traits;                /* which events get their call stack (record.c) */
    uint32_t python_traits;               /* of these, which get Python frames alone */
    uint32_t follow_traits;               /* which events pass what follows accesses */

    _Alignas(64) _Atomic uint32_t nudge; /* the drain waits on it */
    _Atomic uint32_t stop;               /* the drain shall finish */
    _Atomic uint32_t drained;            /* it has; a futex */
    _Atomic uint32_t late;               /* no drain thread any more: threads that record also drain */
    _Atomic uint32_t writing;            /* taken by the thread that drives the writer */
    _Atomic uint32_t has_thread;
    _Atomic uint32_t threads;        /* of ours that run */
    _Atomic uint32_t keeper;         /* the sampler's thread runs: the drain's need not be the last one */
    _Atomic uint32_t alone;          /* the host's threads are gone: ours end, and with them the process */
    _Atomic uint32_t nvml;           /* enum vs_nvml_state */
    _Atomic uint32_t look;           /* enum vs_look; a futex that the sampler waits on at its end */
    _Atomic uint32_t bell;           /* rung for the sampler; the futex that it waits on between two looks */
    _Atomic uint64_t last_context;   /* CUcontext of the thread that waits for the last look; 0: none */
    _Atomic uint32_t unanswered;     /* questions in a row */
    _Atomic uint64_t query_ns;       /* that the host's threads have waited for answers, all together */
    _Atomic uint64_t first_query_ns; /* when the first question was asked */
    _Atomic uint64_t last_query_ns;  /* that the last one took */
    _Atomic uint64_t alone_ns[VS_ALONE_DEVICES]; /* NVML saw no other process there; 0: never */
    _Atomic uint32_t sample_soon;                /* somebody wants a sample before its time */
    struct vs_question questions[VS_QUESTIONS];
    bool tight;                 /* a limit on the address space leaves no room for threads of ours */
    uint32_t ring_slots;        /* asked for; the journal's are the next power of two */
    pid_t pid;                  /* a vfork child that calls exit has all this, and is not us */
    _Atomic uint32_t cut_short; /* somebody truncated the journal: the recording ended there */
    struct vs_journal *sampler_journal;
    sigset_t host_signals; /* of the thread that started ours */
    _Atomic uint32_t sample_wanted;
    _Atomic uint32_t simulated; /* 0 not known yet, 1 no, 2 yes */
    _Atomic uint64_t host_rss;  /* the sampler's last figure */
    char database[PATH_MAX], journal_path[PATH_MAX];
};

/* Never NULL; the wiped-on-fork mapping once vs_recording_prepare has run.  (Atomic for the sake of processes
 * that prepare it late; the load costs what a plain one does.) */
extern VS_HOT struct vs_recording *_Atomic vs_recording;

/* Makes the mapping (idempotent); false where there is no memory. */
bool vs_recording_prepare(void);

/* The calling thread's id in journal J of generation GENERATION. */
uint16_t vs_record_thread_id(struct vs_journal *j, uint32_t generation);

/* J: from now on reports of blocks go straight into its ring, and the other events ask early for its lines.
 * NULL: neither. */
void vs_record_into(const struct vs_journal *j);

/* What record.c asks start.c to do, once, with the thread marked internal: claim the output, make the
 * journal, start the drain.  NULL: a line on stderr has said why. */
struct vs_journal *vs_start(struct vs_recording *r);

/* Waits while another thread starts the recording, two seconds at most. */
void vs_record_await_start(struct vs_recording *r);

/* ---- drain.c ---- */

/* Starts the drain thread, before anybody sees the journal; where it cannot be started, the journal waits for
 * the end of the process.  The caller has all signals blocked; HOST_SIGNALS is its mask before that. */
void vs_drain_start(struct vs_recording *r, struct vs_journal *j, const sigset_t *host_signals);

/* Writes what J has into the database and completes it, on the spot and without a thread. */
void vs_drain_here(struct vs_recording *r, struct vs_journal *j);

/* Wakes the drain thread or, after its end, drains on the spot.  errno is kept. */
void vs_drain_nudge(struct vs_recording *r);

/* Asks for the final drain and waits for it, two seconds at most.  Nothing in a process (a fork child) that
 * records nothing of its own. */
void vs_drain_finish(void);

/* ---- keeper.c ---- */

/* The second thread: what suppliers.h gives it to do, and then, where the host's threads are all gone, being
 * the last one. */
void *vs_keeper_main(void *recording);

/* Wakes the second thread: something of LOOK, a question or a wish for a sample is there. */
void vs_keeper_ring(struct vs_recording *r);

/* Has the second thread end. */
void vs_keeper_end(struct vs_recording *r);

#endif
