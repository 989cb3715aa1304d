/* quiet.c - see quiet.h. */
#define _GNU_SOURCE
#include "quiet.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "core/clock.h"
#include "gate.h"
#include "move.h"

#define SLICE_NS 1000000000ull /* of a wait inside the arena: who ends one waits for it to be left */

void vs_refuse(struct vs_control_answer *answer, enum vs_control_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(answer->text, sizeof answer->text, format, list);
    va_end(list);
    answer->status = status;
}

uint64_t vs_left_until(uint64_t until)
{
    uint64_t now = vs_clock_ns();
    return until > now ? until - now : 0;
}

static bool is_capturing(void)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served[i].cuda.captures != NULL &&
            __atomic_load_n(vs_served[i].cuda.captures, __ATOMIC_ACQUIRE) != 0)
            return true;
    return false;
}

void vs_pause(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* What a capture takes down passes the gate: so none may be under way. */
bool vs_quiet_gate(uint64_t until, struct vs_control_answer *answer)
{
    enum vs_gate_state before = atomic_load(&vs_gate);
    do {
        while (is_capturing() && vs_left_until(until) != 0)
            vs_pause(1000000);
        if (!vs_gate_close(vs_left_until(until))) {
            vs_refuse(answer, VS_CONTROL_LATE,
                      "a call that gives the device work has not returned: nothing was moved; try again");
            return false;
        }
        if (!is_capturing())
            return true;
        vs_gate_set(before);
    } while (vs_left_until(until) != 0);
    vs_refuse(answer, VS_CONTROL_LATE, "a stream is being captured: nothing was moved; try again");
    return false;
}

/* A device that waits for another process, which waits for this one, is never idle. */
static bool device_idle(int device, uint64_t until, struct vs_control_answer *answer)
{
    CUresult status = CUDA_ERROR_NOT_READY;
    while (status == CUDA_ERROR_NOT_READY && vs_left_until(until) != 0 && vs_served_in()) {
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
        vs_refuse(
            answer, VS_CONTROL_LATE,
            "device %d has not done its work: nothing was moved; where kernels wait for other processes "
            "(NCCL), suspend between two steps",
            device);
    else if (status != CUDA_SUCCESS)
        vs_refuse(answer, VS_CONTROL_REFUSED,
                  "the driver cannot wait for device %d (error %d): nothing was moved", device, (int)status);
    return status == CUDA_SUCCESS;
}

bool vs_quiet_devices(uint64_t until, struct vs_control_answer *answer)
{
    bool idle = true;
    for (int i = 0; i < VS_SERVED_DEVICES && idle; i++)
        idle = vs_served_arena(&vs_served[i]) == NULL || device_idle(i, until, answer);
    return idle;
}
