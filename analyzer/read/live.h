/*
 * live.h - finds the journals of processes that record now, and reads what they say of the present.
 *
 * They are mapped for reading alone, which costs their process nothing: no lock, no signal, no page.
 */
#ifndef VS_READ_LIVE_H
#define VS_READ_LIVE_H

#include "base/base.h"
#include "trace/journal/journal.h"

enum live_state {
    LIVE_RUNNING,
    LIVE_STARTING, /* it runs, and its drain has said nothing yet */
    LIVE_SILENT,   /* it runs, and its drain has said nothing for a while */
    LIVE_REMOVED,  /* it runs, and its journal is gone: its recording ends just now, or somebody removed it */
    LIVE_ENDED,    /* its process has ended, and its file is complete */
    LIVE_KILLED,   /* its process is gone, and its journal is left */
    LIVE_CUT       /* somebody truncated the journal */
};

struct live {
    char *journal, *database;
    struct vs_journal *map;
    int64_t pid, rank, world_size; /* UNKNOWN */
    char *command, *host;
    bool dry; /* a dry run */
    enum live_state state;
    bool seen;         /* NOW holds something */
    struct vs_now now; /* the last that was seen */
    bool torn;         /* the last look found it half written: its writer is at it, or was killed meanwhile */
    _Atomic int cut;   /* set in a signal handler */
};

/* Opens JOURNAL; false with the reason in WHY (another user's, a stale one, no journal). */
bool live_open(struct live *l, const char *journal, char *why, size_t size);
void live_close(struct live *l);
/* Looks again. */
void live_look(struct live *l);
/* The line about a process that is not simply running; NULL.  The caller frees it. */
char *live_line(const struct live *l);
/* The name of a range, the texts of its thread: of the journal, "" unknown. */
const char *live_string(const struct live *l, uint32_t id);
const struct vs_device_row *live_device(const struct live *l, int ordinal);

/* The journals of OPERAND: a pid, a database, a journal, a directory with databases; NULL: of the host.  NULL
 * with WHY where it is none of them.  *N may be 0.  The caller frees each and the array. */
char **live_find(const char *operand, size_t *n, char *why, size_t size);

#endif
