/*
 * fault.c - entering and leaving an exported function: the lock, checks, errno, and injected faults, whose
 * only effect is the result.
 *
 *      SIMCUDA_FAIL="cuMemAlloc_v2:3=2,cuMemFree_v2:1=1"   the third cuMemAlloc_v2 returns 2 (out of memory),
 *                                                          the first cuMemFree_v2 returns 1
 *      SIMCUDA_FAIL="cuMemCreate:*=2"                      every call returns 2
 *      SIMCUDA_LATENCY_US=100                              each call waits so long
 */
#include "sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_FAULTS 64

struct fault {
    char name[64];
    unsigned long call; /* 0 = every */
    CUresult result;
};
static struct fault faults[MAX_FAULTS];
static int fault_count;
static unsigned long given;
static uint64_t latency_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void sim_lock(void)
{
    pthread_mutex_lock(&mutex);
}
void sim_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}
void sim_wait(void)
{
    pthread_cond_wait(&changed, &mutex);
}
void sim_wake(void)
{
    pthread_cond_broadcast(&changed);
}

uint64_t sim_env_bytes(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        value <<= 10 * (unit - units + 1);
    if (end == text || (*end && !unit)) {
        fprintf(stderr, "simcuda: %s=%s is no size (512, 64MiB, 4GiB): default used\n", name, text);
        return otherwise;
    }
    return value;
}

static void parse_fault(const char *item)
{
    struct fault *fault = &faults[fault_count];
    char call[24];
    int result;
    if (fault_count == MAX_FAULTS || sscanf(item, "%63[^:]:%23[^=]=%d", fault->name, call, &result) != 3) {
        fprintf(stderr, "simcuda: SIMCUDA_FAIL: \"%s\" is not function:call=result (%d at most): ignored\n",
                item, MAX_FAULTS);
        return;
    }
    fault->call = strcmp(call, "*") == 0 ? 0 : strtoul(call, NULL, 10);
    fault->result = (CUresult)result;
    fault_count++;
}

static void read_environment(void)
{
    latency_ns = sim_env_bytes("SIMCUDA_LATENCY_US", 0) * 1000;
    const char *text = getenv("SIMCUDA_FAIL");
    char *copy = text && *text ? strdup(text) : NULL, *rest;
    for (char *item = copy ? strtok_r(copy, ",", &rest) : NULL; item; item = strtok_r(NULL, ",", &rest))
        parse_fault(item);
    free(copy);
}

static int first_fault(const char *name)
{
    for (int i = 0; i < fault_count; i++)
        if (strcmp(faults[i].name, name) == 0)
            return i;
    return -1;
}

/* Under the lock: calls are counted in the order in which they got it. */
static CUresult injected(struct sim_point *point)
{
    point->calls++;
    if (!point->known) {
        point->faults = first_fault(point->name);
        point->known = true;
    }
    for (int i = point->faults; i >= 0 && i < fault_count; i++)
        if ((!faults[i].call || faults[i].call == point->calls) && strcmp(faults[i].name, point->name) == 0) {
            given++;
            return faults[i].result;
        }
    return CUDA_SUCCESS;
}

unsigned long simcuda_faults_given(void)
{
    sim_lock();
    unsigned long count = given;
    sim_unlock();
    return count;
}

/* Spins: a sleep would be tens of microseconds too long. */
static void wait_latency(void)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t)(now.tv_sec - start.tv_sec) * 1000000000u + now.tv_nsec - start.tv_nsec < latency_ns);
}

static CUresult check(enum sim_needs needs)
{
    if (needs == SIM_NOTHING)
        return CUDA_SUCCESS;
    if (!sim_initialized())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (sim_shut_down())
        return CUDA_ERROR_DEINITIALIZED;
    return needs == SIM_CONTEXT ? sim_context_check() : CUDA_SUCCESS;
}

struct sim_scope sim_enter(struct sim_point *point, enum sim_needs needs)
{
    struct sim_scope scope = {.saved_errno = errno};
    if (sim_forked()) { /* the lock may have been held by a thread that is not here */
        scope.result = needs == SIM_NOTHING ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
        return scope;
    }
    pthread_once(&once, read_environment);
    if (latency_ns)
        wait_latency();
    sim_lock();
    scope.locked = true;
    scope.result = injected(point);
    if (scope.result == CUDA_SUCCESS)
        scope.result = check(needs);
    return scope;
}

void sim_leave(struct sim_scope *scope)
{
    if (scope->locked)
        sim_unlock();
    sim_tell_read();
    errno = scope->saved_errno;
}
