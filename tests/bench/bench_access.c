/*
 * bench_access.c - what the access ledger takes of a launch, hot and with other data in between; and what
 * applying its uses takes. Of the made-up launches most have a handful of pointers among their words, one in
 * thirty (foreach) has 400 words. Another thread empties the ring, as the drain does, so that its lines come
 * from that processor.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/kernels.h"
#include "core/clock.h"
#include "record/block.h"
#include "record/record.h"
#include "trace/uses/uses.h"

#define BLOCKS   4000u
#define LAUNCHES 3000u
#define BASE     UINT64_C(0x7f3300000000)

uint32_t vs_record_range(void)
{
    return 3;
}
bool vs_record_thread_is_autograd(void)
{
    return false;
}

void vs_record_uses_nudge(void) {}

static struct vs_journal *journal;
static struct vs_uses *uses;
static uint64_t applied, apply_ns;
static _Atomic bool over;

/* Takes what is in the ring; false: nothing was. */
static bool take(void)
{
    static struct vs_event e[4096];
    static uint64_t seq[4096];
    size_t n = vs_journal_peek(journal, e, seq, 4096, false);
    if (n == 0)
        return false;
    uint64_t begin = vs_clock_ns();
    for (size_t i = 0; i < n; i++)
        vs_uses_apply(uses, &e[i], seq[i]);
    apply_ns += vs_clock_ns() - begin;
    applied += n;
    vs_journal_release(journal, seq[n - 1]);
    return true;
}

static void *drain(void *none)
{
    while (!atomic_load(&over))
        if (!take())
            usleep(200);
    while (take())
        ;
    return none;
}

static uint64_t address[BLOCKS];
static struct vs_kernel_params small = {
    9, true, .at = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {32, 8}, {40, 4}, {48, 32}, {80, 8}, {88, 4}}};
static struct vs_kernel_params elementwise = {3, true, .at = {{0, 4}, {8, 16}, {24, 448}}};
static struct vs_kernel_params foreach = {2, true, .at = {{0, 3200}, {3200, 4}}};

static uint64_t value[LAUNCHES][400];
static char *other;

static void make(void)
{
    uint64_t at = BASE;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct vs_event e = {.op = VS_OP_BLOCK_ALLOC, .address = at, .size = 512u << random() % 14};
        address[i] = at;
        at += e.size;
        vs_access_after(&e, vs_journal_append(journal, &e));
    }
    for (uint32_t l = 0; l < LAUNCHES; l++)
        for (uint32_t w = 0; w < 400; w++) {
            uint64_t near = address[(l * 3 + (uint64_t)(random() % 40)) % BLOCKS];
            value[l][w] = l % 30 == 29           ? address[(l * 3 + w) % BLOCKS]
                          : w % 3 == 0 && w < 12 ? near + (random() % 8 == 0 ? 512 : 0)
                                                 : (uint64_t)random();
        }
}

/* The caller has just written the values, as a program has. */
static uint64_t launch(uint32_t l)
{
    uint32_t which = l % 30 == 29 ? 2 : l & 1;
    void *params[9];
    uint64_t given[400], begin;
    memcpy(given, value[l], sizeof given);
    for (int i = 0; i < 9; i++)
        params[i] = &given[which == 0 ? i : 0];
    __asm__ volatile("" : : "r"(given), "r"(params) : "memory");
    begin = vs_clock_ns();
    vs_use_fetch();
    const struct vs_kernel *k = vs_kernel_find((void *)(uintptr_t)((which + 1) << 12));
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, vs_grid(1, 1), params, NULL, 0);
    return vs_clock_ns() - begin;
}

/* COLD: between two launches the program touches 256 KiB of its own.  The least sum of 30 rounds counts. */
static double launches(uint32_t from, uint32_t step, bool cold)
{
    uint64_t best = UINT64_MAX, n = 0;
    for (int round = 0; round < 30; round++) {
        uint64_t ns = 0;
        n = 0;
        for (uint32_t l = from; l < LAUNCHES; l += step, n++) {
            if (cold)
                memset(other + (size_t)(l % 64) * (256 << 10), (int)l, 256 << 10);
            ns += launch(l);
        }
        best = ns < best ? ns : best;
    }
    return (double)best / (double)n;
}

static double clock_cost(void)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 1000; round++) {
        uint64_t ns = 0;
        for (int i = 0; i < 100; i++) {
            uint64_t begin = vs_clock_ns();
            ns += vs_clock_ns() - begin;
        }
        best = ns < best ? ns : best;
    }
    return (double)best / 100;
}

int main(void)
{
    struct vs_journal_config c = {.accesses = 1 << 16, .database = "/nowhere.db"};
    char path[64];
    pthread_t thread;
    snprintf(path, sizeof path, "/dev/shm/bench-access-%d.vsj", (int)getpid());
    if (vs_journal_create(&journal, path, &c) != 0 || vs_uses_open(&uses, journal, 0) != 0)
        return 1;
    unlink(path);
    other = malloc(64 * (256 << 10));
    vs_event_clock_prepare(NULL);
    vs_access_begin(journal);
    vs_kernel_learn((void *)0x1000, 1, false, &small);
    vs_kernel_learn((void *)0x2000, 2, false, &elementwise);
    vs_kernel_learn((void *)0x3000, 3, false, &foreach);
    make();
    if (pthread_create(&thread, NULL, drain, NULL) != 0)
        return 1;
    double clock = clock_cost();
    printf("ns a launch          hot    cold\n");
    printf("9 parameters       %5.0f   %5.0f\n", launches(0, 30, false) - clock,
           launches(0, 30, true) - clock);
    printf("58 words           %5.0f   %5.0f\n", launches(1, 30, false) - clock,
           launches(1, 30, true) - clock);
    printf("400 pointers       %5.0f   %5.0f\n", launches(29, 30, false) - clock,
           launches(29, 30, true) - clock);
    printf("mean               %5.0f   %5.0f\n", launches(0, 1, false) - clock, launches(0, 1, true) - clock);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("lost %u; ns to apply an event of up to four words %5.0f\n",
           vs_journal_access_state(journal)->uses, (double)apply_ns / (double)applied);
    return 0;
}
