/* suspend.c - see suspend.h. */
#define _GNU_SOURCE
#include "suspend.h"

#include <stdio.h>

#include "calls.h"
#include "core/clock.h"
#include "core/fork.h"
#include "gate.h"
#include "hooks/driver.h"
#include "moved.h"
#include "operands.h"
#include "park.h"

#define INSIDE   "this thread is inside a call of the driver's: nothing was moved"
#define PAUSE_NS 20000000 /* between two looks at what the device has free */

struct vs_suspended vs_suspended;

/* ---- what goes ---- */

static bool list(const struct vs_control_request *request, const struct vs_control_block *blocks,
                 size_t count, struct vs_control_answer *answer)
{
    bool some = (request->roles | request->keep) != 0;
    int status = some ? vs_pieces_of_blocks(&vs_suspended.pieces, blocks, count)
                      : vs_pieces_of_all(&vs_suspended.pieces);
    if (status == VS_BACKING_INVALID)
        vs_refuse(
            answer, VS_CONTROL_REFUSED,
            "blocks are exported to other processes (cuIpcGetMemHandle), or held by a pool: nothing was "
            "moved");
    else if (status != 0)
        vs_refuse(answer, VS_CONTROL_REFUSED, "the arena is busy (error %d): nothing was moved; try again",
                  status);
    else if (vs_suspended.pieces.count == 0)
        vs_refuse(answer, VS_CONTROL_REFUSED,
                  some ? "no block that can go has these roles" : "the arena holds nothing");
    if (status == 0 && vs_suspended.pieces.count == 0)
        vs_pieces_end(&vs_suspended.pieces);
    return answer->status == VS_CONTROL_DONE;
}
/* ---- the host's memory ---- */

/* The driver locks the host's pages in a context: that of the first arena.  False: it has ended. */
static bool enter_for_store(struct vs_away_thread *t)
{
    int device = vs_suspended.pieces.piece[0].device;
    struct vs_served *s = &vs_served[device];
    return vs_pieces_arena(&vs_suspended.pieces, device) != NULL &&
           vs_away_enter(t, s, s->cuda.context) == CUDA_SUCCESS;
}

static bool have_store(const char *to, struct vs_control_answer *answer)
{
    struct vs_away_thread t;
    bool entered = enter_for_store(&t);
    const char *why =
        vs_host_make(&vs_suspended.store, vs_suspended.pieces.bytes, to, answer->text, sizeof answer->text);
    if (entered)
        vs_away_leave(&t);
    answer->host_ns = vs_suspended.store.ns;
    if (why != NULL)
        answer->status = VS_CONTROL_REFUSED;
    return why == NULL;
}

static void end_store(struct vs_control_answer *answer)
{
    struct vs_away_thread t;
    uint64_t since = vs_clock_ns();
    bool entered = enter_for_store(&t);
    vs_host_end(&vs_suspended.store);
    if (entered)
        vs_away_leave(&t);
    answer->host_ns = vs_clock_ns() - since;
}

/* ---- in and out, inside the arenas ---- */

/* How many of the first COUNT pieces lie on DEVICE, from *FIRST on. */
static size_t of_device(int device, size_t count, struct vs_piece **first)
{
    size_t n;
    *first = vs_pieces_on(&vs_suspended.pieces, device, &n);
    size_t at = (size_t)(*first - vs_suspended.pieces.piece);
    return at >= count ? 0 : n < count - at ? n : count - at;
}

/* The first COUNT pieces come back, or none: then the driver's error, and *DEVICE where it was. */
static CUresult bring_in(size_t count, int *device)
{
    struct vs_piece *p;
    CUresult status = CUDA_SUCCESS;
    for (*device = 0; *device < VS_SERVED_DEVICES; ++*device) {
        size_t n = of_device(*device, count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&vs_suspended.pieces, *device) : NULL;
        status = arena != NULL ? vs_move_in(&vs_served[*device], arena, p, n, vs_suspended.store.base)
                               : CUDA_SUCCESS;
        if (status != CUDA_SUCCESS)
            break;
    }
    for (int i = 0; i < *device && status != CUDA_SUCCESS; i++) {
        size_t n = of_device(i, count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&vs_suspended.pieces, i) : NULL;
        if (arena != NULL)
            vs_move_drop(arena, p, n);
    }
    return status;
}

/* *GONE: so many are away, the first ones. */
static CUresult take_out(size_t *gone)
{
    CUresult status = CUDA_SUCCESS;
    *gone = 0;
    for (int i = 0; i < VS_SERVED_DEVICES && status == CUDA_SUCCESS; i++) {
        struct vs_piece *p;
        size_t done, n = of_device(i, vs_suspended.pieces.count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&vs_suspended.pieces, i) : NULL;
        if (arena == NULL)
            continue;
        status = vs_move_out(&vs_served[i], arena, p, n, vs_suspended.store.base, &done);
        *gone += done;
    }
    return status;
}

static uint64_t arenas_hold(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        bytes += arena != NULL ? vs_arena_reserved(arena) : 0;
    }
    return bytes;
}

/* ---- suspending ---- */

/* ALL: requests for memory wait from here on. */
static void begin(bool all)
{
    atomic_store_explicit(&vs_suspended.owner, vs_fork_number(), memory_order_release);
    if (!all)
        return;
    atomic_fetch_add_explicit(&vs_suspended.closings, 1, memory_order_relaxed);
    atomic_store_explicit(&vs_suspended.closed, true, memory_order_relaxed);
}

/* Work passes; what is watched is looked at still. */
static void let_work_pass(void)
{
    vs_park_go_on();
    vs_gate_set(vs_park_looks() ? VS_GATE_CHECKED : VS_GATE_OPEN);
}

/* All is on the device. */
static void open_up(void)
{
    atomic_store_explicit(&vs_suspended.owner, 0, memory_order_relaxed);
    atomic_store_explicit(&vs_suspended.closed, false, memory_order_relaxed);
    vs_operands_reached(false);
}

/* The recording has what the devices hold before work goes on.  Outside of the arenas. */
static void go_on(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served_arena(&vs_served[i]) != NULL)
            vs_provided_changed(i);
    if (vs_suspended_some())
        vs_gate_set(VS_GATE_CHECKED);
    else
        let_work_pass();
}

static void note_back(struct vs_control_answer *answer)
{
    end_store(answer);
    vs_moved_pieces(&vs_suspended.pieces);
    vs_pieces_end(&vs_suspended.pieces);
    open_up();
}

/* Whether a kernel may touch what is away without being given it: so it is of closed arenas, and of blocks
 * that the drain says it of. */
static bool is_reached(void)
{
    bool reached = vs_suspended.pieces.blocks == 0;
    for (size_t i = 0; i < vs_suspended.pieces.blocks && !reached; i++)
        reached = vs_suspended.pieces.block[i].reached != 0;
    return reached;
}

/* Something is away, and the gate looks at what is given to the device. */
static void note_away(bool until_resume)
{
    vs_moved_pieces(&vs_suspended.pieces);
    vs_suspended.waiting_said = false;
    vs_operands_reached(is_reached());
    atomic_store_explicit(&vs_suspended.held, until_resume, memory_order_relaxed);
}

/* The copies failed after GONE pieces.  Where even these cannot come back, they stay away, and come when they
 * are needed. */
static void undo(size_t gone, CUresult failed, bool until_resume, struct vs_control_answer *answer)
{
    int device;
    CUresult back = bring_in(gone, &device);
    vs_refuse(answer, VS_CONTROL_REFUSED, "the driver stopped the copies to the host (error %d)%s",
              (int)failed,
              back == CUDA_SUCCESS ? ": nothing is away"
                                   : ": what went cannot come back now, vramscope resume tries again");
    if (back == CUDA_SUCCESS) {
        note_back(answer);
        return;
    }
    vs_suspended.pieces.count = gone;
    vs_suspended.pieces.bytes =
        vs_suspended.pieces.piece[gone - 1].offset + vs_suspended.pieces.piece[gone - 1].run.size;
    note_away(until_resume);
}

static void take_away(bool until_resume, struct vs_control_answer *answer)
{
    size_t gone;
    uint64_t since = vs_clock_ns();
    CUresult status = take_out(&gone);
    answer->moving_ns = vs_clock_ns() - since;
    if (status != CUDA_SUCCESS) {
        undo(gone, status, until_resume, answer);
        return;
    }
    answer->moved_bytes = vs_suspended.pieces.bytes;
    answer->left_bytes = arenas_hold();
    note_away(until_resume);
}

/* The gate is closed, the devices are idle, and the thread is inside. */
static void suspend_idle(const struct vs_control_request *request, const struct vs_control_block *blocks,
                         size_t count, bool until_resume, struct vs_control_answer *answer)
{
    begin((request->roles | request->keep) == 0);
    if (!list(request, blocks, count, answer)) {
        open_up();
    } else if (!have_store(request->to, answer)) {
        vs_pieces_end(&vs_suspended.pieces);
        open_up();
    } else {
        take_away(until_resume, answer);
    }
}

/* False: the device has no memory for what is parked, and a suspension would not know of it. */
static bool park_comes_back(void)
{
    if (!vs_park_is_on() || !vs_served_in())
        return true;
    bool back = vs_park_all_back();
    vs_served_out();
    return back;
}

/* A program that has suspended itself is held from now on, where another process asks for it. */
static void suspended_already(bool until_resume, struct vs_control_answer *answer)
{
    if (!until_resume || atomic_load_explicit(&vs_suspended.held, memory_order_relaxed)) {
        vs_refuse(answer, VS_CONTROL_REFUSED, "it is suspended already");
        return;
    }
    atomic_store_explicit(&vs_suspended.held, true, memory_order_relaxed);
    snprintf(answer->text, sizeof answer->text,
             "it had suspended itself, and waits for vramscope resume now");
    answer->left_bytes = arenas_hold();
}

void vs_suspend(const struct vs_control_request *request, const struct vs_control_block *blocks, size_t count,
                bool until_resume, struct vs_control_answer *answer)
{
    uint64_t now = vs_clock_ns(),
             until = request->timeout_ns < UINT64_MAX - now ? now + request->timeout_ns : UINT64_MAX;
    if (vs_suspended_some()) {
        suspended_already(until_resume, answer);
        return;
    }
    if (!vs_quiet_gate(until, answer))
        return;
    if (!park_comes_back()) {
        vs_refuse(answer, VS_CONTROL_REFUSED,
                  "the device has no memory for what is on the host already (--park, --spill) to come back: "
                  "nothing was moved; try again");
        let_work_pass();
        return;
    }
    bool quiet = vs_quiet_devices(until, answer);
    if (!quiet || !vs_served_in()) {
        if (quiet)
            vs_refuse(answer, VS_CONTROL_REFUSED, INSIDE);
        let_work_pass();
        return;
    }
    suspend_idle(request, blocks, count, until_resume, answer);
    vs_served_out();
    go_on();
}

/* ---- resuming ---- */

/* Whether each device has room for what comes back; *DEVICE: which has not, and what it lacks. */
static bool has_room(int *device, uint64_t *lacks)
{
    bool room = true;
    for (*device = 0; *device < VS_SERVED_DEVICES && room; ++*device) {
        size_t n;
        struct vs_piece *p = vs_pieces_on(&vs_suspended.pieces, *device, &n);
        uint64_t need = 0;
        for (size_t i = 0; i < n; i++)
            need += p[i].run.size;
        uint64_t left = need != 0 && vs_pieces_arena(&vs_suspended.pieces, *device) != NULL
                            ? vs_move_room(&vs_served[*device])
                            : need;
        room = left >= need;
        *lacks = room ? 0 : need - left;
    }
    *device -= !room;
    return room;
}

/* The gate is closed, and the thread is inside. */
static CUresult all_in(struct vs_control_answer *answer)
{
    int device;
    uint64_t since = vs_clock_ns();
    CUresult status = bring_in(vs_suspended.pieces.count, &device);
    answer->moving_ns = vs_clock_ns() - since;
    if (status == CUDA_SUCCESS) {
        answer->moved_bytes = vs_suspended.pieces.bytes;
        note_back(answer);
    } else {
        vs_refuse(answer, VS_CONTROL_REFUSED,
                  "device %d takes nothing back (error %d): still suspended, all is on the host; try again",
                  device, (int)status);
    }
    return status;
}

/* One try.  OUT_OF_MEMORY: others have the memory; NOT_READY: a call gives work.  All is away still then. */
static CUresult try_in(uint64_t until, struct vs_control_answer *answer)
{
    int device;
    uint64_t lacks;
    if (!vs_served_in()) {
        vs_refuse(answer, VS_CONTROL_REFUSED, INSIDE);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    bool room = has_room(&device, &lacks), shut = room && vs_gate_close(vs_left_until(until));
    CUresult status = shut ? all_in(answer) : room ? CUDA_ERROR_NOT_READY : CUDA_ERROR_OUT_OF_MEMORY;
    vs_served_out();
    if (shut)
        go_on();
    else if (room)
        vs_refuse(answer, VS_CONTROL_LATE,
                  "a call that gives the device work has not returned: still suspended; try again");
    else
        vs_refuse(answer, VS_CONTROL_LATE,
                  "device %d lacks %.2f GiB of the %.2f that come back: others have it; it stays suspended",
                  device, (double)lacks / 0x1p30, (double)vs_suspended.pieces.bytes / 0x1p30);
    return status;
}

void vs_resume(uint64_t timeout_ns, bool asked, struct vs_control_answer *answer)
{
    uint64_t until = vs_clock_ns() + timeout_ns;
    CUresult status;
    if (until < timeout_ns)
        until = UINT64_MAX;
    if (!vs_suspended_some() || (!asked && atomic_load_explicit(&vs_suspended.held, memory_order_relaxed))) {
        if (vs_suspended_some() || asked)
            vs_refuse(answer, VS_CONTROL_REFUSED,
                      vs_suspended_some() ? "it was suspended from outside: run vramscope resume"
                                          : "it is not suspended");
        return;
    }
    while ((status = try_in(until, answer)) == CUDA_ERROR_OUT_OF_MEMORY && vs_left_until(until) != 0)
        vs_pause(PAUSE_NS);
    if (status == CUDA_SUCCESS) {
        answer->status = VS_CONTROL_DONE;
        answer->text[0] = 0;
    }
    answer->left_bytes = arenas_hold();
}
