/*
 * passing_wire.h - what goes over the sockets of passing.c, for it and for tests that forge it.
 */
#ifndef VS_ARENA_SHARE_PASSING_WIRE_H
#define VS_ARENA_SHARE_PASSING_WIRE_H

#include "passing.h"

struct question {
    uint64_t key[2];
    struct vs_passing_request ask;
};

struct reply {
    uint64_t proof;
    struct vs_passing_answer answer;
};

#endif
