/*
 * visible.c - which of the machine's GPUs the process has.
 *
 *      SIMCUDA_DEVICES=2         how many the machine has (default 1, at most 16)
 *
 * In dry mode CUDA_VISIBLE_DEVICES picks among them and orders them, as a real driver does; the first entry
 * that is no number (a UUID is none), or that names one twice, ends the list.  Unlike a real driver's, a
 * number beyond SIMCUDA_DEVICES, up to 15, is taken, so that a program for a larger machine runs.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct visible {
    int count, machine;
    int physical[SIM_MAX_DEVICES]; /* by ordinal */
};
static struct visible fixed; /* as it was at cuInit */
static bool is_fixed;

static int machine(void)
{
    const char *text = getenv("SIMCUDA_DEVICES");
    int count = text && *text ? atoi(text) : 1;
    return count < 0 ? 0 : count > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : count;
}

static int position(const struct visible *v, int physical)
{
    for (int i = 0; i < v->count; i++)
        if (v->physical[i] == physical)
            return i;
    return -1;
}

static void pick(struct visible *v, const char *list)
{
    char *end;
    for (v->count = 0; *list && v->count < SIM_MAX_DEVICES; list = *end == ',' ? end + 1 : end) {
        long physical = strtol(list, &end, 10);
        if (end == list || physical < 0 || physical >= SIM_MAX_DEVICES || position(v, (int)physical) >= 0)
            return;
        v->physical[v->count++] = (int)physical;
        if (physical >= v->machine)
            v->machine = (int)physical + 1;
    }
}

static struct visible look(void)
{
    struct visible v = {.count = machine(), .machine = machine()};
    const char *list = simcuda_dry() ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
    for (int i = 0; i < v.count; i++)
        v.physical[i] = i;
    if (list && v.machine)
        pick(&v, list);
    return v;
}

/* Looked at anew until cuInit, because programs set the variable after they have begun. */
static struct visible now(void)
{
    return __atomic_load_n(&is_fixed, __ATOMIC_ACQUIRE) ? fixed : look();
}

void sim_visible_fix(void)
{
    fixed = look();
    __atomic_store_n(&is_fixed, true, __ATOMIC_RELEASE);
}

int simcuda_device_count(void)
{
    return now().count;
}

int simcuda_machine_devices(void)
{
    return now().machine;
}

int simcuda_ordinal(int physical)
{
    struct visible v = now();
    return position(&v, physical);
}

int sim_physical(int device)
{
    return now().physical[device];
}
