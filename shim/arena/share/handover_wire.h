/*
 * handover_wire.h - what goes over the sockets of handover.c, for it and for tests that forge it.
 */
#ifndef VS_ARENA_SHARE_HANDOVER_WIRE_H
#define VS_ARENA_SHARE_HANDOVER_WIRE_H

#include "handover.h"

struct question {
    uint64_t key[2];
    struct vs_handover_ask ask;
};

struct reply {
    uint64_t proof;
    struct vs_handover_answer answer;
};

#endif
