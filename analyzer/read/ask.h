/*
 * ask.h - asks a process that records to suspend or to resume (trace/control.h), by a page of its journal.
 *
 *      ask_open ─▶ ask_begin ─▶ ask_look until it is over ─▶ state, answer or why ─▶ ask_close
 *
 * Several processes are asked at once by looking at each in turn.
 */
#ifndef VS_READ_ASK_H
#define VS_READ_ASK_H

#include "live.h"
#include "trace/control.h"

enum ask_state {
    ASK_TURN,     /* another's request is being carried out */
    ASK_WAITS,    /* the process has not noticed it */
    ASK_TAKEN,    /* the process is at it */
    ASK_ANSWERED, /* from here on it is over */
    ASK_LATE,     /* it was not taken in time, and never will be */
    ASK_LOST      /* nobody can say what became of it */
};

struct ask {
    struct live live; /* its journal is mapped writable */
    int fd;           /* of it, for the lock by which askers exclude each other */
    bool locked;
    struct vs_control_request request;
    uint32_t number;
    uint64_t until_ns; /* by which the process must have taken it */
    enum ask_state state;
    struct vs_control_answer answer;
    char *why; /* LATE, LOST: a line */
};

/* False with the reason in WHY. */
bool ask_open(struct ask *a, const char *journal, char *why, size_t size);
void ask_close(struct ask *a);

/* Asks for REQUEST, whose number is set here.  Its timeout_ns is also how long it waits to be taken. */
void ask_begin(struct ask *a, const struct vs_control_request *request);
/* One look; true: it is over. */
bool ask_look(struct ask *a);
/* Whether the process took it and is at it for longer than its timeout. */
bool ask_takes_long(const struct ask *a);

#endif
