/* provided.h - the hooks' side of provider.h: calls the provider, and records its holdings. */
#ifndef VS_HOOKS_PROVIDED_H
#define VS_HOOKS_PROVIDED_H

#include "provider/provider.h"

/* The provider that serves memory in the driver's place; NULL: none.  Written by the library's constructor
 * only. */
extern const struct vs_provider *vs_providing;

/* The block of the provider's that ADDRESS lies in. */
bool vs_provided_owner(CUdeviceptr address, struct vs_owned *block);

/* Whether this thread has something to report. */
extern __thread bool vs_provided_due;

/* Notes the change in G. */
void vs_provided_look(const struct vs_given *g);

/* Records the changes: before an allocation's event, so that no block is recorded before its memory, and
 * after a free. */
void vs_provided_report_now(void);
static inline void vs_provided_report(void)
{
    if (__builtin_expect(vs_provided_due, 0))
        vs_provided_report_now();
}
/* The same after a call that is no request, and may have changed what is held all the same. */
void vs_provided_report_all(void);

/* At the exit, by the thread that exits: the last figures. */
void vs_provided_last(void);

/* ---- requests; true: the provider served, and the driver is not called ---- */

static inline bool vs_provided_alloc(struct vs_given *g, CUdeviceptr *out, size_t size)
{
    if (vs_providing == NULL)
        return false;
    bool served = vs_providing->alloc(g, out, size);
    vs_provided_look(g);
    return served;
}

static inline bool vs_provided_alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width,
                                          size_t height, unsigned int element)
{
    if (vs_providing == NULL)
        return false;
    bool served = vs_providing->alloc_rows(g, out, pitch, width, height, element);
    vs_provided_look(g);
    return served;
}

static inline bool vs_provided_alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size,
                                             CUstream stream, CUmemoryPool pool)
{
    if (vs_providing == NULL)
        return false;
    bool served = vs_providing->alloc_ordered(g, out, size, stream, pool);
    vs_provided_look(g);
    return served;
}

static inline bool vs_provided_free(struct vs_given *g, CUdeviceptr address)
{
    if (vs_providing == NULL)
        return false;
    bool served = vs_providing->free(g, address);
    vs_provided_look(g);
    return served;
}

static inline bool vs_provided_free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream)
{
    if (vs_providing == NULL)
        return false;
    bool served = vs_providing->free_ordered(g, address, stream);
    vs_provided_look(g);
    return served;
}

/* The driver lacked memory: whether a second try is worth it. */
bool vs_provided_shortage(void);

#endif
