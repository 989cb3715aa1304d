/*
 * proc.c - replaces what cuGetProcAddress and cuGetProcAddress_v2 return by our wrappers.
 *
 * The real function is called first, with the caller's own arguments, and its return code and status are
 * kept.  A row is recognised by two pointers, which may be equal: the one that the driver exports under the
 * row's symbol, and the one that its own cuGetProcAddress gives for the row's (base, version, stream flag).
 * Nothing is guessed from names, versions or flags.
 */
#include "events.h"

#include <string.h>

/* The pointer that cuGetProcAddress gives for each row, if it differs from the exported one. */
static _Atomic(void *) other_table[VS_API_END];
static _Atomic bool others_known;

static cuuint64_t stream_flag(const struct vs_row *row)
{
    switch (row->stream) {
    case VS_STREAM_LEGACY:
        return CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    case VS_STREAM_PTSZ:
        return CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    default:
        return CU_GET_PROC_ADDRESS_DEFAULT;
    }
}

/* Calls the driver's own function, by the form that it has (11.3 to 11.8 lack _v2). */
static void *query_driver(const char *base, int version, cuuint64_t flags)
{
    CUresult (*v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        vs_driver_own(VS_API_cuGetProcAddress_v2);
    CUresult (*v1)(const char *, void **, int, cuuint64_t) = vs_driver_own(VS_API_cuGetProcAddress);
    CUdriverProcAddressQueryResult found;
    void *p = NULL;
    CUresult status = v2 != NULL   ? v2(base, &p, version, flags, &found)
                      : v1 != NULL ? v1(base, &p, version, flags)
                                   : CUDA_ERROR_NOT_FOUND;
    return status == CUDA_SUCCESS ? p : NULL;
}

static bool is_exported_row(const void *p)
{
    for (size_t i = 0; i < vs_row_count; i++)
        if (vs_driver_own(vs_rows[i].api) == p)
            return true;
    return false;
}

/* Whether the driver gave P for an older variant too: it has no newer one, and answers with what it has.
 * Older ones stand before newer ones in driver.def, but for those of CUDA 2 and 4, which every driver that
 * can be asked has beside the newer. */
static bool is_older_form(const struct vs_row *row, const void *p)
{
    for (const struct vs_row *older = vs_rows; older < row; older++)
        if (older->version < row->version && strcmp(older->base, row->base) == 0 &&
            atomic_load_explicit(&other_table[older->api], memory_order_relaxed) == p)
            return true;
    return false;
}

static void learn_others(void)
{
    /* acquire: pairs with the release below; two threads that come at once store the same */
    if (atomic_load_explicit(&others_known, memory_order_acquire))
        return;
    for (size_t i = 0; i < vs_row_count; i++) {
        void *p = query_driver(vs_rows[i].base, vs_rows[i].version, stream_flag(&vs_rows[i]));
        if (p == NULL || !vs_driver_owns(p) || is_exported_row(p) || is_older_form(&vs_rows[i], p))
            continue; /* never one of our own wrappers */
        atomic_store_explicit(&other_table[vs_rows[i].api], p, memory_order_relaxed);
        vs_driver_own_is(vs_rows[i].api, p); /* where it is not exported at all */
    }
    atomic_store_explicit(&others_known, true, memory_order_release);
}

/* The name that a program passes: since CUDA 12 cuGraphInstantiate means another function. */
static bool is_called(const struct vs_row *row, const char *base)
{
    return strcmp(row->base, base) == 0 ||
           (row->api == VS_API_cuGraphInstantiateWithFlags && strcmp(base, "cuGraphInstantiate") == 0);
}

/* Of rows that share one address (a driver may give both stream kinds one function) the one with the
 * requested stream kind; of those the last, which is the newest. */
static const struct vs_row *row_of(const char *base, const void *p, cuuint64_t flags)
{
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const struct vs_row *best = NULL;
    for (size_t i = 0; i < vs_row_count; i++) {
        const struct vs_row *row = &vs_rows[i];
        if (!is_called(row, base))
            continue;
        if (vs_driver_own(row->api) != p &&
            atomic_load_explicit(&other_table[row->api], memory_order_relaxed) != p)
            continue;
        bool fits = row->stream == VS_STREAM_ANY || (row->stream == VS_STREAM_PTSZ) == per_thread;
        if (best == NULL || (fits && row->version >= best->version))
            best = row;
    }
    return best;
}

/* FUNCTION, which an interposer behind us gave in the place of the driver's, has the row that the driver's
 * has.
 *
 * What an interposer behind us gives is its own function: the driver, asked the same, says of which row.  The
 * interposer itself gets what it asks for, since it stands behind our wrappers. */
static const struct vs_row *interposed_row(const char *name, void *function, int version, cuuint64_t flags)
{
    if (!vs_interposers_there() || vs_driver_owns(function))
        return NULL;
    void *drivers = query_driver(name, version, flags);
    const struct vs_row *row = drivers != NULL ? row_of(name, drivers, flags) : NULL;
    /* their own reference to what they export is bound to us */
    void *theirs = row != NULL && function == row->wrapper ? vs_interposer_export(row->symbol) : function;
    if (row != NULL && theirs != NULL)
        vs_interpose(row, theirs);
    return row;
}

void vs_after_proc(const char *name, void **pfn, int version, cuuint64_t flags, const void *caller,
                   CUresult status)
{
    if (status != CUDA_SUCCESS || name == NULL || pfn == NULL || *pfn == NULL || vs_interposer_owns(caller))
        return;
    int saved = errno;
    learn_others();
    const struct vs_row *row = row_of(name, *pfn, flags);
    if (row == NULL)
        row = interposed_row(name, *pfn, version, flags);
    if (row != NULL)
        *pfn = row->wrapper;
    else if (vs_driver_owns(*pfn) && vs_row_lacks_form(name, *pfn))
        vs_uncovered(
            "a form of %s (asked for as of CUDA %d.%d) that this vramscope does not know was looked up", name,
            version / 1000, version % 1000 / 10);
    errno = saved;
}
