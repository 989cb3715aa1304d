/*
 * hot.c - the words of hot.h, pages.h and open_calls.h.
 *
 * The process's line points to the parent's ring, so a fork child must not see it: its page is wiped
 * (fork.h).
 */
#define _GNU_SOURCE
#include "hot.h"

#include <stddef.h>

#include "fork.h"
#include "open_calls.h"
#include "pages.h"

_Alignas(sizeof(union vs_hot_page)) union vs_hot_page vs_hot_page;
__thread struct vs_self vs_self __attribute__((tls_model("initial-exec")));

static void forget_ring(void)
{
    atomic_store_explicit(&vs_hot.ring_header, NULL, memory_order_relaxed);
}

void vs_hot_prepare(void)
{
    vs_fork_wipes(&vs_hot_page, sizeof vs_hot_page, forget_ring);
}

/* ---- pages.h ---- */

_Alignas(64) _Atomic uint64_t vs_pages[VS_PAGES / 64], vs_pages_regions[VS_PAGES_REGIONS / 64];

VS_HOT struct vs_pages_bounds vs_pages_bounds = {UINT64_MAX, 0};

/* Who sees a block sees its pages' bits and bounds (pages.h), so the order of the stores does not matter. */
static void widen(uint64_t from, uint64_t to)
{
    uint64_t low = atomic_load_explicit(&vs_pages_bounds.low, memory_order_relaxed);
    uint64_t high = atomic_load_explicit(&vs_pages_bounds.high, memory_order_relaxed);
    while (from < low && !atomic_compare_exchange_weak_explicit(&vs_pages_bounds.low, &low, from,
                                                                memory_order_relaxed, memory_order_relaxed))
        ;
    while (to > high && !atomic_compare_exchange_weak_explicit(&vs_pages_bounds.high, &high, to,
                                                               memory_order_relaxed, memory_order_relaxed))
        ;
}

static void set(_Atomic uint64_t *bits, uint64_t n)
{
    if (!vs_pages_bit(bits, n))
        atomic_fetch_or_explicit(&bits[n / 64], UINT64_C(1) << n % 64, memory_order_relaxed);
}

__attribute__((noinline)) void vs_pages_add(uint64_t address, uint64_t size)
{
    uint64_t end = address + size - 1;
    if (size == 0 || end < address || end >> VS_PAGES_END_BITS)
        return;
    uint64_t first = address >> VS_PAGES_BITS, last = end >> VS_PAGES_BITS;
    if (last - first >= VS_PAGES) /* all bits */
        last = first + VS_PAGES - 1;
    for (uint64_t page = first; page <= last; page++)
        set(vs_pages, page & (VS_PAGES - 1));
    for (uint64_t region = address >> VS_PAGES_REGION_BITS; region <= end >> VS_PAGES_REGION_BITS; region++) {
        set(vs_pages_regions, region);
        widen(region << VS_PAGES_REGION_BITS, (region + 1) << VS_PAGES_REGION_BITS);
    }
}

void vs_pages_reset(void)
{
    atomic_store_explicit(&vs_pages_bounds.low, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&vs_pages_bounds.high, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < VS_PAGES / 64; i++)
        atomic_store_explicit(&vs_pages[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < VS_PAGES_REGIONS / 64; i++)
        atomic_store_explicit(&vs_pages_regions[i], 0, memory_order_relaxed);
}

/* ---- open_calls.h ---- */

__thread struct vs_open_calls vs_open_calls;
VS_HOT _Atomic uint32_t vs_open_calls_at; /* two halves, each one more than its offset; 0: not known */

void vs_open_calls_frames_at(int holder, int current)
{
    uint32_t at = current < 0 ? 0 : (uint32_t)(holder + 1) << 16 | (uint32_t)(current + 1);
    atomic_store_explicit(&vs_open_calls_at, at, memory_order_relaxed);
}
