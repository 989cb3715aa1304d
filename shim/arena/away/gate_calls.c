/*
 * gate_calls.c - a function in the place of each of the driver's that gives the device work on memory, which
 * takes the call through the gate.
 *
 * All are expanded from driver.def: the shape says that a function gives work, and the shape's arguments,
 * which tell the access ledger what it gives, are read here as the question whether that is away.  A row of
 * such a shape has its function here without another line.
 *
 * Functions without one: those with 32-bit addresses, where nothing lies; those that only move between arrays
 * and the host; those that reserve, map or query (arena/cuda/queries.c).  The making of a graph is gated as
 * work is: the driver looks there what kind of memory its copies and fills are about.  What reads device
 * memory without a call of the driver's cannot be held back, since nobody sees it: mappings for the host
 * (GDRCopy), adapters that have registered memory (GPUDirect RDMA), other processes and devices.  Who moves
 * memory has to leave such memory where it is.
 */
#include <errno.h>

#include "arena/device/served.h"
#include "away.h"
#include "park.h"
#include "hooks/arguments.h"
#include "operands.h"

/* ---- at a gate that is not open ---- */

/* Of a call whose operands are looked at only where memory is away and does not move. */
#define NAMED(away) (seen != VS_GATE_CHECKED || (away) ? VS_OPERANDS_AWAY : VS_OPERANDS_HERE)

enum outcome { PASSES, LOOKS_AGAIN, FAILS };

/* What becomes of a call whose thread has entered for a look. */
static enum outcome after_look(enum vs_gate_state seen, enum vs_operands given)
{
    if (vs_gate_decide(seen == VS_GATE_OPEN || given == VS_OPERANDS_NONE ||
                       (seen == VS_GATE_CHECKED && given == VS_OPERANDS_HERE)))
        return PASSES;
    if (seen != VS_GATE_CLOSED)
        return vs_away_needed() ? LOOKS_AGAIN : FAILS;
    vs_gate_wait(VS_GATE_CLOSED);
    return LOOKS_AGAIN;
}

/* Enters, looking by GIVEN at what the call gives wherever the gate is not open.  `lacks`: the device has no
 * memory for it, so the call is not made. */
#define ENTER(GIVEN)                                                                                         \
    if (__builtin_expect(!vs_gate_enter(), 0)) {                                                             \
        int saved = errno;                                                                                   \
        enum vs_gate_state seen;                                                                             \
        enum outcome outcome;                                                                                \
        do {                                                                                                 \
            seen = vs_gate_enter_anyway();                                                                   \
            outcome = after_look(seen, GIVEN);                                                               \
        } while (outcome == LOOKS_AGAIN);                                                                    \
        lacks = outcome == PASSES && vs_away_lacks();                                                        \
        errno = saved;                                                                                       \
        if (outcome == FAILS)                                                                                \
            return CUDA_ERROR_DEINITIALIZED;                                                                 \
    }

/* ---- the shapes' arguments ---- */

#define GIVEN_LAUNCH(f, stream, grid, params, extra) vs_operands_launch(seen, f, stream, grid, params, extra)
#define GIVEN_GRAPH_LAUNCH(exec, stream)             vs_operands_graph(seen, exec, stream)
#define GIVEN_GIVEN(see)                             NAMED(see)
#define GIVEN_WORK(touched)                          NAMED((vs_away_on(VS_PARK_NO_STREAM), touched))
#define GIVEN_NODE(graph, params)                    NAMED((vs_away_on(VS_PARK_NO_WORK), vs_operands_node(params)))
#define GIVEN_NODES                                  NAMED((vs_away_on(VS_PARK_NO_WORK), vs_away_unknown()))

/* Those that tell the access ledger (hooks/given.h). */
#define vs_given_copy(api, stream, to, from, size, kinds)                                                    \
    (vs_away_on(stream), vs_operands_copy(to, from, size))
#define vs_given_copies(api, stream, to, from, size, count)                                                  \
    (vs_away_on(stream), vs_operands_copies(to, from, size, count))
#define vs_given_copy_2d(api, stream, copy)                (vs_away_on(stream), vs_operands_copy_2d(copy))
#define vs_given_copy_3d(api, stream, copy)                (vs_away_on(stream), vs_operands_copy_3d(copy))
#define vs_given_copy_peer(api, stream, copy)              (vs_away_on(stream), vs_operands_copy_peer(copy))
#define vs_given_copy_ops(api, stream, list, count)        (vs_away_on(stream), vs_operands_copy_ops(list, count))
#define vs_given_fill(api, stream, to, size)               (vs_away_on(stream), vs_operands_copy(to, 0, size))
#define vs_given_unseen(stream)                            (vs_away_on(stream), vs_away_unknown())
#define vs_use_reaching()                                  vs_away_unknown()
#define vs_given_map(map, address)                         false /* a launch has the map */
#define vs_given_node_kernel(exec, f, grid, params, extra) false /* its launch is looked at */
#define vs_given_node_copy(exec, copy)                     (vs_away_on(VS_PARK_NO_WORK), vs_operands_copy_3d(copy))
#define vs_given_node_fill(exec, params)                   (vs_away_on(VS_PARK_NO_WORK), vs_operands_fill_node(params))
#define vs_given_node_graph(exec, graph)                   (vs_away_on(VS_PARK_NO_WORK), vs_away_unknown())
#define vs_given_node(exec, params)                        (vs_away_on(VS_PARK_NO_WORK), vs_operands_node(params))
/* Those of the shape WORK. */
#define vs_work_at(address, size)          vs_operands_at(address, size)
#define vs_work_write(address, value)      vs_operands_write(address, value)
#define vs_work_ranges(list, sizes, count) vs_operands_ranges(list, sizes, count)
#define vs_work_words(list, count)         vs_operands_words(list, count)
#define vs_work_copy_3d(copy)              vs_operands_copy_3d(copy)
#define vs_work_fill_node(params)          vs_operands_fill_node(params)
#define vs_work_node(params)               vs_operands_node(params)
#define vs_work_unseen()                   vs_away_unknown()

/* ---- the functions ---- */

#define GATED(symbol, n, signature, kind, GIVEN)                                                             \
    static CUresult gate_##symbol(VS_PARAMS_##n signature)                                                   \
    {                                                                                                        \
        const enum vs_stream_kind streams __attribute__((unused)) = VS_STREAM_##kind;                        \
        bool lacks = false;                                                                                  \
        ENTER(GIVEN)                                                                                         \
        CUresult status =                                                                                    \
            __builtin_expect(lacks, 0) ? CUDA_ERROR_OUT_OF_MEMORY : VS_UNDER(symbol)(VS_ARGS_##n signature); \
        vs_gate_leave();                                                                                     \
        return status;                                                                                       \
    }
#define LAUNCH(symbol, n, signature, kind, arguments)                                                        \
    GATED(symbol, n, signature, kind, GIVEN_LAUNCH arguments)
#define GRAPH(symbol, n, signature, kind, arguments)                                                         \
    GATED(symbol, n, signature, kind, GIVEN_GRAPH_LAUNCH arguments)
#define SEES(symbol, n, signature, kind, arguments)  GATED(symbol, n, signature, kind, GIVEN_GIVEN arguments)
#define WORKS(symbol, n, signature, kind, arguments) GATED(symbol, n, signature, kind, GIVEN_WORK arguments)
#define NODE(symbol, n, signature, kind, arguments)  GATED(symbol, n, signature, kind, GIVEN_NODE arguments)
#define NODES(symbol, n, signature, kind, arguments) GATED(symbol, n, signature, kind, GIVEN_NODES)
/* Not held up: it gives no work. */
#define TEXTURE(symbol, n, signature, kind, of_memory)                                                       \
    static CUresult gate_##symbol(VS_PARAMS_##n signature)                                                   \
    {                                                                                                        \
        if (of_memory)                                                                                       \
            vs_operands_texture();                                                                           \
        return VS_UNDER(symbol)(VS_ARGS_##n signature);                                                      \
    }
#define NOTHING(symbol, n, signature, kind, arguments)

/* Of a row of the shape S the macro that KIND_S names; NOTHING if there is none. */
#define KIND_LAUNCH            ~, LAUNCH,
#define KIND_GRAPH_LAUNCH      ~, GRAPH,
#define KIND_GIVEN             ~, SEES,
#define KIND_WORK              ~, WORKS,
#define KIND_GRAPH_NODE        ~, NODE,
#define KIND_GRAPH_INSTANTIATE ~, NODES,
#define KIND_GRAPH_UPDATE      ~, NODES,
#define KIND_TEXTURE           ~, TEXTURE,
#define SECOND(a, b, ...)      b
#define PICK(...)              SECOND(__VA_ARGS__, NOTHING, ~)
#define PICKED(pick, ...)      pick(__VA_ARGS__)
#define EACH(pick, ...)        PICKED(pick, __VA_ARGS__)

#define VS_API(number, symbol, base, version, kind, shape, shape_args, n, signature)                         \
    EACH(PICK(KIND_##shape), symbol, n, signature, kind, shape_args)
#include "trace/driver.def"
#undef VS_API

#undef LAUNCH
#undef GRAPH
#undef SEES
#undef WORKS
#undef NODE
#undef NODES
#undef TEXTURE
#define LAUNCH(symbol, ...)  {VS_API_##symbol, (void *)gate_##symbol},
#define GRAPH(symbol, ...)   LAUNCH(symbol)
#define SEES(symbol, ...)    LAUNCH(symbol)
#define WORKS(symbol, ...)   LAUNCH(symbol)
#define NODE(symbol, ...)    LAUNCH(symbol)
#define NODES(symbol, ...)   LAUNCH(symbol)
#define TEXTURE(symbol, ...) LAUNCH(symbol)
const struct vs_stand_in vs_stand_ins_gate[] = {
#define VS_API(number, symbol, base, version, kind, shape, shape_args, n, signature)                         \
    EACH(PICK(KIND_##shape), symbol, n, signature, kind, shape_args)
#include "trace/driver.def"
#undef VS_API
    {0}};
