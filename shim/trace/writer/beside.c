/*
 * beside.c - see beside.h.
 *
 * Holders are the libraries that asked the driver themselves, such as NCCL, and what the driver's pools and
 * graphs hold.  Those that have no place in the list share its last.
 */
#include "beside.h"

#include <stdio.h>
#include <string.h>

#define HOLDERS 6

struct holders {
    const struct vs_store *store;
    struct holder {
        const char *name;
        uint64_t bytes;
    } at[HOLDERS];
};

static void add(struct holders *h, const char *name, uint64_t bytes)
{
    size_t i = 0;
    while (i < HOLDERS - 1 && h->at[i].bytes != 0 && strcmp(h->at[i].name, name) != 0)
        i++;
    h->at[i].name = i < HOLDERS - 1 ? name : "others";
    h->at[i].bytes += bytes;
}

static void add_allocation(void *context, const struct vs_alloc *a)
{
    struct holders *h = context;
    if ((a->op != VS_OP_ALLOC && a->op != VS_OP_PHYS_CREATE) ||
        (a->space != VS_SPACE_DEVICE && a->space != VS_SPACE_ARRAY) || a->size == 0)
        return;
    const char *name = vs_store_owner(h->store, a->stack);
    add(h, name ? name : "unknown callers", a->size);
}

uint64_t vs_beside(const struct vs_ledger *l, const struct vs_store *s, char *text, size_t size)
{
    struct holders h = {.store = s};
    uint64_t pools, graphs, sum = 0;
    size_t n = 0;
    vs_ledger_pools(l, &pools, &graphs);
    if (graphs != 0)
        add(&h, "graphs", graphs);
    if (pools != 0)
        add(&h, "the driver's pools", pools);
    vs_ledger_each_live(l, add_allocation, &h);
    *text = 0;
    for (size_t i = 0; i < HOLDERS && n < size; i++) {
        if (h.at[i].bytes == 0)
            continue;
        n += (size_t)snprintf(text + n, size - n, "%s%s %.2f MiB", n ? ", " : "", h.at[i].name,
                              (double)h.at[i].bytes / 0x1p20);
        sum += h.at[i].bytes;
    }
    return sum;
}
