/*
 * away.c - see away.h: suspending and resuming, and who waits meanwhile.
 *
 *      suspend   gate closed ─▶ device idle ─▶ host memory had ─▶ pieces out ─▶ gate checks
 *      resume    room on the device ─▶ gate closed ─▶ pieces in ─▶ gate open, host memory given back
 *
 * What fails before the first piece has gone changes nothing.  What is away stays whole on the host until all
 * of it is on the device again.
 */
#define _GNU_SOURCE
#include "away.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/fork.h"
#include "core/log.h"
#include "gate.h"
#include "host.h"
#include "operands.h"
#include "park.h"
#include "pieces.h"
#include "hooks/driver.h"

#define SLICE_NS   1000000000ull /* of a wait inside the arena: who ends one waits for it to be left */
#define PAUSE_NS   20000000      /* between two looks at what the device has free */
#define PATIENT_NS 5000000000ull /* that a program's thread waits for memory before it is said */

/* Guards the next, but for what says otherwise: held by who moves, for as long as he does. */
static struct vs_lock moving = VS_LOCK(MOVING);
static struct vs_pieces pieces; /* written with the gate closed: who is inside it may read */
static struct vs_host_store store;
static _Atomic uint32_t owner;    /* vs_fork_number() of the process that has something away; 0: none has */
static _Atomic bool closed;       /* the arenas are */
static _Atomic bool held;         /* until a request to resume */
static _Atomic uint32_t closings; /* of arenas, so far */
static bool waiting_said;         /* that work waits for memory */

/* ---- words ---- */

static void refuse(struct vs_control_answer *answer, enum vs_control_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(struct vs_control_answer *answer, enum vs_control_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(answer->text, sizeof answer->text, format, list);
    va_end(list);
    answer->status = status;
}

static bool is_away(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed) != 0;
}

/* In a fork's child CUDA does not work, and nothing is brought back. */
static bool is_ours(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed) == vs_fork_number();
}

static uint64_t left_until(uint64_t until)
{
    uint64_t now = vs_clock_ns();
    return until > now ? until - now : 0;
}

/* ---- before anything moves ---- */

static bool is_capturing(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served[i].cuda.captures != NULL &&
            __atomic_load_n(vs_served[i].cuda.captures, __ATOMIC_ACQUIRE) != 0)
            return true;
    return false;
}

static void pause_for(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* What a capture takes down passes the gate: so none may be under way. */
static bool close_gate(uint64_t until, struct vs_control_answer *answer)
{
    enum vs_gate_state before = atomic_load(&vs_gate);
    do {
        while (is_capturing() && left_until(until) != 0)
            pause_for(1000000);
        if (!vs_gate_close(left_until(until))) {
            refuse(answer, VS_CONTROL_LATE,
                   "a call that gives the device work has not returned: nothing was moved; try again");
            return false;
        }
        if (!is_capturing())
            return true;
        vs_gate_set(before);
    } while (left_until(until) != 0);
    refuse(answer, VS_CONTROL_LATE, "a stream is being captured: nothing was moved; try again");
    return false;
}

/* A device that waits for another process, which waits for this one, is never idle. */
static bool device_idle(int device, uint64_t until, struct vs_control_answer *answer)
{
    CUresult status = CUDA_ERROR_NOT_READY;
    while (status == CUDA_ERROR_NOT_READY && left_until(until) != 0 && vs_served_in()) {
        struct vs_served *s = &vs_served[device];
        struct vs_arena *arena = vs_served_arena(s);
        uint64_t now = vs_clock_ns(), ticket = arena != NULL ? vs_arena_ticket(arena) : 0;
        status =
            arena != NULL ? vs_move_idle(s, until < now + SLICE_NS ? until : now + SLICE_NS) : CUDA_SUCCESS;
        if (status == CUDA_SUCCESS && arena != NULL)
            vs_arena_synchronized(arena, ticket);
        vs_served_out();
    }
    if (status == CUDA_ERROR_NOT_READY)
        refuse(answer, VS_CONTROL_LATE,
               "device %d has not done its work: nothing was moved; where kernels wait for other processes "
               "(NCCL), suspend between two steps",
               device);
    else if (status != CUDA_SUCCESS)
        refuse(answer, VS_CONTROL_REFUSED,
               "the driver cannot wait for device %d (error %d): nothing was moved", device, (int)status);
    return status == CUDA_SUCCESS;
}

static bool all_idle(uint64_t until, struct vs_control_answer *answer)
{
    bool idle = true;
    for (int i = 0; i < VS_SERVED_DEVICES && idle; i++)
        idle = vs_served_arena(&vs_served[i]) == NULL || device_idle(i, until, answer);
    return idle;
}

static bool list(const struct vs_control_request *request, const struct vs_control_block *blocks,
                 size_t count, struct vs_control_answer *answer)
{
    bool some = (request->roles | request->keep) != 0;
    int status = some ? vs_pieces_of_blocks(&pieces, blocks, count) : vs_pieces_of_all(&pieces);
    if (status == VS_BACKING_INVALID)
        refuse(answer, VS_CONTROL_REFUSED,
               "blocks are exported to other processes (cuIpcGetMemHandle), or held by a pool: nothing was "
               "moved");
    else if (status != 0)
        refuse(answer, VS_CONTROL_REFUSED,
               "the arena cannot be closed now (error %d): nothing was moved; try again", status);
    else if (pieces.count == 0)
        refuse(answer, VS_CONTROL_REFUSED,
               some ? "no block of these roles can go" : "the arena holds nothing");
    if (status == 0 && pieces.count == 0)
        vs_pieces_end(&pieces);
    return answer->status == VS_CONTROL_DONE;
}

/* ---- the host's memory ---- */

/* The driver locks the host's pages in a context: that of the first arena.  NULL: it has ended. */
static CUcontext context_of_store(void)
{
    int device = pieces.piece[0].device;
    return vs_pieces_arena(&pieces, device) != NULL ? vs_served[device].cuda.context : NULL;
}

static bool have_store(const char *to, struct vs_control_answer *answer)
{
    CUcontext before = NULL, context = context_of_store();
    vs_drv_cuCtxGetCurrent(&before);
    vs_drv_cuCtxSetCurrent(context);
    const char *why = vs_host_make(&store, pieces.bytes, to, answer->text, sizeof answer->text);
    vs_drv_cuCtxSetCurrent(before);
    answer->host_ns = store.ns;
    if (why != NULL)
        answer->status = VS_CONTROL_REFUSED;
    return why == NULL;
}

static void end_store(struct vs_control_answer *answer)
{
    CUcontext before = NULL, context = context_of_store();
    uint64_t since = vs_clock_ns();
    vs_drv_cuCtxGetCurrent(&before);
    if (context != NULL)
        vs_drv_cuCtxSetCurrent(context);
    vs_host_end(&store);
    vs_drv_cuCtxSetCurrent(before);
    answer->host_ns = vs_clock_ns() - since;
}

/* ---- in and out, inside the arenas ---- */

/* How many of the first COUNT pieces lie on DEVICE, from *FIRST on. */
static size_t of_device(int device, size_t count, struct vs_piece **first)
{
    size_t n;
    *first = vs_pieces_on(&pieces, device, &n);
    size_t at = (size_t)(*first - pieces.piece);
    return at >= count ? 0 : n < count - at ? n : count - at;
}

/* The first COUNT pieces come back, or none: then the driver's error, and *DEVICE where it was. */
static CUresult bring_in(size_t count, int *device)
{
    struct vs_piece *p;
    CUresult status = CUDA_SUCCESS;
    for (*device = 0; *device < VS_SERVED_DEVICES; ++*device) {
        size_t n = of_device(*device, count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&pieces, *device) : NULL;
        status = arena != NULL ? vs_move_in(&vs_served[*device], arena, p, n, store.base) : CUDA_SUCCESS;
        if (status != CUDA_SUCCESS)
            break;
    }
    for (int i = 0; i < *device && status != CUDA_SUCCESS; i++) {
        size_t n = of_device(i, count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&pieces, i) : NULL;
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
        size_t done, n = of_device(i, pieces.count, &p);
        struct vs_arena *arena = n != 0 ? vs_pieces_arena(&pieces, i) : NULL;
        if (arena == NULL)
            continue;
        status = vs_move_out(&vs_served[i], arena, p, n, store.base, &done);
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
    atomic_store_explicit(&owner, vs_fork_number(), memory_order_release);
    if (!all)
        return;
    atomic_fetch_add_explicit(&closings, 1, memory_order_relaxed);
    atomic_store_explicit(&closed, true, memory_order_relaxed);
}

/* Work passes; what is watched is looked at still. */
static void let_work_pass(void)
{
    vs_gate_set(vs_park_is_on() ? VS_GATE_CHECKED : VS_GATE_OPEN);
}

/* All is on the device. */
static void open_up(void)
{
    atomic_store_explicit(&owner, 0, memory_order_relaxed);
    atomic_store_explicit(&closed, false, memory_order_relaxed);
    vs_operands_reached(false);
}

/* The recording has what the devices hold before work goes on.  Outside of the arenas. */
static void go_on(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served_arena(&vs_served[i]) != NULL)
            vs_provided_changed(i);
    if (is_away())
        vs_gate_set(VS_GATE_CHECKED);
    else
        let_work_pass();
}

static void note_back(struct vs_control_answer *answer)
{
    end_store(answer);
    vs_pieces_end(&pieces);
    open_up();
}

/* Of all that is away nothing is known, of blocks whether kernels can be known not to touch them. */
static bool is_reached(void)
{
    bool reached = pieces.blocks == 0;
    for (size_t i = 0; i < pieces.blocks && !reached; i++)
        reached = pieces.block[i].reached != 0;
    return reached;
}

/* Something is away, and the gate looks at what is given to the device. */
static void note_away(bool until_resume)
{
    waiting_said = false;
    vs_operands_reached(is_reached());
    atomic_store_explicit(&held, until_resume, memory_order_relaxed);
}

/* The copies failed after GONE pieces.  Where even these cannot come back, they stay away, and come when they
 * are needed. */
static void undo(size_t gone, CUresult failed, bool until_resume, struct vs_control_answer *answer)
{
    int device;
    CUresult back = bring_in(gone, &device);
    refuse(answer, VS_CONTROL_REFUSED, "the driver stopped the copies to the host (error %d)%s", (int)failed,
           back == CUDA_SUCCESS ? ": nothing is away"
                                : ": what went cannot come back now, vramscope resume tries again");
    if (back == CUDA_SUCCESS) {
        note_back(answer);
        return;
    }
    pieces.count = gone;
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
    answer->moved_bytes = pieces.bytes;
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
        vs_pieces_end(&pieces);
        open_up();
    } else {
        take_away(until_resume, answer);
    }
}

static void park_comes_back(void)
{
    if (!vs_park_is_on() || !vs_served_in())
        return;
    vs_park_all_back();
    vs_served_out();
}

/* A program that has suspended itself is held from now on, where another process asks for it. */
static void suspended_already(bool until_resume, struct vs_control_answer *answer)
{
    if (!until_resume || atomic_load_explicit(&held, memory_order_relaxed)) {
        refuse(answer, VS_CONTROL_REFUSED, "it is suspended already");
        return;
    }
    atomic_store_explicit(&held, true, memory_order_relaxed);
    snprintf(answer->text, sizeof answer->text,
             "it had suspended itself, and waits for vramscope resume now");
    answer->left_bytes = arenas_hold();
}

static void suspend(const struct vs_control_request *request, const struct vs_control_block *blocks,
                    size_t count, bool until_resume, struct vs_control_answer *answer)
{
    uint64_t until = vs_clock_ns() + request->timeout_ns;
    if (is_away()) {
        suspended_already(until_resume, answer);
        return;
    }
    if (!close_gate(until, answer))
        return;
    park_comes_back();
    if (!all_idle(until, answer) || !vs_served_in()) {
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
        struct vs_piece *p = vs_pieces_on(&pieces, *device, &n);
        uint64_t need = 0;
        for (size_t i = 0; i < n; i++)
            need += p[i].run.size;
        uint64_t left =
            need != 0 && vs_pieces_arena(&pieces, *device) != NULL ? vs_move_room(&vs_served[*device]) : need;
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
    CUresult status = bring_in(pieces.count, &device);
    answer->moving_ns = vs_clock_ns() - since;
    if (status == CUDA_SUCCESS) {
        answer->moved_bytes = pieces.bytes;
        note_back(answer);
    } else {
        refuse(answer, VS_CONTROL_REFUSED, "device %d takes nothing back (error %d): it stays suspended",
               device, (int)status);
    }
    return status;
}

/* One try.  OUT_OF_MEMORY: others have the memory; NOT_READY: a call gives work.  All is away still then. */
static CUresult try_in(uint64_t until, struct vs_control_answer *answer)
{
    int device;
    uint64_t lacks;
    if (!vs_served_in())
        return CUDA_ERROR_NOT_INITIALIZED;
    bool room = has_room(&device, &lacks), shut = room && vs_gate_close(left_until(until));
    CUresult status = shut ? all_in(answer) : room ? CUDA_ERROR_NOT_READY : CUDA_ERROR_OUT_OF_MEMORY;
    vs_served_out();
    if (shut)
        go_on();
    else if (room)
        refuse(answer, VS_CONTROL_LATE,
               "a call that gives the device work has not returned: it stays suspended");
    else
        refuse(answer, VS_CONTROL_LATE,
               "device %d lacks %.2f GiB of the %.2f that come back: others have it; it stays suspended",
               device, (double)lacks / 0x1p30, (double)pieces.bytes / 0x1p30);
    return status;
}

static void resume(uint64_t timeout_ns, bool asked, struct vs_control_answer *answer)
{
    uint64_t until = vs_clock_ns() + timeout_ns;
    CUresult status;
    if (until < timeout_ns)
        until = UINT64_MAX;
    if (!is_away() || (!asked && atomic_load_explicit(&held, memory_order_relaxed))) {
        if (is_away() || asked)
            refuse(answer, VS_CONTROL_REFUSED,
                   is_away() ? "it was suspended by another process: vramscope resume"
                             : "it is not suspended");
        return;
    }
    while ((status = try_in(until, answer)) == CUDA_ERROR_OUT_OF_MEMORY && left_until(until) != 0)
        pause_for(PAUSE_NS);
    if (status == CUDA_SUCCESS) {
        answer->status = VS_CONTROL_DONE;
        answer->text[0] = 0;
    }
    answer->left_bytes = arenas_hold();
}

/* ---- requests ---- */

static void carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                      size_t count, bool until_resume, struct vs_control_answer *answer)
{
    if (request->kind == VS_CONTROL_SUSPEND)
        suspend(request, blocks, count, until_resume, answer);
    else if (request->kind == VS_CONTROL_RESUME)
        resume(request->timeout_ns, until_resume, answer);
    else
        refuse(answer, VS_CONTROL_REFUSED, "this vramscope knows no request %u", request->kind);
}

void vs_away_carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, bool until_resume, struct vs_control_answer *answer)
{
    int cancel;
    *answer = (struct vs_control_answer){.status = VS_CONTROL_DONE};
    if (!vs_served_in()) {
        refuse(answer, VS_CONTROL_REFUSED,
               "this is a child of fork, or a call inside the driver: nothing can move");
        return;
    }
    vs_served_out();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    vs_lock_take(&moving);
    carry_out(request, blocks, count, until_resume, answer);
    vs_lock_give(&moving);
    pthread_setcancelstate(cancel, NULL);
}

/* ---- who needs what is away ---- */

static __thread CUstream stream_now __attribute__((tls_model("initial-exec")));

void vs_away_on(CUstream stream)
{
    stream_now = stream;
}

void vs_away_work(CUstream stream)
{
    stream_now = stream;
    if (!is_away() && vs_park_is_on())
        vs_park_work(stream);
}

/* Acquire: pairs with begin(); the caller is inside the gate, so the lists stay. */
static bool something_is_away(void)
{
    return atomic_load_explicit(&owner, memory_order_acquire) != 0;
}

bool vs_away_touches(uint64_t address, uint64_t size)
{
    if (something_is_away())
        return vs_pieces_touch(&pieces, address, size);
    if (vs_park_is_on())
        vs_park_given(stream_now, address, size);
    return false;
}

bool vs_away_unknown(void)
{
    if (something_is_away())
        return true;
    if (vs_park_is_on())
        vs_park_unknown(stream_now);
    return false;
}

void vs_away_told(const uint64_t *addresses, size_t count, unsigned role)
{
    vs_park_told(addresses, count, role);
    if (!vs_park_is_on() || atomic_load(&vs_gate) != VS_GATE_OPEN)
        return;
    vs_lock_take(&moving);
    if (atomic_load(&vs_gate) == VS_GATE_OPEN)
        vs_gate_set(VS_GATE_CHECKED);
    vs_lock_give(&moving);
}

static void bring_back(void)
{
    struct vs_control_answer answer = {.status = VS_CONTROL_DONE};
    vs_lock_take(&moving);
    if (is_away() && !atomic_load_explicit(&held, memory_order_relaxed)) {
        resume(PATIENT_NS, false, &answer);
        if (answer.status != VS_CONTROL_DONE && !waiting_said)
            vs_log("work needs what is suspended, and waits: %s", answer.text);
        waiting_said = answer.status != VS_CONTROL_DONE;
    }
    vs_lock_give(&moving);
}

void vs_away_needed(void)
{
    int cancel;
    if (!is_ours())
        return;
    if (atomic_load_explicit(&held, memory_order_relaxed)) {
        vs_gate_wait(VS_GATE_CHECKED);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bring_back();
    pthread_setcancelstate(cancel, NULL);
}

void vs_away_ask(uint64_t address)
{
    bool entered = vs_gate_enter();
    while (!entered) {
        enum vs_gate_state seen = vs_gate_enter_anyway();
        bool away = seen == VS_GATE_CHECKED && something_is_away() && vs_pieces_touch(&pieces, address, 0);
        entered = vs_gate_decide(seen == VS_GATE_OPEN || (seen == VS_GATE_CHECKED && !away));
        if (!entered && seen == VS_GATE_CLOSED)
            vs_gate_wait(VS_GATE_CLOSED);
        else if (!entered)
            vs_away_needed();
    }
}

void vs_away_give(uint64_t address)
{
    vs_away_ask(address);
    if (!something_is_away() && vs_park_is_on())
        vs_park_given(VS_PARK_NO_STREAM, address, 1);
}

void vs_away_asked(void)
{
    vs_gate_leave();
}

uint32_t vs_away_before_malloc(void)
{
    while (atomic_load_explicit(&closed, memory_order_relaxed) && is_ours()) {
        enum vs_gate_state state = atomic_load(&vs_gate);
        if (state == VS_GATE_CLOSED)
            vs_gate_wait(state);
        else
            vs_away_needed();
    }
    return atomic_load_explicit(&closings, memory_order_relaxed);
}

bool vs_away_since(uint32_t seen)
{
    return atomic_load_explicit(&closings, memory_order_relaxed) != seen;
}
