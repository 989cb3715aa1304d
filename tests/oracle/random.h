/*
 * random.h - a program that does at random everything that takes or gives memory (random_*.c, a family
 * each), and writes down what it did.
 *
 * The log has a line for each call: the thread's number, a verb, its arguments, and last what the call gave.
 * It is the program's own point of view and knows nothing of what is recorded.
 *
 * HIGH and LOW of a device bracket what it holds, whatever other threads do: high rises before the call that
 * takes memory and falls after the call that gives it back, low the other way round.
 */
#ifndef TESTS_ORACLE_RANDOM_H
#define TESTS_ORACLE_RANDOM_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB     (1ull << 10)
#define MIB     (1ull << 20)
#define DEVICES 2
#define OBJECTS 48

enum kind {
    NOTHING,
    PLAIN,
    MANAGED,
    PINNED,
    REGISTERED,
    POOLED,
    ARRAY,
    MIPMAP,
    PHYSICAL,
    MODULE,
    LIBRARY,
    GRAPH_MEMORY,
    OPENED,
    EXTERNAL,
};

struct mapping {
    uint64_t address, size;
};

struct object {
    enum kind kind;
    uint64_t handle, size, context; /* context 0: belongs to none */
    int device;                     /* -1: in no device's totals */
    unsigned refs, maps;            /* of physical memory; refs: how often something was opened */
    struct mapping at[3];
};

struct task { /* a thread of the program */
    int number;
    uint64_t state;
    FILE *log;
    int device;        /* of the current context */
    CUcontext current; /* as cuCtxGetCurrent has it */
    CUcontext created; /* by this thread, alive, or NULL */
    int created_device;
    struct object object[OBJECTS];
    int depth; /* open markers */
};

struct world {
    uint64_t seed;
    int threads, times, weight[16];
    CUcontext primary[DEVICES];
    bool framework, expandable, together;
};
extern struct world world;

uint32_t pick(struct task *t, uint32_t below);
bool chance(struct task *t, uint32_t percent);
void say(struct task *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fatal(const char *what);

/* A place for a new object, NULL: there is none; a living one of KIND (NOTHING: any), NULL likewise. */
struct object *vacant(struct task *t);
struct object *some(struct task *t, enum kind kind);
uint64_t owner(const struct task *t); /* the current context's handle */

/* Around calls that take or give SIZE bytes of DEVICE (-1: of none). */
void takes(int device, uint64_t size);
void took(int device, uint64_t size, bool done);
void gives(int device, uint64_t size);
void gave(int device, uint64_t size, bool done);

void memory_turn(struct task *t);
void memory_give_back(struct task *t, struct object *o);
void memory_default_pool_reset(int device);
void vmm_turn(struct task *t);
void vmm_give_back(struct task *t, struct object *o);
void contexts_turn(struct task *t);
void contexts_give_back(struct task *t, struct object *o);
void context_use(struct task *t, CUcontext context, int device);
void contexts_end(struct task *t);
void blocks_turn(struct task *t);
void blocks_end(struct task *t);
void ranges_turn(struct task *t);
void ranges_end(struct task *t);
void imports_prepare(void); /* before the driver is touched: makes the other process */
void imports_turn(struct task *t);
void imports_give_back(struct task *t, struct object *o);
void imports_end(void);

#endif
