/*
 * any_events.h - random events of every kind, on several threads and devices, into a journal; the same seed
 * gives the same events.
 *
 * They are what a program might do, and often what none would: few addresses, used again and again, refusals
 * and second tries, frees that fail, ranges whose pops are lost.
 */
#ifndef TESTS_UNIT_TRACE_STORE_ANY_EVENTS_H
#define TESTS_UNIT_TRACE_STORE_ANY_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"
#include "trace/journal/journal.h"

#define THREADS  4
#define DEVICES  2
#define PLACES   24 /* addresses, handles, objects of each kind: few, so that they are used again */
#define KINDS    48
#define REFUSED  2 /* CUDA_ERROR_OUT_OF_MEMORY */
#define BASE     0x7f0000000000ull
#define PLACE(i) (BASE + (uint64_t)(i) * (64ull << 20))

struct made { /* what the program has done so far */
    struct vs_journal *j;
    uint64_t random, t;
    uint32_t names[6];
    struct {
        bool lives;
        uint8_t space, context;
        uint64_t size;
        int8_t device;
    } alloc[PLACES];
    struct {
        uint8_t state; /* 0 none, 1 made, 2 mapped, 3 released and mapped */
        uint64_t size;
        int8_t device;
    } phys[PLACES];
    struct {
        bool lives;
        uint64_t size, address;
        int8_t device;
    } block[PLACES];
    uint64_t allocated[DEVICES], reserved[DEVICES];
    struct vs_event asked[THREADS + 1];                      /* the thread's last refused request */
    uint64_t ended[THREADS + 1], ended_address[THREADS + 1]; /* ring sequence of its last free */
    uint32_t open[THREADS + 1][6], ranges, sample;
    int depth[THREADS + 1];
};

static uint32_t rnd(struct made *m, uint32_t below)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->random >> 33) % below;
}

static uint64_t emit(struct made *m, struct vs_event e)
{
    m->t += rnd(m, 300) == 0 ? 60000000 : 100 + rnd(m, 3000);
    e.t_ns = m->t - rnd(m, 200);
    if (!e.thread)
        e.thread = (uint16_t)(1 + rnd(m, THREADS));
    if (!e.range && m->depth[e.thread] && e.op != VS_OP_ARENA_FIGURES)
        e.range = m->open[e.thread][m->depth[e.thread] - 1];
    e.stack = e.op == VS_OP_ARENA_FIGURES || e.op == VS_OP_RANGE_PUSH ? e.stack : 0;
    uint64_t seq = vs_journal_append(m->j, &e);
    assert_true(seq != VS_SEQ_NONE);
    return seq;
}

static uint16_t a_thread(struct made *m)
{
    return (uint16_t)(1 + rnd(m, THREADS));
}

static int8_t a_device(struct made *m)
{
    return (int8_t)rnd(m, DEVICES);
}

/* ---- driver memory ---- */

static void refuse(struct made *m, struct vs_event e)
{
    m->asked[e.thread] = e;
    for (uint32_t n = 1 + rnd(m, 2); n; n--) {
        e.status = REFUSED;
        e.address = 0;
        emit(m, e);
    }
    if (rnd(m, 2))
        emit(m, (struct vs_event){.op = VS_OP_SAMPLE,
                                  .thread = e.thread,
                                  .device = e.device,
                                  .size = 1000000 + rnd(m, 1000),
                                  .address = rnd(m, 1000),
                                  .arg0 = VS_SAMPLE_OOM});
    if (rnd(m, 2))
        emit(m, (struct vs_event){.op = VS_OP_SAMPLE,
                                  .thread = e.thread,
                                  .device = e.device,
                                  .size = 900000 + rnd(m, 1000),
                                  .arg0 = VS_SAMPLE_OOM_PROCESS});
}

static void grant(struct made *m, uint32_t i, struct vs_event e)
{
    e.address = PLACE(i);
    m->alloc[i].lives = true;
    m->alloc[i].space = e.space;
    m->alloc[i].context = e.context;
    m->alloc[i].size = e.size;
    m->alloc[i].device = e.device;
    emit(m, e);
}

static struct vs_event request(struct made *m)
{
    static const uint8_t spaces[] = {VS_SPACE_DEVICE, VS_SPACE_DEVICE,   VS_SPACE_DEVICE, VS_SPACE_DEVICE,
                                     VS_SPACE_ARENA,  VS_SPACE_POOL,     VS_SPACE_ARRAY,  VS_SPACE_GRAPH,
                                     VS_SPACE_PINNED, VS_SPACE_IMPORTED, VS_SPACE_MANAGED};
    static const enum vs_caller callers[] = {VS_CALLER_UNKNOWN, VS_CALLER_UNKNOWN, VS_CALLER_UNKNOWN,
                                             VS_CALLER_UNKNOWN, VS_CALLER_CARVER,  VS_CALLER_POOL};
    uint8_t space = spaces[rnd(m, sizeof spaces)];
    return (struct vs_event){.op = VS_OP_ALLOC,
                             .space = space,
                             .thread = a_thread(m),
                             .device = space == VS_SPACE_PINNED ? -1 : a_device(m),
                             .context = (uint8_t)rnd(m, 4),
                             .size = (1 + rnd(m, 3)) << 21,
                             .arg1 = 10 + rnd(m, 2) + VS_CALLED_BY(callers[rnd(m, 6)])};
}

static void want(struct made *m)
{
    struct vs_event e = request(m);
    uint32_t i = rnd(m, PLACES);
    if (m->asked[e.thread].op && rnd(m, 2)) { /* again what was refused */
        e = m->asked[e.thread];
        if (rnd(m, 3))
            m->asked[e.thread].op = 0;
    } else if (rnd(m, 4) == 0) {
        refuse(m, e);
        return;
    }
    if (e.op == VS_OP_PHYS_CREATE || (m->alloc[i].lives && rnd(m, 10)))
        return;
    grant(m, i, e);
}

static void give_back(struct made *m)
{
    uint32_t i = rnd(m, PLACES);
    uint16_t thread = a_thread(m);
    if (!m->alloc[i].lives && rnd(m, 10))
        return;
    m->alloc[i].lives = false;
    m->ended[thread] = emit(m, (struct vs_event){.op = VS_OP_FREE,
                                                 .thread = thread,
                                                 .device = m->alloc[i].device,
                                                 .address = PLACE(i),
                                                 .arg1 = 12});
    m->ended_address[thread] = PLACE(i);
}

/* The last end of a thread was refused by the driver. */
static void undone(struct made *m)
{
    uint16_t thread = a_thread(m);
    if (!m->ended[thread])
        return;
    emit(m, (struct vs_event){.op = VS_OP_FREE_FAILED,
                              .thread = thread,
                              .device = -1,
                              .address = m->ended_address[thread],
                              .arg0 = m->ended[thread],
                              .status = 1});
    m->ended[thread] = 0;
}

/* ---- virtual memory management ---- */

static void piece(struct made *m)
{
    uint32_t i = rnd(m, PLACES);
    uint16_t thread = a_thread(m);
    uint64_t handle = 0x10 + i, address = PLACE(PLACES + i);
    struct vs_event e = {.thread = thread, .device = m->phys[i].device, .arg1 = 20};
    switch (m->phys[i].state) {
    case 0:
        e.op = VS_OP_PHYS_CREATE;
        e.device = a_device(m);
        e.size = (1 + rnd(m, 2)) << 21;
        e.space = VS_SPACE_DEVICE;
        e.arg0 = 1ull << 32;
        e.arg1 += VS_CALLED_BY(rnd(m, 4) ? VS_CALLER_UNKNOWN : VS_CALLER_CARVER);
        if (rnd(m, 4) == 0) {
            refuse(m, e);
            return;
        }
        e.address = handle;
        m->phys[i].size = e.size;
        m->phys[i].device = e.device;
        m->phys[i].state = 1;
        break;
    case 1:
        if (rnd(m, 4) == 0) {
            e.op = VS_OP_PHYS_RELEASE;
            e.address = handle;
            m->phys[i].state = 0;
            break;
        }
        e.op = rnd(m, 6) ? VS_OP_MAP : VS_OP_BIND;
        e.address = e.op == VS_OP_MAP ? address : 0x900;
        e.size = m->phys[i].size;
        e.arg0 = handle;
        e.arg1 = e.op == VS_OP_MAP ? 0 : i;
        m->phys[i].state = 2;
        break;
    case 2:
        e.op = rnd(m, 4) ? VS_OP_PHYS_RELEASE : VS_OP_PHYS_RETAIN;
        e.address = handle;
        if (e.op == VS_OP_PHYS_RELEASE)
            m->phys[i].state = 3;
        break;
    default:
        e.op = VS_OP_UNMAP;
        e.address = address;
        e.size = 4ull << 20;
        m->phys[i].state = 0;
        if (rnd(m, 4) == 0) {
            e.op = VS_OP_UNBIND;
            e.address = 0x900;
            e.arg1 = i;
        }
    }
    uint64_t seq = emit(m, e);
    if (e.op == VS_OP_PHYS_RELEASE || e.op == VS_OP_UNMAP || e.op == VS_OP_UNBIND) {
        m->ended[thread] = seq;
        m->ended_address[thread] = e.address;
    }
}

/* Reservations of several pieces' places; now and then some permissions. */
static void addresses(struct made *m)
{
    uint32_t n = 2 + rnd(m, 5), first = rnd(m, PLACES - n);
    static const uint8_t ops[] = {VS_OP_VA_RESERVE, VS_OP_VA_FREE, VS_OP_SET_ACCESS};
    uint8_t op = ops[rnd(m, 3)];
    uint16_t thread = a_thread(m);
    uint64_t seq = emit(m, (struct vs_event){.op = op,
                                             .thread = thread,
                                             .device = -1,
                                             .address = PLACE(PLACES + first),
                                             .size = (uint64_t)n * (64ull << 20),
                                             .arg1 = 21});
    if (op == VS_OP_VA_FREE) {
        m->ended[thread] = seq;
        m->ended_address[thread] = PLACE(PLACES + first);
    }
}

/* ---- the framework ---- */

/* One of a few tensors, or nothing that is known. */
static uint32_t a_tensor(struct made *m)
{
    int64_t size[] = {1 + rnd(m, 3), 64};
    uint32_t kind = rnd(m, 4), type = 5 + rnd(m, 2), dims = 1 + rnd(m, 2);
    if (kind == VS_TENSOR_WHOLE)
        return vs_journal_tensor(m->j, vs_tensor_what(kind, type, dims),
                                 (uint64_t)size[0] * (dims > 1 ? 128 : 2), size);
    return kind ? vs_journal_tensor(m->j, vs_tensor_what(kind, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE),
                                    kind == VS_TENSOR_STORAGE ? 300 : 0, NULL)
                : 0;
}

static void say_block(struct made *m, uint8_t op, uint16_t thread, uint32_t i, uint64_t size)
{
    int8_t device = m->block[i].device;
    uint64_t wrong = rnd(m, 30) == 0 ? 512 : 0;
    uint32_t tensor = op == VS_OP_BLOCK_FREE ? 0 : a_tensor(m);
    emit(m, (struct vs_event){.op = op,
                              .thread = thread,
                              .device = device,
                              .address = op == VS_OP_BLOCK_OOM ? 0 : m->block[i].address,
                              .size = size,
                              .arg0 = m->allocated[device] + wrong,
                              .arg1 = vs_with_tensor(m->reserved[device], tensor),
                              .status = (uint16_t)tensor});
}

static void block(struct made *m)
{
    uint32_t i = rnd(m, PLACES), in = rnd(m, 2 * PLACES);
    uint16_t thread = a_thread(m);
    if (m->block[i].lives) {
        m->block[i].lives = rnd(m, 20) == 0; /* some frees are never seen */
        if (m->block[i].lives)
            return;
        m->allocated[m->block[i].device] -= m->block[i].size;
        say_block(m, VS_OP_BLOCK_FREE, thread, i, m->block[i].size);
        return;
    }
    m->block[i].lives = true;
    m->block[i].size = (1 + rnd(m, 100)) << 9;
    m->block[i].address = PLACE(in) + ((uint64_t)i << 16);
    m->block[i].device = in < PLACES && m->alloc[in].device >= 0 ? m->alloc[in].device
                         : in >= PLACES                          ? m->phys[in - PLACES].device
                                                                 : 0;
    m->allocated[m->block[i].device] += m->block[i].size;
    if (rnd(m, 5) == 0)
        m->reserved[m->block[i].device] = (uint64_t)rnd(m, 40) << 21;
    say_block(m, VS_OP_BLOCK_ALLOC, thread, i, m->block[i].size);
}

static void give_up(struct made *m)
{
    uint32_t i = rnd(m, PLACES);
    say_block(m, VS_OP_BLOCK_OOM, a_thread(m), i, (1 + rnd(m, 3)) << 21);
}

/* ---- ranges, moments, figures ---- */

static void range(struct made *m)
{
    uint16_t thread = a_thread(m);
    int *depth = &m->depth[thread];
    if (*depth < 5 && rnd(m, 2)) {
        uint32_t parent = *depth ? m->open[thread][*depth - 1] : 0, name = rnd(m, 6);
        m->open[thread][(*depth)++] = ++m->ranges;
        emit(m, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                                  .thread = thread,
                                  .device = -1,
                                  .range = m->ranges,
                                  .address = m->names[name],
                                  .arg0 = parent,
                                  .arg1 = VS_SOURCE_MARKER | (name < 4 ? VS_RANGE_NAMES_PHASE : 0) |
                                          (rnd(m, 12) ? 0 : VS_RANGE_CROSS_THREAD)});
    } else if (*depth) {
        uint32_t id = m->open[thread][--*depth];
        if (rnd(m, 15)) /* else the pop was lost */
            emit(m, (struct vs_event){.op = VS_OP_RANGE_POP, .thread = thread, .device = -1, .range = id});
    }
}

static void moment(struct made *m)
{
    static const uint8_t ops[] = {VS_OP_STEP, VS_OP_STEP, VS_OP_MARK, VS_OP_RECORD_START, VS_OP_RECORD_STOP};
    struct vs_event e = {.op = ops[rnd(m, 5)], .device = -1};
    if (e.op == VS_OP_MARK)
        e.address = m->names[rnd(m, 6)];
    if (e.op == VS_OP_STEP && rnd(m, 8) == 0)
        e.arg0 = rnd(m, 4);
    emit(m, e);
}

static void figure(struct made *m)
{
    emit(m, (struct vs_event){.op = VS_OP_SAMPLE,
                              .device = a_device(m),
                              .size = 1000000 + rnd(m, 100000),
                              .address = rnd(m, 1000),
                              .arg0 = 1 + rnd(m, 3),
                              .arg1 = rnd(m, 100000)});
    if (rnd(m, 4) == 0)
        emit(m, (struct vs_event){.op = VS_OP_POOL_USE,
                                  .device = a_device(m),
                                  .address = m->names[5],
                                  .size = rnd(m, 100000),
                                  .arg0 = VS_BYTES_UNKNOWN,
                                  .arg1 = rnd(m, 100000)});
    if (rnd(m, 2) == 0) /* of blocks, of the driver's memory, of nothing */
        emit(m, (struct vs_event){.op = VS_OP_FRAMEWORK_ROLE,
                                  .device = VS_DEVICE_UNKNOWN,
                                  .address = m->block[rnd(m, PLACES)].address,
                                  .size = m->block[rnd(m, PLACES)].address,
                                  .arg0 = PLACE(rnd(m, PLACES)),
                                  .arg1 = rnd(m, VS_FRAMEWORK_ROLES + 1)});
}

static void pool(struct made *m)
{
    bool graph = rnd(m, 2);
    int8_t device = a_device(m);
    emit(m, (struct vs_event){.op = VS_OP_POOL_RESERVED,
                              .space = graph ? VS_SPACE_GRAPH : VS_SPACE_POOL,
                              .device = device,
                              .address = graph ? VS_GRAPH_POOL(device) : 0x88000 + (uint64_t)device,
                              .size = rnd(m, 3) ? (uint64_t)rnd(m, 12) << 21 : 0});
}

/* Of a block, of all, or of nothing that is known. */
static void block_away(struct made *m)
{
    uint32_t at = rnd(m, PLACES);
    emit(m, (struct vs_event){.op = VS_OP_BLOCK_AWAY,
                              .space = VS_SPACE_ARENA,
                              .device = m->alloc[at].lives ? m->alloc[at].device : a_device(m),
                              .address = rnd(m, 5) ? PLACE(at) : 0,
                              .size = rnd(m, 2) ? (uint64_t)rnd(m, 20) << 9 : 0,
                              .arg0 = rnd(m, 5)});
}

static void arena(struct made *m)
{
    int8_t device = a_device(m);
    for (uint32_t n = rnd(m, 6); n != 0; n--)
        block_away(m);
    emit(m, (struct vs_event){.op = VS_OP_ARENA_RESERVED,
                              .space = VS_SPACE_ARENA,
                              .device = device,
                              .size = (uint64_t)rnd(m, 20) << 21,
                              .address = rnd(m, 3) ? 0 : (uint64_t)rnd(m, 20) << 21});
    m->sample++;
    for (uint32_t part = 0; part < VS_FIGURE_PARTS; part++)
        emit(m, (struct vs_event){.op = VS_OP_ARENA_FIGURES,
                                  .space = VS_SPACE_ARENA,
                                  .device = device,
                                  .range = m->sample,
                                  .stack = part,
                                  .address = rnd(m, 1000),
                                  .size = rnd(m, 1000),
                                  .arg0 = m->sample,
                                  .arg1 = part});
}

/* ---- contexts ---- */

static void context(struct made *m)
{
    static const uint8_t ops[] = {VS_OP_CONTEXT_CREATE, VS_OP_CONTEXT_DESTROY, VS_OP_MODULE_LOAD,
                                  VS_OP_MODULE_UNLOAD,  VS_OP_LIMIT,           VS_OP_OVERHEAD,
                                  VS_OP_GRAPH_NODE};
    uint8_t op = ops[rnd(m, sizeof ops)], id = (uint8_t)(1 + rnd(m, 3));
    uint16_t thread = a_thread(m);
    if (op == VS_OP_CONTEXT_DESTROY && rnd(m, 4))
        return;
    uint64_t kind = 1 + rnd(m, 3), module = rnd(m, 5);
    bool of_context = op == VS_OP_CONTEXT_CREATE || op == VS_OP_CONTEXT_DESTROY;
    uint64_t seq =
        emit(m, (struct vs_event){
                    .op = op,
                    .thread = thread,
                    .device = (int8_t)(id % DEVICES),
                    .context = id,
                    .address = of_context ? 0x100u + id : 0x700 + module,
                    .size = op == VS_OP_GRAPH_NODE ? 512 : (uint64_t)(int64_t)((int)rnd(m, 9000) - 1000),
                    .arg0 = kind,
                    .arg1 = 30});
    if (op == VS_OP_CONTEXT_DESTROY || op == VS_OP_MODULE_UNLOAD) {
        m->ended[thread] = seq;
        m->ended_address[thread] = of_context ? 0x100u + id : 0x700 + module;
    }
    for (int i = 0; op == VS_OP_CONTEXT_DESTROY && i < PLACES; i++)
        if (m->alloc[i].context == id)
            m->alloc[i].lives = false;
}

static void make(struct made *m, int events)
{
    static void (*const kinds[KINDS])(struct made *) = {
        want,      want,      want,      want,   want,    want,  want,    want,   give_back, give_back,
        give_back, give_back, undone,    piece,  piece,   piece, piece,   piece,  piece,     piece,
        piece,     piece,     addresses, block,  block,   block, block,   block,  block,     block,
        block,     block,     block,     block,  give_up, range, range,   range,  range,     range,
        range,     moment,    figure,    figure, pool,    arena, context, context};
    for (int i = 0; i < events; i++)
        kinds[rnd(m, KINDS)](m);
}

#endif
